"""How other code arranges the matrices of attention; each arrangement is read and written.

Stacked: one matrix holds the outputs of all queries, then all keys, then all values, as in
`nn.MultiheadAttention.in_proj_weight`, nanoGPT's `c_attn` (rows) and GPT-2's Conv1D (columns).
Interleaved: the queries, the key and the value of one head or group are next to each other, as in
BLOOM and GPT-NeoX (one query per group), Falcon and Megatron (several).
Separate: one matrix each for queries, keys, values and output, as in Llama and Whisper (rows), and
in Flax and TensorFlow checkpoints (columns).
"""

from functools import partial

import torch
from torch import Tensor

from manyheads.core.errors import LayoutError
from manyheads.core.weights import HeadWeights
from manyheads.layouts.blocks import (
    Blocks,
    HeadSizes,
    JoinedWeights,
    Orientation,
    SeparateWeights,
    blocks_from_heads,
    check_head_counts,
    grouped_rows,
    head_width,
    heads_from_blocks,
    heads_from_joined,
    joined_from_heads,
    out_rows_from_heads,
)


def heads_from_stacked_rows(
    stacked: JoinedWeights,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    order: str = "qkv",
) -> HeadWeights:
    """Read stacked matrices arranged as in `nn.Linear`; the result views them.

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
    return _read_stacked(stacked, "rows", counts, head_dim, order)


def heads_from_stacked_columns(
    stacked: JoinedWeights,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    order: str = "qkv",
) -> HeadWeights:
    """Read stacked matrices arranged as in GPT-2's Conv1D; the result views them.

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
    return _read_stacked(stacked, "columns", counts, head_dim, order)


def stacked_rows_from_heads(heads: HeadWeights, *, order: str = "qkv") -> JoinedWeights:
    """Write stacked matrices arranged as in `nn.Linear`.

    Args:
        heads: one matrix per head; keys and values must read inputs of width D.
        order: of the three blocks.

    Raises:
        LayoutError: the three projections do not fit one matrix, or an unknown order.
    """
    return joined_from_heads(heads, partial(_join_stacked, order=_checked_order(order)), "rows")


def stacked_columns_from_heads(heads: HeadWeights, *, order: str = "qkv") -> JoinedWeights:
    """Write stacked matrices arranged as in GPT-2's Conv1D.

    Args:
        heads: one matrix per head; keys and values must read inputs of width D.
        order: of the three blocks.

    Raises:
        LayoutError: the three projections do not fit one matrix, or an unknown order.
    """
    return joined_from_heads(heads, partial(_join_stacked, order=_checked_order(order)), "columns")


def _read_stacked(
    stacked: JoinedWeights,
    orientation: Orientation,
    counts: tuple[int, int],
    head_dim: int | None,
    order: str,
) -> HeadWeights:
    return heads_from_joined(
        stacked, partial(_cut_stacked, order=_checked_order(order)), orientation, counts, head_dim
    )


def _checked_order(order: str) -> str:
    if sorted(order) != ["k", "q", "v"]:
        raise LayoutError(
            f"order ({order!r}) must name each of q, k and v once: use for instance 'qkv'"
        )
    return order


def _cut_stacked(rows: Tensor, sizes: HeadSizes, order: str) -> dict[str, Tensor]:
    return dict(zip(order, torch.split(rows, [sizes.widths[part] for part in order]), strict=True))


def _join_stacked(blocks: dict[str, Tensor], sizes: HeadSizes, order: str) -> Tensor:
    return torch.cat([blocks[part] for part in order])


def heads_from_interleaved_rows(
    interleaved: JoinedWeights,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
) -> HeadWeights:
    """Read interleaved matrices arranged as in `nn.Linear`.

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
    return heads_from_joined(interleaved, _cut_interleaved, "rows", counts, head_dim)


def interleaved_rows_from_heads(heads: HeadWeights) -> JoinedWeights:
    """Write interleaved matrices arranged as in `nn.Linear`, one group after another.

    Args:
        heads: one matrix per head; keys and values must read inputs of width D.

    Raises:
        LayoutError: the three projections do not fit one matrix.
    """
    return joined_from_heads(heads, _join_interleaved, "rows")


def _cut_interleaved(rows: Tensor, sizes: HeadSizes) -> dict[str, Tensor]:
    groups = sizes.num_kv_heads
    widths = [width // groups for width in sizes.widths.values()]
    parts = torch.split(grouped_rows(rows, groups), widths, dim=1)  # each: group, rows of the group
    return {name: part.flatten(0, 1) for name, part in zip("qkv", parts, strict=True)}


def _join_interleaved(blocks: dict[str, Tensor], sizes: HeadSizes) -> Tensor:
    grouped = [grouped_rows(blocks[name], sizes.num_kv_heads) for name in "qkv"]
    return torch.cat(grouped, dim=1).flatten(0, 1)


def heads_from_separate_rows(
    separate: SeparateWeights, *, num_heads: int, num_kv_heads: int | None = None
) -> HeadWeights:
    """Read separate matrices arranged as in `nn.Linear`; the result views them.

    Args:
        separate: q is H*d x D, k is G*d x K, v is G*v x V, o is D x H*v.
        num_heads: H.
        num_kv_heads: G, H unless given.

    Raises:
        LayoutError: a tensor of the wrong size, or counts that do not fit.
    """
    return _read_separate(separate, "rows", check_head_counts(num_heads, num_kv_heads))


def heads_from_separate_columns(
    separate: SeparateWeights, *, num_heads: int, num_kv_heads: int | None = None
) -> HeadWeights:
    """Read separate matrices arranged as (in, out); the result views them.

    Args:
        separate: q is D x H*d, k is K x G*d, v is V x G*v, o is H*v x D.
        num_heads: H.
        num_kv_heads: G, H unless given.

    Raises:
        LayoutError: a tensor of the wrong size, or counts that do not fit.
    """
    return _read_separate(separate, "columns", check_head_counts(num_heads, num_kv_heads))


def separate_rows_from_heads(heads: HeadWeights) -> SeparateWeights:
    """Write separate matrices arranged as in `nn.Linear`; a missing bias stays missing."""
    return _write_separate(heads, "rows")


def separate_columns_from_heads(heads: HeadWeights) -> SeparateWeights:
    """Write separate matrices arranged as (in, out); a missing bias stays missing."""
    return _write_separate(heads, "columns")


def _read_separate(
    separate: SeparateWeights, orientation: Orientation, counts: tuple[int, int]
) -> HeadWeights:
    weights = {part: separate.matrix(part, orientation) for part in "qkv"}
    name_of, (num_heads, num_kv_heads) = separate.name_of, counts
    sizes = HeadSizes(
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_width(name_of("q"), weights["q"].shape[0], num_heads, "num_heads"),
        v_head_dim=head_width(name_of("v"), weights["v"].shape[0], num_kv_heads, "num_kv_heads"),
    )
    why = (
        f"{num_kv_heads} key heads (num_kv_heads) of width {sizes.head_dim}, "
        f"which is the head width of {name_of('q')}"
    )
    separate.check_matrix("k", orientation, (sizes.widths["k"], weights["k"].shape[1]), why)
    embed_dim, concat_dim = weights["q"].shape[1], num_heads * sizes.v_head_dim
    why = (
        f"{num_heads} heads of value width {sizes.v_head_dim} are joined, and {name_of('q')} "
        f"makes the model width {embed_dim}"
    )
    out = separate.check_matrix("o", orientation, (embed_dim, concat_dim), why)
    biases = {part: separate.check_bias(f"{part}_bias", sizes.widths[part]) for part in "qkv"}
    blocks = Blocks(weights=weights, biases=biases)
    return heads_from_blocks(blocks, sizes, out, separate.check_bias("o_bias", embed_dim))


def _write_separate(heads: HeadWeights, orientation: Orientation) -> SeparateWeights:
    blocks = blocks_from_heads(heads)

    def turned(matrix: Tensor) -> Tensor:
        return (matrix if orientation == "rows" else matrix.mT).contiguous()

    return SeparateWeights(
        q=turned(blocks.weights["q"]),
        k=turned(blocks.weights["k"]),
        v=turned(blocks.weights["v"]),
        o=turned(out_rows_from_heads(heads)),
        q_bias=blocks.biases["q"],
        k_bias=blocks.biases["k"],
        v_bias=blocks.biases["v"],
        o_bias=heads.b_o,
    )
