"""Finds the step and the line at which a call of a subject departs from the formula."""

from manyheads.attention.problem import Problem
from manyheads.verify.calling import read_answer
from manyheads.verify.context import Case, Context
from manyheads.verify.findings import Where
from manyheads.verify.locate import Locator
from manyheads.verify.understand import see


def locate_case(ctx: Context, group: list[Case]) -> Where | None:
    """The step and line at which the smallest of some cases departs."""
    case = min(
        (c for c in group if c.outcome.output is not None),
        key=lambda c: c.problem.x_q.numel(),
        default=None,
    )
    return None if case is None else locate_problem(ctx, case.problem, **case.extra)


def locate_problem(ctx: Context, problem: Problem, **extra: object) -> Where | None:
    """The step and line at which one call departs."""
    seen = see(ctx.callee, problem, **extra)
    output, _, _ = read_answer(seen.outcome.raw)
    if output is None:
        return None
    try:
        located = Locator(seen.structure, problem, output, ctx.tolerance).locate()
    except (RuntimeError, ValueError, IndexError):
        return None
    ctx.steps = located.steps
    ctx.entry = dict(located.entry)
    return located.where
