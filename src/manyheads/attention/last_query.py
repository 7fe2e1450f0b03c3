"""Attention of the last position only, in a plain and in a folded form.

A model that predicts one token needs one query. The plain form projects every row to keys and
values; the folded form projects none, since q·(x W_K) = (q W_K^T)·x and the weighted sum of rows
x W_V is the weighted sum of rows x, times W_V.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.core.shapes import repeat_kv
from manyheads.core.weights import HeadWeights


class LastQuery(NamedTuple):
    """The result of the last position's query."""

    head_outputs: Float[Tensor, "B H v"]
    """One message per head, (B, H, v), before the output projection."""
    attn_weights: Float[Tensor, "B H S"]
    """The weights on the key positions, (B, H, S), before dropout."""


def last_query(
    x: Float[Tensor, "B S D"],
    weights: HeadWeights,
    *,
    scale: float,
    blocked: Bool[Tensor, "B S"] | None = None,
) -> LastQuery:
    """Attend from the last row, with keys and values of all rows.

    Args:
        x: (B, S, D); the query is the last row.
        weights: one matrix per head.
        scale: what each q·k is multiplied by.
        blocked: (B, S), True = padding; if all keys are blocked, weights and message are zero.

    Returns:
        messages (B, H, v) and weights (B, H, S).
    """
    H = weights.num_heads
    q = _asking(x, weights)  # (B, H, d)
    k = torch.einsum("bsD,gDd->bgsd", x, weights.w_k)
    v = torch.einsum("bsD,gDv->bgsv", x, weights.w_v)
    if weights.b_k is not None:
        k = k + weights.b_k[:, None]
    if weights.b_v is not None:
        v = v + weights.b_v[:, None]
    scores = torch.einsum("bhd,bhsd->bhs", q, repeat_kv(k, H)) * scale
    attn_weights = _softmax(scores, blocked)
    return LastQuery(torch.einsum("bhs,bhsv->bhv", attn_weights, repeat_kv(v, H)), attn_weights)


def last_query_folded(
    x: Float[Tensor, "B S D"],
    weights: HeadWeights,
    *,
    scale: float,
    blocked: Bool[Tensor, "B S"] | None = None,
) -> LastQuery:
    """Attend from the last row; W_K is folded into the query, W_V is applied to the weighted rows.

    The bias of the keys adds the same to every score of a query, so it cancels in the softmax.
    Arguments, result and numbers are those of `last_query`, up to rounding.
    """
    H = weights.num_heads
    w_k, w_v = _one_a_head(weights.w_k, H), _one_a_head(weights.w_v, H)
    asked = torch.einsum("bhd,hDd->bhD", _asking(x, weights), w_k) * scale
    attn_weights = _softmax(asked @ x.transpose(1, 2), blocked)  # (B, H, S)
    head_outputs = torch.einsum("bhD,hDv->bhv", attn_weights @ x, w_v)
    if weights.b_v is not None:
        b_v = weights.b_v.repeat_interleave(H // len(weights.b_v), dim=0)
        head_outputs = head_outputs + attn_weights.sum(-1, keepdim=True) * b_v
    return LastQuery(head_outputs, attn_weights)


def _asking(x: Tensor, weights: HeadWeights) -> Tensor:
    q = torch.einsum("bD,hDd->bhd", x[:, -1], weights.w_q)
    return q if weights.b_q is None else q + weights.b_q


def _one_a_head(matrix: Tensor, num_heads: int) -> Tensor:
    """A shared key or value matrix, repeated for the heads that share it: (H, D, d)."""
    return matrix.repeat_interleave(num_heads // len(matrix), dim=0)


def _softmax(scores: Tensor, blocked: Tensor | None) -> Tensor:
    if blocked is None:
        return torch.softmax(scores, dim=-1)
    masked = scores.masked_fill(blocked[:, None], -torch.inf)
    empty = blocked.all(dim=-1)[:, None, None]
    # Softmax of a row without any key would be NaN, and so would its gradient.
    return torch.softmax(masked.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)
