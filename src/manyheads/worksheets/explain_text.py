"""An explanation as text: one paragraph a step, the given numbers together at the end."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from manyheads.core.tables import wrapped


@runtime_checkable
class Explained(Protocol):
    """What is needed of a step."""

    @property
    def quantity(self) -> str:
        """Its name."""

    @property
    def label(self) -> str:
        """What it is."""

    @property
    def rule(self) -> str:
        """The rule."""

    @property
    def formula(self) -> str:
        """The rule with numbers."""

    @property
    def zero_terms(self) -> int:
        """Terms left out."""

    @property
    def given(self) -> bool:
        """Whether it stands in the file."""

    @property
    def full_value(self) -> str:
        """The value in full."""


def lines_from_explanation(steps: Sequence[Explained], cut: Sequence[str]) -> Iterable[str]:
    """Write the steps in 80 columns."""
    for step in steps:
        if not step.given:
            yield from _paragraph(step)
    given = [step for step in steps if step.given]
    if given:
        yield "Given in the worksheet"
        width = max(len(step.quantity) for step in given)
        yield from (f"  {step.quantity:<{width}}  = {step.full_value}" for step in given)
    if cut:
        yield f"Cut here: {len(cut)} numbers are used but not explained; ask for more depth."


def _paragraph(step: Explained) -> Iterable[str]:
    left_out = {0: "", 1: "   (1 zero term left out)"}
    note = left_out.get(step.zero_terms, f"   ({step.zero_terms} zero terms left out)")
    formula = step.formula
    for sign in (" x ", " / (", "e^("):
        formula = formula.replace(sign, sign.replace(" ", "\N{NO-BREAK SPACE}"))
    yield f"{step.quantity} = {step.full_value}"
    yield from wrapped(f"{step.label}: {step.rule}", "  ")
    yield from wrapped(formula + note.replace(" ", "\N{NO-BREAK SPACE}"), "    ")
    yield ""
