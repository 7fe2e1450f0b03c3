"""From scores to weights where scores are capped or a sink takes part in the softmax."""

from typing import TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.core.masks import softmax_over_keys


class Scoring(TypedDict, total=False):
    """What changes scores and softmax: the limit of the scores, and the score of each sink."""

    softcap: float | None
    sinks: Tensor | None


def capped(scores: Float[Tensor, "B H T S"], softcap: float) -> Float[Tensor, "B H T S"]:
    """Keep scores between -softcap and softcap, smoothly: softcap * tanh(scores / softcap).

    Args:
        scores: before masks, (B, H, T, S).
        softcap: the limit, in score units.

    Source: Gemma Team 2024, arXiv:2408.00118, section 2.
    """
    return (scores / softcap).tanh() * softcap


def weights_and_sinks(
    masked_scores: Float[Tensor, "B H T S"],
    allowed: Tensor | None,
    sinks: Float[Tensor, " H"] | None,
) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B H T"] | None]:
    """Weights, and what the sink takes of each row: together they sum to one.

    exp(sink) is added to the denominator; the softmax of torch subtracts the largest score first,
    so nothing overflows. A sink of zero adds one (Miller 2023, "Attention Is Off By One").

    Args:
        masked_scores: (B, H, T, S), -inf where blocked.
        allowed: the mask that made them, or None where none did.
        sinks: one score per head, (H,), or None.

    Source: OpenAI 2025, arXiv:2508.10925, section 2.2; Xiao et al. 2023, arXiv:2309.17453.
    """
    if sinks is None:
        return softmax_over_keys(masked_scores, allowed), None
    column = sinks.to(masked_scores.dtype)[:, None, None].expand(*masked_scores.shape[:-1], 1)
    both = torch.cat((masked_scores, column), dim=-1).softmax(dim=-1)  # (B, H, T, S + 1)
    return both[..., :-1], both[..., -1]
