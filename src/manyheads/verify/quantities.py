"""Whether a tensor holds the numbers of a quantity, in any order of axes."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor


class Wanted:
    """A quantity, ready to be compared."""

    def __init__(self, name: str, value: Tensor) -> None:
        self.name, self.value = name, value.detach().double()
        self.sorted = ordered(self.value)
        self.views = list(_arrangements(self.value))


def ordered(x: Tensor) -> Tensor:
    """The numbers of a tensor in order."""
    return x.flatten().nan_to_num(nan=0.0, posinf=1e300, neginf=-1e300).sort().values


def _arrangements(x: Tensor) -> Iterator[Tensor]:
    """A tensor in every order of its axes."""
    x = x.reshape([n for n in x.shape if n != 1] or [1])
    for order in itertools.permutations(range(x.dim())):
        yield x.permute(order)


def _is_close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    finite = torch.isfinite(b) & (b > -1e8)
    mine = torch.isfinite(a) & (a > -1e8)
    if not torch.equal(finite, mine):
        return False
    if not bool(finite.any()):
        return False
    size = float(b[finite].abs().max()) or 1.0
    return float((a[finite] - b[finite]).abs().max()) <= tolerance * size


def joins_axes(fine: tuple[int, ...], coarse: tuple[int, ...]) -> bool:
    """Whether joining neighbouring axes of one shape gives the other."""
    i = 0
    for size in coarse:
        product = 1
        while product < size and i < len(fine):
            product *= fine[i]
            i += 1
        if product != size:
            return False
    return i == len(fine)


def relation_of(
    x: Tensor, ordered: Tensor, wanted: Wanted, tolerance: float, *, joins: bool = True
) -> str | None:
    """Whether a tensor is "equal" or an "arrangement"; None if it holds other numbers.

    Args:
        x: the tensor.
        ordered: its numbers in order.
        wanted: what it is compared with.
        tolerance: largest relative difference of equal numbers.
        joins: whether neighbouring axes may be joined.
    """
    if x.numel() != wanted.value.numel():
        return None
    size = float(wanted.sorted.abs().clamp(max=1e8).max()) or 1.0
    gap = (ordered.clamp(-1e8, 1e8) - wanted.sorted.clamp(-1e8, 1e8)).abs().max()
    if float(gap) > tolerance * size:
        return None
    shape = tuple(n for n in x.shape if n != 1) or (1,)
    mine = x.reshape(shape)
    for view in wanted.views:
        sizes = tuple(view.shape)
        if sizes == shape and _is_close(mine, view, tolerance):
            return "equal"
        if (
            joins
            and joins_axes(sizes, shape)
            and _is_close(mine.flatten(), view.flatten(), tolerance)
        ):
            return "equal"
    return "arrangement"
