"""Kinds of operations, and the step of the formula that each kind should have made."""

import torch
from torch import Tensor

from manyheads.verify.structure import mask_of
from manyheads.verify.watch import Event, tensors_in

_PRODUCTS = {"bmm", "mm", "baddbmm", "addmm", "sum", "mv", "dot", "convolution"}
_SOFTMAXES = {"_softmax", "_safe_softmax", "_log_softmax", "exp", "exp2", "sigmoid", "amax", "max"}
_SOFTMAXES |= {"logsumexp", "sub", "div"}
_JOINS = {"cat", "stack", "sum", "mean", "clone", "copy", "index_put"}


def is_product(event: Event) -> bool:
    """Whether an operation is a product of matrices."""
    return event.op in _PRODUCTS


def is_fused(event: Event) -> bool:
    """Whether an operation is a fused kernel of attention."""
    return event.op.startswith("_scaled_dot_product")


def is_softmax(event: Event) -> bool:
    """Whether an operation is a softmax, one that is written in its place, or a part of one."""
    return event.op.rstrip("_") in _SOFTMAXES


def is_masking(event: Event) -> bool:
    """Whether an operation puts very low numbers in some places, or chooses places to change."""
    if event.op.rstrip("_") in ("masked_fill", "where"):
        return True
    given = [x for x in event.given if x.is_floating_point()]
    low = [bool((x < -1e3).any()) for x in (*given, event.values[0])]
    return any(low[1:]) and not low[0]


def has_operand(event: Event) -> bool:
    """Whether an operation is given a second tensor."""
    return len([x for x in tensors_in(*event.args) if x.numel() > 1]) > 1


def step_after(event: Event, latest: str, is_scaled: bool) -> str:
    """The step that an operation should have made.

    Args:
        event: the operation.
        latest: the last step of the formula whose numbers it is given, not scores.
        is_scaled: whether it multiplies them by one number.
    """
    if is_product(event):
        after = {"attn_weights": "head_outputs", "head_outputs": "concat", "v": "head_outputs"}
        return after.get(latest, "scores" if latest in ("q", "k") else "output")
    if latest in ("q", "k") and is_scaled:
        return "scores"
    if latest == "head_outputs" and (not event.writes or event.op.rstrip("_") in _JOINS):
        return "concat"
    return latest


def fused_allowed(event: Event) -> Tensor:
    """Which keys a fused kernel lets each query see, (B, H, T, S) or fewer axes."""
    q, k = event.given[:2]
    mask, is_causal = mask_of(event)
    allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    if is_causal:
        allowed = allowed.tril()
    if mask is None:
        return allowed
    return allowed & (mask if mask.dtype == torch.bool else mask > -1e8)


def is_same_mask(mine: Tensor, expected: Tensor) -> bool:
    """Whether two masks hide the same keys."""
    try:
        return torch.equal(mine.expand(expected.shape), expected)
    except RuntimeError:
        return False
