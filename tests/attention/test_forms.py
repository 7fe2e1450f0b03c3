"""The three forms are one sum: outputs, weights and every gradient agree, in float64."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings

import manyheads as mh
from manyheads.core.config import TRACED_FORMS
from tests.factories import (
    FORMS,
    LAYERS,
    MASKS,
    B,
    G,
    H,
    S,
    T,
    answers,
    assert_same,
    inputs_of,
    layer_of,
    mostly_slow,
    random_like,
)
from tests.strategies import Sum, sums

TELLING = (
    "causal",
    "bool by sample",
    "bool with empty rows",
    "additive by head",
    "additive, rows of -inf",
    "padding, causal, additive",
)
SHAPES = ((1, 1), (1, 4), (3, 3), (4, 3), (5, 2))


def assert_forms_agree(layer: Any, inputs: list[torch.Tensor], call: dict[str, Any]) -> None:
    judge = answers(layer, "loop", inputs, call)
    for form in FORMS[1:]:
        assert_same(answers(layer, form, inputs, call), judge)


@pytest.mark.parametrize("mask", MASKS)
def test_loop_equals_packed_equals_fused_with_every_mask(mask: str) -> None:
    layer = layer_of(num_kv_heads=G)
    assert_forms_agree(layer, inputs_of(layer, T, S), MASKS[mask](T, S))


@pytest.mark.parametrize("mask", mostly_slow(TELLING, TELLING[-1]))
@pytest.mark.parametrize("options", LAYERS)
def test_loop_equals_packed_equals_fused_with_every_layer(options: str, mask: str) -> None:
    layer = layer_of(**LAYERS[options])
    assert_forms_agree(layer, inputs_of(layer, T, S), MASKS[mask](T, S))


@pytest.mark.parametrize("shape", mostly_slow(SHAPES, (4, 3), (1, 4)), ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_forms_agree_at_other_lengths(mask: str, shape: tuple[int, int]) -> None:
    layer = layer_of(num_kv_heads=G)
    assert_forms_agree(layer, inputs_of(layer, *shape), MASKS[mask](*shape))


@pytest.mark.parametrize("shape", mostly_slow(SHAPES, (4, 3), (1, 4)), ids=str)
@pytest.mark.parametrize(
    "options", ["window", "rotary half", "linear bias", "own slopes and window"]
)
def test_order_aware_layers_agree_at_other_lengths(options: str, shape: tuple[int, int]) -> None:
    layer = layer_of(**LAYERS[options])
    assert_forms_agree(layer, inputs_of(layer, *shape), MASKS["padding, causal"](*shape))


def test_forms_agree_where_every_size_differs() -> None:
    layer = layer_of(num_kv_heads=G, kdim=9, vdim=4, v_head_dim=8)
    assert_forms_agree(layer, inputs_of(layer, 7, 11), MASKS["padding, causal, additive"](7, 11))


@pytest.mark.parametrize("options", [n for n in LAYERS if n != "own kdim and vdim"])
def test_self_attention_equals_attention_with_the_input_given_three_times(options: str) -> None:
    layer = layer_of(**LAYERS[options])
    (x, *_), call = inputs_of(layer, T, T), {"is_causal": True}
    for form in FORMS:
        found = answers(layer, form, [x], call)
        judge = answers(layer, form, [x, x, x], call)
        total = sum(judge.pop(f"gradient of {name}") for name in ("query", "key", "value"))
        assert_same(found, judge | {"gradient of query": total})


@pytest.mark.parametrize("form", FORMS)
def test_missing_key_means_query_and_missing_value_means_key(form: str) -> None:
    layer = layer_of(form=form)
    query, key, value = inputs_of(layer, T, T)
    assert torch.equal(layer(query, key), layer(query, key, key))
    assert torch.equal(layer(query, value=value), layer(query, query, value))


@pytest.mark.parametrize("mask", ["nothing allowed", "all is padding"])
@pytest.mark.parametrize("form", FORMS)
def test_query_without_any_key_gets_zero_weights_and_the_output_bias(form: str, mask: str) -> None:
    layer = layer_of(form=form)
    output, weights = layer(*inputs_of(layer, T, S), need_weights=True, **MASKS[mask](T, S))
    assert torch.equal(weights, torch.zeros(B, H, T, S, dtype=torch.float64))
    assert torch.equal(output, layer.out_proj.bias.expand_as(output))


@pytest.mark.parametrize("mask", ["nothing allowed", "additive, rows of -inf", "all is padding"])
@pytest.mark.parametrize("form", FORMS)
def test_no_step_of_the_gradient_is_nan_where_a_query_sees_nothing(form: str, mask: str) -> None:
    layer = layer_of()
    with torch.autograd.set_detect_anomaly(True):  # raises at the step that makes a NaN
        answers(layer, form, inputs_of(layer, T, S), MASKS[mask](T, S))


@pytest.mark.parametrize("form", FORMS)
def test_first_queries_of_a_long_causal_call_see_nothing_and_the_last_sees_all(form: str) -> None:
    layer = layer_of(form=form)
    _, weights = layer(*inputs_of(layer, 5, 2), is_causal=True, need_weights=True)
    assert not weights[:, :, :3].any()
    assert (weights[:, :, 3, 0] == 1).all()
    assert (weights[:, :, 4] > 0).all()


@settings(max_examples=20)
@given(sums())
def test_forms_agree_on_drawn_sums(case: Sum) -> None:
    assert_forms_agree(case.layer, case.inputs, case.call)


@settings(max_examples=20)
@given(sums())
def test_a_masked_key_cannot_matter_in_value_or_gradient(case: Sum) -> None:
    blocked = torch.zeros(case.batch, case.num_keys, dtype=torch.bool)
    blocked[:, case.num_keys // 2] = True
    call = case.call | {"key_padding_mask": blocked}
    query, key, value = case.inputs
    noise = 100.0 * blocked[:, :, None]
    for form in FORMS:
        judge = answers(case.layer, form, [query, key, value], call)
        found = answers(case.layer, form, [query, key + noise, value - noise], call)
        assert_same(found, judge, allowed=0.0)
        for name in ("key", "value"):
            assert not judge[f"gradient of {name}"][blocked].any()
        assert not judge["weights"].movedim(-1, 1)[blocked].any()


@settings(max_examples=20)
@given(sums())
def test_heads_permute_with_their_weights(case: Sum) -> None:
    weights = case.layer.head_weights()
    num_groups, group = weights.num_kv_heads, weights.num_heads // weights.num_kv_heads
    order = torch.arange(num_groups).flip(0)
    heads = (order[:, None] * group + torch.arange(group)).flatten()
    moved = {
        name: tensor[heads] if name in ("w_q", "w_o", "b_q") else tensor[order]
        for name, tensor in weights.tensors().items()
        if name != "b_o"
    }
    moved_weights = mh.HeadWeights(**moved, b_o=weights.b_o)
    scale = case.layer.config.scale
    other = mh.MultiHeadAttention.from_weights(moved_weights, scale=scale)
    call = {n: v for n, v in case.call.items() if n != "attn_mask"}
    for form in FORMS:
        case.plain.form = other.form = form
        output, attn = case.plain(*case.inputs, need_weights=True, **call)
        output_moved, attn_moved = other(*case.inputs, need_weights=True, **call)
        assert (output - output_moved).abs().max() < 1e-11
        assert (attn[:, heads] - attn_moved).abs().max() < 1e-11


def test_gradient_reaches_every_parameter_in_every_form() -> None:
    layer = layer_of(num_kv_heads=G)
    for form in FORMS:
        found = answers(layer, form, inputs_of(layer, T, S), {})
        gradients = {n: g for n, g in found.items() if n.startswith("gradient")}
        assert len(gradients) == 3 + len(list(layer.parameters()))
        assert all(g.abs().sum() > 0 for g in gradients.values())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_lower_precision_differs_by_rounding_only(dtype: torch.dtype, form: str) -> None:
    exact = layer_of(num_kv_heads=G)
    inputs = [x.to(dtype).double() for x in inputs_of(exact, T, S)]
    rough = layer_of(num_kv_heads=G, dtype=dtype, form=form)
    exact.load_state_dict({n: p.double() for n, p in rough.state_dict().items()})
    call = MASKS["padding, causal"](T, S)
    judge = exact(*inputs, **call)
    found = rough(*[x.to(dtype) for x in inputs], **call)
    assert found.dtype == dtype
    # about ten roundings lie between input and output, whose terms are of size 10
    assert (found - judge).abs().max() < 100 * torch.finfo(dtype).eps
    assert (found - judge).abs().max() > 0


@pytest.mark.parametrize("form", TRACED_FORMS)
def test_first_and_second_derivatives_are_those_of_finite_differences(form: str) -> None:
    layer = layer_of(embed_dim=4, num_heads=2, head_dim=2, form=form)
    mask = torch.tensor([[True, False], [False, False], [True, True]])
    query, key = random_like(1, 1, 3, 4).requires_grad_(), random_like(2, 1, 2, 4).requires_grad_()

    def call(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return layer(q, k, attn_mask=mask)

    assert torch.autograd.gradcheck(call, (query, key))
    assert torch.autograd.gradgradcheck(call, (query, key))


def test_fused_derivative_is_that_of_finite_differences() -> None:
    layer = layer_of(embed_dim=4, num_heads=2, head_dim=2, form="fused", window=2)
    query, key = random_like(1, 1, 3, 4).requires_grad_(), random_like(2, 1, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: layer(q, k, need_weights=True), (query, key))
