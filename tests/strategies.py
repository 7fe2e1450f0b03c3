"""Generators of small attention sums for property tests."""

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

import manyheads as mh
import manyheads.attention.module  # loading it inside a strategy would draw random numbers
from tests.factories import inputs_of, layer_of, random_like


@dataclass(frozen=True, kw_only=True)
class Sum:
    """One layer, the inputs of one call, and its masks."""

    layer: Any
    """The layer, in float64."""
    plain: Any
    """A layer with the same weights, without positions and window."""
    inputs: list[Tensor]
    """Query (B, T, D), key (B, S, K) and value (B, S, V)."""
    call: dict[str, Any]
    """Masks, by argument name."""

    @property
    def batch(self) -> int:
        """B."""
        return self.inputs[1].shape[0]

    @property
    def num_keys(self) -> int:
        """S."""
        return self.inputs[1].shape[1]


POSITIONS = (
    None,
    mh.Rotary(),
    mh.Rotary(style="interleaved", base=7.0, dim=2),
    mh.LinearBias(),
)


@st.composite
def masks(draw: st.DrawFn, batch: int, heads: int, queries: int, keys: int) -> dict[str, Any]:
    """Masks of a call: by order, Boolean or additive, of any shape that broadcasts."""
    call: dict[str, Any] = {"is_causal": draw(st.booleans())}
    kind = draw(st.sampled_from(["none", "bool", "float", "float with -inf"]))
    if kind == "none":
        return call
    full = (batch, heads, queries, keys)
    four = tuple(draw(st.sampled_from([1, size])) for size in full)
    shape = four if draw(st.booleans()) else four[2:]
    bits = random_like(draw(st.integers(0, 99)), *shape) > -0.5
    additive = random_like(draw(st.integers(0, 99)), *shape)
    if kind == "float with -inf":
        additive = additive.masked_fill(~bits, -torch.inf)
    return call | {"attn_mask": bits if kind == "bool" else additive}


@st.composite
def sums(draw: st.DrawFn) -> Sum:
    """A small layer of any kind with inputs and masks."""
    groups, share = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    sizes = {
        "embed_dim": draw(st.integers(1, 4)),
        "num_heads": groups * share,
        "num_kv_heads": groups,
        "head_dim": draw(st.sampled_from([2, 4])),
        "v_head_dim": draw(st.integers(1, 5)),
        "kdim": draw(st.integers(1, 3)),
        "vdim": draw(st.integers(1, 3)),
        "bias": draw(st.booleans()),
        "scale": draw(st.sampled_from([None, 0.0, 0.7])),
    }
    window = draw(st.sampled_from([None, 1, 2, 9]))
    layer = layer_of(**sizes, window=window, positions=draw(st.sampled_from(POSITIONS)))
    batch, queries, keys = (draw(st.integers(1, top)) for top in (2, 3, 4))
    return Sum(
        layer=layer,
        plain=layer_of(**sizes),
        inputs=inputs_of(layer, queries, keys, batch=batch, seed=draw(st.integers(0, 99))),
        call=draw(masks(batch, groups * share, queries, keys)),
    )
