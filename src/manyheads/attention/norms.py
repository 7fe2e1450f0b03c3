"""Norms of queries and keys inside a layer."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.core.config import AttentionConfig
from manyheads.core.errors import ConfigError
from manyheads.core.shapes import merge_heads, split_heads
from manyheads.core.variants import QKNorm
from manyheads.core.weights import HeadWeights


def register_norms(layer: nn.Module, config: AttentionConfig, where: dict[str, Any]) -> None:
    """Register `q_norm` and `k_norm`; None where the layer has no norm of queries and keys.

    Args:
        layer: the module that gets them.
        config: its sizes.
        where: device and dtype.
    """
    for name, count in (("q_norm", config.num_heads), ("k_norm", config.num_kv_heads)):
        norm = config.qk_norm
        if norm is None:
            layer.register_module(name, None)
            continue
        width = config.head_dim * (1 if norm.over == "head" else count)
        kind = nn.RMSNorm if norm.type == "rms" else nn.LayerNorm
        made = kind(width, eps=norm.eps, elementwise_affine=norm.affine, **where)
        layer.register_module(name, made)


def normed_heads(
    settings: QKNorm, norm: nn.Module | None, x: Float[Tensor, "B N T d"]
) -> Float[Tensor, "B N T d"]:
    """Normalise queries or keys of N heads, (B, N, T, d).

    Args:
        settings: whether over each head or over all heads of a position.
        norm: the module that normalises rows.
        x: (B, N, T, d), before rotary positions.
    """
    assert norm is not None
    if settings.over == "head":
        return norm(x)  # type: ignore[no-any-return]  # torch does not type calls
    return split_heads(norm(merge_heads(x)), x.shape[1])


def check_norm_is_given(weights: HeadWeights, norm: QKNorm | None) -> None:
    """Check that weights of a norm come with its settings.

    Raises:
        ConfigError: they do not.
    """
    if norm is None and (weights.q_gain is not None or weights.k_gain is not None):
        raise ConfigError(
            "qk_norm (None) must be given, because the weights have q_gain or k_gain: "
            "pass manyheads.QKNorm(...) with the type and eps of the model"
        )
