"""Packed attention: all heads at once, in plain tensor code with named steps that can all be kept.

`packed_weights` computes the weights alone, in place, for a fused layer with need_weights=True:
torch's kernel keeps none.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from manyheads.attention.hooks import At, at_each_head
from manyheads.attention.scoring import capped, weights_and_sinks
from manyheads.attention.steps import AttentionSteps, ProjectedHeads
from manyheads.core.masks import (
    Visibility,
    mask_scores,
    rows_without_key,
    softmax_over_keys,
)
from manyheads.core.shapes import repeat_kv

_BLOCK_ROWS = 128
_LARGE_BYTES = range(1 << 22, 1 << 26)


def packed_steps(
    heads: ProjectedHeads,
    *,
    scale: float,
    visibility: Visibility,
    dropout: float = 0.0,
    ats: Sequence[At] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> AttentionSteps:
    """Attend with all heads at once and keep every step.

    Args:
        heads: q (B, H, T, d), k (B, G, S, d), v (B, G, S, v).
        scale: what each q·k is multiplied by.
        visibility: which query sees which key.
        dropout: fraction of weights dropped, the rest divided by one minus it; 0 outside training.
        ats: one per head, passes each step through its hooks; None if there are none.
        softcap: the limit of the scores, or None.
        sinks: one score per head that takes part in the softmax, (H,), or None.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.
    """
    q, num_heads = heads.q, heads.q.shape[1]
    k, v = repeat_kv(heads.k, num_heads), repeat_kv(heads.v, num_heads)
    scores = at_each_head(ats, "scores", (q * scale) @ k.mT)  # (B, H, T, S)
    allowed, bias = visibility.rows(0, q.shape[2], q.device)
    capped_scores = None if softcap is None else capped(scores, softcap)
    masked_scores = mask_scores(scores if capped_scores is None else capped_scores, allowed, bias)
    attn_weights, sink_weights = weights_and_sinks(masked_scores, allowed, sinks)
    attn_weights = at_each_head(ats, "weights", attn_weights)
    return AttentionSteps(
        scores=scores,
        masked_scores=masked_scores,
        attn_weights=attn_weights,
        head_outputs=at_each_head(ats, "message", weighted_values(attn_weights, v, dropout)),
        capped_scores=capped_scores,
        sink_weights=sink_weights,
    )


def weighted_values(
    attn_weights: Float[Tensor, "B H T S"], v: Float[Tensor, "B G S v"], dropout: float = 0.0
) -> Float[Tensor, "B H T v"]:
    """Head outputs (B, H, T, v) from given weights.

    Args:
        attn_weights: weights before dropout, (B, H, T, S).
        v: values, (B, G, S, v).
        dropout: fraction of weights dropped, the rest divided by one minus it; 0 outside training.
    """
    kept = F.dropout(attn_weights, dropout) if dropout > 0.0 else attn_weights
    return kept @ repeat_kv(v, attn_weights.shape[1])


def packed_weights(
    q: Float[Tensor, "B H T d"],
    k: Float[Tensor, "B G S d"],
    *,
    scale: float,
    visibility: Visibility,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> Float[Tensor, "B H T S"]:
    """Attention weights alone, computed in place, so that only the result is of size T x S.

    Gradients reach q and k. While tracing or compiling, for tensor subclasses, for masks that need
    a gradient, and with a soft-cap or sinks, the weights are computed step by step, which needs
    more memory.

    Args:
        q: queries, (B, H, T, d).
        k: keys, (B, G, S, d).
        scale: what each q·k is multiplied by.
        visibility: which query sees which key.
        softcap: the limit of the scores, or None.
        sinks: one score per head that takes part in the softmax, (H,), or None.
    """
    keys = repeat_kv(k, q.shape[1])  # (B, H, S, d)
    mask = visibility.attn_mask
    mask_learns = torch.is_grad_enabled() and mask is not None and mask.requires_grad
    if softcap is not None or sinks is not None:
        heads = ProjectedHeads(q=q, k=k, v=k[..., :0])
        options: dict[str, Any] = {"visibility": visibility, "softcap": softcap, "sinks": sinks}
        return packed_steps(heads, scale=scale, **options).attn_weights
    if mask_learns or _is_recorded(q):
        return _weights_by_steps(q, keys, scale, visibility)
    learns = torch.is_grad_enabled() and (q.requires_grad or keys.requires_grad)
    if not (learns or torch._C._are_functorch_transforms_active()):  # `apply` knows torch.vmap
        return _WeightsInPlace.forward(q, keys, scale, visibility)
    weights: Tensor = _WeightsInPlace.apply(q, keys, scale, visibility)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return weights


def _is_recorded(tensor: Tensor) -> bool:
    """Whether a compiler, an exporter or a dispatch mode records the operations."""
    is_traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]  # as above
    return torch.compiler.is_compiling() or bool(is_traced) or type(tensor) is not Tensor


def _weights_by_steps(q: Tensor, k: Tensor, scale: float, visibility: Visibility) -> Tensor:
    allowed, bias = visibility.rows(0, q.shape[2], q.device)
    return softmax_over_keys(mask_scores((q * scale) @ k.mT, allowed, bias), allowed)


class _WeightsInPlace(torch.autograd.Function):
    """Scores, mask and softmax in one tensor, the only one kept for the gradient."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, scale: float, visibility: Visibility) -> Tensor:
        queries, keys = q.flatten(0, 1), k.flatten(0, 1).mT  # (B*H, T, d), (B*H, d, S)
        flat = _empty_scores(queries, keys.shape[2])
        weights = flat.view(*q.shape[:3], keys.shape[2])  # (B, H, T, S), the same memory
        num_queries, empty_rows = q.shape[2], []
        step = num_queries if visibility.hides_nothing else _BLOCK_ROWS
        for start in range(0, num_queries, step):
            stop = min(start + step, num_queries)
            seen = visibility.keys_seen(start, stop)
            rows, columns = queries[:, start:stop], keys[:, :, seen]
            part = flat[:, start:stop, seen]
            torch.baddbmm(part, rows, columns, beta=0.0, alpha=scale, out=part)
            empty = _mask_in_place(weights[:, :, start:stop], visibility, start, stop)
            if empty is not None:
                empty_rows.append((weights[:, :, start:stop], empty))
        torch.softmax(flat, dim=-1, out=flat)
        for rows, empty in empty_rows:
            rows.masked_fill_(empty, 0.0)
        return weights

    @staticmethod
    def setup_context(  # torch does not type the autograd context
        ctx: Any,  # noqa: ANN401 - as above
        inputs: tuple[Any, ...],
        output: Tensor,
    ) -> None:
        q, k, ctx.scale, _ = inputs
        ctx.save_for_backward(q, k, output)

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401 - as above
        grad: Tensor,
    ) -> tuple[Tensor, Tensor, None, None]:
        """Differentiate the softmax in one pass of torch over the weights, then q·k."""
        q, k, weights = ctx.saved_tensors
        grad_scores = torch._softmax_backward_data(grad, weights, -1, q.dtype)
        return (grad_scores @ k) * ctx.scale, (grad_scores.mT @ q) * ctx.scale, None, None

    @staticmethod
    def vmap(
        info: object,
        in_dims: tuple[int | None, ...],
        q: Tensor,
        k: Tensor,
        scale: float,
        visibility: Visibility,
    ) -> tuple[Tensor, int]:
        """Nothing is written in place under `torch.vmap`, which has no rule for it."""
        by_steps = partial(_weights_by_steps, scale=scale, visibility=visibility)
        return torch.vmap(by_steps, in_dims=in_dims[:2])(q, k), 0


def _empty_scores(queries: Tensor, num_keys: int) -> Tensor:
    """Memory for the scores, (B*H, T, S).

    NumPy allocates tensors of medium size on the CPU, because it requests large pages: first use of
    memory in small pages costs as much as the weights. Torch allocates very large ones, because so
    many large pages are often not free.
    """
    shape = (*queries.shape[:2], num_keys)
    size = queries.element_size() * queries.shape[0] * queries.shape[1] * num_keys
    is_usual = queries.device.type == "cpu" and queries.dtype in (torch.float32, torch.float64)
    if not is_usual or size not in _LARGE_BYTES:
        return queries.new_empty(shape)
    dtype = np.float32 if queries.dtype == torch.float32 else np.float64
    return torch.from_numpy(np.empty(shape, dtype))


def _mask_in_place(scores: Tensor, visibility: Visibility, start: int, stop: int) -> Tensor | None:
    """Mask scores (B, H, stop - start, S), of which `keys_seen` are filled; find empty rows."""
    if visibility.hides_nothing:
        return None
    seen = visibility.keys_seen(start, stop)
    scores[..., : seen.start].fill_(-torch.inf)
    scores[..., seen.stop :].fill_(-torch.inf)
    allowed, bias = visibility.rows(start, stop, scores.device)
    if bias is not None:
        scores[..., seen] += bias if bias.shape[-1] == 1 else bias[..., seen]
    if allowed is None:
        return None
    if visibility.is_square_causal:  # keys before the first of these queries are seen by all
        seen = slice(start, seen.stop)
    blocked = ~(allowed if allowed.shape[-1] == 1 else allowed[..., seen])
    scores[..., seen].masked_fill_(blocked, -torch.inf)
    return rows_without_key(allowed) if visibility.can_empty_a_row else None
