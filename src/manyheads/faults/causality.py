"""Faults of causality and of the window: shifted, misaligned, reversed or missing."""

import torch
from torch import Tensor

from manyheads.attention.problem import Problem, allowed_by_order
from manyheads.faults.masking import PlainSoftmax
from manyheads.faults.variant import Variant


class OtherOrder(PlainSoftmax):
    """Causality shifted, aligned to the first key, reversed or missing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def ordered(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """(T, S) as the fault has it."""
        right = allowed_by_order(p, num_queries, num_keys)
        if not p.is_causal:
            return right
        shift = num_keys - num_queries
        ones = torch.ones(num_queries, num_keys, dtype=torch.bool)
        window = ones if p.window is None else ones.triu(shift - p.window + 1)
        made = {
            "none": ones,
            "self hidden": ones.tril(shift - 1),
            "one later seen": ones.tril(shift + 1),
            "first key": ones.tril(0),
            "reversed": ones.triu(shift),
        }
        return made[self.kind] & window


class OtherWindow(PlainSoftmax):
    """A window one wider or narrower, or missing."""

    def __init__(self, change: int | None) -> None:
        self.change = change

    def ordered(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """(T, S) as the fault has it."""
        shift = num_keys - num_queries
        ones = torch.ones(num_queries, num_keys, dtype=torch.bool)
        causal = ones.tril(shift) if p.is_causal or p.window is not None else ones
        if self.change is None or p.window is None:
            return causal
        return causal & ones.triu(shift - p.window - self.change + 1)


def variants() -> list[Variant]:
    """All readings of this family."""
    kinds = {
        "self hidden": ("causal-off-by-one", "the main diagonal hidden: a token cannot see itself"),
        "one later seen": ("causal-off-by-one", "one later key visible to each query"),
        "first key": ("causal-alignment", "causality aligned to the first key instead of the last"),
        "none": ("causal-hint-ignored", "no causality"),
        "reversed": ("causal-off-by-one", "causality reversed: only later keys are seen"),
    }
    found = [
        Variant(
            fault=fault,
            says=f"the output equals the formula with {text}",
            pipeline=OtherOrder(kind),
            applies=lambda p: p.is_causal,
        )
        for kind, (fault, text) in kinds.items()
    ]
    for change, text in ((1, "one key wider"), (-1, "one key narrower"), (None, "missing")):
        found.append(
            Variant(
                fault="" if change else "mask-ignored",
                says=f"the output equals the formula with the window {text}",
                pipeline=OtherWindow(change),
                applies=lambda p: p.window is not None,
            )
        )
    return found
