"""Fused attention: torch's scaled_dot_product_attention, which gives the heads' output only.

What torch's kernels lack is added around them without a T x S matrix of numbers:
masks are built for a block of queries at a time, unequal widths are padded with zeros, and a sink
is one more key without a value. A soft-cap, which no kernel of torch has, is computed in plain code
for a block of queries at a time.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from manyheads.attention.scoring import capped, weights_and_sinks
from manyheads.core.masks import Visibility, mask_scores, rows_without_key
from manyheads.core.shapes import repeat_kv

_MASK_ENTRIES = 1 << 20
_SINK_CHANNELS = 8


def fused_head_outputs(
    q: Float[Tensor, "B H T d"],
    k: Float[Tensor, "B G S d"],
    v: Float[Tensor, "B G S v"],
    *,
    scale: float,
    visibility: Visibility,
    dropout: float = 0.0,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> Float[Tensor, "B H T v"]:
    """Attend with `torch.nn.functional.scaled_dot_product_attention`.

    Args:
        q: queries, (B, H, T, d).
        k: keys, (B, G, S, d).
        v: values, (B, G, S, v).
        scale: what each q·k is multiplied by.
        visibility: which query sees which key.
        dropout: fraction of weights dropped, the rest divided by one minus it; 0 outside training.
        softcap: the limit of the scores, or None.
        sinks: one score per head that takes part in the softmax, (H,), or None.
    """
    if softcap is not None:
        k, v = repeat_kv(k, q.shape[1]), repeat_kv(v, q.shape[1])
        return _capped_head_outputs(q * scale, k, v, visibility, dropout, softcap, sinks)
    if scale == 0.0:  # the kernel would multiply the -inf of hidden keys by it
        q, scale = q * 0.0, 1.0
    width = v.shape[-1]
    k, v = repeat_kv(k, q.shape[1]), repeat_kv(v, q.shape[1])
    if sinks is not None:
        q, k, v = _with_sink_first(q, k, v, sinks / scale)
    q, k, v = _equally_wide(q, k, v)
    has_sink = sinks is not None
    if visibility.hides_nothing or visibility.is_square_causal:
        causal = not visibility.hides_nothing
        if causal and has_sink:  # one more query, so that the causal mask stays square
            q = F.pad(q, (0, 0, 1, 0))
        out = F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=causal, scale=scale
        )
        return out[:, :, 1:, :width] if causal and has_sink else out[..., :width]
    out = _by_blocks(q, k, v, scale, visibility, dropout, has_sink)
    return out[..., :width]


def _by_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    visibility: Visibility,
    dropout: float,
    has_sink: bool,
) -> Tensor:
    """Attend for a block of queries at a time, each with its own part of the mask."""
    num_queries, blocks = q.shape[2], []
    step = _rows_at_once(visibility, num_queries, q.device)
    for start in range(0, num_queries, step):
        stop = min(start + step, num_queries)
        seen = visibility.keys_seen(start, stop)
        mask, empty = _mask_and_empty_rows(visibility, start, stop, q.device)
        keys, values = k, v
        if has_sink:
            sink, seen = slice(0, 1), slice(seen.start + 1, seen.stop + 1)
            keys, values = (torch.cat((x[:, :, sink], x[:, :, seen]), dim=2) for x in (k, v))
            mask, seen = _mask_with_sink(mask, seen.stop - seen.start), slice(None)
        out = F.scaled_dot_product_attention(
            q[:, :, start:stop],
            keys[:, :, seen],
            values[:, :, seen],
            attn_mask=mask,
            dropout_p=dropout,
            scale=scale,
        )
        blocks.append(out if empty is None else out.masked_fill(empty, 0.0))
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=2)


def _with_sink_first(
    q: Tensor, k: Tensor, v: Tensor, sinks: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Add a key without a value, before all others, whose product with every query is the sink.

    One new channel carries it: queries have 1 there, the new key its score, other keys 0. More
    channels are zero, because kernels want widths that eight divides.

    Args:
        q: (B, H, T, d).
        k: (B, H, S, d).
        v: (B, H, S, v).
        sinks: (H,), divided by the scale that the kernel multiplies by.
    """
    shape = (*k.shape[:2], 1, k.shape[3])
    score = sinks.to(k.dtype)[None, :, None, None].expand(*shape[:3], 1)
    key = torch.cat((k.new_zeros(shape), score), dim=-1)
    ones = torch.cat((q, q.new_ones(*q.shape[:3], 1)), dim=-1)
    keys = torch.cat((F.pad(key, (0, _SINK_CHANNELS - 1)), F.pad(k, (0, _SINK_CHANNELS))), dim=2)
    return F.pad(ones, (0, _SINK_CHANNELS - 1)), keys, F.pad(v, (0, 0, 1, 0))


def _mask_with_sink(mask: Tensor | None, num_keys: int) -> Tensor | None:
    """The kernel's mask with a first column for the sink, which every query sees."""
    if mask is None:
        return None
    whole = mask.expand(*mask.shape[:-1], num_keys)
    return torch.cat((whole.new_full((*mask.shape[:-1], 1), mask.dtype == torch.bool), whole), -1)


def _capped_head_outputs(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visibility: Visibility,
    dropout: float,
    softcap: float,
    sinks: Tensor | None,
) -> Tensor:
    """Attend with capped scores; q is multiplied by the scale, k and v are repeated."""
    num_queries, blocks = q.shape[2], []
    entries = q.shape[0] * q.shape[1] * k.shape[2]  # for one query
    step = max(1, min(num_queries, _MASK_ENTRIES // max(1, entries)))
    for start in range(0, num_queries, step):
        stop = min(start + step, num_queries)
        seen = visibility.keys_seen(start, stop)
        allowed, bias = _rows_seen(visibility, start, stop, q.device)
        scores = capped(q[:, :, start:stop] @ k[:, :, seen].mT, softcap)
        weights, _ = weights_and_sinks(mask_scores(scores, allowed, bias), allowed, sinks)
        kept = F.dropout(weights, dropout) if dropout > 0.0 else weights
        blocks.append(kept @ v[:, :, seen])
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=2)


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


def _rows_seen(
    visibility: Visibility, start: int, stop: int, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """`visibility.rows` of some queries for the keys in `visibility.keys_seen` only."""
    seen = visibility.keys_seen(start, stop)
    allowed, bias = (
        mask if mask is None or mask.shape[-1] == 1 else mask[..., seen]
        for mask in visibility.rows(start, stop, device)
    )
    return allowed, bias


def _mask_and_empty_rows(
    visibility: Visibility, start: int, stop: int, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """The kernel's mask for some queries, and which of them see no key; the mask opens those rows.

    The mask covers `visibility.keys_seen` only.
    """
    allowed, bias = _rows_seen(visibility, start, stop, device)
    empty: Tensor | None = None
    if allowed is not None and visibility.can_empty_a_row:
        empty = rows_without_key(allowed)
        allowed = allowed | empty
    if bias is None:
        return allowed, empty
    return bias if allowed is None else bias.masked_fill(~allowed, -torch.inf), empty
