"""Compares the operations of a watched call with the steps of the formula, and finds the line.

A step is equal if some result of the call holds its numbers, whatever the order of axes. The first
operation that makes something else out of equal numbers is where the subject departs.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.verify.findings import Step, Where
from manyheads.verify.quantities import Wanted, joins_axes, ordered, relation_of
from manyheads.verify.stages import Stages
from manyheads.verify.structure import Structure
from manyheads.verify.watch import Event, Line, Place, place_of, storage_of, tensors_in

STEPS = (
    *("q", "k", "v", "scores", "masked_scores", "attn_weights"),
    *("head_outputs", "concat", "output"),
)
"""The steps of the formula, in order."""


_PRODUCTS = {"bmm", "mm", "baddbmm", "sum", "mv", "dot"}
_NAMES = {
    "input": "",
    **{f"projected {name}": name for name in "qkv"},
    **{f"{name} before its bias": name for name in "qkv"},
    "rotated": "q",
    "products": "scores",
    "output before its bias": "output",
}
"""The step to which further quantities belong."""
_RANKS = {
    "input": 0,
    **{name: 1 for name, step in _NAMES.items() if step in ("q", "k", "v")},
    **dict.fromkeys("qkv", 1),
    "products": 2,
    "scores": 3,
    "masked_scores": 4,
    "attn_weights": 5,
    "head_outputs": 6,
    "concat": 7,
    "output before its bias": 8,
    "output": 9,
}
"""How far along the formula a quantity is."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Located:
    """Where a call departs from the formula."""

    steps: tuple[Step, ...]
    """Every step, equal or not."""
    where: Where | None
    """The first step that departs; None if it cannot be told."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """One entry of that step: its place, expected and found."""


def _pieces(x: Tensor, problem: Problem) -> Iterator[Tensor]:
    """What a cached call makes of rows of all positions, piece by piece."""
    start = 0
    for length in problem.chunks if len(problem.chunks) > 1 else ():
        stop = start + length
        if x.shape[-2] == sum(problem.chunks):
            yield x[..., start:stop, :]
            if start:
                yield x[..., :stop, :]
        start = stop


def _parts(x: Tensor) -> Iterator[Tensor]:
    """What loops over samples or heads make of a quantity, part by part."""
    if x.shape[0] > 1:
        yield from x
    if x.dim() == 4 and x.shape[1] > 1:
        yield from x.unbind(1)
        yield from x.flatten(0, 1)


def steps_of(problem: Problem) -> dict[str, list[Tensor]]:
    """The numbers of each step of the formula."""
    stages = Stages()
    with torch.no_grad():
        stages.run(problem)
    return stages.kept


class Locator:
    """Compares one watched call with the formula.

    Args:
        structure: the operations.
        problem: what was put to the subject.
        output: the tensor that the subject returned.
        tolerance: largest relative difference of equal numbers.
        steps: the numbers to compare with, by step; those of the formula unless given.
    """

    def __init__(
        self,
        structure: Structure,
        problem: Problem,
        output: Tensor,
        tolerance: float,
        *,
        steps: Mapping[str, Sequence[Tensor]] | None = None,
    ) -> None:
        self.structure, self.output = structure, output
        self.events = structure.events
        self.tolerance = max(tolerance, 1e-9)
        kept = steps_of(problem) if steps is None else steps
        every = [(n, x) for n, parts in kept.items() for x in parts]
        every += [(n, x) for n, whole in every for x in _pieces(whole, problem)]
        sizes = {value.numel() for event in self.events for value in event.values}
        every += [(n, x) for n, whole in every for x in _parts(whole) if x.numel() in sizes]
        self.wanted = [Wanted(n, x) for n, x in every]
        self.labels: dict[int, dict[str, str]] = {}
        self.parents: dict[int, list[int]] = {}
        self.peaks: dict[int, int] = {}

    def locate(self) -> Located:
        """All steps, and the first that departs."""
        self._label()
        self._link()
        found = self._departing()
        if found is None:
            return Located(steps=tuple(self._steps(None)), where=None)
        where = self._where(found)
        entry = self._entry(found, where.step)
        return Located(steps=tuple(self._steps(where)), where=where, entry=entry)

    def _label(self) -> None:
        """Which quantities each result holds."""
        by_size: dict[int, list[Wanted]] = {}
        for wanted in self.wanted:
            by_size.setdefault(wanted.value.numel(), []).append(wanted)
        for event in self.events:
            found: dict[str, str] = {}
            for value in event.values:
                if value.is_floating_point() and value.numel() > 1:
                    self._label_value(value.double(), by_size.get(value.numel(), ()), found)
            if found:
                self.labels[event.number] = found

    def _label_value(self, x: Tensor, every: Sequence[Wanted], found: dict[str, str]) -> None:
        """Which quantities of its size one result holds."""
        mine = ordered(x)
        for wanted in every:
            if found.get(wanted.name) == "equal":
                continue
            relation = relation_of(x, mine, wanted, self.tolerance)
            if relation is not None:
                found[wanted.name] = relation

    def _is_good(self, number: int) -> bool:
        """Whether a result is a step, and no earlier one than what it is made of."""
        return self._least(number, self._before(number)) is not None

    def _before(self, number: int) -> int:
        """How far the numbers that an operation reads have come."""
        return max((self.peaks.get(p, -1) for p in self.parents[number]), default=-1)

    def _least(self, number: int, least: int) -> int | None:
        """The earliest step that a result can be, from a given one on."""
        labels = self.labels.get(number, {})
        ranks = [_RANKS[n] for n, r in labels.items() if r == "equal" and _RANKS[n] >= least]
        return min(ranks, default=None)

    def _link(self) -> None:
        """From which operations each one's numbers come."""
        last: dict[Place, int] = {}
        writes: dict[int, list[int]] = {}
        for event in self.events:
            mine: list[int] = []
            for x in tensors_in(*event.args, *event.keywords.values()):
                made = last.get(place_of(x))
                later = [w for w in writes.get(storage_of(x), []) if made is None or w > made]
                mine += ([made] if made is not None else []) + later
            self.parents[event.number] = sorted(set(mine))
            for x in event.out:
                last[place_of(x)] = event.number
                if event.writes:
                    writes.setdefault(storage_of(x), []).append(event.number)
        self.last, self.writes = last, writes
        for event in self.events:
            before = self._before(event.number)
            least = self._least(event.number, before)
            self.peaks[event.number] = before if least is None else least

    def _end(self) -> int | None:
        """The operation that made the output."""
        made = self.last.get(place_of(self.output))
        later = self.writes.get(storage_of(self.output), [])
        numbers = ([made] if made is not None else []) + [
            w for w in later if made is None or w > made
        ]
        return max(numbers) if numbers else None

    def _is_data(self, event: Event) -> bool:
        return any(storage_of(x) in self.structure.data for x in event.out)

    def _is_made(self, event: Event) -> bool:
        """Whether a result is made of the input, and not a constant such as zeros to fill."""
        is_made_of_any = any(True for _ in tensors_in(*event.args, *event.keywords.values()))
        return is_made_of_any and self._is_data(event)

    def _departing(self) -> Event | None:
        """The first operation that makes other numbers although all it is made of is right."""
        end = self._end()
        if end is None:
            return None
        seen: set[int] = set()
        waiting, found = [end], []
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            if self._is_good(number) and number != end:
                continue
            parents = [p for p in self.parents[number] if self._is_made(self.events[p])]
            bad = [p for p in parents if not self._is_good(p)]
            if not bad:
                found.append(number)
            waiting += bad
        for number in sorted(found):
            if not self._is_harmless(number, seen):
                return self._masking(self.events[number])
        return self._masking(self.events[sorted(found)[0]]) if found else None

    def _masking(self, event: Event) -> Event:
        """The masking before an operation, if that hid nothing and so seems to be right."""
        is_hiding = any(w.name == "masked_scores" and w.value.isinf().any() for w in self.wanted)
        for number in self.parents[event.number] if is_hiding else ():
            made = self.events[number]
            labels = self.labels.get(number, {})
            is_masking = made.op.rstrip("_") in ("masked_fill", "where", "add")
            if is_masking and labels.get("scores") == "equal" and "masked_scores" not in labels:
                return made
        return event

    def _is_harmless(self, number: int, bad: set[int]) -> bool:
        """Whether what is made of an operation becomes right again, as in a softmax by hand."""
        later = [n for n, parents in self.parents.items() if number in parents and n in bad]
        return not later and number != self._end()

    def _steps(self, where: Where | None) -> Iterator[Step]:
        """The table of steps; the one that was located departs, even if it was right before."""
        names = {w.name for w in self.wanted}
        for step in STEPS:
            if step not in names:
                continue
            if where is not None and where.step == step:
                yield Step(step=step, status="departs", relation=where.relation, line=where.line)
                continue
            equal = (e for e in self.events if self.labels.get(e.number, {}).get(step) == "equal")
            first = next(equal, None)
            if first is None:
                yield Step(step=step, status="not seen")
            else:
                line = first.line.number if first.line else None
                yield Step(step=step, status="equal", line=line, gap=0.0)

    def _step_of(self, event: Event) -> str:
        """The step that an operation should have made."""
        have: set[str] = set()
        for parent in self.parents[event.number]:
            have |= {n for n, r in self.labels.get(parent, {}).items() if r == "equal"}
        arranged = [n for n, r in self.labels.get(event.number, {}).items() if r == "arrangement"]
        names = [w.name for w in self.wanted]
        if arranged:
            step = _NAMES.get(arranged[0], arranged[0])
            return "concat" if step == "head_outputs" and "concat" in names else step
        steps = {_NAMES.get(n, n) for n in have} & set(STEPS)
        if not steps:
            return self._first_missing()
        latest = max(steps, key=STEPS.index)
        op = event.op.rstrip("_")
        if latest in ("q", "k", "v"):
            return "scores" if op in _PRODUCTS else latest
        if op in ("masked_fill", "where") and steps & {"scores", "masked_scores"}:
            return "scores" if self._lacks_scale(event) else "masked_scores"
        if latest == "scores":
            if self._lacks_scale(event) or "scores" not in have:
                return "scores"
            return "masked_scores" if "masked_scores" in names else "attn_weights"
        following = [s for s in STEPS[STEPS.index(latest) + 1 :] if s in names]
        return following[0] if following else "output"

    def _equal_steps(self) -> set[str]:
        return {n for labels in self.labels.values() for n, r in labels.items() if r == "equal"}

    def _first_missing(self) -> str:
        equal = self._equal_steps()
        names = {w.name for w in self.wanted}
        return next((s for s in STEPS if s in names and s not in equal), "output")

    def _where(self, event: Event) -> Where:
        step = self._step_of(event)
        relation, factor = self._how(event, step)
        return Where.at(step, relation, self._line(event, step), factor)

    def _line(self, event: Event, step: str) -> Line | None:
        """The line to show: where a mask or index was made, if that is another than its use."""
        if step == "scores" and self._lacks_scale(event):
            return self._made_products(event).line
        if step == "masked_scores" and self._hides_others(event):
            for x in tensors_in(*event.args):
                if storage_of(x) in self.structure.data:
                    continue
                made = self.last.get(place_of(x))
                if made is not None and (line := self.events[made].line) is not None:
                    return line
        number: int | None = event.number
        while number is not None and number < len(self.events):
            if self.events[number].line is not None:
                return self.events[number].line
            later = [n for n, parents in self.parents.items() if number in parents]
            number = min(later) if later else None
        return None

    def _lacks_scale(self, event: Event) -> bool:
        """Whether products go on as they are, without a scale."""
        labels = [self.labels.get(p, {}) for p in self.parents[event.number]]
        has_products = any(found.get("products") == "equal" for found in labels)
        has_scores = any(found.get("scores") == "equal" for found in labels)
        return has_products and not has_scores and event.op not in ("mul", "div", "mul_", "div_")

    def _made_products(self, event: Event) -> Event:
        """The product that an operation reads."""
        for number in reversed(range(event.number)):
            made = self.events[number]
            if made.writes and self.labels.get(number, {}).get("products") == "equal":
                return made
        return event

    def _hides_others(self, event: Event) -> bool:
        """Whether other entries are hidden than in the formula."""
        if event.op.rstrip("_") not in ("masked_fill", "where", "add"):
            return False
        x = self._value(event)
        hidden = {int((w.value < -1e8).sum()) for w in self._targets("masked_scores")}
        if int((x < -1e8).sum()) not in hidden:
            return True
        return any(
            not torch.equal(mine < -1e8, view < -1e8)
            for w in self._targets("masked_scores")
            for mine, view in itertools.islice(self._aligned(x, w), 1)
        )

    def _value(self, event: Event) -> Tensor:
        return event.values[0].double()

    def _targets(self, step: str) -> list[Wanted]:
        found = [w for w in self.wanted if _NAMES.get(w.name, w.name) == step]
        return [w for w in found if w.name != "products"] or found

    def _how(self, event: Event, step: str) -> tuple[str, float | None]:
        """How the numbers differ from those of the step."""
        if "arrangement" in self.labels.get(event.number, {}).values():
            return "arrangement", None
        x = self._value(event)
        if step == "scores" and self._lacks_scale(event):
            return "missing", None
        pairs = [pair for wanted in self._targets(step) for pair in self._aligned(x, wanted)]
        factor = next((f for pair in pairs if (f := _factor(*pair)) is not None), None)
        if factor is not None:
            return "factor", factor
        return ("part" if any(_part(*pair) for pair in pairs) else "other"), None

    def _aligned(self, x: Tensor, wanted: Wanted) -> Iterator[tuple[Tensor, Tensor]]:
        shape = tuple(n for n in x.shape if n != 1) or (1,)
        for view in wanted.views:
            if tuple(view.shape) == shape:
                yield x.reshape(shape), view
            elif joins_axes(tuple(view.shape), shape):
                yield x.flatten(), view.flatten()

    def _entry(self, event: Event, step: str) -> dict[str, Any]:
        """One entry that differs."""
        if step == "scores" and self._lacks_scale(event):
            event = self._made_products(event)
        x = self._value(event)
        for wanted in reversed(self._targets(step)):
            for mine, view in self._aligned(x, wanted):
                gap = (mine - view).abs().nan_to_num(nan=math.inf, posinf=math.inf)
                if not bool((gap > 0).any()):
                    continue
                place = int(gap.flatten().argmax())
                where = [int(i) for i in np.unravel_index(place, tuple(view.shape))]
                return {
                    "entry": where,
                    "expected": float(view.flatten()[place]),
                    "found": float(mine.flatten()[place]),
                }
        return {}


def _factor(x: Tensor, want: Tensor) -> float | None:
    """The one number that takes what is wanted to what is there."""
    finite = torch.isfinite(want)
    if not torch.equal(finite, torch.isfinite(x)):
        return None
    keep = finite & (want.abs() > 1e-6)
    if int(keep.sum()) < 4:
        return None
    ratio = x[keep] / want[keep]
    mean = ratio.mean()
    if float((ratio - mean).abs().max()) > 1e-6 * float(ratio.abs().max()):
        return None
    return float(mean)


def _part(x: Tensor, want: Tensor) -> bool:
    """Whether at least a tenth of the numbers, but not all, are right."""
    same = ((x - want).abs() <= 1e-9 * (1 + want.abs())) | (x == want)
    return 0.1 < float(same.double().mean()) < 1.0


_CHANGES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("heads", "inputs", "project", "split", "cached"), ("q", "k", "v")),
    **dict.fromkeys(("turn", "rotate", "turn_piece"), ("q", "k")),
    "weights": ("q", "k", "v", "output"),
    "group": ("k", "v", "scores", "head_outputs"),
    **dict.fromkeys(("scores", "cap", "add_bias"), ("scores",)),
    **dict.fromkeys(("allowed", "ordered", "masks", "hide"), ("masked_scores", "attn_weights")),
    "softmax": ("attn_weights", "head_outputs"),
    "weigh": ("head_outputs",),
    "merge": ("head_outputs", "concat", "output"),
    **dict.fromkeys(("join", "project_out"), ("concat", "output")),
}
"""The steps at which a change of each method of `Pipeline` can be seen first."""


def changes_step(pipeline: Pipeline, step: str) -> bool:
    """Whether a variant of the formula can depart at a step."""
    changed = {
        name
        for cls in type(pipeline).__mro__
        if issubclass(cls, Pipeline) and cls is not Pipeline
        for name in vars(cls)
        if name in vars(Pipeline) and not name.startswith("_")
    }
    return any(name not in _CHANGES or step in _CHANGES[name] for name in changed)
