"""Runs an implementation in another type, on another device or compiled."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from manyheads.core.text import brief
from manyheads.verify.calling import Callee
from manyheads.verify.gaps import ROUNDING
from manyheads.verify.subject import NoSubjectError

DTYPES = ("float64", "float32", "bfloat16", "float16")
"""Types in which an implementation can be run."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the second implementation is run, besides on the CPU in float64."""

    dtype: str | None = None
    """One of `DTYPES`; the first is then run in float32, or in float64 against float32."""
    device: str | None = None
    """A device of torch, such as "cuda"."""
    is_compiled: bool = False
    """Whether by `torch.compile`."""

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise NoSubjectError(
                f"dtype ({brief(self.dtype)}) is not known: use one of {', '.join(DTYPES)}"
            )

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to set."""
        return self == Setting()

    @property
    def first_dtype(self) -> torch.dtype:
        """The type in which the first is run."""
        return torch.float64 if self.dtype in ("float64", "float32") else torch.float32

    def check_device(self) -> None:
        """See that the device exists. A process that forks later must not ask.

        Raises:
            NoSubjectError: it does not.
        """
        try:
            kind = torch.device(self.device or "cpu").type
        except RuntimeError as error:
            raise NoSubjectError(
                f"device ({brief(self.device or '')}) is not known: use cpu or cuda"
            ) from error
        if kind == "cuda" and not torch.cuda.is_available():
            raise NoSubjectError(
                f"device ({self.device}) does not exist here: torch finds no CUDA device"
            )

    def tolerance(self, plain: float) -> float:
        """Largest gap that rounding explains, where it is `plain` in float64 on the CPU."""
        return plain if self.dtype is None else max(plain, ROUNDING[self.dtype])

    def __str__(self) -> str:
        """In words that follow "run"."""
        words = [f"in {self.dtype}"] if self.dtype else []
        words += [f"on {self.device}"] if self.device else []
        return ", ".join(words + ["compiled"] * self.is_compiled)


def elsewhere(callee: Callee, setting: Setting) -> Callee:
    """The same implementation with the same weights in a setting; results are on the CPU.

    Args:
        callee: on the CPU.
        setting: the type, the device, and whether it is compiled.

    Raises:
        Exception: whatever the module raises when it is converted or moved.
    """
    dtype = callee.dtype if setting.dtype is None else getattr(torch, setting.dtype)
    moved = callee.in_dtype(dtype)
    device = setting.device or "cpu"
    if isinstance(moved.made, nn.Module):
        moved.made.to(device)
    run: Any = moved.made
    if setting.is_compiled:
        from torch._inductor import config

        config.compile_threads = 1  # processes of its own count as the subject's
        run = torch.compile(moved.made, dynamic=True)

    def there(*inputs: object, **keywords: object) -> object:
        given, named = tree_map(lambda x: _moved(x, device), (inputs, keywords))
        return tree_map(lambda x: _moved(x, "cpu"), run(*given, **named))

    placed = Callee(there, callee.subject, dtype)
    placed.arguments = moved.arguments
    return placed


def _moved(x: object, device: str) -> object:
    return x.to(device) if isinstance(x, Tensor) else x
