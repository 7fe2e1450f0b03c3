"""The fields of a comparison of two implementations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Agreement = Literal["equal", "different", "undetermined"]
AGREEMENTS: tuple[Agreement, ...] = get_args(Agreement)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A line of the source of one implementation."""

    file: str | None = None
    """Path of the file."""
    line: int | None = None
    """The line, counted from 1."""
    code: str = ""
    """The code of the line."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One number of a step in both implementations."""

    index: tuple[int, ...]
    """Its place, counted from 0: sample, head, position, channel or key."""
    a: float
    """In the first."""
    b: float
    """In the second."""


@dataclass(frozen=True, kw_only=True)
class ComparedStep:
    """One step of both implementations."""

    step: str
    """Its name in the formula."""
    status: Literal["equal", "departs", "not seen"]
    """Whether both have the same numbers."""
    gap: float | None = None
    """Largest difference relative to the largest number; None where it was not measured."""
    a: Source | None = None
    """The line of the first that makes it."""
    b: Source | None = None
    """The line of the second that makes it."""
    relation: str | None = None
    """How the numbers of the second differ: factor, arrangement, part, missing or other."""
    factor: float | None = None
    """What the numbers of the second are a multiple of those of the first by, if they are."""
    entry: Entry | None = None
    """One number that differs most."""


@dataclass(frozen=True, kw_only=True)
class ComparedProblem:
    """One problem that was given to both."""

    name: str
    """What is special about it."""
    gap: float | None
    """Largest difference of outputs relative to the largest; None where one is not finite or
    raises."""
    says: str = ""
    """Why there is no gap."""


@dataclass(frozen=True, kw_only=True)
class MapRow:
    """One weight, and where each implementation has it."""

    weight: str
    """W_Q, b_Q and so on, or the norm that it belongs to."""
    head: int | None
    """Number of the head, counted from 0; None where the row is for all heads."""
    a: str
    """Parameter of the first, with the part that is meant."""
    b: str
    """Parameter of the second, with the part that is meant."""
    is_transposed: bool = False
    """Whether rows of one are columns of the other."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The result of comparing two implementations: what its text and its page show."""

    a: str
    """The first, as given."""
    b: str
    """The second, as given."""
    verdict: Agreement
    """equal, different or undetermined."""
    says: str
    """The result in one sentence."""
    gap: float | None = None
    """Largest difference of outputs relative to the largest output, over all problems."""
    tolerance: float | None = None
    """Largest gap that counts as equal, by the types at work."""
    steps: tuple[ComparedStep, ...] = ()
    """The steps of the problem in which they depart, else of the first problem."""
    problems: tuple[ComparedProblem, ...] = ()
    """Everything that was given to both."""
    left_out: tuple[str, ...] = ()
    """What was not compared, because only one of them can do it."""
    matched_by: str | None = None
    """How the weights were matched: "use", or "name" where their use could not be read."""
    map: tuple[MapRow, ...] = ()
    """Which parameter of the first corresponds to which of the second."""
    unmatched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameters of "a" and of "b" that have no counterpart."""
    conversion: str = ""
    """Python code that converts a state dict of the first into one of the second."""
    inferred: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What was inferred of "a" and of "b"."""
    seconds: float = 0.0
    """Wall time, in seconds."""

    @property
    def is_equal(self) -> bool:
        """Whether all outputs that could be compared are equal."""
        return self.verdict == "equal"

    @property
    def departure(self) -> ComparedStep | None:
        """The first step at which they depart."""
        return next((step for step in self.steps if step.status == "departs"), None)
