"""How often a head finds the word that determines the next one, on stories whose origin is known.

A generated story says, for many of its words, which earlier words determine it. For each kind of
such words, one word per story is drawn, so the stories are independent. Measured are how often the
strongest source of each head is one of the determining words, how often the model predicts the
right word, and how often it prefers it to the word that another source would have determined. Nulls
say what chance gives: the same heads with the labels of other stories, always predicting the most
frequent word, and one half.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from manyheads.core.errors import ShapeError
from manyheads.data.stories import Agreement, Story, tell_story
from manyheads.models.config import BOS_ID, PAD_ID, ModelConfig

SHUFFLES = 200
"""Permutations of the labels in the null of a head."""
FEW_STORIES = 30
"""A kind with fewer stories than this is left out."""
_Z = 1.959963984540054  # the 97.5 % quantile of the normal distribution
_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class Share:
    """A number of stories out of some, with its 95 % interval."""

    hits: int
    """Number of stories in which it happened."""
    stories: int
    """Number of stories, n."""
    share: float
    """Fraction 0 to 1."""
    interval: tuple[float, float]
    """Wilson's 95 % interval of the fraction."""

    @classmethod
    def of(cls, hits: int, stories: int) -> "Share":
        """The share of hits in a number of stories, at least one."""
        return cls(hits=hits, stories=stories, share=hits / stories, interval=wilson(hits, stories))


@dataclass(frozen=True, kw_only=True)
class HeadShare:
    """How often the strongest source of one head is a labelled one, and how often by chance."""

    found: Share
    """The measured share."""
    shuffled_mean: float
    """Mean share with the labels of other stories of the same kind, by distance, 0 to 1."""
    shuffled_greatest: float
    """Greatest share of all shuffles, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class LabelledKind:
    """One kind of labelled words."""

    kind: str
    """As in `Agreement.kind`."""
    predicted: Share
    """How often the model's most probable word is the right one."""
    preferred: Share
    """How often the right word is more probable than the one of the same story with another source;
    one half by chance."""
    most_frequent: float
    """Share of stories that always answering the most frequent word would get right, 0 to 1."""
    heads: tuple[HeadShare, ...]
    """One entry per head, in the order of the heads; empty for a model without attention."""


@dataclass(frozen=True, kw_only=True)
class LabelledMeasure:
    """All kinds of labelled words of a set of stories."""

    num_stories: int
    """Number of stories."""
    seed: int
    """Random seed of the stories and draws."""
    first_index: int
    """Index of the first story."""
    shuffles: int
    """Permutations of each head's null."""
    kinds: tuple[LabelledKind, ...]
    """The kinds with enough stories, in alphabetical order."""

    def to_dict(self) -> dict[str, Any]:
        """The measure as JSON holds it."""
        found: dict[str, Any] = asdict(self)
        return found


def wilson(hits: int, number: int) -> tuple[float, float]:
    """The 95 % interval of a share.

    Args:
        hits: number of hits.
        number: number of independent trials, at least 1.

    Source: Wilson 1927, Probable Inference, J. Am. Stat. Assoc. 22.
    """
    share, z2 = hits / number, _Z * _Z
    middle = (share + z2 / (2 * number)) / (1 + z2 / number)
    inner = share * (1 - share) / number + z2 / (4 * number * number)
    half = _Z * math.sqrt(inner) / (1 + z2 / number)
    return max(0.0, middle - half), min(1.0, middle + half)


def _config(model: nn.Module) -> ModelConfig:
    config = model.config
    assert isinstance(config, ModelConfig)
    return config


@dataclass(frozen=True, kw_only=True)
class _Case:
    """One labelled word: the window before it, the word, and the distances of its sources."""

    window: tuple[int, ...]
    target: int
    alternative: int
    distances: frozenset[int]  # from the last word of the window, which has distance 0


def measure_labelled(
    model: nn.Module,
    encode: Callable[[str], Sequence[int]],
    *,
    count: int,
    seed: int,
    first_index: int,
) -> LabelledMeasure:
    """Measure a model on generated stories.

    A word is left out if no word that determines it is in the model's window.

    Args:
        model: a model of the studies; takes windows (B, T).
        encode: returns the ids of a text's words, such as `WordTokenizer.encode`.
        count: number of stories.
        seed: random seed of the stories, of the word drawn in each, and of the shuffles.
        first_index: index of the first story; those before it may have been trained on.

    Raises:
        ShapeError: count is less than 1.
    """
    if count < 1:
        raise ShapeError(f"count ({count}) must be at least 1: give a number of stories")
    context = _config(model).context
    stories = (tell_story(first_index + number, seed=seed) for number in range(count))
    drawn = _drawn(stories, encode, context, Random(f"manyheads labels {seed} {first_index}"))
    kinds = [
        _measured(model, kind, cases)
        for kind, cases in sorted(drawn.items())
        if len(cases) >= FEW_STORIES
    ]
    return LabelledMeasure(
        num_stories=count,
        seed=seed,
        first_index=first_index,
        shuffles=SHUFFLES,
        kinds=tuple(kinds),
    )


def _drawn(
    stories: Iterable[Story],
    encode: Callable[[str], Sequence[int]],
    context: int,
    random: Random,
) -> dict[str, list[_Case]]:
    """For each kind, one case per story that has some."""
    found: dict[str, list[_Case]] = {}
    for story in stories:
        ids = (BOS_ID, *encode(story.text))
        of_kind: dict[str, list[Agreement]] = {}
        for label in story.labels:
            if _distances(label, context):
                of_kind.setdefault(label.kind, []).append(label)
        for kind, labels in of_kind.items():
            # `Random.random` is the only method whose numbers Python guarantees not to change.
            label = labels[int(random.random() * len(labels))]
            end = label.target_index + 1  # of the window: `[BOS]` has index 0
            case = _Case(
                window=ids[max(0, end - context) : end],
                target=ids[end],
                alternative=encode(story.swapped(label).words[label.target_index])[0],
                distances=_distances(label, context),
            )
            found.setdefault(kind, []).append(case)
    return found


def _distances(label: Agreement, context: int) -> frozenset[int]:
    """Distances from the word before the target to the words that determine it, in the window."""
    distances = (label.target_index - 1 - place for place in label.mentions)
    return frozenset(distance for distance in distances if distance < context)


@torch.no_grad()
def _measured(model: nn.Module, kind: str, cases: Sequence[_Case]) -> LabelledKind:
    context, number = _config(model).context, len(cases)
    tokens = torch.full((number, context), PAD_ID)
    for row, case in zip(tokens, cases, strict=True):
        row[context - len(case.window) :] = torch.tensor(case.window)
    has_heads = _config(model).num_heads is not None
    right, better, strongest = 0, 0, []
    for low in range(0, number, _AT_ONCE):
        part, asked = tokens[low : low + _AT_ONCE], cases[low : low + _AT_ONCE]
        answer = model(part, need_weights=True) if has_heads else (model(part), None)
        targets = torch.tensor([[case.target, case.alternative] for case in asked])
        right += int((answer[0].argmax(dim=-1) == targets[:, 0]).sum())
        pairs = answer[0].gather(1, targets)  # (B, 2)
        better += int((pairs[:, 0] > pairs[:, 1]).sum())
        if answer[1] is not None:
            strongest.append(context - 1 - answer[1].argmax(dim=-1))  # distances (B, H)
    _, frequent = Counter(case.target for case in cases).most_common(1)[0]
    return LabelledKind(
        kind=kind,
        predicted=Share.of(right, number),
        preferred=Share.of(better, number),
        most_frequent=frequent / number,
        heads=_head_shares(torch.cat(strongest), cases) if strongest else (),
    )


def _head_shares(strongest: Int64[Tensor, "N H"], cases: Sequence[_Case]) -> tuple[HeadShare, ...]:
    """The share of each head, from the distances (N, H) of the strongest sources."""
    number, context = len(cases), int(strongest.max()) + 1
    labelled = torch.zeros((number, context), dtype=torch.bool)
    for row, case in zip(labelled, cases, strict=True):
        row[[place for place in case.distances if place < context]] = True
    hits = labelled.gather(1, strongest).sum(dim=0)  # (H,)
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(number, generator=generator) for _ in range(SHUFFLES)]
    shuffled = torch.stack(
        [labelled[order].gather(1, strongest).sum(dim=0) for order in orders]
    )  # (SHUFFLES, H)
    return tuple(
        HeadShare(
            found=Share.of(int(own), number),
            shuffled_mean=float(others.double().mean()) / number,
            shuffled_greatest=int(others.max()) / number,
        )
        for own, others in zip(hits, shuffled.T, strict=True)
    )
