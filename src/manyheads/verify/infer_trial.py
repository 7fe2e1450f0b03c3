"""What a call accepts, found by trying it, and adapters for calls that need more than inputs."""

import copy
import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.positions import rotary_angles
from manyheads.core.config import Rotary
from manyheads.core.errors import SubjectError
from manyheads.verify.calling import randomise, read_answer
from manyheads.verify.findings import short
from manyheads.verify.infer_names import Target, role_of_argument


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of the call."""

    name: str
    """Its name."""
    role: str
    """What it is for, by its name."""
    required: bool
    """Whether it has no default."""
    default: Any = None
    """Its default."""
    is_keyword: bool = False
    """Whether it can only be given by name."""


def arguments_of(made: Target) -> list[Argument]:
    """The arguments of a call, those with stars left out.

    Raises:
        SubjectError: they cannot be read.
    """
    called = made.forward if isinstance(made, nn.Module) else made
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError) as error:
        raise SubjectError(
            f"target: the arguments of {made!r} cannot be read: declare call.form"
        ) from error
    return [
        Argument(
            name=p.name,
            role=role_of_argument(p.name, isinstance(p.default, bool) or _is_bool(p.annotation)),
            required=p.default is p.empty,
            default=None if p.default is p.empty else p.default,
            is_keyword=p.kind is p.KEYWORD_ONLY,
        )
        for p in parameters
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _is_bool(annotation: Target) -> bool:
    return (
        annotation is bool
        or annotation in ("bool", "bool | None", "Optional[bool]")
        or annotation == (bool | None)
    )


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a trial call gave."""

    output: Tensor | None = None
    """The first tensor of the answer."""
    raw: Any = None
    """The whole answer."""
    raised: str | None = None
    """Type and first line of the exception."""


@dataclass(kw_only=True)
class Trials:
    """Trial calls of a copy in one dtype, weights drawn at random, with a limit on time."""

    made: Target
    """The copy."""
    dtype: torch.dtype
    """Of parameters and inputs."""
    deadline: float
    """When to stop, by `time.perf_counter`."""
    raised: list[str] = field(default_factory=list)
    """What calls raised, in order."""

    def call(self, *inputs: Target, **keywords: Target) -> Reply:
        """One call, on copies of the inputs; an exception becomes part of the reply."""
        if time.perf_counter() > self.deadline:
            return Reply(raised="TimeoutError: the trials took too long")
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                raw = self.made(
                    *[x.clone() if isinstance(x, Tensor) else x for x in inputs], **keywords
                )
        except (Exception, SystemExit) as error:
            self.raised.append(short(error))
            return Reply(raised=self.raised[-1])
        output = read_answer(raw)[0]
        return Reply(
            output=output,
            raw=raw,
            raised=None if output is not None else "TypeError: the result has no tensor",
        )

    def draw(self, *shape: int, seed: int = 0) -> Tensor:
        """Random numbers in the working dtype."""
        generator = torch.Generator().manual_seed(3000 + seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(self.dtype)


def trials_of(made: Callable[..., Any], dtype: torch.dtype, seconds: float) -> Trials:
    """Trial calls of a copy.

    Raises:
        SubjectError: it cannot be copied or converted.
    """
    try:
        copied = copy.deepcopy(made) if isinstance(made, nn.Module) else made
        if isinstance(copied, nn.Module):
            copied.eval().to(dtype)
            randomise(copied, 0)
    except (Exception, SystemExit) as error:
        raise SubjectError(f"target: cannot be copied or converted: {short(error)}") from error
    return Trials(made=copied, dtype=dtype, deadline=time.perf_counter() + seconds)


Fill = Callable[[int, int, int, torch.dtype], Any]
"""(batch, length, head width, dtype) to the argument."""


@dataclass(frozen=True, kw_only=True)
class Filler:
    """One argument and how it is made."""

    says: str
    """What it is given, in plain words."""
    make: Mapping[str, Fill]
    """The arguments that are made together, by name."""
    is_rotary: bool = False
    """Whether it is a table for rotary positions."""


def _tables(width: int, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    angles = rotary_angles(Rotary(), width, 0, length, torch.device("cpu"))
    return angles, angles.cos().to(dtype), angles.sin().to(dtype)


def _twice(x: Tensor) -> Tensor:
    return torch.cat((x, x), dim=-1)


def _pair(batch: int, length: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    _, cos, sin = _tables(width, length, dtype)
    return _twice(cos)[None], _twice(sin)[None]


def _flat_pair(batch: int, length: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    _, cos, sin = _tables(width, length, dtype)
    return _twice(cos), _twice(sin)


def _half_pair(batch: int, length: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    _, cos, sin = _tables(width, length, dtype)
    return cos, sin


def _complex(batch: int, length: int, width: int, dtype: torch.dtype) -> Tensor:
    angles, _, _ = _tables(width, length, dtype)
    return torch.polar(torch.ones_like(angles), angles).to(
        torch.complex128 if dtype == torch.float64 else torch.complex64
    )


def _angles(batch: int, length: int, width: int, dtype: torch.dtype) -> Tensor:
    return _tables(width, length, dtype)[0].to(dtype)


def _positions(batch: int, length: int, width: int, dtype: torch.dtype) -> Tensor:
    return torch.arange(length)[None].expand(batch, -1)


def _flat_positions(batch: int, length: int, width: int, dtype: torch.dtype) -> Tensor:
    return torch.arange(length)


def _part(pair: Fill, index: int, *, lead: int = 0) -> Fill:
    def make(batch: int, length: int, width: int, dtype: torch.dtype) -> Tensor:
        part: Tensor = pair(batch, length, width, dtype)[index]
        return part.reshape((1,) * lead + tuple(part.shape))

    return make


def _none(batch: int, length: int, width: int, dtype: torch.dtype) -> None:
    return None


def _zero(batch: int, length: int, width: int, dtype: torch.dtype) -> int:
    return 0


def fillers_for(names: Mapping[str, str]) -> list[list[Filler]]:
    """For each group of arguments that must be given, the ways to make them, likeliest first.

    Args:
        names: role of each argument by its name.
    """
    groups: list[list[Filler]] = []
    rotary = [name for name, role in names.items() if role == "rotary"]
    cosine = next((name for name in rotary if "cos" in name and "sin" not in name), None)
    sine = next((name for name in rotary if "sin" in name and "cos" not in name), None)
    if cosine and sine:
        groups.append(_cos_and_sin(cosine, sine))
        rotary = [name for name in rotary if name not in (cosine, sine)]
    groups += [_rotary(name) for name in rotary]
    for name, role in names.items():
        if role == "ids":
            groups.append(
                [
                    Filler(says="positions 0, 1, 2, ... of each sample", make={name: _positions}),
                    Filler(says="positions 0, 1, 2, ...", make={name: _flat_positions}),
                ]
            )
        elif role == "start":
            groups.append(
                [Filler(says="0", make={name: _zero}), Filler(says="None", make={name: _none})]
            )
        elif role in ("cache", "other", "context"):
            groups.append([Filler(says="None", make={name: _none})])
    return groups


def _cos_and_sin(cosine: str, sine: str) -> list[Filler]:
    says = "cosines and sines of rotary positions"
    ways: list[tuple[Fill, int]] = [
        (_flat_pair, 0),
        (_flat_pair, 1),
        (_half_pair, 0),
        (_flat_pair, 2),
        (_half_pair, 2),
    ]
    return [
        Filler(
            says=says, make={cosine: _part(p, 0, lead=n), sine: _part(p, 1, lead=n)}, is_rotary=True
        )
        for p, n in ways
    ]


def _rotary(name: str) -> list[Filler]:
    ways: dict[str, Fill] = {
        "a pair of cosines and sines of rotary positions (1, T, d)": _pair,
        "a pair of cosines and sines of rotary positions (T, d)": _flat_pair,
        "a pair of cosines and sines of rotary positions (T, d/2)": _half_pair,
        "complex rotary factors (T, d/2)": _complex,
        "rotary angles (T, d/2)": _angles,
    }
    found = [Filler(says=says, make={name: make}, is_rotary=True) for says, make in ways.items()]
    return found[3:] + found[:3] if "cis" in name or "freq" in name or "complex" in name else found


class Adapter(nn.Module):
    """A module or function with the arguments that its call needs beyond its inputs.

    Args:
        inner: what is called.
        makers: how each further argument is made.
        width: head width, for rotary tables.
        axis: which axis of the input counts positions; the other of the first two counts samples.
        by_sample: whether it takes one sample at a time, without a batch axis.
    """

    def __init__(
        self,
        inner: Callable[..., Any],
        makers: Mapping[str, Fill],
        width: int,
        axis: int = 1,
        by_sample: bool = False,
    ) -> None:
        super().__init__()
        self.inner, self.makers, self.width = inner, dict(makers), width
        self.axis, self.by_sample = axis, by_sample

    def __getattr__(self, name: str) -> Target:
        """Whatever is not ours is the inner module's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, *inputs: Target, **keywords: Target) -> Target:
        """Call the inner module with everything that it needs."""
        if self.by_sample:
            return self._each_sample(inputs, keywords)
        first = inputs[0]
        batch, length = (
            first.shape[1 - self.axis] if self.axis < 2 else first.shape[0],
            first.shape[self.axis],
        )
        made = {
            name: make(batch, length, self.width, first.dtype)
            for name, make in self.makers.items()
            if keywords.get(name) is None
        }
        return self.inner(*inputs, **{**keywords, **made})

    def _each_sample(self, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
        outputs = []
        for sample in zip(*inputs, strict=True):
            answer = self.inner(*sample, **keywords)
            outputs.append(answer[0] if isinstance(answer, tuple) else answer)
        return torch.stack(outputs)
