"""Explains a wrong answer: the step and the line that depart, and the mistake with these numbers.

The steps are the local variables of the solution. Mistakes are those that the task lists: each is
computed for the same call, and named if it gives the same numbers as the learner's code.
"""

import itertools
import linecache
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from manyheads.practice.case import Case
from manyheads.practice.constraints import observe
from manyheads.practice.difference import Difference, factor_of, is_close
from manyheads.practice.running import load_code, named_steps, pair, run
from manyheads.practice.task import Answer, Mistake, Task
from manyheads.verify.findings import Finding, Step, Where
from manyheads.verify.watch import Event

_CLOSE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class _Named:
    """A mistake that gives the learner's numbers."""

    mistake: Mistake
    """The mistake."""
    step: str | None
    """The step of its answer that it changes first."""
    value: Tensor | None
    """The wrong numbers of that step."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A finding and the table of steps."""

    finding: Finding
    """What is wrong."""
    steps: tuple[Step, ...] = ()
    """Each step of the solution, and whether the same numbers were seen."""


class Explainer:
    """Explains the wrong answers of one task.

    Args:
        task: the task.
        reference: the solution's function or class.
        learner: the learner's.
        files: the learner's source files.
    """

    def __init__(
        self,
        task: Task,
        reference: Any,  # noqa: ANN401 - a function or class
        learner: Any,  # noqa: ANN401 - a function or class
        files: frozenset[str],
    ) -> None:
        self.task, self.reference, self.learner, self.files = task, reference, learner, files

    def explain(self, found: Difference) -> Explained:
        """The finding and the steps of a difference."""
        where: Where | None
        if found.kind == "raises":
            where = _where("output", "other", found.file, found.line)
            return Explained(finding=_finding(found, found.says, where))
        named = self._named(found.case)
        steps, where = self._steps(found, named)
        says, fix, fault = found.says, "", None
        if named is not None:
            says = f"{named.mistake.says}; {says}" if named.mistake.says else says
            fix, fault = named.mistake.fix, named.mistake.fault
        if self.task.seed is not None and found.kind != "raises":  # a repair: not the line
            steps = tuple(replace(step, line=None) for step in steps)
            return Explained(finding=_finding(found, found.says, None), steps=steps)
        return Explained(finding=_finding(found, says, where, fault=fault, fix=fix), steps=steps)

    def _named(self, case: Case) -> _Named | None:
        """The first listed mistake that gives the learner's results in a call."""
        have = self._results(self.learner, case)
        for answer, mistake in _mistakes(self.task):
            try:
                wrong = load_code(
                    self.task.imports + answer.with_mistake(mistake), self.task.entry, "<mistake>"
                )
            except Exception:
                continue
            given = self._results(wrong, case)
            if have is not None and given is not None and _all_close(given, have, case.tolerance):
                return self._placed(answer, mistake, wrong, case)
        return None

    def _results(self, entry: Any, case: Case) -> tuple[object, ...] | None:  # noqa: ANN401
        try:
            _, made = pair(self.task, self.reference, entry, case)
        except Exception:
            return None
        ran = run(self.task, made, case, self.files)
        if ran.raised is not None:
            return None
        return *ran.values, *(x for x in ran.gradients.values() if x is not None)

    def _placed(self, answer: Answer, mistake: Mistake, wrong: Any, case: Case) -> _Named:  # noqa: ANN401
        """The first step of an answer that a mistake changes."""
        right = load_code(self.task.imports + answer.code, self.task.entry, "<right>")
        _, made = pair(self.task, self.reference, right, case)
        want = named_steps(self.task, made, case, "<right>")
        _, made = pair(self.task, self.reference, wrong, case)
        have = named_steps(self.task, made, case, "<mistake>")
        for name, value in have.items():
            if name in want and not is_close(want[name], value, _CLOSE):
                return _Named(mistake=mistake, step=name, value=value)
        return _Named(mistake=mistake, step=None, value=None)

    def _steps(
        self, found: Difference, named: _Named | None
    ) -> tuple[tuple[Step, ...], Where | None]:
        """The table of steps, and the place where the learner's code departs."""
        case = found.case
        ours, _ = pair(self.task, self.reference, self.reference, case)
        wanted = named_steps(self.task, ours, case, solution_file(self.task))
        try:
            seen = observe(self.task, self.reference, self.learner, case, self.files)
        except (Exception, SystemExit):
            return (), None
        events = [e for e in seen.events if e.line is not None and e.values]
        if found.kind in ("numbers", "shape"):
            wanted = {n: x for n, x in wanted.items() if x.numel() > 1}
        made_by = {name: _maker(value, events) for name, value in wanted.items()}
        where = self._departure(wanted, made_by, events, named)
        if found.kind == "numbers" and "output" in made_by:
            made_by["output"] = None
        return tuple(_table(made_by, where)), where

    def _departure(
        self,
        wanted: Mapping[str, Tensor],
        made_by: Mapping[str, Event | None],
        events: list[Event],
        named: _Named | None,
    ) -> Where | None:
        if named is not None and named.value is not None and named.step is not None:
            event = _maker(named.value, events)
            if event is not None and event.line is not None:
                want = wanted.get(named.step)
                factor = None if want is None else factor_of(want, named.value)
                relation = "other" if factor is None else "factor"
                line = event.line
                return _where(named.step, relation, line.file, line.number, factor)
        return _after_last_equal(wanted, made_by, events)


def _after_last_equal(
    wanted: Mapping[str, Tensor], made_by: Mapping[str, Event | None], events: list[Event]
) -> Where | None:
    """The operation that follows the last right step."""
    names = list(wanted)
    missing = next((n for n in names if made_by[n] is None), None)
    if missing is None:
        return None
    before = names[: names.index(missing)]
    last = max((e.number for n in before if (e := made_by[n]) is not None), default=-1)
    later = [e for e in events if e.number > last and e.writes]
    alike = [e for e in later if e.values[0].numel() == wanted[missing].numel()]
    first = next(iter(alike or later), None)
    if first is None or first.line is None:
        return None
    event = [e for e in alike or later if e.line == first.line][-1]
    factor = factor_of(wanted[missing], event.values[0]) if alike else None
    relation = "other" if factor is None else "factor"
    return _where(missing, relation, first.line.file, first.line.number, factor)


def _mistakes(task: Task) -> Iterator[tuple[Answer, Mistake]]:
    for answer in task.answers:
        for mistake in answer.mistakes:
            yield answer, mistake


def _all_close(want: tuple[object, ...], have: tuple[object, ...], tolerance: float) -> bool:
    """Whether two results hold the same numbers."""
    if len(want) != len(have):
        return False
    for a, b in zip(want, have, strict=True):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            if a.dtype != b.dtype or not is_close(a, b, tolerance):
                return False
        elif type(a) is not type(b) or a != b:
            return False
    return True


def solution_file(task: Task) -> str:
    """The name under which the lines of a solution are known."""
    return f"<solution of {task.base}>"


def _maker(want: Tensor, events: Iterable[Event]) -> Event | None:
    """The first operation that makes these numbers, in any order of axes."""
    ordered = want.double().flatten().sort().values
    for event in events:
        x = event.values[0]
        if x.numel() != want.numel() or not x.is_floating_point():
            continue
        flat = x.double().flatten()
        if is_close(ordered, flat.sort().values, _CLOSE) and _is_arranged(want.double(), flat):
            return event
    return None


def _is_arranged(want: Tensor, flat: Tensor) -> bool:
    """Whether numbers are those of a tensor in some order of its axes."""
    slim = want.reshape([n for n in want.shape if n != 1] or [1])
    orders = itertools.permutations(range(slim.dim()))
    return any(is_close(slim.permute(o).flatten(), flat, _CLOSE) for o in orders)


def _table(made_by: Mapping[str, Event | None], where: Where | None) -> Iterator[Step]:
    for name, event in made_by.items():
        if where is not None and name == where.step:
            yield Step(step=name, status="departs", relation=where.relation, line=where.line)
        elif event is not None:
            line = event.line.number if event.line else None
            yield Step(step=name, status="equal", line=line, gap=0.0)
        else:
            yield Step(step=name, status="not seen")


def _where(
    step: str, relation: str, file: str | None, line: int | None, factor: float | None = None
) -> Where:
    code = linecache.getline(file, line).strip() if file and line else ""
    return Where(step=step, relation=relation, file=file, line=line, code=code, factor=factor)


def _finding(
    found: Difference, says: str, where: Where | None, *, fault: str | None = None, fix: str = ""
) -> Finding:
    evidence = dict(found.evidence)
    if where is not None and where.factor is not None:
        if "factor" not in evidence:
            says += f"; your {where.step} are {where.factor:.4g} times what they should be"
        evidence["factor"] = where.factor
        if where.step == "scores":
            head_dim = found.case.size("d")
            says += f" (the head width is {head_dim}, its square root {head_dim**0.5:.4g})"
    if found.case.number:
        evidence["call"] = str(found.case)
    return Finding(
        fault=fault,
        check=found.kind,
        severity="error",
        says=says,
        where=where,
        evidence=evidence,
        fix=fix,
    )
