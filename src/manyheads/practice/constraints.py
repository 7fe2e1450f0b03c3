"""Constraints of tasks, such as "no loop over heads", checked by watching the run.

A loop shows itself because larger sizes take more operations, a T x T tensor by its size, and a
library function by its call. The text of the answer is never read.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from manyheads.practice.case import Case, draw
from manyheads.practice.running import UnmatchedError, called, pair
from manyheads.practice.task import Task
from manyheads.verify.watch import Event, Line, Recorder

_PRODUCTS = {"matmul", "bmm", "mm", "__matmul__", "__rmatmul__", "linear", "baddbmm", "tensordot"}
_PRODUCTS |= {"scaled_dot_product_attention", "multi_head_attention_forward", "mv", "dot", "inner"}
_READY = {"scaled_dot_product_attention", "multi_head_attention_forward"}
_BASE = {"B": 2, "H": 4, "G": 2, "T": 6, "S": 6, "d": 4}
_LONG = {"B": 1, "H": 1, "G": 1, "T": 96, "S": 96, "d": 4}


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What was seen of one call."""

    events: tuple[Event, ...]
    """Operations, in order."""
    calls: tuple[tuple[str, int | None], ...]
    """Names of torch functions, with the line that calls them; inside einsum none are listed."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Whether a constraint was kept."""

    name: str
    """Its name."""
    kept: bool
    """Whether it was."""
    line: int | None = None
    """The line that does not keep it."""
    says: str = field(default="", compare=False)
    """The constraint in words."""


Watch = Callable[[Mapping[str, int]], Seen]


class _Calls(TorchFunctionMode):
    """Records which functions of torch are called."""

    def __init__(self, files: frozenset[str]) -> None:
        super().__init__()
        self.files, self.found, self._depth = files, list[tuple[str, int | None]](), 0

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - torch's own
        types: Any,  # noqa: ANN401 - torch's own
        args: Any = (),  # noqa: ANN401 - torch's own
        kwargs: Any = None,  # noqa: ANN401 - torch's own
    ) -> Any:  # noqa: ANN401 - torch's own
        """Record the function and call it."""
        name = getattr(func, "__name__", "")
        if not self._depth:
            line = _line(sys._getframe(1), self.files)
            self.found.append((name, line.number if line else None))
        self._depth += name == "einsum"
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self._depth -= name == "einsum"


class _Recorder(Recorder):
    """Records operations; only lines of the answer's own files count."""

    def _line(self, frame: FrameType | None) -> Line | None:
        return _line(frame, self.own_files)


def _line(frame: FrameType | None, files: frozenset[str]) -> Line | None:
    while frame is not None:
        if frame.f_code.co_filename in files:
            return Line(file=frame.f_code.co_filename, number=frame.f_lineno)
        frame = frame.f_back
    return None


def observe(
    task: Task,
    reference: Any,  # noqa: ANN401 - a function or class
    learner: Any,  # noqa: ANN401 - a function or class
    case: Case,
    files: frozenset[str],
) -> Seen:
    """Call a learner's answer and record what it does."""
    try:
        _, made = pair(task, reference, learner, case)
    except UnmatchedError:  # its own parameters do as well: only operations are looked at
        made = learner(*(case.size(letter) for letter in task.build)).to(case.dtype)
    arguments = draw(task.arguments, case).values()
    torch.manual_seed(case.number)
    recorder, calls = _Recorder(files), _Calls(files)
    with torch.enable_grad(), calls, recorder:
        called(task)(made, *arguments)
    return Seen(events=tuple(recorder.events), calls=tuple(calls.found))


def _growing(watch: Watch, more: Mapping[str, int]) -> int | None:
    """The line whose operations become more when sizes grow; None where there is none."""
    counts = [
        Counter(e.line.number if e.line else 0 for e in watch(sizes).events if e.writes)
        for sizes in (_BASE, {**_BASE, **more})
    ]
    if counts[1].total() <= counts[0].total():
        return None
    return max(counts[1], key=lambda line: counts[1][line] - counts[0][line])


def _no_head_loop(watch: Watch) -> int | None:
    return _growing(watch, {"H": 12, "G": 6})


def _no_position_loop(watch: Watch) -> int | None:
    return _growing(watch, {"T": 14, "S": 14})


def _no_ready_attention(watch: Watch) -> int | None:
    return next((line or 0 for name, line in watch(_BASE).calls if name in _READY), None)


def _einsum_only(watch: Watch) -> int | None:
    return next((line or 0 for name, line in watch(_BASE).calls if name in _PRODUCTS), None)


def _no_torch(watch: Watch) -> int | None:
    lines = (event.line for event in watch(_BASE).events)
    return next((line.number for line in lines if line is not None), None)


def _no_score_matrix(watch: Watch) -> int | None:
    largest = _LONG["T"] * _LONG["S"] // 2
    for event in watch(_LONG).events:
        if any(x.numel() >= largest for x in event.out):
            return event.line.number if event.line else 0
    return None


def _no_autograd(watch: Watch) -> int | None:
    for event in watch(_BASE).events:
        if "backward" in event.op:
            return event.line.number if event.line else 0
    return None


CONSTRAINTS: dict[str, tuple[str, Callable[[Watch], int | None]]] = {
    "no-head-loop": ("no loop over heads", _no_head_loop),
    "no-position-loop": ("no loop over positions", _no_position_loop),
    "no-ready-attention": (
        "no F.scaled_dot_product_attention and no nn.MultiheadAttention",
        _no_ready_attention,
    ),
    "no-score-matrix": ("no T x S tensor", _no_score_matrix),
    "einsum-only": ("every product with torch.einsum", _einsum_only),
    "no-torch": ("NumPy only, no torch", _no_torch),
    "no-autograd": ("no autograd", _no_autograd),
}
"""What each constraint says, and the line that breaks it: 0 if unknown, None if it is kept."""


def constraints_kept(
    task: Task,
    reference: Any,  # noqa: ANN401 - a function or class
    learner: Any,  # noqa: ANN401 - a function or class
    files: frozenset[str],
) -> tuple[Kept, ...]:
    """Check all constraints of a task on a learner's answer, which is right otherwise."""

    def watch(sizes: Mapping[str, int]) -> Seen:
        return observe(task, reference, learner, Case(sizes=sizes), files)

    found = []
    for name in task.constraints:
        says, breaking = CONSTRAINTS[name]
        line = breaking(watch)
        found.append(Kept(name=name, kept=line is None, line=line or None, says=says))
    return tuple(found)
