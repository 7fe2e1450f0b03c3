"""The calls that a task makes: sizes, dtypes and kinds of numbers, and how arguments are drawn.

An argument is described in words: a kind, then its axes or values.

    float B H T d      normal numbers
    weights B H T S    positive, each row sums to one
    allowed T S        bool, True = may attend; each row has at least one True
    some B T S         as allowed, and some rows have no True
    padding B S        bool, True = padding; each row has at least one False
    int H, int 0 2 9   a size, or each of the values in turn
    number 0.5 2.0     each of the values in turn
    flag               True and False in turn
    lengths B          lengths of sequences, from 1 to T
    maybe KIND ...     None in every third call
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_SIZES: tuple[dict[str, int], ...] = (
    {"B": 2, "H": 6, "G": 3, "T": 5, "S": 7, "d": 4},
    {"B": 3, "H": 2, "G": 1, "T": 6, "S": 6, "d": 8},
    {"B": 1, "H": 1, "G": 1, "T": 1, "S": 1, "d": 2},
    {"B": 1, "H": 3, "G": 3, "T": 4, "S": 9, "d": 2},
    {"B": 5, "H": 4, "G": 2, "T": 9, "S": 3, "d": 6},
    {"B": 2, "H": 2, "G": 2, "T": 2, "S": 2, "d": 2},
    {"B": 9, "H": 1, "G": 1, "T": 3, "S": 4, "d": 10},
    {"B": 1, "H": 4, "G": 2, "T": 1, "S": 8, "d": 4},
)
_LONG = {"B": 1, "H": 2, "G": 1, "T": 90, "S": 130, "d": 4}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call."""

    sizes: Mapping[str, int]
    """Sizes by letter; D is H times d."""
    number: int = 0
    """Seed, and which of listed values is used."""
    dtype: torch.dtype = torch.float64
    """Of floating-point inputs and parameters."""
    is_contiguous: bool = True
    """Whether inputs are laid out in the order of their axes."""
    factor: float = 1.0
    """What floating-point inputs are multiplied by."""
    has_gradients: bool = False
    """Whether gradients are compared too."""
    is_training: bool = False
    """Whether modules are in training mode."""

    def size(self, letter: str) -> int:
        """The size of an axis, or a number written out."""
        if letter == "D":
            return self.sizes["H"] * self.sizes["d"]
        return int(letter) if letter.isdigit() else self.sizes[letter]

    @property
    def tolerance(self) -> float:
        """Largest difference as a fraction of the largest number.

        Inner steps in float32 are right; large inputs magnify their rounding.
        """
        if self.factor > 1:
            return 2e-2 if self.factor > 10 else 1e-4
        return 2e-5 if self.dtype == torch.float64 else 2e-4

    def __str__(self) -> str:
        """What is special about it, in a few words."""
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        special = [
            *(["float32"] if self.dtype == torch.float32 else []),
            *([] if self.is_contiguous else ["inputs that are not contiguous"]),
            *([f"inputs of size {self.factor:g}"] if self.factor not in (0.0, 1.0) else []),
            *(["inputs that are zero"] if self.factor == 0.0 else []),
            *(["training mode"] if self.is_training else []),
        ]
        return "; ".join([sizes, *special])


def cases() -> tuple[Case, ...]:
    """All calls, the plainest first; the first is repeated at the end."""
    first, *rest = _SIZES
    return (
        Case(sizes=first, has_gradients=True),
        Case(sizes=first, number=1, has_gradients=True),
        *(Case(sizes=s, number=2 + i, has_gradients=True) for i, s in enumerate(rest)),
        Case(sizes=first, number=10, dtype=torch.float32),
        Case(sizes=first, number=11, is_contiguous=False, has_gradients=True),
        Case(sizes=rest[0], number=12, is_contiguous=False),
        Case(sizes=first, number=13, factor=100.0),
        Case(sizes=rest[0], number=14, factor=0.0),
        Case(sizes=first, number=15, is_training=True),
        Case(sizes=_LONG, number=16),
        Case(sizes=first, number=17, factor=5.0),
        Case(sizes=first, has_gradients=True),
    )


def draw(arguments: Mapping[str, str], case: Case) -> dict[str, object]:
    """Draw the arguments of a call; the same case always gives the same numbers."""
    generator = torch.Generator().manual_seed(1000 + case.number)
    return {name: _drawn(words.split(), case, generator) for name, words in arguments.items()}


def _drawn(words: list[str], case: Case, generator: torch.Generator) -> object:
    kind, *rest = words
    if kind == "maybe":
        return None if case.number % 3 == 2 else _drawn(rest, case, generator)
    if kind == "flag":
        return case.number % 2 == 0
    if kind in ("int", "number"):
        value = rest[case.number % len(rest)]
        return float(value) if kind == "number" else case.size(value)
    shape = [case.size(letter) for letter in rest]
    if kind == "lengths":
        return torch.randint(1, case.size("T") + 1, shape, generator=generator)
    if kind in ("float", "weights"):
        return _numbers(kind, shape, case, generator)
    allowed = _allowed(shape, generator)
    if kind == "some":
        allowed &= torch.rand(shape[:-1], generator=generator)[..., None] < 0.7
    return ~allowed if kind == "padding" else allowed


def _allowed(shape: list[int], generator: torch.Generator) -> Tensor:
    """Random True and False, with a True in each row."""
    allowed = torch.rand(shape, generator=generator) < 0.6
    one = torch.randint(shape[-1], shape[:-1], generator=generator)[..., None]
    return allowed.scatter(-1, one, True)


def _numbers(kind: str, shape: list[int], case: Case, generator: torch.Generator) -> Tensor:
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    x = x.softmax(-1) if kind == "weights" else x * case.factor
    x = x.to(case.dtype)
    if case.is_contiguous or x.dim() < 2:
        return x
    order = [*reversed(range(x.dim()))]
    return x.permute(order).contiguous().permute(order)
