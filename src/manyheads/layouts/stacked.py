"""Stacked: one matrix holds the outputs of all queries, then all keys, then all values.

By rows, (out, in), in `nn.MultiheadAttention.in_proj_weight` and nanoGPT's `c_attn`; by columns,
(in, out), in GPT-2's Conv1D. Any order of the three blocks can be read and written.
"""

from functools import partial

import torch
from torch import Tensor

from manyheads.core.errors import LayoutError
from manyheads.core.weights import HeadWeights
from manyheads.layouts.blocks import (
    HeadSizes,
    check_head_counts,
    heads_from_joined,
    joined_from_heads,
)
from manyheads.layouts.foreign import JoinedWeights, Orientation


def heads_from_stacked_rows(
    stacked: JoinedWeights,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    order: str = "qkv",
) -> HeadWeights:
    """Read stacked matrices that lie as in `nn.Linear`; the result views them.

    Args:
        stacked: qkv is R x D with R = H*d + G*d + G*v, out is D x H*v.
        num_heads: H.
        num_kv_heads: G, H unless given.
        head_dim: d, the value width unless given.
        order: of the three blocks, for instance "kqv".

    Raises:
        LayoutError: a tensor of the wrong size, counts that do not fit, or an unknown order.
    """
    counts = check_head_counts(num_heads, num_kv_heads)
    return _read(stacked, "rows", counts, head_dim, order)


def heads_from_stacked_columns(
    stacked: JoinedWeights,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    order: str = "qkv",
) -> HeadWeights:
    """Read stacked matrices that lie as in GPT-2's Conv1D; the result views them.

    Args:
        stacked: qkv is D x R with R = H*d + G*d + G*v, out is H*v x D.
        num_heads: H.
        num_kv_heads: G, H unless given.
        head_dim: d, the value width unless given.
        order: of the three blocks.

    Raises:
        LayoutError: a tensor of the wrong size, counts that do not fit, or an unknown order.
    """
    counts = check_head_counts(num_heads, num_kv_heads)
    return _read(stacked, "columns", counts, head_dim, order)


def stacked_rows_from_heads(heads: HeadWeights, *, order: str = "qkv") -> JoinedWeights:
    """Write stacked matrices that lie as in `nn.Linear`.

    Args:
        heads: one matrix per head; keys and values must read inputs of width D.
        order: of the three blocks.

    Raises:
        LayoutError: the three projections do not fit one matrix, or an unknown order.
    """
    return joined_from_heads(heads, partial(_join, order=_checked(order)), "rows")


def stacked_columns_from_heads(heads: HeadWeights, *, order: str = "qkv") -> JoinedWeights:
    """Write stacked matrices that lie as in GPT-2's Conv1D.

    Args:
        heads: one matrix per head; keys and values must read inputs of width D.
        order: of the three blocks.

    Raises:
        LayoutError: the three projections do not fit one matrix, or an unknown order.
    """
    return joined_from_heads(heads, partial(_join, order=_checked(order)), "columns")


def _read(
    stacked: JoinedWeights,
    orientation: Orientation,
    counts: tuple[int, int],
    head_dim: int | None,
    order: str,
) -> HeadWeights:
    return heads_from_joined(
        stacked, partial(_cut, order=_checked(order)), orientation, counts, head_dim
    )


def _checked(order: str) -> str:
    if sorted(order) != ["k", "q", "v"]:
        raise LayoutError(
            f"order ({order!r}) must name each of q, k and v once: use for instance 'qkv'"
        )
    return order


def _cut(rows: Tensor, sizes: HeadSizes, order: str) -> dict[str, Tensor]:
    return dict(zip(order, torch.split(rows, [sizes.widths[part] for part in order]), strict=True))


def _join(blocks: dict[str, Tensor], sizes: HeadSizes, order: str) -> Tensor:
    return torch.cat([blocks[part] for part in order])
