"""Faults of hiding keys: a finite treatment of blocked scores instead of -inf, or one too late."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults.variant import Variant

Treatment = Callable[[Tensor, Tensor], Tensor]
"""Scores and what is allowed, both (B, H, T, S), to the treated scores."""

_SCOPES = (("all", "blocked"), ("masks", "masked"), ("order", "later"))
_SMALL = (1e-9, -1e-9, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-20, -1e-20)
_FILLS = (*_SMALL, -1.0, -2.0, -5.0, -10.0, -20.0, 1.0)
_ROW_FILLS = (
    (0.0, False),
    (-1e9, True),
    (-1e4, True),
    (-1e30, True),
    (torch.finfo(torch.float32).min, True),
)


class RowsFilled(Pipeline):
    """A key mask lies along the queries, with a finite fill value: whole rows become uniform."""

    def __init__(self, index: int, value: float, is_added: bool) -> None:
        self.index, self.value, self.is_added = index, value, is_added

    def masks(self, p: Problem) -> list[Tensor]:
        """All masks but the misplaced one."""
        return [mask for i, mask in enumerate(super().masks(p)) if i != self.index]

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """Fill whole rows, then hide what the other masks hide."""
        rows = super().masks(p)[self.index].transpose(-1, -2)[:, None]
        filled = scores + self.value if self.is_added else torch.full_like(scores, self.value)
        return super().hide(p, torch.where(rows, scores, filled), allowed)


class SoftlyHidden(Pipeline):
    """Blocked scores get some finite treatment instead of -inf.

    Args:
        treat: the treatment.
        scope: which masks are meant: "masks" the given ones, "order" causality, "all" both.
    """

    def __init__(self, treat: Treatment, scope: str) -> None:
        self.treat, self.scope = treat, scope

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """Treat what the masks in scope block; block the rest properly."""
        num_queries, num_keys = scores.shape[-2:]
        start = num_keys - num_queries if p.chunks else 0
        order = self.ordered(p, num_queries, num_keys, start)[None, None]
        given = torch.ones_like(allowed)
        for mask in self.masks(p):
            given = given & mask[:, None, start : start + num_queries, :num_keys]
        soft = {"masks": given, "order": order.expand_as(given), "all": given & order}[self.scope]
        hard = {"masks": order, "order": given, "all": torch.ones_like(given)}[self.scope]
        return self.treat(scores, soft).masked_fill(~hard, -math.inf)


class MaskAfterSoftmax(Pipeline):
    """Blocked weights are set to zero after the softmax."""

    def __init__(self, scope: str) -> None:
        self.scope = scope

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """Zero the blocked weights without renormalising."""
        weights: Tensor = masked.softmax(dim=-1)
        return weights.masked_fill(~allowed, 0.0)

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """Before the softmax, hide only what is not in scope."""
        if self.scope == "all":
            return scores
        num_queries, num_keys = scores.shape[-2:]
        start = num_keys - num_queries if p.chunks else 0
        order = self.ordered(p, num_queries, num_keys, start)
        if self.scope == "masks":
            return scores.masked_fill(~order, -math.inf)
        for mask in self.masks(p):
            scores = scores.masked_fill(
                ~mask[:, None, start : start + num_queries, :num_keys], -math.inf
            )
        return scores


def filled(value: float) -> Treatment:
    """Hidden scores set to a value."""
    return lambda scores, allowed: scores.masked_fill(~allowed, value)


def _added(value: float) -> Treatment:
    """A value added to hidden scores."""
    return lambda scores, allowed: scores + value * (~allowed).to(scores.dtype)


def _multiplied(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores * allowed


def _one_added_to_visible(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores + allowed.to(scores.dtype)


def _one_added_to_hidden(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores + (~allowed).to(scores.dtype)


def _treatments() -> list[tuple[str, str, Treatment, tuple[str, ...]]]:
    """Fault, what it does in words, the treatment, and the ids that it cannot be told from."""
    confusion = "mask-additive-confusion"
    multiplied = "scores multiplied by the mask: hidden ones become 0"
    found: list[tuple[str, str, Treatment, tuple[str, ...]]] = [
        ("mask-multiplied", multiplied, _multiplied, ("mask-value",)),
        (confusion, "1 added to the scores of visible keys", _one_added_to_visible, ()),
        (confusion, "1 added to the scores of hidden keys", _one_added_to_hidden, ()),
    ]
    for value in _FILLS:
        also = ("mask-multiplied",) if abs(value) < 1e-9 else ()
        found.append(("mask-value", f"hidden scores set to {value:g}", filled(value), also))
        if value <= -1.0:
            found.append(("mask-value", f"{value:g} added to hidden scores", _added(value), ()))
    return found


def _soft() -> list[Variant]:
    found = []
    for scope, what in _SCOPES:
        for fault, text, treat, also in _treatments():
            says = f"the output equals the formula with {text} ({what} keys)"
            pipeline = SoftlyHidden(treat, scope)
            found.append(Variant(fault=fault, says=says, pipeline=pipeline, also=also))
        says = (
            f"the output equals the formula with {what} weights set to zero after the softmax: "
            "rows sum to less than one"
        )
        found.append(
            Variant(fault="mask-after-softmax", says=says, pipeline=MaskAfterSoftmax(scope))
        )
    return found


def _has_square_mask(index: int) -> Callable[[Problem], bool]:
    return lambda p: len(p.masks) > index and p.x_q.shape[-2] == p.x_k.shape[-2]


def _rows() -> list[Variant]:
    says = (
        "the output equals the formula with the mask along queries and a finite fill value: whole "
        "rows are shifted and hidden keys still count"
    )
    return [
        Variant(
            fault="mask-axis",
            says=says,
            pipeline=RowsFilled(index, value, is_added),
            applies=_has_square_mask(index),
            also=("mask-ignored",) if is_added else (),
        )
        for index in (0, 1)
        for value, is_added in _ROW_FILLS
    ]


def variants() -> list[Variant]:
    """All readings of this family."""
    return [*_soft(), *_rows()]
