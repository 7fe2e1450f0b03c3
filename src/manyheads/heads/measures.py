"""Measures of a head, from its attention weights.

Every measure takes weights (B, H, T, S) as a trace has them, and gives a number for each query,
(B, H, T), or for each pair of heads. A query with no allowed key has zero weights, which are not a
distribution: its measures are zero, and `mean_by_head` and `pattern_distances` leave it out.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.core.errors import ShapeError
from manyheads.core.trace import AttentionTrace

DISTANCE_UNIT = "square root of bits, 0 to 1"


def entropy(attn_weights: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T"]:
    """Entropy of each query's weights, in nats: 0 for one key, ln S for S equal weights.

    Args:
        attn_weights: (B, H, T, S).

    Returns:
        nats, (B, H, T).
    """
    terms: Tensor = torch.special.entr(attn_weights)  # (B, H, T, S)
    return terms.sum(dim=-1)


def mean_distance(attn_weights: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T"]:
    """Mean distance between a query and its keys, in tokens; the last query is at the last key.

    Args:
        attn_weights: (B, H, T, S).

    Returns:
        mean absolute distance in tokens, (B, H, T); 0 where the query sees only itself.
    """
    T, S = attn_weights.shape[-2:]
    queries = torch.arange(T, device=attn_weights.device) + (S - T)
    keys = torch.arange(S, device=attn_weights.device)
    distance = (queries[:, None] - keys).abs().to(attn_weights.dtype)  # (T, S)
    return (attn_weights * distance).sum(dim=-1)


def mass_on_keys(
    attn_weights: Float[Tensor, "B H T S"], keys: Bool[Tensor, "B S"]
) -> Float[Tensor, "B H T"]:
    """The fraction of each query's weight on chosen keys, for instance on `[BOS]`.

    Args:
        attn_weights: (B, H, T, S).
        keys: (B, S), True where a key is chosen.

    Returns:
        fraction 0 to 1, (B, H, T).
    """
    return (attn_weights * keys[:, None, None, :]).sum(dim=-1)


def mass_at_offset(
    attn_weights: Float[Tensor, "B H T S"], offset: int = 0
) -> Float[Tensor, "B H T"]:
    """The weight that each query gives the key `offset` tokens before it; 0 is its own.

    Args:
        attn_weights: (B, H, T, S).
        offset: tokens back, at least 0.

    Returns:
        fraction 0 to 1, (B, H, T); 0 where that key would be before the first one.

    Raises:
        ShapeError: offset is negative.
    """
    if offset < 0:
        raise ShapeError(
            f"offset ({offset}) must not be negative: use 1 for the token before the query"
        )
    T, S = attn_weights.shape[-2:]
    queries = torch.arange(T, device=attn_weights.device) + (S - T)
    keys = torch.arange(S, device=attn_weights.device)
    chosen = queries[:, None] - keys == offset  # (T, S)
    return (attn_weights * chosen).sum(dim=-1)


def largest_weight(attn_weights: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T"]:
    """The largest weight of each query: 1 for a head that picks one key.

    Args:
        attn_weights: (B, H, T, S).

    Returns:
        fraction 0 to 1, (B, H, T).
    """
    return attn_weights.amax(dim=-1)


def mean_by_head(
    values: Float[Tensor, "B H T"], attn_weights: Float[Tensor, "B H T S"]
) -> Float[Tensor, " H"]:
    """The mean of a measure over all queries that see a key.

    Args:
        values: result of a measure, (B, H, T).
        attn_weights: the weights that were measured, (B, H, T, S).

    Returns:
        one mean per head, (H,).

    Raises:
        ShapeError: no query sees a key.
    """
    sees = _seeing(attn_weights)
    return (values * sees[:, None]).sum(dim=(0, 2)) / sees.sum()


def pattern_distances(attn_weights: Float[Tensor, "B H T S"]) -> Float[Tensor, "H H"]:
    """Mean Jensen-Shannon distance between two heads over all queries.

    The distance is the square root of the Jensen-Shannon divergence in bits: 0 for equal weights,
    1 for heads that share no key. The distance is a metric; the divergence is not.

    Args:
        attn_weights: (B, H, T, S).

    Returns:
        symmetric with a diagonal of zeros, (H, H).

    Raises:
        ShapeError: no query sees a key.

    Source: Lin 1991, IEEE Trans. Inf. Theory 37(1); Endres and Schindelin 2003, ibid. 49(7).
    """
    sees = _seeing(attn_weights)
    H = attn_weights.shape[1]
    found = attn_weights.new_zeros(H, H)
    own = entropy(attn_weights)  # (B, H, T)
    for i in range(H - 1):
        mixed = (attn_weights[:, i : i + 1] + attn_weights[:, i + 1 :]) / 2  # (B, H-i-1, T, S)
        nats = entropy(mixed) - (own[:, i : i + 1] + own[:, i + 1 :]) / 2
        distance = (nats.clamp(min=0.0) / math.log(2)).sqrt() * sees[:, None]
        found[i, i + 1 :] = distance.sum(dim=(0, 2)) / sees.sum()
    return found + found.T


def pattern_diversity(attn_weights: Float[Tensor, "B H T S"]) -> float | None:
    """The mean of `pattern_distances` over all pairs of heads; None for a single head.

    Args:
        attn_weights: (B, H, T, S).
    """
    H = attn_weights.shape[1]
    if H < 2:
        return None
    return float(pattern_distances(attn_weights).sum()) / (H * (H - 1))


def measures_from_trace(trace: AttentionTrace) -> dict[str, Float[Tensor, " H"]]:
    """Every measure of a head that needs only the trace, averaged over its queries.

    Args:
        trace: of any form.

    Returns:
        for each measure, by its name, one number per head, (H,).
    """
    weights = trace.attn_weights
    measured = {
        "entropy": entropy(weights),
        "largest_weight": largest_weight(weights),
        "mass_on_previous": mass_at_offset(weights, 1),
        "mass_on_self": mass_at_offset(weights, 0),
        "mean_distance": mean_distance(weights),
    }
    return {name: mean_by_head(values, weights) for name, values in measured.items()}


def _seeing(attn_weights: Float[Tensor, "B H T S"]) -> Float[Tensor, "B T"]:
    """1 for each query that sees a key, in any head, and 0 for the others."""
    sees = attn_weights.sum(dim=-1).amax(dim=1) > 0  # (B, T)
    if not bool(sees.any()):
        shape = tuple(attn_weights.shape)
        raise ShapeError(
            f"attn_weights {shape} has no query that sees a key: allow at least one key"
        )
    return sees.to(attn_weights.dtype)
