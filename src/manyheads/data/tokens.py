"""Words and their numbers: the word-level tokeniser of the studies.

Text is lower-cased and cut into words, numbers and single punctuation marks by the `tokenizers`
library; this module defines the rules and joins words to text.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.core.errors import DataError
from manyheads.models.config import UNK_ID

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_WORDS = ("[PAD]", "[BOS]", "[EOS]", "[UNK]")

_MARK = r"[\p{L}\p{M}]"
_PIECE = rf"{_MARK}+(?:'{_MARK}+)*|\p{{N}}+|[^\s\p{{L}}\p{{M}}\p{{N}}]"
_ASCII_PIECE = r"[a-z]+(?:'[a-z]+)?|[0-9]+|[^\w\s]"
_STRAIGHT = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2026": "..."}


class WordTokenizer:
    """Converts text to ids of lower-case words, numbers and punctuation marks, and back.

    A word is a run of letters, with apostrophes inside ("don't"); a number is a run of digits;
    every other character except spaces is a token of its own. Curly quotes become straight ones.
    Ids 0 to 3 are `[PAD]`, `[BOS]`, `[EOS]` and `[UNK]`; then words in decreasing order of
    frequency.

    Args:
        tokenizer: one that `train` or `from_json` has made.

    Raises:
        DataError: it does not split text, or the special words do not have ids 0 to 3.
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer
        if tokenizer.normalizer is None or tokenizer.pre_tokenizer is None:
            raise DataError(
                "tokenizer (without normalizer or pre_tokenizer) must define how text is split: "
                "use one that `WordTokenizer.save` wrote"
            )
        if self.words[: len(SPECIAL_WORDS)] != SPECIAL_WORDS:
            raise DataError(
                f"tokenizer ({', '.join(self.words[:4])}) must begin with "
                f"{', '.join(SPECIAL_WORDS)}: use one that `WordTokenizer.save` wrote"
            )

    @classmethod
    def train(
        cls,
        stories: Iterable[str],
        *,
        vocab_size: int = 4000,
        min_count: int = 2,
        is_ascii: bool = False,
    ) -> "WordTokenizer":
        """Choose the most frequent words of the given stories, ties in alphabetical order.

        Args:
            stories: texts of the training split only.
            vocab_size: maximum number of words, the four special ones included.
            min_count: minimum number of occurrences of a word.
            is_ascii: words have letters a to z and at most one apostrophe, numbers have digits 0 to
                9, and all other letters are left out.

        Raises:
            DataError: vocab_size is too small for a word.
        """
        if vocab_size <= len(SPECIAL_WORDS):
            raise DataError(f"vocab_size ({vocab_size}) must be at least 5: use 5 or more")
        from tokenizers import Tokenizer, models, trainers

        tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL_WORDS[UNK_ID]))
        _set_rules(tokenizer, is_ascii)
        trainer = trainers.WordLevelTrainer(
            vocab_size=vocab_size,
            min_frequency=min_count,
            special_tokens=list(SPECIAL_WORDS),
            show_progress=False,
        )
        tokenizer.train_from_iterator(stories, trainer)
        return cls(tokenizer)

    @classmethod
    def from_json(cls, text: str) -> "WordTokenizer":
        """Read a tokeniser from the JSON of the `tokenizers` library.

        Raises:
            DataError: the text is not such JSON.
        """
        from tokenizers import Tokenizer

        try:
            return cls(Tokenizer.from_str(text))
        except DataError:
            raise
        except Exception as error:  # the library raises bare Exception
            raise DataError(f"tokenizer ({error}) cannot be read: write it again") from error

    @classmethod
    def load(cls, path: Path | str) -> "WordTokenizer":
        """Read a tokeniser file.

        Raises:
            DataError: the file is missing, or is not a tokeniser.
        """
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"tokenizer ({path}) cannot be read ({error}): check the path"
            ) from error

    def to_json(self) -> str:
        """The tokeniser as JSON of the `tokenizers` library, one text for equal tokenisers."""
        return json.dumps(json.loads(self._tokenizer.to_str()), ensure_ascii=False, indent=1)

    def save(self, path: Path | str) -> None:
        """Write a tokeniser file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @property
    def vocab_size(self) -> int:
        """V, the number of ids."""
        return len(self.words)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The word of each id."""
        vocabulary = self._tokenizer.get_vocab()
        return tuple(sorted(vocabulary, key=vocabulary.__getitem__))

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: index for index, word in enumerate(self.words)}

    @cached_property
    def sha256(self) -> str:
        """Hash of the JSON form, in hexadecimal digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def split(self, text: str) -> list[str]:
        """Split text into words as `encode` does; unknown words are kept, in lower case.

        Raises:
            DataError: the text has a lone surrogate, as wrongly encoded input has.
        """
        normalizer, cutter = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
        try:
            plain = normalizer.normalize_str(text)
        except UnicodeEncodeError as error:
            raise DataError(
                f"text ({text[:40]!r}) must not have half of a character: give valid UTF-8"
            ) from error
        return [word for word, _ in cutter.pre_tokenize_str(plain)]

    def encode(self, text: str) -> list[int]:
        """The ids of a text's words, `[UNK]` where a word is not in the vocabulary."""
        return [self.ids.get(word, UNK_ID) for word in self.split(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Readable text of ids; `encode` gives the same ids again, except special ones."""
        joiner = self.joiner()
        return "".join(joiner.piece(self.words[index]) for index in ids)

    def joiner(self) -> "Joiner":
        """Return a joiner for a text that grows word by word."""
        return Joiner()


class Joiner:
    """Joins words to readable text, one at a time.

    There is no space before a closing mark, after an opening quotation mark, or at the beginning.
    Quotation marks open and close alternately.
    """

    _NO_SPACE_BEFORE = frozenset(".,!?;:)]}%")
    _NO_SPACE_AFTER = frozenset("([{$#")

    def __init__(self) -> None:
        self._glue = True  # whether the next word follows without a space
        self._is_quoted = False

    def piece(self, word: str) -> str:
        """The text that this word adds: the word, with a space before it if needed."""
        glued = self._glue or word in self._NO_SPACE_BEFORE
        self._glue = word in self._NO_SPACE_AFTER
        if word == '"':
            glued = glued or self._is_quoted
            self._is_quoted = not self._is_quoted
            self._glue = self._is_quoted
        return word if glued else f" {word}"


def _set_rules(tokenizer: "Tokenizer", is_ascii: bool) -> None:
    from tokenizers import Regex, normalizers, pre_tokenizers

    # The library types these attributes as read-only, and documents them as settable.
    straight = [normalizers.Replace(curly, plain) for curly, plain in _STRAIGHT.items()]
    unified = normalizers.NFKC() if is_ascii else normalizers.NFC()
    rules = [unified, normalizers.Lowercase(), *straight]
    tokenizer.normalizer = normalizers.Sequence(rules)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
        Regex(_ASCII_PIECE if is_ascii else _PIECE), "removed", invert=True
    )
