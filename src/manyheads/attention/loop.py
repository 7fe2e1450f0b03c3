"""Attention as a loop: one head, one query, one key at a time.

The reference for every faster form: it is written to be easy to follow, not to be fast.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from manyheads.attention.hooks import At
from manyheads.attention.scoring import Scoring
from manyheads.attention.steps import AttentionSteps, ProjectedHeads
from manyheads.core.masks import Visibility


@dataclass(frozen=True, kw_only=True)
class HeadSteps:
    """Every step of one head."""

    scores: Float[Tensor, "B T S"]
    """q·k times the scale, (B, T, S)."""
    capped_scores: Float[Tensor, "B T S"] | None
    """After the soft-cap, (B, T, S); None without one."""
    masked_scores: Float[Tensor, "B T S"]
    """After the bias, -inf where blocked, (B, T, S)."""
    attn_weights: Float[Tensor, "B T S"]
    """After softmax over keys, before dropout, (B, T, S)."""
    sink_weights: Float[Tensor, "B T"] | None
    """What the sink takes in the softmax, (B, T); None without one."""
    head_output: Float[Tensor, "B T v"]
    """Weighted sum of values, (B, T, v)."""


def softmax_of_row(masked: list[Tensor]) -> list[Tensor]:
    """Turn one query's scores, a tensor (B,) per key, into weights; all -inf gives all zeros.

    The score of a sink is one more key, the last.
    """
    highest = torch.stack(masked).detach().amax(dim=0)  # (B,)
    is_empty = highest == -math.inf
    highest = highest.masked_fill(is_empty, 0.0)
    powers = [torch.exp(score - highest) for score in masked]
    total = torch.stack(powers).sum(dim=0)
    total = total + is_empty.to(total.dtype)  # for a row without any key, divide zeros by one
    return [power / total for power in powers]


def head_steps(
    q: Float[Tensor, "B T d"],
    k: Float[Tensor, "B S d"],
    v: Float[Tensor, "B S v"],
    *,
    scale: float,
    allowed: Bool[Tensor, "#B T S"] | None = None,
    bias: Float[Tensor, "#B T S"] | None = None,
    dropout: float = 0.0,
    at: At | None = None,
    **scoring: Unpack[Scoring],
) -> HeadSteps:
    """Attend with one head, one query and one key at a time.

    Args:
        q: queries, (B, T, d).
        k: keys, (B, S, d).
        v: values, (B, S, v).
        scale: what each q·k is multiplied by.
        allowed: (B, T, S) or (1, T, S), True = may attend; None allows all.
        bias: (B, T, S) or (1, T, S), added to the scores; None adds nothing.
        dropout: fraction of weights dropped, the rest divided by one minus it; 0 outside training.
        at: passes each step through the head's hooks; None if there are none.
        **scoring: `softcap`, the limit of the scores, softcap * tanh(score / softcap); `sinks`, the
            score of a key without a value that takes part in this head's softmax.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1; softcap and sink as in
        `attention/scoring.py`.
    """
    queries, softcap, sink = range(q.shape[1]), scoring.get("softcap"), scoring.get("sinks")
    scores = torch.stack([_scores_of_query(q[:, t], k, scale) for t in queries], dim=1)
    if at is not None:
        scores = at("scores", scores)
    capped = None if softcap is None else softcap * torch.tanh(scores / softcap)
    masked, weights, sunk = [], [], []
    for t in queries:
        row = list((scores if capped is None else capped)[:, t].unbind(dim=-1))  # (B,) per key
        if bias is not None:
            row = [score + bias[:, t, s] for s, score in enumerate(row)]
        if allowed is not None:
            row = [s.masked_fill(~allowed[:, t, i], -math.inf) for i, s in enumerate(row)]
        masked.append(torch.stack(row, dim=-1))
        shares = softmax_of_row(row if sink is None else [*row, sink.expand(len(q))])
        weights.append(torch.stack(shares[: len(row)], dim=-1))
        sunk += shares[len(row) :]
    attn_weights = torch.stack(weights, dim=1)
    if at is not None:
        attn_weights = at("weights", attn_weights)
    message = torch.stack([_message_to_query(attn_weights[:, t], v, dropout) for t in queries], 1)
    return HeadSteps(
        scores=scores,
        capped_scores=capped,
        masked_scores=torch.stack(masked, dim=1),
        attn_weights=attn_weights,
        sink_weights=torch.stack(sunk, dim=1) if sunk else None,
        head_output=message if at is None else at("message", message),
    )


def _scores_of_query(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Scores (B, S) of one query (B, d) with every key."""
    return torch.stack([(q * k[:, s]).sum(dim=-1) * scale for s in range(k.shape[1])], dim=-1)


def _message_to_query(weights: Tensor, v: Tensor, dropout: float) -> Tensor:
    """The weighted sum of values (B, v) for one query's weights (B, S)."""
    kept = F.dropout(weights, dropout) if dropout > 0.0 else weights
    message = torch.zeros_like(v[:, 0])  # (B, v)
    for s in range(v.shape[1]):
        message = message + kept[:, s, None] * v[:, s]
    return message


def project_head_by_head(
    inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> list[Tensor]:
    """Project one head after another: q (B, H, T, d), k (B, G, S, d) and v (B, G, S, v).

    Args:
        inputs: query (B, T, D), key (B, S, K) and value (B, S, V).
        weights: of queries (H, D, d), keys (G, K, d) and values (G, V, v).
        biases: likewise (H, d), (G, d) and (G, v), or None each.
    """
    projected = []
    for x, matrices, rows in zip(inputs, weights, biases, strict=True):
        each = [x @ matrix for matrix in matrices]
        if rows is not None:
            each = [joined + row for joined, row in zip(each, rows, strict=True)]
        projected.append(torch.stack(each, dim=1))
    return projected


def loop_steps(
    heads: ProjectedHeads,
    *,
    scale: float,
    visibility: Visibility,
    dropout: float = 0.0,
    ats: Sequence[At] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> AttentionSteps:
    """Attend with one head after another and keep every step.

    Args:
        heads: q (B, H, T, d), k (B, G, S, d), v (B, G, S, v).
        scale: what each q·k is multiplied by.
        visibility: which query sees which key.
        dropout: fraction of weights dropped, the rest divided by one minus it; 0 outside training.
        ats: one per head, passes each step through its hooks; None if there are none.
        softcap: the limit of the scores, or None.
        sinks: one score per head that takes part in the softmax, (H,), or None.
    """
    batch, num_heads, num_queries, _ = heads.q.shape
    group = num_heads // heads.k.shape[1]
    full = (batch, num_heads, num_queries, heads.k.shape[2])
    allowed, bias = (
        None if mask is None else mask.expand(full)
        for mask in visibility.rows(0, num_queries, heads.q.device)
    )
    each = [
        head_steps(
            heads.q[:, h],
            heads.k[:, h // group],
            heads.v[:, h // group],
            scale=scale,
            allowed=None if allowed is None else allowed[:, h],
            bias=None if bias is None else bias[:, h],
            dropout=dropout,
            at=None if ats is None else ats[h],
            softcap=softcap,
            sinks=None if sinks is None else sinks[h],
        )
        for h in range(num_heads)
    ]
    return AttentionSteps(
        scores=torch.stack([head.scores for head in each], dim=1),
        masked_scores=torch.stack([head.masked_scores for head in each], dim=1),
        attn_weights=torch.stack([head.attn_weights for head in each], dim=1),
        head_outputs=torch.stack([head.head_output for head in each], dim=1),
        capped_scores=_stacked([head.capped_scores for head in each]),
        sink_weights=_stacked([head.sink_weights for head in each]),
    )


def _stacked(each: list[Tensor | None]) -> Tensor | None:
    """One step of all heads, (B, H, ...), or None where heads do not have it."""
    given = [step for step in each if step is not None]
    return torch.stack(given, dim=1) if given else None
