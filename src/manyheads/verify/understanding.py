"""What was seen and understood of a subject at work."""

from dataclasses import dataclass, field
from typing import Any

from manyheads.attention.problem import Problem
from manyheads.verify.calling import Outcome
from manyheads.verify.reading import EXACT, Departure, Reading
from manyheads.verify.structure import Structure
from manyheads.verify.subject import Subject


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """One watched call of a subject."""

    problem: Problem
    """What was put to it."""
    outcome: Outcome
    """What it gave."""
    structure: Structure
    """The operations, with the tags of their numbers."""


@dataclass(kw_only=True, eq=False)
class Understanding:
    """What was understood of a subject."""

    subject: Subject
    """The declaration, completed."""
    seen: Seen | None = None
    """The call that was read."""
    reading: Reading | None = None
    """What was read."""
    departures: list[Departure] = field(default_factory=list)
    """What is not as in the formula, or not understood."""
    scale: float | None = None
    """The factor of each product that was seen."""
    words: dict[str, Any] = field(default_factory=dict)
    """What was inferred, by the field that would declare it."""
    names: frozenset[str] = frozenset()
    """Names of the tensors that the subject held before it was called."""
    is_declared: bool = True
    """Whether the number of heads was declared or said by the subject."""
    reason: str = ""
    """Why nothing could be read; empty if something could."""
    tolerance: float = EXACT
    """Largest relative difference of equal numbers, by the types seen at work."""
