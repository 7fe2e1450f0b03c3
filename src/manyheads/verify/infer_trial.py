"""Trial calls of a built subject before it is known how it is called."""

import copy
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import SubjectError
from manyheads.verify.calling import first_line, read_answer
from manyheads.verify.drawing import randomise
from manyheads.verify.infer_names import Stranger, role_of_argument


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


def arguments_of(made: Stranger) -> list[Argument]:
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


def _is_bool(annotation: Stranger) -> bool:
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
    """Trial calls of a copy in one dtype, weights drawn anew, with a limit on time."""

    made: Stranger
    """The copy."""
    dtype: torch.dtype
    """Of parameters and inputs."""
    deadline: float
    """When to stop, by `time.perf_counter`."""
    raised: list[str] = field(default_factory=list)
    """What calls raised, in order."""

    def call(self, *inputs: Stranger, **keywords: Stranger) -> Reply:
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
            self.raised.append(first_line(error))
            return Reply(raised=self.raised[-1])
        output = read_answer(raw)[0]
        return Reply(
            output=output,
            raw=raw,
            raised=None if output is not None else "TypeError: the answer holds no tensor",
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
        raise SubjectError(f"target: cannot be copied or converted: {first_line(error)}") from error
    return Trials(made=copied, dtype=dtype, deadline=time.perf_counter() + seconds)
