"""Attention as a loop: one head, one query, one key at a time. The judge of every faster form.

Written to be read aloud. A head is a module of its own and can be used on its own.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.attention.steps import AttentionSteps, ProjectedHeads
from manyheads.core.config import AttentionConfig
from manyheads.core.masks import Visibility
from manyheads.core.shapes import check_input
from manyheads.core.weights import HeadWeights


@dataclass(frozen=True, kw_only=True)
class HeadSteps:
    """Every step of one head."""

    scores: Float[Tensor, "B T S"]
    """q·k times the scale, (B, T, S)."""
    masked_scores: Float[Tensor, "B T S"]
    """After the bias, -inf where blocked, (B, T, S)."""
    attn_weights: Float[Tensor, "B T S"]
    """After softmax over keys, before dropout, (B, T, S)."""
    head_output: Float[Tensor, "B T v"]
    """Weighted sum of values, (B, T, v)."""


def softmax_of_row(masked: list[Tensor]) -> list[Tensor]:
    """Turn one query's scores, a tensor (B,) a key, into weights; all -inf gives all zeros."""
    highest = torch.stack(masked).detach().amax(dim=0)  # (B,)
    is_empty = highest == -math.inf
    highest = highest.masked_fill(is_empty, 0.0)
    powers = [torch.exp(score - highest) for score in masked]
    total = torch.stack(powers).sum(dim=0)
    total = total + is_empty.to(total.dtype)  # a row without any key divides zeros by one
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
) -> HeadSteps:
    """Attend with one head, one query and one key at a time.

    Args:
        q: queries, (B, T, d).
        k: keys, (B, S, d).
        v: values, (B, S, v).
        scale: what each q·k is multiplied by.
        allowed: (B, T, S) or (1, T, S), True = may attend; None allows all.
        bias: (B, T, S) or (1, T, S), added to the scores; None adds nothing.
        dropout: share of weights dropped, the rest divided by one minus it; 0 outside training.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """
    rows = []
    for t in range(q.shape[1]):
        allowed_row = None if allowed is None else allowed[:, t]
        bias_row = None if bias is None else bias[:, t]
        rows.append(_query_steps(q[:, t], k, v, scale, allowed_row, bias_row, dropout))
    scores, masked, weights, output = (torch.stack(step, dim=1) for step in zip(*rows, strict=True))
    return HeadSteps(scores=scores, masked_scores=masked, attn_weights=weights, head_output=output)


def _query_steps(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    allowed: Tensor | None,
    bias: Tensor | None,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One query (B, d): its scores, masked scores and weights (B, S), and its message (B, v)."""
    scores, masked = [], []
    for s in range(k.shape[1]):
        score = (q * k[:, s]).sum(dim=-1) * scale  # (B,)
        scores.append(score)
        if bias is not None:
            score = score + bias[:, s]
        if allowed is not None:
            score = score.masked_fill(~allowed[:, s], -math.inf)
        masked.append(score)
    weights = torch.stack(softmax_of_row(masked), dim=-1)  # (B, S)
    kept = F.dropout(weights, dropout) if dropout > 0.0 else weights
    message = torch.zeros_like(v[:, 0])  # (B, v)
    for s in range(v.shape[1]):
        message = message + kept[:, s, None] * v[:, s]
    return torch.stack(scores, dim=-1), torch.stack(masked, dim=-1), weights, message


class SingleHead(nn.Module):
    """One attention head with its own projections; reads the full width, gives its message.

    On its own it holds its parameters. Inside `MultiHeadAttention.heads` the same names are views
    of the layer's parameters, so that gradients reach the layer and nothing is stored twice.

    Args:
        embed_dim: D, the width of the query input.
        head_dim: d, the width of queries and keys.
        v_head_dim: width of the values, d unless given.
        kdim: width of the key input, D unless given.
        vdim: width of the value input, D unless given.
        bias: whether queries, keys and values have a bias.
        scale: what each q·k is multiplied by, 1/sqrt(d) unless given.

    Raises:
        ConfigError: a size or scale that no head can have.
    """

    def __init__(
        self,
        embed_dim: int,
        head_dim: int,
        *,
        v_head_dim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        config = AttentionConfig.of(
            embed_dim=embed_dim,
            num_heads=1,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
            kdim=kdim,
            vdim=vdim,
            bias=bias,
            scale=scale,
        )
        self.scale = config.scale
        widths = {
            "q": (config.embed_dim, config.head_dim),
            "k": (config.kdim, config.head_dim),
            "v": (config.vdim, config.v_head_dim),
        }
        self.w_q: Tensor
        self.w_k: Tensor
        self.w_v: Tensor
        self.b_q: Tensor | None
        self.b_k: Tensor | None
        self.b_v: Tensor | None
        for name, (rows, columns) in widths.items():
            weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, columns)))
            self.register_parameter(f"w_{name}", weight)
            row = nn.Parameter(torch.zeros(columns)) if bias else None
            self.register_parameter(f"b_{name}", row)

    @classmethod
    def viewing(cls, tensors: dict[str, Tensor | None], scale: float) -> "SingleHead":
        """Build a head that holds the given tensors themselves.

        Args:
            tensors: w_q, w_k, w_v, whose rows are inputs, and b_q, b_k, b_v, by name.
            scale: what each q·k is multiplied by.
        """
        head = cls.__new__(cls)
        nn.Module.__init__(head)
        head.scale = scale
        for name in ("w_q", "w_k", "w_v", "b_q", "b_k", "b_v"):
            setattr(head, name, tensors.get(name))
        return head

    def queries(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T d"]:
        """Project the query input: x W_Q + b_Q."""
        return _affine(x, self.w_q, self.b_q)

    def keys(self, x: Float[Tensor, "B S K"]) -> Float[Tensor, "B S d"]:
        """Project the key input: x W_K + b_K."""
        return _affine(x, self.w_k, self.b_k)

    def values(self, x: Float[Tensor, "B S V"]) -> Float[Tensor, "B S v"]:
        """Project the value input: x W_V + b_V."""
        return _affine(x, self.w_v, self.b_v)

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S K"] | None = None,
        value: Float[Tensor, "B S V"] | None = None,
        *,
        allowed: Bool[Tensor, "#B T S"] | None = None,
        bias: Float[Tensor, "#B T S"] | None = None,
    ) -> Float[Tensor, "B T v"]:
        """The head's message to every query, (B, T, v).

        Args:
            query: (B, T, D).
            key: (B, S, K); None means query.
            value: (B, S, V); None means key.
            allowed: (B, T, S) or (1, T, S), True = may attend; None allows all.
            bias: (B, T, S) or (1, T, S), added to the scores; None adds nothing.

        Raises:
            ShapeError: an input of another rank, width or dtype, or without positions.
        """
        key = query if key is None else key
        value = key if value is None else value
        for name, x, weight in (
            ("query", query, self.w_q),
            ("key", key, self.w_k),
            ("value", value, self.w_v),
        ):
            check_input(name, x, weight.shape[0])
        q, k, v = self.queries(query), self.keys(key), self.values(value)
        return head_steps(q, k, v, scale=self.scale, allowed=allowed, bias=bias).head_output


def heads_from_weights(weights: HeadWeights, scale: float) -> list[SingleHead]:
    """Make a module of each query head; heads that share keys and values hold the same views.

    Args:
        weights: one matrix per head.
        scale: what each q·k is multiplied by.
    """
    group = weights.num_heads // weights.num_kv_heads
    heads = []
    for h in range(weights.num_heads):
        tensors: dict[str, Tensor | None] = {}
        for name, index in (("q", h), ("k", h // group), ("v", h // group)):
            for kind in ("w", "b"):
                whole = getattr(weights, f"{kind}_{name}")
                tensors[f"{kind}_{name}"] = None if whole is None else whole[index]
        heads.append(SingleHead.viewing(tensors, scale))
    return heads


def project_head_by_head(
    heads: list[SingleHead], num_kv_heads: int, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Project with one head after another: q (B, H, T, d), k (B, G, S, d), v (B, G, S, v).

    Args:
        heads: one module a query head.
        num_kv_heads: G; the first head of each group projects its keys and values.
        query: (B, T, D).
        key: (B, S, K).
        value: (B, S, V).
    """
    sources = heads[:: len(heads) // num_kv_heads]
    q = torch.stack([head.queries(query) for head in heads], dim=1)
    k = torch.stack([head.keys(key) for head in sources], dim=1)
    return q, k, torch.stack([head.values(value) for head in sources], dim=1)


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weight if bias is None else x @ weight + bias


def loop_steps(
    heads: ProjectedHeads, *, scale: float, visibility: Visibility, dropout: float = 0.0
) -> AttentionSteps:
    """Attend with one head after another and keep every step.

    Args:
        heads: q (B, H, T, d), k (B, G, S, d), v (B, G, S, v).
        scale: what each q·k is multiplied by.
        visibility: who may look at whom.
        dropout: share of weights dropped, the rest divided by one minus it; 0 outside training.
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
        )
        for h in range(num_heads)
    ]
    return AttentionSteps(
        scores=torch.stack([head.scores for head in each], dim=1),
        masked_scores=torch.stack([head.masked_scores for head in each], dim=1),
        attn_weights=torch.stack([head.attn_weights for head in each], dim=1),
        head_outputs=torch.stack([head.head_output for head in each], dim=1),
    )
