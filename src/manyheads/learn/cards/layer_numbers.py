"""The numbers of one attention layer that cards ask for, read off a real layer and a real mask.

The layer is built without memory (torch's meta device), so that its size does not matter.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from manyheads.core.config import AttentionConfig
from manyheads.worksheets.arithmetic import Number, reciprocal, square_root

_CALL = {"batch": 1, "queries": 1, "keys": None, "entry": "float32"}
"""What a row may say about the call beside the layer: B, T, S (as T unless given), and the type."""


def numbers_of_layer(row: Mapping[str, Any]) -> dict[str, Number]:
    """Every number of a layer and a causal call of it, by name.

    Args:
        row: arguments of `MultiHeadAttention`, and `batch`, `queries`, `keys` and `entry` (a
            torch dtype) of the call.

    Raises:
        ConfigError: no layer can have these sizes.
    """
    from manyheads.attention.module import MultiHeadAttention

    call = {name: row.get(name, usual) for name, usual in _CALL.items()}
    layer = MultiHeadAttention(
        **{name: value for name, value in row.items() if name not in _CALL}, device="meta"
    )
    keys = call["keys"] or call["queries"]
    axes = {"B": call["batch"], "T": call["queries"], "S": keys}
    numbers = {
        **axes,
        **_sizes(layer.config),
        "parameters": sum(parameter.numel() for parameter in layer.parameters()),
        **_storage(layer.config, axes, call["entry"]),
        **_seen(axes["T"], axes["S"], layer.config.window),
        **_slopes(layer.config.num_heads),
    }
    # Exact, where the layer's own scale is a float; a test holds one to the other.
    scale = reciprocal(square_root(Fraction(layer.config.head_dim)))
    return {name: Fraction(value) for name, value in numbers.items()} | {"scale": scale}


def _sizes(config: AttentionConfig) -> dict[str, int]:
    """Widths, and which rows of stored matrices belong to what, counted from 1."""
    queries, keys, values = config.projection_widths
    return {
        "D": config.embed_dim,
        "H": config.num_heads,
        "G": config.num_kv_heads,
        "d": config.head_dim,
        "v": config.v_head_dim,
        "joined": config.concat_dim,
        "kdim": config.kdim,
        "pairs": config.head_dim // 2,
        "group": config.num_heads // config.num_kv_heads,
        "input_rows": queries + keys + values,
        "first_key_row": queries + 1,
        "last_key_row": queries + keys,
        "last_block": config.concat_dim - config.v_head_dim + 1,
    }


def _storage(config: AttentionConfig, axes: Mapping[str, int], entry: str) -> dict[str, int]:
    """Entries and bytes of the scores, and of the cached keys and values."""
    import torch

    def stored(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=getattr(torch, entry), device="meta")

    scores = stored(axes["B"], config.num_heads, axes["T"], axes["S"])
    k = stored(axes["B"], config.num_kv_heads, axes["S"], config.head_dim)
    v = stored(axes["B"], config.num_kv_heads, axes["S"], config.v_head_dim)
    return {
        "entries": scores.numel(),
        "entry_bytes": scores.element_size(),
        "score_bytes": scores.nbytes,
        "cache_bytes": k.nbytes + v.nbytes,
    }


def _seen(num_queries: int, num_keys: int, window: int | None) -> dict[str, int]:
    """How many keys the first and the last query see in a causal call, and all together."""
    import torch

    from manyheads.core.masks import Visibility

    if num_queries * num_keys > 1 << 20:  # a card that asks for these has small sizes
        return {}
    rule = Visibility(num_queries=num_queries, num_keys=num_keys, is_causal=True, window=window)
    allowed, _ = rule.rows(0, num_queries, torch.device("cpu"))
    assert allowed is not None
    by_query = allowed.expand(num_queries, num_keys).sum(dim=-1)
    return {
        "first_sees": int(by_query[0]),
        "last_sees": int(by_query[-1]),
        "pairs_seen": int(by_query.sum()),
    }


def _slopes(num_heads: int) -> dict[str, float]:
    from manyheads.attention.positions import published_slopes

    slopes = published_slopes(num_heads)
    return {"first_slope": slopes[0], "last_slope": slopes[-1]}
