"""Finds the first step at which two implementations depart, and the line of each."""

import difflib
import itertools
import linecache
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.verify.assembly import NotSeenError
from manyheads.verify.calling import Callee, read_answer
from manyheads.verify.comparison import ComparedStep, Entry, Source
from manyheads.verify.context import RIGHT
from manyheads.verify.findings import Where
from manyheads.verify.gaps import relative_gap
from manyheads.verify.locate import STEPS, Locator, steps_of
from manyheads.verify.quantities import Wanted, ordered, relation_of
from manyheads.verify.understand import see
from manyheads.verify.understanding import Seen
from manyheads.verify.watch import Event, Line

Numbers = Mapping[str, Sequence[Tensor]]
"""The numbers of each step; several where a scale can be applied early or late."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Watching:
    """One implementation at work on the problem in which the two depart."""

    seen: Seen
    """What it did."""
    numbers: Numbers
    """The numbers of its steps, in one order of axes; empty where they cannot be read."""
    finals: Numbers
    """The numbers of each step as the next step reads them."""
    is_explained: bool
    """Whether the formula with its settings gives its output."""
    lines: Mapping[str, Line | None]
    """The line that makes each step."""


class PairLocator(Locator):
    """Compares the operations of one implementation with the steps and operations of the other.

    Args:
        side: the one whose operations are looked at.
        other: the other one.
        tolerance: largest relative difference of equal numbers.
    """

    def __init__(self, side: Watching, other: Watching, tolerance: float) -> None:
        output = read_answer(side.seen.outcome.raw)[0]
        assert output is not None
        super().__init__(
            side.seen.structure,
            side.seen.problem,
            output,
            tolerance,
            steps=other.numbers,
        )
        self.shared = self._shared(other) if other.seen is not side.seen else set()

    def _shared(self, other: Watching) -> set[int]:
        """Operations whose result the other one computes too, in any order of axes."""
        theirs: dict[tuple[int, ...], list[Wanted]] = {}
        for event in other.seen.structure.events:
            for x in event.values:
                if x.is_floating_point() and x.numel() > 1:
                    theirs.setdefault(_sizes(x), []).append(Wanted("", x))
        return {e.number for e in self.events if e.values and self._is_shared(e, theirs)}

    def _is_shared(self, event: Event, theirs: Mapping[tuple[int, ...], list[Wanted]]) -> bool:
        return all(self._is_among(x, theirs.get(_sizes(x), ())) for x in event.values)

    def _is_among(self, x: Tensor, theirs: Sequence[Wanted]) -> bool:
        mine = ordered(x) if theirs else x
        relations = (
            relation_of(x.double(), mine.double(), y, self.tolerance, joins=False) for y in theirs
        )
        return "equal" in relations

    def _is_good(self, number: int) -> bool:
        return number in self.shared or super()._is_good(number)

    def lines(self) -> dict[str, Line | None]:
        """The first line that makes each step; that of a fused kernel for the steps inside."""
        found: dict[str, Line | None] = {}
        fused = next((e for e in self.events if e.op.startswith("_scaled_dot_product")), None)
        for step in STEPS:
            made = (e for e in self.events if self.labels.get(e.number, {}).get(step) == "equal")
            event = next(made, fused if step in _INSIDE else None)
            if event is not None:
                found[step] = event.line
        return found


def _sizes(x: Tensor) -> tuple[int, ...]:
    return tuple(sorted(n for n in x.shape if n != 1))


_INPUTS = ("q", "k", "v")
"""Steps that are read from the input."""
_INSIDE = ("scores", "masked_scores", "attn_weights", "head_outputs")
"""Steps that a fused kernel does at once."""


def watched(callee: Callee, problem: Problem, tolerance: float) -> Watching | None:
    """Watch an implementation; None where the call raises."""
    seen = see(callee, problem)
    output = seen.outcome.output
    if output is None:
        return None
    is_explained = _is_explained(problem, output, tolerance)
    numbers = steps_of(problem) if is_explained else _core_numbers(seen)
    finals = {n: x for n, x in numbers.items() if n in STEPS}
    if not is_explained:
        finals.pop("scores", None)  # their scale is not known
    else:
        finals = {n: x[-_FINALS.get(n, 1) :] for n, x in finals.items()}
    made = Watching(seen=seen, numbers=numbers, finals=finals, is_explained=is_explained, lines={})
    locator = PairLocator(made, replace(made, numbers=finals), tolerance)
    locator.locate()
    return replace(made, lines=locator.lines())


_FINALS = {"q": 3, "k": 4, "v": 2}
"""How many forms of a step `Stages` keeps last: repeated for groups, and with a scale."""


def _is_explained(problem: Problem, output: Tensor, tolerance: float) -> bool:
    """Whether the formula with the weights and settings that were found gives an output."""
    if problem.weights is None and problem.x_q.dim() == 3:
        return False
    with torch.no_grad():
        return relative_gap(output, RIGHT.run(problem).output) <= tolerance


def _core_numbers(seen: Seen) -> dict[str, list[Tensor]]:
    """The steps as the operations show them, where no formula explains the output."""
    try:
        core = seen.structure.core()
    except NotSeenError:
        return {}
    assert seen.outcome.output is not None
    factors = (1.0, core.q.shape[-1] ** -0.5, core.q.shape[-1] ** -0.25)
    return {
        "q": [core.q * f for f in factors],
        "k": [core.k * f for f in factors],
        "v": [core.v],
        "products": [core.q @ core.k.mT],
        "scores": [core.q @ core.k.mT * f for f in factors[:2]],
        "attn_weights": [core.weights],
        "head_outputs": [core.messages],
        "concat": [core.messages.transpose(1, 2).flatten(2)],
        "output": [seen.outcome.output.detach().double()],
    }


@dataclass(frozen=True, kw_only=True)
class _Departure:
    """Where two implementations depart."""

    step: str
    lines: tuple[Line | None, Line | None]
    relation: str | None = None
    factor: float | None = None


def compared_steps(
    a: Watching, b: Watching, tolerance: float, *, departs: bool
) -> tuple[ComparedStep, ...]:
    """The steps of both, with their lines.

    Args:
        a: the first at work.
        b: the second at work on the same problem.
        tolerance: largest relative difference of equal numbers.
        departs: whether their outputs differ.
    """
    where = _departure(a, b, tolerance) if departs else None
    names = [s for s in STEPS if s in a.numbers or s in b.numbers or (where and where.step == s)]
    return tuple(_step(name, a, b, tolerance, where) for name in names)


def _step(
    name: str, a: Watching, b: Watching, tolerance: float, where: _Departure | None
) -> ComparedStep:
    found = _closest(name, a, b)
    gap = None if found is None else _gap(name, *found)
    lines = a.lines.get(name), b.lines.get(name)
    is_here = where is not None and name == where.step
    if is_here and where is not None:
        lines = where.lines
    status: Literal["equal", "departs", "not seen"] = "not seen"
    is_before = where is not None and STEPS.index(name) < STEPS.index(where.step)
    if is_here or (gap is not None and gap > tolerance and not is_before):
        status = "departs"
    elif gap is not None and gap <= tolerance:
        status = "equal"
    return ComparedStep(
        step=name,
        status=status,
        gap=gap if gap is not None and math.isfinite(gap) else None,
        a=_source(lines[0]),
        b=_source(lines[1]),
        relation=where.relation if where is not None and is_here else None,
        factor=where.factor if where is not None and is_here else None,
        entry=None if found is None or status != "departs" else _entry(*found),
    )


def _gap(name: str, x: Tensor, y: Tensor) -> float:
    """Relative difference; queries and keys may differ by a factor, which scores show."""
    if name in _INPUTS[:2]:
        size = float((x * x).sum())
        y = y * (size / (float((x * y).sum()) or 1.0))
    hidden = ~torch.isfinite(x)
    if not torch.equal(hidden, ~torch.isfinite(y)):
        return math.inf
    return relative_gap(y.masked_fill(hidden, 0.0), x.masked_fill(hidden, 0.0))


def _closest(name: str, a: Watching, b: Watching) -> tuple[Tensor, Tensor] | None:
    """The numbers of a step that are nearest, where a scale can be applied early or late."""
    every = itertools.product(a.finals.get(name, ()), b.finals.get(name, ()))
    pairs = [(x, y) for x, y in every if x.shape == y.shape]
    return min(pairs, key=lambda pair: _gap(name, *pair), default=None)


def _entry(x: Tensor, y: Tensor) -> Entry:
    """The entry that differs most."""
    gap = (x.double() - y.double()).abs().nan_to_num(nan=0.0)
    place = [int(i) for i in np.unravel_index(int(gap.flatten().argmax()), tuple(x.shape))]
    return Entry(index=tuple(place), a=float(x[tuple(place)]), b=float(y[tuple(place)]))


def _source(line: Line | None) -> Source | None:
    if line is None:
        return None
    return Source(
        file=line.file, line=line.number, code=linecache.getline(line.file, line.number).strip()
    )


def _departure(a: Watching, b: Watching, tolerance: float) -> _Departure | None:
    """The first step at which they depart, by the operations of each against the other."""
    of_a, of_b = _located(a, b, tolerance), _located(b, a, tolerance)
    first = of_b if a.is_explained or not b.is_explained else of_a
    first = first or of_b or of_a
    step = _earliest(a, b, tolerance, first)
    if step is None:
        return None
    by_own = _INPUTS if a.is_explained and b.is_explained else ()
    lines = [
        side.lines.get(step) if step in by_own else _line_at(step, where, side)
        for where, side in ((of_a, a), (of_b, b))
    ]
    is_told = first is not None and first.step == step
    return _Departure(
        step=step,
        lines=_in_versions(lines[0], lines[1]),
        relation=first.relation if first is not None and is_told else None,
        factor=first.factor if first is not None and is_told else None,
    )


_ALIKE = 0.8
"""Share of lines that two versions of one file have in common, at least."""


def _in_versions(a: Line | None, b: Line | None) -> tuple[Line | None, Line | None]:
    """Both lines; in versions of one file, a changed line and the line that it was before."""
    if a is None or b is None or a.file == b.file:
        return a, b
    texts = linecache.getlines(a.file), linecache.getlines(b.file)
    matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return a, b
    for kind, start, stop, other, end in matcher.get_opcodes():
        if kind == "replace" and stop - start == end - other:
            if other < b.number <= end:
                return replace(a, number=b.number - other + start), b
            if start < a.number <= stop:
                return a, replace(b, number=a.number - start + other)
    return a, b


def _earliest(a: Watching, b: Watching, tolerance: float, first: Where | None) -> str | None:
    """The earlier one of the step that was located and the first whose numbers differ."""
    found = [] if first is None else [first.step]
    if first is not None and first.step in _INPUTS[:2] and first.relation == "factor":
        found = ["scores"]
    if first is not None and first.step == "scores" and math.isnan(first.factor or 0.0):
        found = ["masked_scores"]  # they differ in what is hidden
    if found == ["concat"] and ("output" in a.finals) != ("output" in b.finals):
        found = ["output"]  # one has no output projection
    for step in STEPS:
        pair = _closest(step, a, b)
        if pair is not None and _gap(step, *pair) > tolerance:
            found += [] if _is_other_step(step, a, b, tolerance) else [step]
            break
    return min(found, key=STEPS.index, default=None)


def _is_other_step(step: str, a: Watching, b: Watching, tolerance: float) -> bool:
    """Whether one uses for a step what the other uses for another, as keys in place of values."""
    others = [s for s in _INPUTS if s != step]
    pairs = [
        (x, y)
        for mine, theirs in ((a, b), (b, a))
        for x in mine.finals.get(step, ())
        for other in others
        for y in theirs.finals.get(other, ())
    ]
    return step in _INPUTS and any(relative_gap(x, y) <= tolerance for x, y in pairs)


def _level(step: str) -> int:
    """Steps that are made at the same time have one level."""
    return max(STEPS.index(step), STEPS.index("v"))


def _line_at(step: str, where: Where | None, side: Watching) -> Line | None:
    """The line of one side: where it makes what the other does not, if that is at this step."""
    own = side.lines.get(step)
    is_here = where is not None and _level(where.step) <= _level(step)
    is_here = is_here and (step, where and where.step) != ("masked_scores", "scores")
    if own is not None and (step == "attn_weights" or not is_here):
        return own
    return _line_of(where) or own


def _located(side: Watching, other: Watching, tolerance: float) -> Where | None:
    try:
        return PairLocator(side, other, tolerance).locate().where
    except (RuntimeError, ValueError, IndexError):
        return None


def _line_of(where: Where | None) -> Line | None:
    if where is None or where.file is None or where.line is None:
        return None
    return Line(file=where.file, number=where.line)
