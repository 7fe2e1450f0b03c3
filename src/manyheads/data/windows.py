"""Stories divided into training, validation and test, and the windows that models read.

The stories of a split are one long row of ids, each as `[BOS] words [EOS]` with padding before it.
So a window is a slice, padded on the left, and never contains words of another story.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int64
from torch import Tensor

from manyheads.core.errors import DataError
from manyheads.data.tokens import WordTokenizer
from manyheads.models.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID

MAX_TARGETS_PER_WINDOW = 64
_SPLIT_NAMES = ("train", "validation", "test")
_PUBLISHED_SALT = 31415


class Split:
    """The stories of one split, as windows of the words before each target.

    Every word of a story and its `[EOS]` is a target once. Its window is the ids before it, from
    `[BOS]` on, at most `context` of them.

    Args:
        name: "train", "validation" or "test".
        stories: ids of each story's words.
        context: T, the length of a window.
    """

    def __init__(self, name: str, stories: Sequence[Sequence[int]], *, context: int) -> None:
        self.name = name
        self.context = context
        self.num_stories = len(stories)
        row: list[int] = []
        starts, lengths = [], []
        for words in stories:
            row += [PAD_ID] * (context + MAX_TARGETS_PER_WINDOW)
            starts.append(len(row) + 1)
            lengths.append(len(words) + 1)
            row += [BOS_ID, *words, EOS_ID]
        row += [PAD_ID] * (context + MAX_TARGETS_PER_WINDOW)
        self._row = torch.tensor(row, dtype=torch.int64)
        self.starts = torch.tensor(starts, dtype=torch.int64)
        self.lengths = torch.tensor(lengths, dtype=torch.int64)
        spans = [torch.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)]
        self.positions = torch.cat(spans) if spans else torch.zeros(0, dtype=torch.int64)

    @property
    def num_targets(self) -> int:
        """Number of targets, `[EOS]` included."""
        return len(self.positions)

    def stories(self) -> list[list[int]]:
        """The ids of each story's words."""
        pairs = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        return [self._row[start : start + length - 1].tolist() for start, length in pairs]

    def windows(
        self, first: Int64[Tensor, " B"], num_targets: int = 1
    ) -> tuple[Int64[Tensor, "B S"], Int64[Tensor, "B n"]]:
        """Cut windows out, each with a block of neighbouring targets.

        Args:
            first: (B,), index of each window's first target: one of `positions`, or up to
                num_targets - 1 before the first target of a story.
            num_targets: n, neighbouring targets of one window.

        Returns:
            ids (B, S), S = context + n - 1, the first `context` of which precede the first target,
            and targets (B, n), `PAD_ID` where there is none.
        """
        offsets = torch.arange(-self.context, num_targets)
        cut = self._row[first[:, None] + offsets]  # (B, context + n)
        targets = cut[:, self.context :].clone()
        targets[targets == BOS_ID] = PAD_ID  # a block that begins before its story
        return cut[:, :-1], targets


@runtime_checkable
class Choices(Protocol):
    """Proof that all choices of a study are frozen; see `manyheads.study`."""

    def require_frozen(self, data_sha256: str) -> None:
        """Raise unless every choice is on disk, unchanged, and made with these stories."""


class SealedSplit:
    """A split that cannot be read before all choices are frozen.

    Args:
        split: the split to seal.
        data_sha256: hash of all stories, `Corpus.sha256`; the choices must be made with these
            stories.
    """

    def __init__(self, split: Split, data_sha256: str) -> None:
        self.name = split.name
        self.num_stories = split.num_stories
        self.num_targets = split.num_targets

        def opened(choices: Choices) -> Split:
            choices.require_frozen(data_sha256)
            return split

        self._opened = opened

    def open(self, choices: Choices) -> Split:
        """Return the split.

        Args:
            choices: the frozen choices, made with the validation split.

        Raises:
            StudyError: the choices are not frozen, or were made with other stories.
        """
        return self._opened(choices)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Stories, split and tokenised."""

    train: Split
    """Training split; the only one that determines the vocabulary."""
    validation: Split
    """Validation split, for all choices."""
    test: SealedSplit
    """Test split, read once, at the end."""
    tokenizer: WordTokenizer
    """The tokeniser."""
    sha256: str
    """Hash of the distinct stories, in hexadecimal digits."""
    num_duplicates: int
    """Number of stories left out because they are duplicates."""
    num_stories: Mapping[str, int]
    """Number of stories of each split."""
    num_targets: Mapping[str, int]
    """Number of targets of each split."""
    unknown_rates: Mapping[str, float]
    """Fraction of each split's words that are not in the vocabulary, 0 to 1."""


def normalised(story: str) -> str:
    """A story without differences of case, spacing and the encoding of letters."""
    return " ".join(unicodedata.normalize("NFKC", story).lower().split())


def split_of_story(story: str) -> str:
    """Split of a story, by a stable hash: 80 % train, 10 % validation, 10 % test."""
    tenth = _number(story) % 10
    return "train" if tenth < 8 else "validation" if tenth == 8 else "test"


def split_of_normalised(story: str) -> str:
    """Split of a normalised story in the published protocol: 80, 10 and 10 %.

    Source: nipunbatra/attention, notebooks/wordlm/wordlm.py, stable_story_split.
    """
    tenths = _number(f"{_PUBLISHED_SALT}\0{story}") * 10
    return _SPLIT_NAMES[(tenths >= 8 << 64) + (tenths >= 9 << 64)]


def _number(text: str) -> int:
    """The first 64 bits of a text's hash."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _divided(distinct: Sequence[str], is_normalised: bool) -> dict[str, list[str]]:
    """The stories of each split."""
    texts: dict[str, list[str]] = {name: [] for name in _SPLIT_NAMES}
    if not is_normalised:
        for story in distinct:
            texts[split_of_story(story)].append(story)
        return texts
    plain = {normalised(story): story for story in reversed(distinct)}  # the first of equal ones
    for key in sorted(plain, key=lambda key: hashlib.sha256(key.encode()).digest()):
        texts[split_of_normalised(key)].append(plain[key])
    return texts


def build_corpus(
    stories: Iterable[str],
    *,
    vocab_size: int = 4000,
    min_count: int = 2,
    context: int = 64,
    is_normalised: bool = False,
    has_ascii_words: bool = False,
) -> Corpus:
    """Split stories, choose the vocabulary from the training split, and tokenise.

    Args:
        stories: texts; of equal ones only the first is kept.
        vocab_size: the most words that are kept, the four special ones included.
        min_count: minimum number of occurrences of a word in the training split.
        context: T, the length of a window.
        is_normalised: compare and split stories by their normalised text, and put those of a split
            in the order of its hash.
        has_ascii_words: words of ASCII letters only, as in `WordTokenizer.train`.

    Raises:
        DataError: a split would be empty, or no word is frequent enough.
    """
    given = [story.strip() for story in stories]
    distinct = list(dict.fromkeys(story for story in given if story))
    texts = _divided(distinct, is_normalised)
    for name, members in texts.items():
        if not members:
            raise DataError(
                f"stories ({len(distinct)}) leave the {name} split empty: give more stories"
            )
    tokenizer = WordTokenizer.train(
        texts["train"], vocab_size=vocab_size, min_count=min_count, is_ascii=has_ascii_words
    )
    if tokenizer.vocab_size <= UNK_ID + 1:
        raise DataError(f"min_count ({min_count}) leaves no word of the stories: use a lower value")
    ids = {name: [tokenizer.encode(story) for story in texts[name]] for name in _SPLIT_NAMES}
    splits = {name: Split(name, ids[name], context=context) for name in _SPLIT_NAMES}
    digest = hashlib.sha256("\x1e".join(distinct).encode()).hexdigest()
    return Corpus(
        train=splits["train"],
        validation=splits["validation"],
        test=SealedSplit(splits["test"], digest),
        tokenizer=tokenizer,
        sha256=digest,
        num_duplicates=len(given) - sum(map(len, texts.values())),
        num_stories={name: split.num_stories for name, split in splits.items()},
        num_targets={name: split.num_targets for name, split in splits.items()},
        unknown_rates={name: _unknown_rate(ids[name]) for name in _SPLIT_NAMES},
    )


class TrainingOrder:
    """The batches of a training run; the same step always gives the same batch.

    In each epoch every story is cut into blocks of neighbouring targets, from a random offset, and
    the blocks are shuffled. A batch may reach into the next epoch.

    Args:
        split: the training split.
        batch_targets: targets of a batch, a multiple of `targets_per_window`.
        targets_per_window: n, neighbouring targets that share a window.
        seed: random seed of the order, 0 to 4095; equal for all models of a paired comparison.

    Raises:
        DataError: batch_targets is not a multiple of targets_per_window, or a seed out of range.
    """

    def __init__(
        self, split: Split, *, batch_targets: int, targets_per_window: int, seed: int
    ) -> None:
        n = targets_per_window
        if not 1 <= n <= MAX_TARGETS_PER_WINDOW or batch_targets % n:
            raise DataError(
                f"batch_targets ({batch_targets}) must be a multiple of targets_per_window ({n}), "
                f"which is from 1 to {MAX_TARGETS_PER_WINDOW}: change one of them"
            )
        if not 0 <= seed < 1 << 12:  # with 20 bits of the epoch, the 32 bits of a generator
            raise DataError(f"seed ({seed}) must be from 0 to 4095: use a number in this range")
        self._split, self._n, self._seed = split, n, seed
        self.num_windows = batch_targets // n
        self._epochs: dict[int, Tensor] = {}
        self._begins: list[int] = [0]

    def batch(self, step: int) -> tuple[Int64[Tensor, "B S"], Int64[Tensor, "B n"]]:
        """The windows and targets of one step, counted from 0; shapes as in `Split.windows`."""
        low, high = step * self.num_windows, (step + 1) * self.num_windows
        parts: list[Tensor] = []
        epoch = 0
        while self._begin(epoch + 1) <= low:  # epochs before the step are not drawn again
            epoch += 1
        while low < high:
            begin = self._begin(epoch)
            parts.append(self._blocks(epoch)[low - begin : high - begin])
            low += len(parts[-1])
            epoch += 1
        return self._split.windows(torch.cat(parts), self._n)

    def _begin(self, epoch: int) -> int:
        while len(self._begins) <= epoch:
            last = len(self._begins) - 1
            self._begins.append(self._begins[last] + len(self._blocks(last)))
        return self._begins[epoch]

    def _blocks(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            if len(self._epochs) > 1:
                self._epochs.pop(min(self._epochs))
            self._epochs[epoch] = self._shuffled(epoch)
        return self._epochs[epoch]

    def _shuffled(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed((self._seed << 20) + epoch)
        split, n = self._split, self._n
        offsets = torch.randint(n, (split.num_stories,), generator=generator)
        counts = torch.div(split.lengths + offsets + n - 1, n, rounding_mode="floor")
        story = torch.repeat_interleave(torch.arange(split.num_stories), counts)
        number = torch.arange(len(story)) - (torch.cumsum(counts, 0) - counts)[story]
        blocks = split.starts[story] - offsets[story] + number * n
        return blocks[torch.randperm(len(blocks), generator=generator)]


class DrawnOrder:
    """The batches of a training run whose targets are drawn with replacement.

    The same step always gives the same batch.

    Args:
        split: the training split.
        batch_targets: targets of a batch, each with a window of its own.
        seed: random seed of the draws, 0 to 4095.
    """

    def __init__(self, split: Split, *, batch_targets: int, seed: int) -> None:
        self._split, self._count, self._seed = split, batch_targets, seed

    def batch(self, step: int) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, "B 1"]]:
        """The windows (B, T) and targets (B, 1) of one step, counted from 0."""
        generator = torch.Generator().manual_seed((self._seed << 20) + step)
        places = torch.randint(self._split.num_targets, (self._count,), generator=generator)
        return self._split.windows(self._split.positions[places])


def fixed_slice(split: Split, count: int, *, seed: int) -> Int64[Tensor, " N"]:
    """Draw a fixed sample of at most `count` targets of a split, in increasing order.

    Args:
        split: the split of the targets.
        count: maximum number of targets.
        seed: random seed.

    Returns:
        indices (N,) for `Split.windows`.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(split.num_targets, generator=generator)[:count]
    return split.positions[chosen.sort().values]


def count_unknown(ids: Iterable[Sequence[int]]) -> int:
    """Number of ids that are `[UNK]`."""
    return sum(list(story).count(UNK_ID) for story in ids)


def _unknown_rate(ids: Sequence[Sequence[int]]) -> float:
    return count_unknown(ids) / sum(map(len, ids))
