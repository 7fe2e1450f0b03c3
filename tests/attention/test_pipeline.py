"""With no step changed the pipeline is the sum that the loop form computes."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import manyheads as mh
from manyheads.attention.pipeline import Pipeline
from manyheads.attention.positions import published_slopes
from manyheads.attention.problem import GivenMask, Problem, RowNorm
from manyheads.core.compare import check_close
from manyheads.core.config import LinearBias, Rotary
from tests.factories import LAYERS, inputs_of, layer_of, mostly_slow
from tests.faults.problems import STANDARD, full_mask, key_mask, problem_of

RIGHT = Pipeline()
QUERIES, KEYS = 3, 4
_KEEP = torch.tensor([[True, False, True, True], [True, True, False, True]])


def _problem(layer: Any, inputs: list[Tensor], **more: Any) -> Problem:
    config, positions = layer.config, layer.config.positions
    slopes = None
    if isinstance(positions, LinearBias):
        slopes = positions.slopes or published_slopes(config.num_heads)
    weights, norms = layer.head_weights(), {}
    if (norm := config.qk_norm) is not None:
        for name, gain, shift in (
            ("q", weights.q_gain, weights.q_shift),
            ("k", weights.k_gain, weights.k_shift),
        ):
            norms[name] = RowNorm(
                kind=norm.type, over=norm.over, eps=norm.eps, gain=gain, shift=shift
            )
    return Problem(
        x_q=inputs[0], x_k=inputs[1], x_v=inputs[2], weights=weights,
        norms=norms, softcap=config.softcap, sinks=weights.sinks,
        num_heads=config.num_heads, num_kv_heads=config.num_kv_heads, scale=config.scale,
        rotary=positions if isinstance(positions, Rotary) else None, slopes=slopes,
        window=config.window, **more,
    )  # fmt: skip


MASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no mask": ({}, {}),
    "causal": ({"is_causal": True}, {"is_causal": True}),
    "padding": (
        {"key_padding_mask": ~_KEEP},
        {"masks": (GivenMask(allowed=_KEEP[:, None], axes="BS", convention="blocked"),)},
    ),
    "a mask a sample, causal": (
        {"attn_mask": full_mask(2, QUERIES, KEYS).allowed[:, None], "is_causal": True},
        {"masks": (full_mask(2, QUERIES, KEYS),), "is_causal": True},
    ),
    "all padded": (
        {"key_padding_mask": torch.ones(2, KEYS, dtype=torch.bool)},
        {"masks": (key_mask("0000", "0000"),)},
    ),
}


@pytest.mark.parametrize("mask", mostly_slow(MASKS, "no mask", "a mask a sample, causal"))
@pytest.mark.parametrize("options", LAYERS)
def test_pipeline_against_loop(options: str, mask: str) -> None:
    layer, masks = layer_of(**LAYERS[options]), MASKS[mask]
    layer.form = "loop"
    inputs = inputs_of(layer, QUERIES, KEYS)
    output, weights = layer(*inputs, need_weights=True, **masks[0])
    answer = RIGHT.run(_problem(layer, inputs, **masks[1]))
    check_close("output", answer.output, output, allowed=1e-12)
    check_close("attn_weights", answer.attn_weights, weights, allowed=1e-12)


@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
def test_gradients_of_pipeline_against_loop(options: dict[str, Any]) -> None:
    layer = layer_of(**options)
    layer.form = "loop"
    inputs = [x.requires_grad_() for x in inputs_of(layer, QUERIES, KEYS)]
    targets = [*inputs, *layer.parameters()]
    judge = torch.autograd.grad(layer(*inputs, is_causal=True).square().sum(), targets)
    answer = RIGHT.run(_problem(layer, inputs, is_causal=True))
    for mine, theirs in zip(
        torch.autograd.grad(answer.output.square().sum(), targets), judge, strict=True
    ):
        check_close("gradient", mine, theirs, allowed=1e-10)


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("chunks", [(6,), (1,) * 6, (2, 3, 1), (5, 1)])
def test_pieces_against_one_causal_pass(chunks: tuple[int, ...], style: Any) -> None:
    for rotary in (None, mh.Rotary(style=style, base=50.0)):
        whole = problem_of(2, 6, is_causal=True, rotary=rotary)
        pieces = RIGHT.run(replace(whole, chunks=chunks))
        check_close("output", pieces.output, RIGHT.run(whole).output, allowed=1e-12)


def test_pieces_against_the_cache_of_the_layer() -> None:
    layer = layer_of(positions=mh.Rotary(base=20.0), head_dim=6, num_kv_heads=2)
    (x, *_), cache, outputs = inputs_of(layer, 6, 6), mh.KVCache(), []
    for piece in x.split((3, 1, 2), dim=1):
        y, cache = layer(piece, is_causal=True, kv_cache=cache)
        outputs.append(y)
    answer = RIGHT.run(_problem(layer, [x, x, x], is_causal=True, chunks=(3, 1, 2)))
    check_close("output", answer.output, torch.cat(outputs, dim=1), allowed=1e-12)


def test_heads_without_projections_against_torch() -> None:
    problem = STANDARD["heads"]
    F = torch.nn.functional
    judge = F.scaled_dot_product_attention(
        problem.x_q, problem.x_k, problem.x_v, scale=problem.scale
    )
    check_close("output", RIGHT.run(problem).output, judge, allowed=1e-12)


def test_softcap_bounds_the_scores_and_a_large_one_changes_nothing() -> None:
    free, problem = RIGHT.run(STANDARD["heads"]), STANDARD["heads"]
    capped = RIGHT.run(replace(problem, softcap=1e9))
    check_close("output", capped.output, free.output, allowed=1e-9)
    flat = RIGHT.run(replace(problem, softcap=1e-12))
    check_close(
        "attn_weights", flat.attn_weights, torch.full_like(flat.attn_weights, 1 / 7), allowed=1e-9
    )
