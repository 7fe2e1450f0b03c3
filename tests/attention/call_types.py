"""What type checkers must infer for a call of the layer; mypy checks this file with the package."""

from typing import assert_type

from torch import Tensor, nn

import manyheads as mh


def results(layer: mh.MultiHeadAttention, x: Tensor, cache: mh.KVCache, need: bool) -> None:
    """Each combination of need_weights and kv_cache has a result of its own."""
    assert_type(layer(x), Tensor)
    assert_type(layer(x, need_weights=True), tuple[Tensor, Tensor])
    assert_type(layer(x, x, is_causal=True, kv_cache=cache), tuple[Tensor, mh.KVCache])
    assert_type(layer(x, need_weights=True, kv_cache=cache), tuple[Tensor, Tensor, mh.KVCache])
    assert_type(layer.forward(x, head_mask=x), Tensor)
    assert_type(
        layer(x, need_weights=need, kv_cache=cache),
        tuple[Tensor, mh.KVCache] | tuple[Tensor, Tensor, mh.KVCache],
    )
    either, known = layer(x, need_weights=need), layer(x, need_weights=need, kv_cache=None)
    assert_type(either, Tensor | tuple[Tensor, Tensor])
    assert_type(known, Tensor | tuple[Tensor, Tensor])
    maybe = cache if need else None
    assert_type(layer(x, kv_cache=maybe), Tensor | tuple[Tensor, mh.KVCache])
    weighed = layer(x, kv_cache=maybe, need_weights=True)
    assert_type(weighed, tuple[Tensor, Tensor] | tuple[Tensor, Tensor, mh.KVCache])
    layer.heads[0].hook_weights.register_forward_hook(lambda point, inputs, weights: weights)
    layer(x, causal=True)  # type: ignore[call-overload]  # the name of another library


def conversions(module: nn.MultiheadAttention, query: Tensor) -> None:
    """`drop_in` decides which module is built; a mistyped name of the root is found."""
    assert_type(mh.from_torch(module), mh.MultiHeadAttention)
    assert_type(mh.from_torch(module, drop_in=True).batch_first, bool)
    result = mh.from_torch(module, drop_in=True)(query, query, query, attn_mask=None)
    assert_type(result, tuple[Tensor, Tensor | None])
    _ = mh.MultiheadAttention  # type: ignore[attr-defined]  # its heads begin with a capital H
