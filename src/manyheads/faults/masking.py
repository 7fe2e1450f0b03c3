"""Faults of reading a mask: inverted, along another axis, for other heads, or not at all."""

from collections.abc import Callable

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import GivenMask, Problem
from manyheads.faults.variant import Variant

Change = Callable[[Problem, GivenMask, Tensor], Tensor | None]
"""How a given mask is read, from its right reading; None where it is left out."""


class PlainSoftmax(Pipeline):
    """A softmax that gives NaN for a query without keys, so that such rows are not compared."""

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """Plain softmax over keys."""
        return torch.softmax(masked, dim=-1)


class ChangedMasks(PlainSoftmax):
    """Reads one given mask (or all, index None) in another way."""

    def __init__(self, change: Change, index: int | None) -> None:
        self.change, self.index = change, index

    def masks(self, p: Problem) -> list[Tensor]:
        """The masks as they are read."""
        found = []
        for i, (given, right) in enumerate(zip(p.masks, super().masks(p), strict=True)):
            read = self.change(p, given, right) if self.index in (None, i) else right
            if read is not None:
                found.append(read)
        return found

    def allowed(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """Masks may come with a head axis, (B, H, T, S)."""
        allowed = self.ordered(p, num_queries, num_keys, start)[None, None]
        for mask in self.masks(p):
            by_head = mask if mask.dim() == 4 else mask[:, None]
            allowed = allowed & by_head[:, :, start : start + num_queries, :num_keys]
        return allowed


def _ignored(p: Problem, given: GivenMask, right: Tensor) -> Tensor | None:
    return None


def _inverted(p: Problem, given: GivenMask, right: Tensor) -> Tensor:
    return ~right


def _along_queries(p: Problem, given: GivenMask, right: Tensor) -> Tensor:
    return right.transpose(-1, -2)


def _as_heads(p: Problem, given: GivenMask, right: Tensor) -> Tensor:
    """(B, 1, S) meeting (B, H, T, S) from the right: samples are taken for heads."""
    return right[None]


def _as_query_rows(p: Problem, given: GivenMask, right: Tensor) -> Tensor:
    """(B, S) meeting (T, S) from the right: samples are taken for queries."""
    return right[:, 0][None]


def _tiled(p: Problem, given: GivenMask, right: Tensor) -> Tensor:
    samples = torch.arange(p.batch * p.num_heads) % p.batch
    tiled: Tensor = right.expand(p.batch, -1, -1)[samples].unflatten(0, (p.batch, p.num_heads))
    return tiled


def _heads_first(p: Problem, given: GivenMask, right: Tensor) -> Tensor:
    """A folded (batch * heads) mask, samples first, viewed as (heads, batch)."""
    place = torch.arange(p.num_heads)[None, :] * p.batch + torch.arange(p.batch)[:, None]  # (B, H)
    return right.expand(p.batch, -1, -1)[place // p.num_heads]


def _is_square(p: Problem) -> bool:
    return p.x_q.shape[-2] == p.x_k.shape[-2]


def _is_key_mask(p: Problem) -> bool:
    return any(mask.axes in ("BS", "B") for mask in p.masks)


def _batch_is_heads(p: Problem) -> bool:
    return p.batch == p.num_heads


def _batch_is_queries(p: Problem) -> bool:
    return p.batch == p.x_q.shape[-2] and _is_key_mask(p)


def _per_sample(p: Problem) -> bool:
    return p.batch > 1 and any(mask.allowed.shape[0] > 1 for mask in p.masks)


def _has_masks(p: Problem) -> bool:
    return bool(p.masks)


def variants() -> list[Variant]:
    """All readings of this family: each given mask read in another way."""
    inverted = "the mask inverted: it hides what it should show"
    queries = "the samples of the mask taken for queries"
    tiled = "the mask tiled over the folded (batch, head) axis instead of repeated"
    viewed = "the folded (batch, head) mask viewed as (head, batch)"
    changes: tuple[tuple[str, str, Change, Callable[[Problem], bool]], ...] = (
        ("mask-polarity", inverted, _inverted, _has_masks),
        ("mask-ignored", "no mask at all", _ignored, _has_masks),
        ("mask-axis", "the mask along queries instead of keys", _along_queries, _is_square),
        ("mask-axis", "the samples of the mask taken for heads", _as_heads, _batch_is_heads),
        ("mask-axis", queries, _as_query_rows, _batch_is_queries),
        ("mask-head-order", tiled, _tiled, _per_sample),
        ("mask-head-order", viewed, _heads_first, _per_sample),
    )
    return [
        Variant(
            fault=fault,
            says=f"the output equals the formula with {text}"
            + ("" if index is None else f" (mask {index + 1})"),
            pipeline=ChangedMasks(change, index),
            applies=applies if index is None else _has_mask_number(index, applies),
        )
        for fault, text, change, applies in changes
        for index in (None, 0, 1, 2)
    ]


def _has_mask_number(index: int, applies: Callable[[Problem], bool]) -> Callable[[Problem], bool]:
    return lambda p: len(p.masks) > 1 and index < len(p.masks) and applies(p)
