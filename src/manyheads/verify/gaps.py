"""How far numbers are from those that were expected."""

import torch
from torch import Tensor

ROUNDING = {"float64": 1e-9, "float32": 3e-5, "bfloat16": 0.05, "float16": 6e-3}
"""Largest rounding of an output that each type is expected to give, as a part of the largest."""


def relative_gap(actual: Tensor, expected: Tensor) -> float:
    """Largest difference relative to the largest expected number.

    Infinity for another shape or where `actual` is not finite.
    """
    if actual.shape != expected.shape or not torch.isfinite(actual).all():
        return float("inf")
    if expected.numel() == 0:
        return 0.0
    actual, expected = actual.detach(), expected.detach()
    size = float(expected.abs().max())
    return float((actual.double() - expected.double()).abs().max()) / (size if size > 0 else 1.0)
