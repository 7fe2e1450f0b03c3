"""Separate: one matrix each for queries, keys, values and output; fewer key/value heads allowed.

By rows, (out, in), in Llama, Whisper and most others; by columns, (in, out), in Flax and TensorFlow
checkpoints. Key and value inputs may have widths of their own.
"""

from torch import Tensor

from manyheads.core.weights import HeadWeights
from manyheads.layouts.blocks import (
    Blocks,
    HeadSizes,
    blocks_from_heads,
    check_head_counts,
    head_width,
    heads_from_blocks,
    out_rows_from_heads,
)
from manyheads.layouts.foreign import Orientation, SeparateWeights


def heads_from_separate_rows(
    separate: SeparateWeights, *, num_heads: int, num_kv_heads: int | None = None
) -> HeadWeights:
    """Read separate matrices that lie as in `nn.Linear`; the result views them.

    Args:
        separate: q is H*d x D, k is G*d x K, v is G*v x V, o is D x H*v.
        num_heads: H.
        num_kv_heads: G, H unless given.

    Raises:
        LayoutError: a tensor of the wrong size, or counts that do not fit.
    """
    return _read(separate, "rows", check_head_counts(num_heads, num_kv_heads))


def heads_from_separate_columns(
    separate: SeparateWeights, *, num_heads: int, num_kv_heads: int | None = None
) -> HeadWeights:
    """Read separate matrices that lie as (in, out); the result views them.

    Args:
        separate: q is D x H*d, k is K x G*d, v is V x G*v, o is H*v x D.
        num_heads: H.
        num_kv_heads: G, H unless given.

    Raises:
        LayoutError: a tensor of the wrong size, or counts that do not fit.
    """
    return _read(separate, "columns", check_head_counts(num_heads, num_kv_heads))


def separate_rows_from_heads(heads: HeadWeights) -> SeparateWeights:
    """Write separate matrices that lie as in `nn.Linear`; a missing bias stays missing."""
    return _write(heads, "rows")


def separate_columns_from_heads(heads: HeadWeights) -> SeparateWeights:
    """Write separate matrices that lie as (in, out); a missing bias stays missing."""
    return _write(heads, "columns")


def _read(
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


def _write(heads: HeadWeights, orientation: Orientation) -> SeparateWeights:
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
