"""What the forms share: the projected heads of a call, its steps, and the trace made from them."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.core.shapes import merge_heads
from manyheads.core.trace import AttentionTrace
from manyheads.core.weights import HeadWeights


@dataclass(frozen=True, kw_only=True)
class AttentionSteps:
    """The steps between projected heads and head outputs."""

    scores: Float[Tensor, "B H T S"]
    """q·k times the scale, (B, H, T, S)."""
    masked_scores: Float[Tensor, "B H T S"]
    """After masks and position bias, -inf where blocked, (B, H, T, S)."""
    attn_weights: Float[Tensor, "B H T S"]
    """After softmax over keys, before dropout, (B, H, T, S)."""
    head_outputs: Float[Tensor, "B H T v"]
    """Weighted sums of values, after dropout on the weights, (B, H, T, v)."""
    capped_scores: Float[Tensor, "B H T S"] | None = None
    """Scores after the soft-cap, (B, H, T, S); None without one."""
    sink_weights: Float[Tensor, "B H T"] | None = None
    """What the sink takes of each row of weights, (B, H, T); None without sinks."""


@dataclass(frozen=True, kw_only=True)
class ProjectedHeads:
    """Queries, keys and values of one call, after norms and rotary positions, cached first."""

    q: Float[Tensor, "B H T d"]
    """(B, H, T, d)."""
    k: Float[Tensor, "B G S d"]
    """(B, G, S, d)."""
    v: Float[Tensor, "B G S v"]
    """(B, G, S, v)."""


def trace_from_steps(
    form: str,
    x: Tensor,
    heads: ProjectedHeads,
    steps: AttentionSteps,
    weights: HeadWeights,
    gate: Tensor | None = None,
) -> AttentionTrace:
    """Concatenate the heads, project them, and keep what each of them adds.

    Args:
        form: which form computed the steps.
        x: the query input, (B, T, D).
        heads: projected heads.
        steps: their steps.
        weights: the layer's weights, of which w_o and b_o are used.
        gate: what the head outputs are multiplied by, (B, H, T, v), or None.
    """
    w_o, b_o = weights.w_o, weights.b_o
    gated = steps.head_outputs if gate is None else steps.head_outputs * gate
    concat = merge_heads(gated)  # (B, T, H*v)
    output = concat @ w_o.flatten(0, 1)  # (B, T, D)
    return AttentionTrace(
        form=form,
        x=x,
        q=heads.q,
        k=heads.k,
        v=heads.v,
        scores=steps.scores,
        capped_scores=steps.capped_scores,
        masked_scores=steps.masked_scores,
        sink_weights=steps.sink_weights,
        attn_weights=steps.attn_weights,
        head_outputs=steps.head_outputs,
        gate=gate,
        concat=concat,
        w_o=w_o,
        head_contributions=torch.einsum("bhtv,hvd->bhtd", gated, w_o),
        b_o=b_o,
        output=output if b_o is None else output + b_o,
    )
