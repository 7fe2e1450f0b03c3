"""Whether a tensor holds the numbers of a quantity, in any order of axes."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from manyheads.attention.problem import Problem


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


def pieces(x: Tensor, problem: Problem) -> Iterator[Tensor]:
    """What a cached call makes of rows of all positions, piece by piece."""
    start = 0
    for length in problem.chunks if len(problem.chunks) > 1 else ():
        stop = start + length
        if x.shape[-2] == sum(problem.chunks):
            yield x[..., start:stop, :]
            if start:
                yield x[..., :stop, :]
        start = stop


_MOST_SLICES = 64
"""Number of samples and heads up to which a quantity is also looked for in slices."""


def slices(name: str, x: Tensor, sizes: set[int]) -> Iterator[Tensor]:
    """What loops over heads and samples make of a quantity, if results have such sizes.

    Args:
        name: of the quantity.
        x: (B, ...), or (B, H, ...) with four axes.
        sizes: numbers of entries of the results of all operations.
    """
    samples, heads = x.shape[0], x.shape[1] if x.dim() == 4 else 1
    if samples * heads > _MOST_SLICES or name == "input":
        return
    if heads > 1 and x[:, 0].numel() in sizes:
        yield from x.unbind(1)
    if samples > 1 and x[0].numel() in sizes:
        yield from x.unbind(0)
    if samples > 1 and heads > 1 and x[0, 0].numel() in sizes:
        yield from x.flatten(0, 1).unbind(0)


def factor_of(x: Tensor, want: Tensor) -> float | None:
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


def is_part(x: Tensor, want: Tensor) -> bool:
    """Whether at least a tenth of the numbers, but not all, are right."""
    same = ((x - want).abs() <= 1e-9 * (1 + want.abs())) | (x == want)
    return 0.1 < float(same.double().mean()) < 1.0
