"""How often a model that continues a story says the hero's name again.

A beginning ends with the sentence that names the hero ("a girl named Lily."). Each is continued
with several random seeds. As a null, the names of different beginnings are exchanged.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from manyheads.models.generation import Tokenizer, generate

SEEDS = (1, 2, 3, 4, 5)
"""Random seeds of the continuations of each beginning."""
MAX_TOKENS = 60
"""Maximum number of words of a continuation."""
_FIRST_WORDS = 40
"""The hero must be named among this many words of a story."""
_NAMING = frozenset({"named", "called"})
_Z = 1.959963984540054  # the 97.5 % quantile of the normal distribution


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """The beginning of a story, up to the end of the sentence that names its hero."""

    text: str
    """The beginning, in lower case."""
    name: str
    """The name, in lower case."""


@dataclass(frozen=True, kw_only=True)
class HeroMeasure:
    """How often the name returned."""

    beginnings: int
    """Number of beginnings, n."""
    seeds: int
    """Continuations of each."""
    max_tokens: int
    """Maximum number of words of a continuation."""
    share: float
    """Mean over beginnings of the share of continuations with the name, 0 to 1."""
    interval: tuple[float, float]
    """95 % interval of the mean, from its standard error over beginnings."""
    other_name: float
    """The same share for the name of the next beginning that has another name, 0 to 1."""

    def to_dict(self) -> dict[str, Any]:
        """The measure as JSON holds it."""
        return asdict(self) | {"interval": list(self.interval)}


def beginnings_of(stories: Iterable[Sequence[str]], known: Sequence[str]) -> tuple[Beginning, ...]:
    """The beginnings of the stories that name a hero at once and say the name again later.

    Args:
        stories: the words of each story, as a tokeniser splits them; equal beginnings count once.
        known: the tokeniser's words; a name must be one of them.
    """
    found, names = {}, frozenset(known)
    for words in stories:
        place = next((i for i, word in enumerate(words[:_FIRST_WORDS]) if word in _NAMING), None)
        if place is None or "." not in words[place:] or place + 1 >= len(words):
            continue
        name, end = words[place + 1], words.index(".", place)
        if name.isalpha() and name in names and name in words[end + 1 :]:
            text = " ".join(words[: end + 1])
            found[text] = Beginning(text=text, name=name)
    return tuple(found.values())


def measure_heroes(
    model: nn.Module, tokenizer: Tokenizer, beginnings: Sequence[Beginning]
) -> HeroMeasure:
    """Continue every beginning and count the continuations that contain its name.

    Args:
        model: as for `generate`, whose default temperature and number of candidates are used.
        tokenizer: the model's own.
        beginnings: at least two, of stories that the model was not trained on.
    """
    shares, others = [], []
    for number, beginning in enumerate(beginnings):
        told = [_continued(model, tokenizer, beginning.text, seed) for seed in SEEDS]
        rest = (*beginnings[number + 1 :], *beginnings[:number])
        other = next((each.name for each in rest if each.name not in beginning.text.split()), "")
        shares.append(statistics.fmean(beginning.name in words for words in told))
        others.append(statistics.fmean(other in words for words in told))
    share = statistics.fmean(shares)
    half = _Z * statistics.stdev(shares) / math.sqrt(len(shares))
    return HeroMeasure(
        beginnings=len(beginnings),
        seeds=len(SEEDS),
        max_tokens=MAX_TOKENS,
        share=share,
        interval=(max(0.0, share - half), min(1.0, share + half)),
        other_name=statistics.fmean(others),
    )


def _continued(model: nn.Module, tokenizer: Tokenizer, text: str, seed: int) -> set[str]:
    steps = generate(model, tokenizer, text, max_tokens=MAX_TOKENS, seed=seed)
    return {step.word for step in steps}
