"""Interleaved: the queries, the key and the value of one head or group lie side by side.

With as many key/value heads as heads: q, k, v of head 0, then of head 1, as in BLOOM and GPT-NeoX.
With fewer: the queries of group 0, its key and its value, then group 1, as in Falcon and Megatron.
"""

import torch
from torch import Tensor

from manyheads.core.weights import HeadWeights
from manyheads.layouts.blocks import (
    HeadSizes,
    check_head_counts,
    grouped_rows,
    heads_from_joined,
    joined_from_heads,
)
from manyheads.layouts.foreign import JoinedWeights


def heads_from_interleaved_rows(
    interleaved: JoinedWeights,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
) -> HeadWeights:
    """Read interleaved matrices that lie as in `nn.Linear`.

    The result views the input, but copies queries where a group has several.

    Args:
        interleaved: qkv is R x D with R = G * ((H/G)*d + d + v), out is D x H*v.
        num_heads: H.
        num_kv_heads: G, the number of groups, H unless given.
        head_dim: d, the value width unless given.

    Raises:
        LayoutError: a tensor of the wrong size, or counts that do not fit.

    Source: Shoeybi et al. 2019, arXiv:1909.08053, and its published code, ParallelAttention.
    """
    counts = check_head_counts(num_heads, num_kv_heads)
    return heads_from_joined(interleaved, _cut, "rows", counts, head_dim)


def interleaved_rows_from_heads(heads: HeadWeights) -> JoinedWeights:
    """Write interleaved matrices that lie as in `nn.Linear`, one group after another.

    Args:
        heads: one matrix per head; keys and values must read inputs of width D.

    Raises:
        LayoutError: the three projections do not fit one matrix.
    """
    return joined_from_heads(heads, _join, "rows")


def _cut(rows: Tensor, sizes: HeadSizes) -> dict[str, Tensor]:
    groups = sizes.num_kv_heads
    widths = [width // groups for width in sizes.widths.values()]
    parts = torch.split(grouped_rows(rows, groups), widths, dim=1)  # each: group, rows of the group
    return {name: part.flatten(0, 1) for name, part in zip("qkv", parts, strict=True)}


def _join(blocks: dict[str, Tensor], sizes: HeadSizes) -> Tensor:
    grouped = [grouped_rows(blocks[name], sizes.num_kv_heads) for name in "qkv"]
    return torch.cat(grouped, dim=1).flatten(0, 1)
