"""Which check finds which fault, and which faults popular tests miss.

Every check runs alone on every example, so that a fault which one check finds first is still seen
by the others.
"""

from dataclasses import dataclass
from functools import cache

from torch import nn

from manyheads.verify.calling import prepared
from manyheads.verify.checks.behaviour import check_leak, dependence
from manyheads.verify.checks.gradients import check_unused
from manyheads.verify.checks.masking import check_masks_used
from manyheads.verify.checks.values import check_returned_weights, check_values
from manyheads.verify.context import Check, Context
from manyheads.verify.findings import found
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.run import FIRST, LATER
from manyheads.verify.subject import Subject
from manyheads.verify.understanding import Understanding
from tools.museum.examples import fault_examples
from tools.museum.popular import POPULAR, passes


def _values(ctx: Context) -> None:
    """The comparison with the formula; naming the fault is left to the diagnosis."""
    check_values(ctx)
    if ctx.values_are_wrong:
        ctx.findings.append(found(None, "values", "the output differs from the formula"))


def _returned_weights(ctx: Context) -> None:
    check_values(ctx)
    check_returned_weights(ctx)


def _dependence(ctx: Context) -> None:
    ctx.findings.extend(dependence(ctx))


_ALONE: dict[str, Check] = {
    "check_returned_weights": _returned_weights,
    "check_dependence": _dependence,
}


def _title(check: Check) -> str:
    return check.__name__.removeprefix("check_").replace("_", " ")


_UNDECLARED = (check_unused, check_leak, check_masks_used)
"""Checks of what was watched or inferred; the examples are declared, and not watched here."""

CHECKS: dict[str, Check] = {
    **{_title(check): check for check in FIRST if check not in _UNDECLARED},
    "values": _values,
    **{
        _title(check): _ALONE.get(check.__name__, check)
        for check in LATER
        if check not in _UNDECLARED
    },
}
"""Every check by its title; a check that needs the observations of others makes them itself."""

_INSIDE = 3e-5
"""Largest relative difference if `compute_dtype` float32 is declared, as in a run."""


def caught_by(made: nn.Module, subject: Subject) -> tuple[str, ...]:
    """Titles of the checks that find an error, each put alone to a copy of the module."""
    titles = []
    for title, check in CHECKS.items():
        callee = prepared(made, subject)
        located = callee.located()
        ctx = Context(
            subject=subject,
            callee=callee,
            maker=ProblemMaker(subject, located),
            located=located,
            strict=True,
            known=Understanding(subject=subject),
        )
        if subject.spec.compute_dtype is not None:
            ctx.tolerance = _INSIDE
        check(ctx)
        if any(finding.severity == "error" for finding in ctx.findings):
            titles.append(title)
    return tuple(titles)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one fault."""

    fault: str
    """Its id."""
    kind: str
    """How its example is declared."""
    caught: tuple[str, ...]
    """Titles of the checks that find it."""
    let_through: tuple[str, ...]
    """Names of the popular tests that pass though the fault is there."""
    not_asked: tuple[str, ...]
    """Popular tests that a sound module of this declaration could not pass either."""


@cache
def row_of(fault: str) -> Row:
    """Put one example to every check and to every popular test."""
    example = fault_examples()[fault]
    subject = example.subject
    results = {name: passes(name, example) for name in POPULAR}
    return Row(
        fault=fault,
        kind=example.kind,
        caught=caught_by(example.make(subject), subject),
        let_through=tuple(name for name, passed in results.items() if passed),
        not_asked=tuple(name for name, passed in results.items() if passed is None),
    )


def grid() -> tuple[Row, ...]:
    """A row for every fault in the catalogue."""
    return tuple(row_of(fault) for fault in fault_examples())


_INTRO = """# Which check finds which fault

Each fault of the catalogue is built as one small module with random weights and biases. Every
check of `manyheads check` is then run **alone** on that module. A dot means that the check reports
an error.
[The museum](museum.md) shows what each fault looks like.

`python -m tools.museum.pages docs` writes this page, and a test fails when it is out of date.
"""

_POPULAR_INTRO = """## What popular tests miss

The same modules, tested with seven tests that people often write for attention. **passes** means
that the test passes although the fault is present. A dash means that the test does not apply: a
correct module with this declaration fails it too. For example, a worksheet has no rotary positions.
Worksheets are solved in one plain call, in evaluation mode, without padding and without a cache.
"""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _checks_table(rows: tuple[Row, ...]) -> str:
    legend = "\n".join(f"{i}. {title}" for i, title in enumerate(CHECKS, 1))
    head = ["fault", *(str(i) for i in range(1, len(CHECKS) + 1))]
    body = [
        [f"`{row.fault}`", *("●" if title in row.caught else "" for title in CHECKS)]
        for row in rows
    ]
    return f"The checks, in the order of a run:\n\n{legend}\n\n{_table(head, body)}"


def _popular_table(rows: tuple[Row, ...]) -> str:
    body = []
    for row in rows:
        marks = (
            "passes" if name in row.let_through else "–" if name in row.not_asked else ""
            for name in POPULAR
        )
        body.append([f"`{row.fault}`", *marks])
    asked = {name: sum(name not in row.not_asked for row in rows) for name in POPULAR}
    through = {name: sum(name in row.let_through for row in rows) for name in POPULAR}
    totals = [f"{through[name]} of {asked[name]} pass" for name in POPULAR]
    return _table(["fault", *POPULAR], [["**all**", *totals], *body])


def page() -> str:
    """The page docs/fault-grid.md."""
    rows = grid()
    return "\n".join((_INTRO, _checks_table(rows), _POPULAR_INTRO, _popular_table(rows)))
