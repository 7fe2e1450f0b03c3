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

from manyheads.attention.problem import Problem
from manyheads.verify.findings import Step, Where
from manyheads.verify.kinds import (
    fused_allowed,
    has_operand,
    is_fused,
    is_masking,
    is_product,
    is_same_mask,
    is_softmax,
    step_after,
)
from manyheads.verify.quantities import (
    Wanted,
    factor_of,
    is_part,
    joins_axes,
    ordered,
    pieces,
    relation_of,
    slices,
)
from manyheads.verify.stages import Stages
from manyheads.verify.structure import Structure
from manyheads.verify.watch import Event, Line, Links, storage_of, tensors_in

STEPS = (
    *("q", "k", "v", "scores", "masked_scores", "attn_weights"),
    *("head_outputs", "concat", "output"),
)
"""The steps of the formula, in order."""


_NAMES = {
    "input": "",
    **{f"projected {name}": name for name in "qkv"},
    **{f"{name} before its bias": name for name in "qkv"},
    "rotated": "q",
    "products": "scores",
    "exponents": "attn_weights",
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
    "exponents": 5,
    "attn_weights": 6,
    "head_outputs": 7,
    "concat": 8,
    "output before its bias": 9,
    "output": 10,
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
        self.structure, self.problem, self.output = structure, problem, output
        self.events = structure.events
        self.tolerance = max(tolerance, 1e-9)
        kept = steps_of(problem) if steps is None else steps
        every = [(n, x) for n, parts in kept.items() for x in parts]
        every += [(n, x) for n, whole in every for x in pieces(whole, problem)]
        sizes = {value.numel() for event in self.events for value in event.values}
        every += [(n, part) for n, x in every for part in slices(n, x, sizes)]
        self.wanted = [Wanted(n, x) for n, x in every]
        self.by_size: dict[int, list[Wanted]] = {}
        for wanted in self.wanted:
            self.by_size.setdefault(wanted.value.numel(), []).append(wanted)
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
        for event in self.events:
            found: dict[str, str] = {}
            for value in event.values:
                if value.is_floating_point() and value.numel() > 1:
                    self._compare(value.double(), found)
            if self._is_joined_in_other_order(event, found):
                found["head_outputs"] = "arrangement"
            if found:
                self.labels[event.number] = found

    def _compare(self, x: Tensor, found: dict[str, str]) -> None:
        """Add what quantities a tensor holds."""
        numbers = ordered(x)
        for wanted in self.by_size.get(x.numel(), ()):
            if found.get(wanted.name) != "equal":
                same = relation_of(x, numbers, wanted, self.tolerance)
                if same is not None:
                    found[wanted.name] = same

    def _is_joined_in_other_order(self, event: Event, found: dict[str, str]) -> bool:
        """Whether a result holds joined heads, but not one head after the other."""
        if found.get("head_outputs") != "equal" or found.get("concat") != "arrangement":
            return False
        widths = {w.value.shape[-1] for w in self.wanted if w.name == "concat"}
        return event.values[0].dim() < 4 and event.values[0].shape[-1] in widths

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
        self.links = Links(self.events)
        self.parents = {n: sorted({p for p, _ in m}) for n, m in self.links.parents.items()}
        for event in self.events:
            before = self._before(event.number)
            least = self._least(event.number, before)
            self.peaks[event.number] = before if least is None else least

    def _end(self) -> int | None:
        """The operation that made the output."""
        numbers = [number for number, _ in self.links.makers_of(self.output)]
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
        have = self._reads(event)
        arranged = [n for n, r in self.labels.get(event.number, {}).items() if r == "arrangement"]
        names = {w.name for w in self.wanted}
        if arranged:
            step = _NAMES.get(arranged[0], arranged[0])
            return "concat" if step == "head_outputs" and "concat" in names else step
        steps = {_NAMES.get(n, n) for n in have} & set(STEPS)
        if not steps:
            return self._first_missing()
        latest = max(steps, key=STEPS.index)
        if is_fused(event):
            return self._step_of_fused(event)
        if latest in ("scores", "masked_scores"):
            return self._after_scores(event, have)
        following = step_after(event, latest, self._is_scaled(event, latest))
        return following if following in names else "output"

    def _reads(self, event: Event) -> set[str]:
        """The quantities of the formula that an operation is given."""
        found: dict[str, str] = {}
        for x in event.given:
            if x.is_floating_point() and x.numel() > 1:
                self._compare(x.double(), found)
        return {name for name, same in found.items() if same == "equal"}

    def _is_scaled(self, event: Event, step: str) -> bool:
        """Whether an operation multiplies all numbers of a step by one."""
        x = self._value(event)
        return any(
            factor_of(*pair) is not None
            for wanted in self._targets(step)
            for pair in itertools.islice(self._aligned(x, wanted), 2)
        )

    def _after_scores(self, event: Event, have: set[str]) -> str:
        """The step that an operation on scores should have made."""
        if self._lacks_scale(event) or not have & {"scores", "masked_scores"}:
            return "scores"
        is_masked = "masked_scores" not in have
        if is_softmax(event):
            return "masked_scores" if is_masked else "attn_weights"
        if is_product(event):
            return "attn_weights"
        if self._is_scaled(event, "scores"):
            return "scores"
        hides = is_masking(event) or (is_masked and has_operand(event))
        return "masked_scores" if hides else "scores"

    def _step_of_fused(self, event: Event) -> str:
        """The first step that a fused kernel does in another way than the formula."""
        whole = next((w.value for w in self.wanted if w.name == "masked_scores"), None)
        allowed = fused_allowed(event)
        if whole is not None and not is_same_mask(allowed, whole > -1e8):
            return "masked_scores"
        scale = event.keywords.get("scale")
        usual = event.given[0].shape[-1] ** -0.5
        is_scaled = abs((usual if scale is None else scale) / self.problem.scale - 1) < 1e-6
        return "head_outputs" if is_scaled else "scores"

    def _equal_steps(self) -> set[str]:
        return {n for labels in self.labels.values() for n, r in labels.items() if r == "equal"}

    def _first_missing(self) -> str:
        equal = self._equal_steps()
        names = {w.name for w in self.wanted}
        return next((s for s in STEPS if s in names and s not in equal), "output")

    def _where(self, event: Event) -> Where:
        step = self._step_of(event)
        how, factor = self._how(event, step)
        return Where.at(step, how, self._line(event, step), factor)

    def _line(self, event: Event, step: str) -> Line | None:
        """The line to show: where a mask or index was made, if that is another than its use."""
        if step == "scores" and self._lacks_scale(event):
            return self._made_products(event).line
        if step == "masked_scores" and self._hides_others(event):
            for x in tensors_in(*event.args):
                if storage_of(x) in self.structure.data:
                    continue
                made = self.links.maker(x)
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
        if self._is_left_out(event, step):
            return "missing", None
        if step == "scores" and (scaled := self._scaled_factor(x)) is not None:
            return "factor", scaled
        pairs = [pair for wanted in self._targets(step) for pair in self._aligned(x, wanted)]
        factor = next((f for pair in pairs if (f := factor_of(*pair)) is not None), None)
        if factor is not None:
            return "factor", factor
        return ("part" if any(is_part(*pair) for pair in pairs) else "other"), None

    def _is_left_out(self, event: Event, step: str) -> bool:
        """Whether an operation is already the next step."""
        if step == "scores":
            return self._lacks_scale(event)
        if step == "masked_scores":
            return is_softmax(event) or (is_fused(event) and bool(fused_allowed(event).all()))
        return step == "attn_weights" and is_product(event)

    def _scaled_factor(self, x: Tensor) -> float | None:
        """The factor of scores if x are queries or keys that were multiplied by another scale."""
        for wanted in self.wanted:
            if wanted.name not in ("q", "k"):
                continue
            for pair in self._aligned(x, wanted):
                factor = factor_of(*pair)
                if factor is not None:
                    ratio = factor / self.problem.scale
                    return factor if abs(ratio - 1) < 1e-6 else ratio
        return None

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
