"""Asking for weights leaves the output as it is; dropout belongs to training only."""

from typing import Any

import pytest
import torch

from tests.factories import FORMS, LAYERS, MASKS, B, H, S, T, inputs_of, layer_of, random_like

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def mask_of(name: str, dtype: torch.dtype, queries: int = T, keys: int = S) -> dict[str, Any]:
    """A mask of the factories; an additive one in the given dtype."""
    call = MASKS[name](queries, keys)
    mask = call.get("attn_mask")
    is_additive = mask is not None and mask.is_floating_point()
    return call | {"attn_mask": mask.to(dtype)} if is_additive else call


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_output_is_the_same_with_weights(form: str, dtype: torch.dtype) -> None:
    # bit for bit, but for the fused form in wide types: its kernel sums in another order
    is_wide = dtype in (torch.float32, torch.float64)
    allowed = 32 * torch.finfo(dtype).eps if form == "fused" and is_wide else 0.0
    for options in ("grouped heads", "own slopes and window"):
        layer = layer_of(**LAYERS[options], form=form, dtype=dtype)
        inputs = inputs_of(layer, T, S)
        for name in MASKS:
            call = mask_of(name, dtype)
            output, weights = layer(*inputs, need_weights=True, **call)
            plain = layer(*inputs, **call)
            gap = (output.double() - plain.double()).abs().max() / plain.abs().max()
            assert gap <= allowed, (options, name)
            assert torch.isfinite(output).all(), (options, name)
            assert torch.isfinite(weights).all(), (options, name)
            assert weights.shape == (B, H, T, S)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_weights_of_every_precision_are_near_those_of_float64(
    form: str, dtype: torch.dtype
) -> None:
    rough = layer_of(dtype=dtype, form=form)
    exact = layer_of(form="loop")
    exact.load_state_dict({n: p.double() for n, p in rough.state_dict().items()})
    for name in MASKS:
        call = mask_of(name, dtype)
        _, weights = rough(*inputs_of(rough, T, S), need_weights=True, **call)
        mask = call.get("attn_mask")
        if mask is not None and mask.is_floating_point():
            call["attn_mask"] = mask.double()
        _, judge = exact(*[x.double() for x in inputs_of(rough, T, S)], need_weights=True, **call)
        # a score of size 5 is off by some roundings, and so is, in proportion, its exponential
        assert (weights.double() - judge).abs().max() < 40 * torch.finfo(dtype).eps, name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lowest_finite_number_as_a_mask_hides_keys_and_leaves_a_row_of_it_finite(
    form: str, dtype: torch.dtype
) -> None:
    layer = layer_of(dtype=dtype, form=form)
    weights = layer.head_weights()
    with torch.no_grad():  # scores near -100
        weights.b_q.fill_(7.0)
        weights.b_k.fill_(-7.0)
    inputs = inputs_of(layer, T, S)
    mask = torch.zeros(T, S, dtype=dtype)
    mask[0], mask[1, 2:] = torch.finfo(dtype).min, torch.finfo(dtype).min
    output, weights = layer(*inputs, attn_mask=mask, need_weights=True)
    assert torch.isfinite(output).all()
    assert not weights[:, :, 1, 2:].any()
    assert (weights.float().sum(-1) - 1).abs().max() < 0.02


@pytest.mark.parametrize("name", ["none", "causal", "padding, causal, bool", "additive"])
@pytest.mark.parametrize("form", FORMS)
def test_dropout_drops_the_same_with_and_without_weights(form: str, name: str) -> None:
    layer = layer_of(dropout=0.5, form=form)
    inputs, call = inputs_of(layer, T, T), MASKS[name](T, T)
    torch.manual_seed(4)
    plain = layer(*inputs, **call)
    torch.manual_seed(4)
    output, weights = layer(*inputs, need_weights=True, **call)
    assert (output - plain).abs().max() < 1e-13
    layer.eval()
    exact, exact_weights = layer(*inputs, need_weights=True, **call)
    assert torch.equal(weights, exact_weights)  # those before dropout
    assert not torch.equal(output, exact)
    state = torch.get_rng_state()
    assert (layer(*inputs, **call) - exact).abs().max() < 1e-13
    assert torch.equal(torch.get_rng_state(), state)  # nothing is drawn outside of training


@pytest.mark.parametrize("form", FORMS)
def test_dropout_keeps_the_mean_and_has_the_spread_of_its_share(form: str) -> None:
    share, draws = 0.3, 3000
    layer = layer_of(embed_dim=2, num_heads=1, head_dim=2, dropout=share, form=form)
    x = random_like(5, 1, 2, 2).expand(draws, -1, -1)
    torch.manual_seed(6)
    dropped = layer(x)
    layer.eval()
    exact, weights = layer(x[:1], need_weights=True)
    values = layer.head_weights()
    message = (x[0] @ values.w_v[0] + values.b_v[0]) @ values.w_o[0]  # what each key would add
    spread = ((weights[0, 0] ** 2) @ message**2 * share / (1 - share)).sqrt()
    assert ((dropped.mean(0) - exact[0]).abs() < 4.5 * spread / draws**0.5).all()
    assert ((dropped.std(0) / spread - 1).abs() < 0.15).all()


@pytest.mark.parametrize("form", FORMS)
def test_weights_sum_to_one_and_are_not_averaged_over_heads(form: str) -> None:
    layer = layer_of(form=form)
    _, weights = layer(*inputs_of(layer, T, S), need_weights=True)
    assert (weights.sum(-1) - 1).abs().max() < 1e-14
    assert (weights[:, 0] - weights[:, 1]).abs().max() > 0.01


@pytest.mark.parametrize("shape", [(300, 300), (300, 310), (290, 140)], ids=str)
@pytest.mark.parametrize("options", ["plain", "grouped heads", "window", "linear bias"])
def test_long_weights_equal_those_of_the_packed_form(options: str, shape: tuple[int, int]) -> None:
    layer = layer_of(**LAYERS[options])
    inputs = inputs_of(layer, *shape)
    for name in ("none", "causal", "padding, causal", "additive, rows of -inf"):
        call = MASKS[name](*shape)
        found = {}
        for form in FORMS[1:]:
            layer.form = form
            with torch.no_grad():
                found[form] = layer(*inputs, need_weights=True, **call)
        for fused, packed in zip(found["fused"], found["packed"], strict=True):
            assert (fused - packed).abs().max() < 1e-12, name


@pytest.mark.parametrize("mask", ["none", "causal", "padding, causal, additive"])
def test_gradient_through_long_weights_is_that_of_the_packed_form(mask: str) -> None:
    layer, gradients = layer_of(), {}
    inputs = inputs_of(layer, 150, 160, batch=2)
    call = MASKS[mask](150, 160)
    for form in FORMS[1:]:
        layer.form = form
        leaves = [x.clone().requires_grad_() for x in inputs]
        _, weights = layer(*leaves, need_weights=True, **call)
        (weights * random_like(3, *weights.shape)).sum().backward()
        gradients[form] = [leaf.grad for leaf in leaves[:2]]
    for fused, packed in zip(gradients["fused"], gradients["packed"], strict=True):
        assert packed.abs().max() > 0.1
        assert (fused - packed).abs().max() < 1e-12
