"""What a call accepts, found by trying it, and adapters for calls that need more than inputs."""

import copy
import inspect
import re
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
        parameters = _signature(called).parameters.values()
    except (TypeError, ValueError, SyntaxError) as error:
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


def _signature(called: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; of a built-in one, as the first line of its text says."""
    schema = getattr(called, "schema", None)  # a method of a scripted module
    if schema is not None:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        given = [argument.name for argument in schema.arguments if argument.name != "self"]
        return inspect.Signature([inspect.Parameter(name, kind) for name in given])
    try:
        return inspect.signature(called)
    except ValueError:
        text = (called.__doc__ or "").strip().split("->")[0].strip().rstrip(":")
        names = re.match(r"\w+\((.*)\)$", text.splitlines()[0] if text else "")
        if names is None:
            raise
        parts = [part.split("=") for part in names.group(1).split(",") if part.strip() != "*"]
        return inspect.Signature(
            [
                inspect.Parameter(
                    part[0].split(":")[0].strip(),
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=inspect.Parameter.empty
                    if len(part) == 1
                    else {"False": False, "True": True}.get(part[1].strip()),
                )
                for part in parts
            ]
        )


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
    """Trial calls of a copy in one dtype, weights drawn at random."""

    made: Target
    """The copy."""
    dtype: torch.dtype
    """Of parameters and inputs."""
    raised: list[str] = field(default_factory=list)
    """What calls raised, in order."""

    def call(self, *inputs: Target, **keywords: Target) -> Reply:
        """One call, on copies of the inputs; an exception becomes part of the reply."""
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


def trials_of(made: Callable[..., Any], dtype: torch.dtype) -> Trials:
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
    return Trials(made=copied, dtype=dtype)


Fill = Callable[[int, int, int, torch.dtype], Any]
"""(batch, length, head width, dtype) to the argument."""


@dataclass(frozen=True, kw_only=True)
class Filler:
    """One argument and how it is made."""

    says: str
    """What it is given, in plain words."""
    make: Mapping[str, Fill]
    """The arguments that are made together, by name."""


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


def _neighbours(batch: int, length: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    _, cos, sin = _tables(width, length, dtype)
    return cos.repeat_interleave(2, -1)[None], sin.repeat_interleave(2, -1)[None]


def _half_pair_of_samples(
    batch: int, length: int, width: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    _, cos, sin = _tables(width, length, dtype)
    return cos[None], sin[None]


def _sines_first(batch: int, length: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    cos, sin = _pair(batch, length, width, dtype)
    return sin, cos


def _partial_pair(batch: int, length: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return _pair(batch, length, max(width // 2, 2), dtype)


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


WINDOW = 2
"""The window that is asked for where a call takes one."""


def _window(batch: int, length: int, width: int, dtype: torch.dtype) -> int:
    return WINDOW


def _scale(batch: int, length: int, width: int, dtype: torch.dtype) -> float:
    return float(width**-0.5)


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
        ways = [Filler(says=says, make={name: make}) for says, make in _WAYS.get(role, ())]
        groups += [ways] if ways else []
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
        Filler(says=says, make={cosine: _part(p, 0, lead=n), sine: _part(p, 1, lead=n)})
        for p, n in ways
    ]


def _rotary(name: str) -> list[Filler]:
    ways: dict[str, Fill] = {
        "a pair of cosines and sines of rotary positions (1, T, d)": _pair,
        "a pair of tables (1, T, d), each angle twice in a row": _neighbours,
        "a pair of cosines and sines of rotary positions (T, d)": _flat_pair,
        "a pair of cosines and sines of rotary positions (T, d/2)": _half_pair,
        "a pair of tables (1, T, d/2)": _half_pair_of_samples,
        "a pair of sines and cosines (1, T, d)": _sines_first,
        "a pair of tables (1, T, d) for half of the channels": _partial_pair,
        "complex rotary factors (T, d/2)": _complex,
        "rotary angles (T, d/2)": _angles,
    }
    found = [Filler(says=says, make={name: make}) for says, make in ways.items()]
    return (
        found[-2:] + found[:-2] if "cis" in name or "freq" in name or "complex" in name else found
    )


MANNERS = {
    "by_sample": "one sample per call, without batch axis",
    "BTHD": "(B, T, H, d)",
    "packed": "samples one after the other in one axis, with their cumulative lengths",
    "kqv": "keys, queries, values",
    "kvq": "keys, values, queries",
    "qvk": "queries, values, keys",
    "vkq": "values, keys, queries",
    "vqk": "values, queries, keys",
}
"""How an adapter lays out inputs, in words; three letters are an order of the inputs."""


def _cumulative(batch: int, length: int, width: int, dtype: torch.dtype) -> Tensor:
    return torch.arange(0, batch * length + 1, length, dtype=torch.int32)


def _length(batch: int, length: int, width: int, dtype: torch.dtype) -> int:
    return length


_NOTHING = (("None", _none),)
_WAYS: dict[str, tuple[tuple[str, Fill], ...]] = {
    "ids": (
        ("positions 0, 1, 2, ... of each sample", _positions),
        ("positions 0, 1, 2, ...", _flat_positions),
    ),
    "start": (("0", _zero), ("None", _none)),
    "cumulative": (("cumulative lengths", _cumulative),),
    "longest": (("the length", _length),),
    "window": ((str(WINDOW), _window),),
    "scale": (("1/sqrt(d)", _scale),),
    "dropout": (("0", _zero),),
    **dict.fromkeys(("cache", "other", "context"), _NOTHING),
}
"""How arguments are made, by what they are for."""


class Adapter(nn.Module):
    """A module or function with the arguments that its call needs beyond its inputs.

    Args:
        inner: what is called.
        makers: how each further argument is made.
        width: head width, for rotary tables.
        axis: which axis of the input counts positions; the other of the first two counts samples.
        manner: how inputs are laid out, of `MANNERS`; empty to leave them.
    """

    def __init__(
        self,
        inner: Callable[..., Any],
        makers: Mapping[str, Fill],
        width: int,
        axis: int = 1,
        manner: str = "",
    ) -> None:
        super().__init__()
        self.inner, self.makers, self.width = inner, dict(makers), width
        self.axis, self.manner = axis, manner

    def __getattr__(self, name: str) -> Target:
        """Whatever is not ours is the inner module's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "inner":
                raise
            return getattr(self.inner, name)

    def forward(self, *inputs: Target, **keywords: Target) -> Target:
        """Call the inner module with everything that it needs."""
        first = inputs[0]
        axis = first.dim() - 2 if first.dim() == 4 else self.axis
        batch = first.shape[1 - self.axis] if first.dim() == 3 and self.axis < 2 else first.shape[0]
        made = {
            name: make(batch, first.shape[axis], self.width, first.dtype)
            for name, make in self.makers.items()
            if keywords.get(name) is None
        }
        given = {**keywords, **made}
        if self.manner == "by_sample":
            return self._each_sample(inputs, given)
        if self.manner == "BTHD":
            turned = [x.transpose(1, 2).contiguous() for x in inputs]
            turned_back: Tensor = _first(self.inner(*turned, **given)).transpose(1, 2)
            return turned_back
        if self.manner == "packed":
            return self._packed(inputs, given)
        if self.manner:
            inputs = tuple(inputs["qkv".index(letter)] for letter in self.manner)
        return self.inner(*inputs, **given)

    def _each_sample(self, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
        samples = zip(*inputs, strict=True)
        return torch.stack([_first(self.inner(*sample, **keywords)) for sample in samples])

    def _packed(self, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
        """All samples in one axis: (total, E) or (total, H, d)."""
        heads = inputs[0].dim() == 4
        rows = [(x.transpose(1, 2) if heads else x).flatten(0, 1) for x in inputs]
        out: Tensor = _first(self.inner(*rows, **keywords)).unflatten(0, (inputs[0].shape[0], -1))
        return out.transpose(1, 2) if heads else out


def _first(answer: Any) -> Tensor:  # noqa: ANN401 - whatever a subject returns
    found = read_answer(answer)[0]
    if found is None:
        raise TypeError("the result has no tensor")
    return found
