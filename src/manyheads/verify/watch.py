"""Records what a subject computes: every operation, its numbers, and the line that asked for it.

A dispatch mode sees each operation below autograd, also those inside
`F.multi_head_attention_forward` and inside library code. Nothing is seen of code that torch does
not dispatch, such as compiled kernels; then there are no events, and the subject is judged by its
outputs alone. Subjects written in NumPy are watched through `arrays`.
"""

import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Place = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Where a tensor lies: storage, offset, sizes, strides."""

_HERE = str(Path(__file__).parent)
LIBRARIES = (
    *dict.fromkeys(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    str(Path(torch.__file__).parent.parent),
    "<",
)
"""Where files begin that are not the subject's."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of source code."""

    file: str
    """Path of the file."""
    number: int
    """Counted from 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """One operation."""

    number: int
    """Place in the order of operations."""
    op: str
    """Its name, without the overload."""
    func: Callable[..., Any]
    """The operation."""
    args: tuple[Any, ...]
    """What it was given; a tensor may have changed since."""
    keywords: dict[str, Any]
    """What it was given by name."""
    out: tuple[Tensor, ...]
    """Its results, which may have changed since."""
    values: tuple[Tensor, ...]
    """The numbers of the results at that time."""
    given: tuple[Tensor, ...]
    """The numbers of the tensors it was given, in the order of `tensors_in`."""
    line: Line | None
    """The line of the subject that asked for it; None if it cannot be told."""
    writes: bool
    """Whether it made new numbers; False for views."""


def tensors_in(*values: object) -> Iterator[Tensor]:
    """All tensors in values, lists and tuples, in order."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(*value)


def storage_of(x: Tensor) -> int:
    """A number for the memory in which a tensor lies."""
    return int(x.untyped_storage()._cdata)


def place_of(x: Tensor) -> Place:
    """Where a tensor lies."""
    return storage_of(x), int(x.storage_offset()), tuple(x.shape), tuple(x.stride())


Maker = tuple[int, int]
"""The number of an operation, and which of its results is meant."""


class Links:
    """From which operations the numbers that each one reads come.

    Args:
        events: operations in order.
    """

    def __init__(self, events: Iterable["Event"]) -> None:
        self._last: dict[Place, Maker] = {}
        self._writes: dict[int, list[Maker]] = {}
        self.parents: dict[int, list[Maker]] = {}
        for event in events:
            given = tensors_in(*event.args, *event.keywords.values())
            self.parents[event.number] = sorted({m for x in given for m in self.makers_of(x)})
            for i, x in enumerate(event.out):
                self._last[place_of(x)] = event.number, i
                if event.writes:
                    self._writes.setdefault(storage_of(x), []).append((event.number, i))

    def maker(self, x: Tensor) -> int | None:
        """The operation that made a tensor as it lies in memory."""
        made = self._last.get(place_of(x))
        return None if made is None else made[0]

    def makers_of(self, x: Tensor) -> list[Maker]:
        """The operation that made a tensor, and those that have changed its memory since."""
        made = self._last.get(place_of(x))
        later = [w for w in self._writes.get(storage_of(x), []) if made is None or w > made]
        return ([] if made is None else [made]) + later


class Recorder(TorchDispatchMode):
    """Records the operations of a call.

    Args:
        own_files: files whose lines are the subject's, besides all files outside of libraries.
    """

    def __init__(self, own_files: Iterable[str] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.own_files = frozenset(own_files)
        self.events: list[Event] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch is to load its compiler, which takes seconds, to keep it away from us."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - torch's own
        types: Any,  # noqa: ANN401 - torch's own
        args: Any = (),  # noqa: ANN401 - torch's own
        kwargs: Any = None,  # noqa: ANN401 - torch's own
    ) -> Any:  # noqa: ANN401 - torch's own
        """Do the operation and record it."""
        keywords = kwargs or {}
        given = tuple(_snapshot(x) for x in tensors_in(*args, *keywords.values()))
        before = {storage_of(x) for x in tensors_in(*args, *keywords.values())}
        result = func(*args, **keywords)
        out = tuple(tensors_in(result))
        mutates = func._schema.is_mutable
        self.events.append(
            Event(
                number=len(self.events),
                op=func._schema.name.removeprefix("aten::"),
                func=func,
                args=tuple(_frozen(value) for value in args),
                keywords={name: _frozen(value) for name, value in keywords.items()},
                out=tuple(x.detach() for x in out),
                values=tuple(_snapshot(x) for x in out),
                given=given,
                line=self._line(sys._getframe(1)),
                writes=mutates or any(storage_of(x) not in before for x in out),
            )
        )
        return result

    def _line(self, frame: FrameType | None) -> Line | None:
        """The innermost line of the user's own code, else of the subject's file."""
        while frame is not None and not frame.f_code.co_filename.startswith(_HERE):
            file = frame.f_code.co_filename
            if file in self.own_files or not file.startswith(LIBRARIES):
                return Line(file=file, number=frame.f_lineno)
            frame = frame.f_back
        return None


def _frozen(value: object) -> object:
    """An argument whose tensors keep their shape when the subject changes it in place."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, list | tuple):
        return type(value)(_frozen(item) for item in value)
    return value


def _snapshot(x: Tensor) -> Tensor:
    return x.detach().clone()


@dataclass(frozen=True, kw_only=True, eq=False)
class Watched:
    """A call and what was seen of it."""

    answer: object
    """What the call returned; None if it raised."""
    raised: Exception | None
    """What it raised, if anything."""
    events: list[Event] = field(default_factory=list)
    """Its operations in order."""


def watch(call: Callable[[], object], own_files: Iterable[str] = ()) -> Watched:
    """Call something and record its operations.

    Args:
        call: without arguments; runs with gradients recorded, so that torch takes no fast path.
        own_files: files whose lines are shown, besides all files outside of libraries.
    """
    recorder = Recorder(own_files)
    try:
        with torch.enable_grad(), recorder:
            answer = call()
    except Exception as error:
        return Watched(answer=None, raised=error, events=recorder.events)
    return Watched(answer=answer, raised=None, events=recorder.events)
