"""Other weights that compute the same: for targets that cannot hold a layer as it is."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from manyheads.core.shapes import repeat_kv
from manyheads.core.weights import HeadWeights


def fill_input_biases(heads: HeadWeights) -> HeadWeights:
    """Give queries, keys and values that have no bias one of zeros."""
    return replace(
        heads,
        b_q=heads.w_q.new_zeros(heads.w_q.shape[::2]) if heads.b_q is None else heads.b_q,
        b_k=heads.w_k.new_zeros(heads.w_k.shape[::2]) if heads.b_k is None else heads.b_k,
        b_v=heads.w_v.new_zeros(heads.w_v.shape[::2]) if heads.b_v is None else heads.b_v,
    )


def fill_biases(heads: HeadWeights) -> HeadWeights:
    """Give every projection that has no bias one of zeros, the output too."""
    b_o = heads.w_o.new_zeros(heads.embed_dim) if heads.b_o is None else heads.b_o
    return replace(fill_input_biases(heads), b_o=b_o)


def repeat_kv_heads(heads: HeadWeights) -> HeadWeights:
    """Give each query head a key/value head of its own, a copy of the one that it shared."""

    def repeated(whole: Tensor | None) -> Tensor | None:
        if whole is None:
            return None
        four_axes = whole.reshape(
            1, heads.num_kv_heads, -1, whole.shape[-1]
        )  # (1, G, in or 1, width)
        return repeat_kv(four_axes, heads.num_heads)[0].reshape(heads.num_heads, *whole.shape[1:])

    names = ("w_k", "w_v", "b_k", "b_v")
    made: dict[str, Any] = {name: repeated(getattr(heads, name)) for name in names}
    return replace(heads, **made)
