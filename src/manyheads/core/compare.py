"""The difference that dtype and reduction length allow, and a comparison that raises an error.

The budget is the a-priori bound of a dot product: n terms summed in any order with unit roundoff u
differ from the exact sum by at most n u / (1 - n u) times the sum of absolute terms.

Source: Higham 2002, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.core.errors import ManyHeadsError


class MismatchError(ManyHeadsError, AssertionError):
    """Two results differ by more than rounding allows."""


def unit_roundoff(dtype: torch.dtype) -> float:
    """Half the gap between 1 and the next number: 2**-53, 2**-24, 2**-11 or 2**-8."""
    return torch.finfo(dtype).eps / 2


def dot_budget(length: int, dtype: torch.dtype) -> float:
    """Largest error of a sum of `length` products, as a fraction of the sum of absolute products.

    Half types are summed in float32, as every well-known kernel does, and rounded once at the end.
    For sums of 2**24 and more in float32 the bound does not hold, and the result is infinite.
    """
    if dtype in (torch.float16, torch.bfloat16):
        return dot_budget(length, torch.float32) + unit_roundoff(dtype)
    error = length * unit_roundoff(dtype)
    return error / (1.0 - error) if error < 1.0 else math.inf


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference between a result and the expected tensor, in the tensor's unit."""

    name: str
    """What was compared."""
    count: int
    """Elements that differ by more than is allowed."""
    total: int
    """Elements compared."""
    largest: float
    """Absolute difference at the element that is worst relative to what is allowed; infinity where
    one side is not finite and the other differs."""
    index: tuple[int, ...]
    """Index of that element, from 0."""
    allowed: float
    """Allowed difference at that element."""

    def __str__(self) -> str:
        """One sentence with the numbers."""
        return (
            f"{self.name}: {self.count} of {self.total} elements differ by more than allowed, "
            f"most at index {list(self.index)}: {self.largest:.3g} where {self.allowed:.3g} is "
            "allowed"
        )


def difference(
    name: str,
    actual: Float[Tensor, "..."],
    expected: Float[Tensor, "..."],
    *,
    allowed: Float[Tensor, "..."] | float,
) -> Difference:
    """Measure the difference of two tensors of one shape; NaN equals NaN, infinity equals infinity.

    Args:
        name: what is compared, for the message.
        actual: the result.
        expected: the right result.
        allowed: largest absolute difference that passes, one number or one per element.

    Raises:
        MismatchError: the shapes differ.
    """
    if actual.shape != expected.shape:
        have_shape, want_shape = tuple(actual.shape), tuple(expected.shape)
        raise MismatchError(f"{name} has shape {have_shape}, expected {want_shape}")
    have, want = actual.detach().double(), expected.detach().double()
    same = (have == want) | (have.isnan() & want.isnan())
    gap = (have - want).abs().masked_fill(same, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)
    limit = torch.as_tensor(allowed, dtype=torch.float64, device=gap.device).expand(gap.shape)
    if gap.numel() == 0:
        return Difference(name=name, count=0, total=0, largest=0.0, index=(), allowed=0.0)
    is_over = (gap > 0.0) & ~(gap <= limit)  # an allowance of NaN allows nothing
    excess = gap - limit
    excess = torch.where(excess.isnan(), torch.where(is_over, torch.inf, -torch.inf), excess)
    where = int(excess.argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(where), gap.shape))
    return Difference(
        name=name,
        count=int(is_over.sum()),
        total=gap.numel(),
        largest=float(gap.flatten()[where]),
        index=index,
        allowed=float(limit.flatten()[where]),
    )


def check_close(
    name: str,
    actual: Float[Tensor, "..."],
    expected: Float[Tensor, "..."],
    *,
    allowed: Float[Tensor, "..."] | float,
) -> Difference:
    """Raise unless `actual` is within `allowed` of `expected` everywhere; return the difference.

    Raises:
        MismatchError: it is not; the message has the number of elements, the largest difference,
            its index, and what was allowed.
    """
    found = difference(name, actual, expected, allowed=allowed)
    if found.count:
        raise MismatchError(str(found))
    return found
