"""What rules find of a point in a free text: its words, and its numbers.

A rule looks for words and knows nothing of what they mean: "not softmax" contains softmax. So what
is found is shown with the words that were seen, and the learner decides.
`web/src/learn/sightings.ts` has the same rules.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from manyheads.learn.explain_back import Point

_NUMBER = re.compile(r"[-\u2212]?\d+(?:\.\d+)?(?:/\d+)?")
_NEAR = 0.006
"""Largest difference of a number typed with two decimals, with room for its rounding."""


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """What was looked for, and what of it was seen."""

    label: str
    """What was looked for: "per head", or a number."""
    saw: str | None
    """The learner's own words; None where nothing was found."""

    def __str__(self) -> str:
        """One line: `per head: yes ("each head")`."""
        return f"{self.label}: no" if self.saw is None else f'{self.label}: yes ("{self.saw}")'


def sightings(point: Point, text: str) -> tuple[Sighting, ...]:
    """Look for the words and the numbers of a point in a text."""
    return (*_words(point, text), *_numbers(point, text))


def _words(point: Point, text: str) -> Iterator[Sighting]:
    for label, stems in point.words:
        # A stem begins a word, or follows a sign: "sum" is in "summed", and not in "assume".
        # A digit is a whole number: "0" is in "exactly 0", and not in "0.5" or "1.0".
        pattern = "|".join(re.escape(stem) for stem in stems)
        whole = rf"(?<![^\W_])(?<!\d[.,])(?:{pattern})(?![.,]\d)\w*"
        found = re.search(whole, text, re.IGNORECASE)
        yield Sighting(label=label, saw=found[0].strip() if found else None)


def _numbers(point: Point, text: str) -> Iterator[Sighting]:
    typed = [(found[0], _value(found[0])) for found in _NUMBER.finditer(text)]
    quoted = {part.text: part.value for part in point.says.parts if not isinstance(part, str)}
    for label, wanted in quoted.items():
        seen = (text for text, value in typed if abs(value - wanted) < _NEAR)
        yield Sighting(label=label, saw=next(seen, None))


def _value(text: str) -> float:
    top, _, bottom = text.replace("\u2212", "-").partition("/")
    if bottom and int(bottom) == 0:
        return float("inf")
    return float(Fraction(top) / int(bottom or 1))
