"""The arguments of a call: checked against the layer; the masks say which query sees which key."""

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.attention.cache import KVCache
from manyheads.attention.positions import bias_slopes
from manyheads.attention.steps import ProjectedHeads
from manyheads.core.config import AttentionConfig, LinearBias
from manyheads.core.errors import ConfigError, ShapeError
from manyheads.core.masks import Visibility, check_attn_mask, check_key_padding_mask
from manyheads.core.shapes import check_input


def check_inputs(
    config: AttentionConfig,
    dtype: torch.dtype,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    kv_cache: KVCache | None,
) -> None:
    """Check query, key and value against the layer and each other, and that a cache is one.

    Args:
        config: the layer's sizes.
        dtype: of the layer's parameters; not compared under autocast.
        query: (B, T, D).
        key: (B, N, K).
        value: (B, N, V).
        kv_cache: keys and values of earlier positions, if any.

    Raises:
        ShapeError: another rank, width, dtype or device, batches or lengths that disagree, or a
            cache that is not a `KVCache`, such as the pair of tensors of other libraries.
    """
    _check_cache(kv_cache)
    check_input("query", query, config.embed_dim)
    check_input("key", key, config.kdim)
    check_input("value", value, config.vdim)
    if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
        raise ShapeError(
            f"query, key and value have shapes {tuple(query.shape)}, {tuple(key.shape)} and "
            f"{tuple(value.shape)}: batches must be equal, and key and value equally long"
        )
    device = query.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dtype != dtype:
            raise ShapeError(
                f"{name} has dtype {tensor.dtype}, expected {dtype} as the layer's parameters: "
                f"use {name}.to({dtype}), or layer.to({tensor.dtype})"
            )


def check_flag(name: str, value: object, meaning: str) -> None:
    """Check that a flag of a call is True or False.

    Args:
        name: of the argument.
        value: what was given.
        meaning: what True does.

    Raises:
        ConfigError: it is not a bool.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{name} ({value!r}) must be True or False: pass True to {meaning}")


def check_trace(config: AttentionConfig, is_training: bool) -> None:
    """Check that dropout is inactive; otherwise a trace would show one random draw.

    Raises:
        ConfigError: dropout is active.
    """
    if is_training and config.dropout > 0.0:
        raise ConfigError(
            f"dropout ({config.dropout}) must be inactive for a trace: call layer.eval()"
        )


def _check_cache(kv_cache: object) -> None:
    if kv_cache is not None and not isinstance(kv_cache, KVCache):
        kind = type(kv_cache).__name__
        raise ShapeError(f"kv_cache ({kind}) must be a KVCache: start with manyheads.KVCache()")


def visibility_of_call(
    config: AttentionConfig,
    heads: ProjectedHeads,
    dtype: torch.dtype,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
) -> Visibility:
    """Check the masks of a call and combine them into a `Visibility`.

    Args:
        config: the layer's sizes and flags.
        heads: the projected queries, keys and values, cached keys included.
        dtype: of the queries as they were given, which an additive mask must share.
        attn_mask: as in `MultiHeadAttention.forward`.
        key_padding_mask: as in `MultiHeadAttention.forward`.
        is_causal: as in `MultiHeadAttention.forward`.

    Raises:
        ConfigError: `is_causal` is neither True nor False.
        ShapeError: a mask of another rank, shape or dtype.
    """
    check_flag("is_causal", is_causal, "hide later keys")
    batch, num_heads, num_queries, _ = heads.q.shape
    num_keys, positions = heads.k.shape[2], config.positions
    if attn_mask is not None:
        check_attn_mask(attn_mask, (batch, num_heads, num_queries, num_keys), dtype)
        is_boolean = attn_mask.dtype == torch.bool
        attn_mask = attn_mask if is_boolean else attn_mask.to(heads.q.dtype)
    if key_padding_mask is not None:
        check_key_padding_mask(key_padding_mask, batch, num_keys)
    slopes: Tensor | None = None
    if isinstance(positions, LinearBias):
        slopes = bias_slopes(positions, num_heads, heads.q)
    return Visibility(
        num_queries=num_queries,
        num_keys=num_keys,
        is_causal=is_causal,
        window=config.window,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        slopes=slopes,
    )


def masked_heads(
    head_outputs: Float[Tensor, "B H T v"], head_mask: Tensor | None
) -> Float[Tensor, "B H T v"]:
    """Multiply each head's message by its factor.

    Args:
        head_outputs: messages, (B, H, T, v).
        head_mask: (H,) or (B, H), floating point or Boolean; None changes nothing.

    Raises:
        ShapeError: a mask of another shape or dtype.
    """
    if head_mask is None:
        return head_outputs
    if not isinstance(head_mask, Tensor):
        kind = type(head_mask).__name__
        raise ShapeError(f"head_mask ({kind}) must be a tensor: use torch.as_tensor")
    batch, num_heads = head_outputs.shape[:2]
    if tuple(head_mask.shape) not in ((num_heads,), (batch, num_heads)):
        raise ShapeError(
            f"head_mask has shape {tuple(head_mask.shape)}, expected (H,) = ({num_heads},) or "
            f"(B, H) = ({batch}, {num_heads}): give one factor per head"
        )
    if not (head_mask.is_floating_point() or head_mask.dtype == torch.bool):
        raise ShapeError(
            f"head_mask has dtype {head_mask.dtype}, expected floating point or torch.bool "
            "(False removes a head): use head_mask.bool()"
        )
    return head_outputs * head_mask[..., None, None].to(head_outputs.dtype)
