"""What other layouts cannot represent, with the remedy, and equivalent weights that they can."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from manyheads.core.config import AttentionConfig
from manyheads.core.errors import LayoutError
from manyheads.core.shapes import repeat_kv
from manyheads.core.weights import HeadWeights

Sizes = AttentionConfig | HeadWeights


def check_value_width(sizes: Sizes, target: str) -> None:
    """Raise LayoutError if values are wider or narrower than keys."""
    if sizes.v_head_dim != sizes.head_dim:
        raise LayoutError(
            f"v_head_dim ({sizes.v_head_dim}) must equal head_dim ({sizes.head_dim}), {target} has "
            "one width for all heads: keep the layer, or build it without v_head_dim"
        )


def check_no_groups(sizes: Sizes, target: str) -> None:
    """Raise LayoutError if query heads share key/value heads."""
    if sizes.num_kv_heads != sizes.num_heads:
        raise LayoutError(
            f"num_kv_heads ({sizes.num_kv_heads}) must equal num_heads ({sizes.num_heads}), "
            f"{target} has no shared key/value heads: "
            "use repeat_kv_heads(heads) from manyheads.layouts"
        )


def check_joined_width(sizes: Sizes, target: str) -> None:
    """Raise LayoutError if all heads together are not as wide as the model."""
    if sizes.head_dim * sizes.num_heads != sizes.embed_dim:
        raise LayoutError(
            f"head_dim ({sizes.head_dim}) times num_heads ({sizes.num_heads}) must be embed_dim "
            f"({sizes.embed_dim}) in {target}: keep the layer, or build it without head_dim"
        )


EXTRAS = ("q_gain", "q_shift", "k_gain", "k_shift", "sinks", "w_g", "b_g")
"""Fields of `HeadWeights` that layers without a norm of queries and keys, sinks and gate lack."""


def check_no_extras(heads: HeadWeights, target: str, known: tuple[str, ...] = ()) -> None:
    """Raise LayoutError if the weights have a norm, sinks or a gate that the target lacks."""
    odd = [name for name in EXTRAS if name not in known and getattr(heads, name) is not None]
    if odd:
        raise LayoutError(
            f"{odd[0]} (shape {tuple(getattr(heads, odd[0]).shape)}) has no place in {target}: "
            "use another layout, or keep the layer"
        )


def without_extras(heads: HeadWeights) -> HeadWeights:
    """The weights of the projections alone."""
    nothing: dict[str, Any] = dict.fromkeys(EXTRAS)
    return replace(heads, **nothing)


def fill_input_biases(heads: HeadWeights) -> HeadWeights:
    """Give queries, keys and values without a bias a bias of zeros."""
    return replace(
        heads,
        b_q=heads.w_q.new_zeros(heads.w_q.shape[::2]) if heads.b_q is None else heads.b_q,
        b_k=heads.w_k.new_zeros(heads.w_k.shape[::2]) if heads.b_k is None else heads.b_k,
        b_v=heads.w_v.new_zeros(heads.w_v.shape[::2]) if heads.b_v is None else heads.b_v,
    )


def fill_biases(heads: HeadWeights) -> HeadWeights:
    """Give every projection without a bias a bias of zeros, the output projection too."""
    b_o = heads.w_o.new_zeros(heads.embed_dim) if heads.b_o is None else heads.b_o
    return replace(fill_input_biases(heads), b_o=b_o)


def repeat_kv_heads(heads: HeadWeights) -> HeadWeights:
    """Give each query head its own key/value head, a copy of the shared one."""

    def repeated(whole: Tensor | None) -> Tensor | None:
        if whole is None:
            return None
        four_axes = whole.reshape(
            1, heads.num_kv_heads, -1, whole.shape[-1]
        )  # (1, G, in or 1, width)
        return repeat_kv(four_axes, heads.num_heads)[0].reshape(heads.num_heads, *whole.shape[1:])

    names = ("w_k", "w_v", "b_k", "b_v")
    made: dict[str, Any] = {name: repeated(getattr(heads, name)) for name in names}
    for name in ("k_gain", "k_shift"):
        row: Tensor | None = getattr(heads, name)
        if row is not None and len(row) != heads.head_dim:  # over all heads, which become more
            each = row.view(heads.num_kv_heads, heads.head_dim)
            made[name] = each.repeat_interleave(heads.num_heads // heads.num_kv_heads, 0).flatten()
    return replace(heads, **made)
