"""Faults of scale and softmax: another factor, another axis, a running sum that is not rescaled."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults.catalogue import Variant


class OtherScale(Pipeline):
    """Multiplies the scores by another number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def scores(self, p: Problem, q: Tensor, k: Tensor) -> Tensor:
        """q·k times the other number."""
        return super().scores(replace(p, scale=self.value), q, k)


_OF_CALL = ("number of keys", "number of queries", "batch")
"""Sizes that differ from call to call."""


class NamedScale(OtherScale):
    """The scale of another formula, for the sizes of each call."""

    def __init__(self, name: str, value: float) -> None:
        super().__init__(value)
        self.name = name

    def scores(self, p: Problem, q: Tensor, k: Tensor) -> Tensor:
        """Scale with the other number."""
        return q @ k.mT * scale_candidates(p)[self.name]


def scale_candidates(p: Problem) -> dict[str, float]:
    """Scales that people write, by their formula, for the sizes of a problem."""
    width = p.x_q.shape[-1]
    if p.weights is not None:
        width = p.weights.w_q.shape[2]
    model = p.x_q.shape[-1] if p.weights is not None else p.num_heads * width
    joined, heads = p.num_heads * width, p.num_heads
    padded = 1 << (width - 1).bit_length()
    found = {
        "1/sqrt(head width)": width**-0.5,
        "1/sqrt(model width)": model**-0.5,
        "1/sqrt(joined width)": joined**-0.5,
        "1/sqrt(number of heads)": heads**-0.5,
        "1 (no scale)": 1.0,
        "1/head width (the scale applied twice, or a deliberate 1/d)": 1.0 / width,
        "1/model width": 1.0 / model,
        "1/sqrt(1/head width) (the inverse)": width**0.5,
        "1/number of heads": 1.0 / heads,
        f"1/sqrt({padded}) (a padded head width)": padded**-0.5,
        "head width ** -0.25 (only one of q and k scaled)": width**-0.25,
        "1/sqrt(number of keys)": p.x_k.shape[-2] ** -0.5,
        "1/sqrt(number of queries)": p.x_q.shape[-2] ** -0.5,
        "1/sqrt(batch)": p.batch**-0.5,
        "1/sqrt(key/value heads)": p.num_kv_heads**-0.5,
        "1/sqrt(2 * head width)": (2 * width) ** -0.5,
        "1/log(head width)": 1 / math.log(max(width, 2)),
        "declared scale applied twice": p.scale**2,
        "declared scale times 1/sqrt(head width)": p.scale * width**-0.5,
    }
    for hard in (8, 16, 32, 48, 64, 80, 96, 128, 256, 512, 768, 1024):
        found[f"1/sqrt({hard}) (hard-coded)"] = hard**-0.5
    return found


def scale_variants(p: Problem) -> list[Variant]:
    """One reading a candidate that differs from the declared scale."""
    found, seen = [], {p.scale}
    for name, value in scale_candidates(p).items():
        of_call = any(word in name for word in _OF_CALL)
        if any(math.isclose(value, other, rel_tol=1e-9) for other in seen) and not of_call:
            continue
        seen |= set() if of_call else {value}
        what = "are not scaled" if value == 1.0 else f"are multiplied by {value:.6g} = {name}"
        says = f"scores {what}; expected is a factor of {p.scale:.6g}"
        found.append(
            Variant(
                fault="scale",
                key=name if of_call else f"{value:.9g}",
                says=says,
                pipeline=NamedScale(name, value) if of_call else OtherScale(value),
                is_legal="batch" not in name,
            )
        )
    return found


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
    """All variants of this family."""
    axes = ((-2, "queries"), (1, "heads"), (0, "samples"))
    found = [
        Variant(
            fault="softmax-axis",
            key=name,
            says=f"the output equals that of a softmax over the {name} instead of the keys",
            pipeline=SoftmaxOverAxis(axis),
        )
        for axis, name in axes
    ]
    for block in (4, 1, 2, 3, 5, 8, 16, 32, 64):
        found += _blockwise(block)
    return found


def _blockwise(block: int) -> list[Variant]:
    """The mistakes of a softmax that is computed in blocks of keys."""
    found = []
    for sums, outputs, what in (
        (True, False, "output"),
        (False, True, "sum"),
        (False, False, "sum and output"),
    ):
        found.append(
            Variant(
                fault="blockwise-softmax",
                key=f"{block}:{what}",
                says=(
                    f"the output equals that of blocks of {block} keys whose running {what} is "
                    "not rescaled"
                ),
                pipeline=BlockwiseSoftmax(block, sums, outputs),
            )
        )
    for is_averaged, what in (
        (False, "with its own maximum"),
        (True, "with a separate softmax, and the results averaged"),
    ):
        found.append(
            Variant(
                fault="blockwise-softmax",
                key=f"{block}:{'averaged' if is_averaged else 'maximum'}",
                says=f"the output equals that of every block of {block} keys {what}",
                pipeline=OwnMaximum(block, is_averaged),
            )
        )
    return found
