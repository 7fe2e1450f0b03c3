"""Finds the step and the line at which a call of a subject departs from the formula."""

from collections.abc import Callable, Sequence

from manyheads.attention.problem import Problem
from manyheads.verify.calling import read_answer
from manyheads.verify.context import Case, Context
from manyheads.verify.findings import Where
from manyheads.verify.locate import Locator
from manyheads.verify.understand import see
from manyheads.verify.watch import Event, Line, place_of, storage_of

_DRAWS = {"bernoulli_", "bernoulli", "rand", "rand_like", "uniform_", "native_dropout"}
_DRAWS |= {"randn", "randn_like", "normal_"}
"""Operations that draw random numbers."""


def locate_case(ctx: Context, group: list[Case]) -> Where | None:
    """The step and line at which the smallest of some cases departs.

    Equal sizes hide exchanged axes, so a case with other sizes goes first.
    """
    case = min(
        (c for c in group if c.outcome.output is not None),
        key=lambda c: (c.has_equal_sizes, c.problem.x_q.numel()),
        default=None,
    )
    return None if case is None else locate_problem(ctx, case.problem, **case.extra)


def place_at(line: Line | None, step: str, relation: str = "other") -> Where | None:
    """A line of the subject as the place of a mistake."""
    if line is None:
        return None
    return Where.at(step, relation, line)


def locate_operation(
    ctx: Context, problem: Problem, step: str, is_meant: Callable[[Sequence[Event], Event], bool]
) -> Where | None:
    """The line of the first operation of a kind in one call.

    Args:
        ctx: the state of the verification.
        problem: what to put to the subject.
        step: of the formula, to which the operation belongs.
        is_meant: given all operations and one, whether it is of that kind.
    """
    events = see(ctx.callee, problem).structure.events
    lines = (e.line for e in events if e.line is not None and is_meant(events, e))
    return place_at(next(lines, None), step)


def is_random(_: Sequence[Event], event: Event) -> bool:
    """Whether an operation draws random numbers."""
    return event.op in _DRAWS


def is_cut(events: Sequence[Event], event: Event) -> bool:
    """Whether an operation keeps gradients from its result; autograd's own ones do not count."""
    before = events[event.number - 1] if event.number else event
    made = [place_of(x) for x in before.out] if before.writes else []
    return event.op == "detach" and place_of(event.out[0]) not in made


def writes_into_argument(events: Sequence[Event], event: Event) -> bool:
    """Whether an operation changes memory that no line of the subject has made."""
    if not event.func._schema.is_mutable or not event.out:  # type: ignore[attr-defined]
        return False
    target = storage_of(event.out[0])
    earlier = [e for e in events[: event.number] if e.writes and e.line is not None]
    return all(storage_of(x) != target for e in earlier for x in e.out)


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
