"""Faults of the softmax: over the wrong axis, or in blocks whose maximum is not made good."""

import math

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults.variant import Variant


class SoftmaxOverAxis(Pipeline):
    """Softmax over another axis of (B, H, T, S)."""

    def __init__(self, axis: int) -> None:
        self.axis = axis

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """Columns instead of rows sum to one."""
        return masked.softmax(dim=self.axis)


class BlockwiseSoftmax(Pipeline):
    """Keys taken in blocks; sum or output are not rescaled when the running maximum rises."""

    def __init__(self, block: int, rescales_sum: bool, rescales_output: bool) -> None:
        self.block, self.rescales_sum, self.rescales_output = block, rescales_sum, rescales_output

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """The weights that the faulty recurrence amounts to."""
        highest = masked.new_full((*masked.shape[:-1], 1), -math.inf)
        total = torch.zeros_like(highest)
        parts: list[Tensor] = []
        for block in masked.split(self.block, dim=-1):
            raised = torch.maximum(highest, block.amax(dim=-1, keepdim=True))
            factor = torch.exp(highest - raised).nan_to_num(nan=1.0)
            powers = torch.exp(block - raised).nan_to_num(nan=0.0)
            total = total * (factor if self.rescales_sum else 1.0) + powers.sum(
                dim=-1, keepdim=True
            )
            parts = [part * factor if self.rescales_output else part for part in parts]
            parts.append(powers)
            highest = raised
        return torch.cat(parts, dim=-1) / total


class OwnMaximum(Pipeline):
    """Every block of keys subtracts its own maximum, or is a softmax of its own, averaged."""

    def __init__(self, block: int, is_averaged: bool) -> None:
        self.block, self.is_averaged = block, is_averaged

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """The weights that this amounts to."""
        blocks = masked.split(self.block, dim=-1)
        if self.is_averaged:
            return torch.cat([b.softmax(dim=-1).nan_to_num(nan=0.0) for b in blocks], dim=-1) / len(
                blocks
            )
        powers = [torch.exp(b - b.amax(dim=-1, keepdim=True)).nan_to_num(nan=0.0) for b in blocks]
        joined = torch.cat(powers, dim=-1)
        return joined / joined.sum(dim=-1, keepdim=True)


def variants() -> list[Variant]:
    """All readings of this family."""
    axes = ((-2, "queries"), (1, "heads"), (0, "samples"))
    found = [
        Variant(
            fault="softmax-axis",
            says=f"the output equals that of a softmax over the {name} instead of the keys",
            pipeline=SoftmaxOverAxis(axis),
        )
        for axis, name in axes
    ]
    for block in (4, 1, 2, 3, 5, 8, 16, 32, 64):
        for sums, outputs, what in (
            (True, False, "output"),
            (False, True, "sum"),
            (False, False, "sum and output"),
        ):
            found.append(
                Variant(
                    fault="blockwise-softmax",
                    says=(
                        f"the output equals that of blocks of {block} keys whose running {what} is "
                        "not rescaled"
                    ),
                    pipeline=BlockwiseSoftmax(block, sums, outputs),
                )
            )
        for is_averaged, what in (
            (False, "using its own maximum"),
            (True, "being a softmax of its own, averaged"),
        ):
            found.append(
                Variant(
                    fault="blockwise-softmax",
                    says=f"the output equals that of every block of {block} keys {what}",
                    pipeline=OwnMaximum(block, is_averaged),
                )
            )
    return found
