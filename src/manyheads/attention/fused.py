"""Fused attention: torch's scaled_dot_product_attention, which gives the heads' output only.

What torch's kernels lack is added around them without a T x S matrix of numbers:
masks are built for a block of queries at a time, and unequal widths are padded with zeros.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from manyheads.core.masks import Visibility, rows_without_key
from manyheads.core.shapes import repeat_kv

_MASK_ENTRIES = 1 << 20


def fused_head_outputs(
    q: Float[Tensor, "B H T d"],
    k: Float[Tensor, "B G S d"],
    v: Float[Tensor, "B G S v"],
    *,
    scale: float,
    visibility: Visibility,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T v"]:
    """Attend with `torch.nn.functional.scaled_dot_product_attention`.

    Args:
        q: queries, (B, H, T, d).
        k: keys, (B, G, S, d).
        v: values, (B, G, S, v).
        scale: what each q·k is multiplied by.
        visibility: which query sees which key.
        dropout: fraction of weights dropped, the rest divided by one minus it; 0 outside training.
    """
    if scale == 0.0:  # the kernel would multiply the -inf of hidden keys by it
        q, scale = q * 0.0, 1.0
    width = v.shape[-1]
    q, k, v = _equally_wide(q, repeat_kv(k, q.shape[1]), repeat_kv(v, q.shape[1]))
    if visibility.hides_nothing or visibility.is_square_causal:
        causal = not visibility.hides_nothing
        out = F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=causal, scale=scale
        )
        return out[..., :width]
    num_queries, blocks = q.shape[2], []
    step = _rows_at_once(visibility, num_queries, q.device)
    for start in range(0, num_queries, step):
        stop = min(start + step, num_queries)
        seen = visibility.keys_seen(start, stop)
        mask, empty = _mask_and_empty_rows(visibility, start, stop, q.device)
        out = F.scaled_dot_product_attention(
            q[:, :, start:stop],
            k[:, :, seen],
            v[:, :, seen],
            attn_mask=mask,
            dropout_p=dropout,
            scale=scale,
        )
        blocks.append(out if empty is None else out.masked_fill(empty, 0.0))
    out = blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=2)
    return out[..., :width]


def _equally_wide(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pad the narrower of query/key and value heads with zeros, which changes no score or sum."""
    gap = v.shape[-1] - q.shape[-1]
    if gap > 0:
        return F.pad(q, (0, gap)), F.pad(k, (0, gap)), v
    return q, k, F.pad(v, (0, -gap)) if gap else v


def _rows_at_once(visibility: Visibility, num_queries: int, device: torch.device) -> int:
    """How many queries a mask may be built for at once; all if it is the same for all."""
    sample = min(2, num_queries)
    given = [mask.shape for mask in visibility.rows(0, sample, device) if mask is not None]
    shape: tuple[int, ...] = np.broadcast_shapes(*given)
    if shape[-2] < sample:
        return num_queries
    entries = math.prod(shape) // shape[-2]  # for one query
    return max(1, min(num_queries, _MASK_ENTRIES // max(1, entries)))


def _mask_and_empty_rows(
    visibility: Visibility, start: int, stop: int, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """The kernel's mask for some queries, and which of them see no key; the mask opens those rows.

    The mask covers `visibility.keys_seen` only.
    """
    seen = visibility.keys_seen(start, stop)
    allowed, bias = (
        mask if mask is None or mask.shape[-1] == 1 else mask[..., seen]
        for mask in visibility.rows(start, stop, device)
    )
    empty: Tensor | None = None
    if allowed is not None and visibility.can_empty_a_row:
        empty = rows_without_key(allowed)
        allowed = allowed | empty
    if bias is None:
        return allowed, empty
    return bias if allowed is None else bias.masked_fill(~allowed, -torch.inf), empty
