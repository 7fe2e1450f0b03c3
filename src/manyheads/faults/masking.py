"""Faults of masks, causality and windows: a mask that is misread, and a wrong way to hide a key."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import GivenMask, Problem, allowed_by_order
from manyheads.faults.catalogue import Variant

MaskChange = Callable[[Problem, GivenMask, Tensor], Tensor | None]
"""How a given mask is read, from its right reading; None where it is left out."""


class PlainSoftmax(Pipeline):
    """A softmax that gives NaN for a query without keys, so that such rows are not compared."""

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """Plain softmax over keys."""
        return torch.softmax(masked, dim=-1)


class ChangedMasks(PlainSoftmax):
    """Reads one given mask (or all, index None) in another way."""

    def __init__(self, change: MaskChange, index: int | None) -> None:
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


def _misread_masks() -> list[Variant]:
    """All variants of this family: each given mask read in another way."""
    inverted = "the mask inverted: it hides the keys that it should show"
    queries = "the batch axis of the mask used as the query axis"
    tiled = "the mask tiled over the folded (batch, head) axis instead of repeated"
    viewed = "the folded (batch, head) mask read as (head, batch)"
    changes: tuple[tuple[str, str, str, MaskChange, Callable[[Problem], bool]], ...] = (
        ("mask-polarity", "inverted", inverted, _inverted, _has_masks),
        ("mask-ignored", "ignored", "no mask at all", _ignored, _has_masks),
        (
            "mask-axis",
            "queries",
            "the mask applied along queries instead of keys",
            _along_queries,
            _is_square,
        ),
        (
            "mask-axis",
            "samples-as-heads",
            "the batch axis of the mask used as the head axis",
            _as_heads,
            _batch_is_heads,
        ),
        ("mask-axis", "samples-as-queries", queries, _as_query_rows, _batch_is_queries),
        ("mask-head-order", "tiled", tiled, _tiled, _per_sample),
        ("mask-head-order", "viewed", viewed, _heads_first, _per_sample),
    )
    return [
        Variant(
            fault=fault,
            key=key if index is None else f"{key}:{index + 1}",
            says=f"the output equals the formula with {text}"
            + ("" if index is None else f" (mask {index + 1})"),
            pipeline=ChangedMasks(change, index),
            applies=applies if index is None else _has_mask_number(index, applies),
        )
        for fault, key, text, change, applies in changes
        for index in (None, 0, 1, 2)
    ]


def _has_mask_number(index: int, applies: Callable[[Problem], bool]) -> Callable[[Problem], bool]:
    return lambda p: len(p.masks) > 1 and index < len(p.masks) and applies(p)


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


def _other_orders() -> list[Variant]:
    """All variants of this family."""
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
            key=kind,
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
                key=f"window:{change}",
                says=f"the output equals the formula with the window {text}",
                pipeline=OtherWindow(change),
                applies=lambda p: p.window is not None,
            )
        )
    return found


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
    """A key mask is applied along the queries with a finite fill value: rows become uniform."""

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


def _treatments() -> list[tuple[str, str, str, Treatment, tuple[str, ...]]]:
    """Fault, key, description, treatment, and the ids that cannot be distinguished from it."""
    confusion = "mask-additive-confusion"
    multiplied = "scores multiplied by the mask: hidden ones become 0"
    found: list[tuple[str, str, str, Treatment, tuple[str, ...]]] = [
        ("mask-multiplied", "multiplied", multiplied, _multiplied, ("mask-value",)),
        (confusion, "visible", "1 added to the scores of visible keys", _one_added_to_visible, ()),
        (confusion, "hidden", "1 added to the scores of hidden keys", _one_added_to_hidden, ()),
    ]
    for value in _FILLS:
        also = ("mask-multiplied",) if abs(value) < 1e-9 else ()
        found.append(
            (
                "mask-value",
                f"fill:{value:g}",
                f"hidden scores set to {value:g}",
                filled(value),
                also,
            )
        )
        if value <= -1.0:
            text = f"{value:g} added to hidden scores"
            found.append(("mask-value", f"add:{value:g}", text, _added(value), ()))
    return found


def _soft() -> list[Variant]:
    found = []
    for scope, what in _SCOPES:
        for fault, key, text, treat, also in _treatments():
            says = f"the output equals the formula with {text} ({what} keys)"
            pipeline = SoftlyHidden(treat, scope)
            found.append(
                Variant(fault=fault, key=f"{scope}:{key}", says=says, pipeline=pipeline, also=also)
            )
        says = (
            f"the output equals the formula with {what} weights set to zero after the softmax: "
            "rows sum to less than one"
        )
        found.append(
            Variant(
                fault="mask-after-softmax", key=scope, says=says, pipeline=MaskAfterSoftmax(scope)
            )
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
            key=f"rows:{index}:{value:g}",
            says=says,
            pipeline=RowsFilled(index, value, is_added),
            applies=_has_square_mask(index),
            also=("mask-ignored",) if is_added else (),
        )
        for index in (0, 1)
        for value, is_added in _ROW_FILLS
    ]


def _softly_hidden() -> list[Variant]:
    """All variants of this family."""
    return [*_soft(), *_rows()]


def variants() -> list[Variant]:
    """All variants of this family, the likelier first."""
    return [*_misread_masks(), *_other_orders(), *_softly_hidden()]
