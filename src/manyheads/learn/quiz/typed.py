"""Marking one number of a question by recomputing it."""

from fractions import Fraction
from typing import NamedTuple

from manyheads.learn.typed import how_close, typed_number
from manyheads.worksheets.arithmetic import Number, float_of
from manyheads.worksheets.display import fraction_text, rounded


class Marked(NamedTuple):
    """A marked number."""

    is_right: bool
    """Whether it counts."""
    says: str
    """One sentence for the learner, with the right number."""


def mark_numeric(typed: str, value: Number) -> Marked:
    """Mark a typed number: equal, or the value rounded to the digits typed, three at least.

    Args:
        typed: such as "26/7", "sqrt(2)/2", "37.1%" or "3.71".
        value: what the engine says.

    Raises:
        LearnError: nothing was typed, or it is no number; says what can be read.
    """
    close = how_close(typed_number(typed), value)
    begins = {
        "same": "Right:",
        "rounded": "Right, rounded:",
        "coarse": "Close, but too few digits to tell: it is",
        "other": "Not so: it is",
    }
    return Marked(close in ("same", "rounded"), f"{begins[close]} {shown(value)}.")


def shown(value: Number) -> str:
    """A number for a learner: exact where that is short, and rounded beside it."""
    exact, decimals = fraction_text(value), rounded(float_of(value))
    is_short = exact == decimals or (isinstance(value, Fraction) and value.denominator == 1)
    return exact if is_short else f"{exact} = {decimals}"
