"""Random weights, one matrix per head, with sizes that all differ unless asked otherwise."""

import itertools
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from manyheads.core.weights import HeadWeights

BIASES = ("b_q", "b_k", "b_v", "b_o")


def random_heads(
    *,
    num_heads: int = 6,
    num_kv_heads: int = 3,
    embed_dim: int = 10,
    head_dim: int = 5,
    v_head_dim: int = 4,
    inputs: tuple[int, int] | None = None,
    biases: tuple[str, ...] = BIASES,
    seed: int = 0,
) -> HeadWeights:
    """Weights in float64, drawn from a generator of their own."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    key_width, value_width = inputs or (embed_dim, embed_dim)
    shapes = {
        "b_q": (num_heads, head_dim),
        "b_k": (num_kv_heads, head_dim),
        "b_v": (num_kv_heads, v_head_dim),
        "b_o": (embed_dim,),
    }
    return HeadWeights(
        w_q=draw(num_heads, embed_dim, head_dim),
        w_k=draw(num_kv_heads, key_width, head_dim),
        w_v=draw(num_kv_heads, value_width, v_head_dim),
        w_o=draw(num_heads, v_head_dim, embed_dim),
        **{name: draw(*shapes[name]) for name in biases},
    )


def plain_heads(*, biases: tuple[str, ...] = BIASES, seed: int = 0) -> HeadWeights:
    """Three heads of width 4 in a model of width 12, as most modules need it."""
    return random_heads(
        num_heads=3,
        num_kv_heads=3,
        embed_dim=12,
        head_dim=4,
        v_head_dim=4,
        biases=biases,
        seed=seed,
    )


@st.composite
def sizes_to_join(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `random_heads` that one matrix can hold: input biases all there or none."""
    kept: tuple[str, ...] = draw(st.sampled_from([(), ("b_q", "b_k", "b_v")]))
    return {**draw(_sizes()), "biases": kept + draw(st.sampled_from([("b_o",), ()]))}


@st.composite
def any_sizes(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `random_heads` with any input widths and any of the four biases."""
    subsets = [c for n in range(5) for c in itertools.combinations(BIASES, n)]
    return {
        **draw(_sizes()),
        "inputs": draw(st.sampled_from([None, (13, 7), (3, 17)])),
        "biases": draw(st.sampled_from(subsets)),
    }


@st.composite
def _sizes(draw: st.DrawFn) -> dict[str, Any]:
    groups, shared = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    widths = draw(st.lists(st.integers(1, 11), min_size=3, max_size=3, unique=True))
    return {
        "num_heads": groups * shared,
        "num_kv_heads": groups,
        **dict(zip(("embed_dim", "head_dim", "v_head_dim"), widths, strict=True)),
        "seed": draw(st.integers(0, 99)),
    }
