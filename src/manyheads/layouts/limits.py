"""What a foreign attention module cannot hold, said with the argument, its value and a remedy."""

from manyheads.core.config import AttentionConfig
from manyheads.core.errors import LayoutError
from manyheads.core.weights import HeadWeights

Sizes = AttentionConfig | HeadWeights


def check_value_width(sizes: Sizes, target: str) -> None:
    """Raise LayoutError where values are wider or narrower than keys."""
    if sizes.v_head_dim != sizes.head_dim:
        raise LayoutError(
            f"v_head_dim ({sizes.v_head_dim}) must equal head_dim ({sizes.head_dim}), {target} has "
            "one width for all heads: keep the layer, or build it without v_head_dim"
        )


def check_no_groups(sizes: Sizes, target: str) -> None:
    """Raise LayoutError where query heads share key/value heads."""
    if sizes.num_kv_heads != sizes.num_heads:
        raise LayoutError(
            f"num_kv_heads ({sizes.num_kv_heads}) must equal num_heads ({sizes.num_heads}), "
            f"{target} has no shared key/value heads: "
            "use repeat_kv_heads(heads) from manyheads.layouts"
        )


def check_joined_width(sizes: Sizes, target: str) -> None:
    """Raise LayoutError where the heads together are not as wide as the model."""
    if sizes.head_dim * sizes.num_heads != sizes.embed_dim:
        raise LayoutError(
            f"head_dim ({sizes.head_dim}) times num_heads ({sizes.num_heads}) must be embed_dim "
            f"({sizes.embed_dim}) in {target}: keep the layer, or build it without head_dim"
        )
