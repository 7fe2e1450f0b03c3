"""A living layer: one set of parameters for all forms, saved, copied, converted and switched."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

import manyheads as mh
from manyheads.core.config import LayerOptions
from manyheads.core.errors import ConfigError, ShapeError
from tests.factories import (
    FORMS,
    LAYERS,
    MASKS,
    B,
    D,
    G,
    H,
    S,
    T,
    annotations_unchecked,
    d,
    inputs_of,
    layer_of,
    random_like,
)


def test_form_of_a_living_layer_can_be_switched_and_stays_what_it_was_set_to() -> None:
    layer = layer_of()
    x = inputs_of(layer, T, T)[0]
    before = {n: p.data_ptr() for n, p in layer.named_parameters()}
    outputs = []
    for form in FORMS:
        layer.form = form
        assert layer.form == form
        outputs.append(layer(x))
        assert layer.form == form
        assert {n: p.data_ptr() for n, p in layer.named_parameters()} == before
    assert (outputs[0] - outputs[1]).abs().max() < 1e-12
    with annotations_unchecked():
        with pytest.raises(
            ConfigError, match=r"form \('fast'\) is not known: use one of \"loop\", \"packed\""
        ):
            layer.form = "fast"
        with pytest.raises(ConfigError, match=r"form \(None\)"):
            mh.MultiHeadAttention(8, 2, form=None)
    assert layer.form == "fused"


def test_state_of_the_layer_is_the_same_in_every_form() -> None:
    layer = layer_of(num_kv_heads=G)
    states = []
    for form in FORMS:
        layer.form = form
        layer(inputs_of(layer, T, T)[0])
        states.append(layer.state_dict())
    assert [list(s) for s in states] == [
        ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    ] * 3
    assert all(torch.equal(states[0][n], s[n]) for s in states for n in s)


@pytest.mark.parametrize("options", LAYERS)
def test_head_weights_are_views_and_building_from_them_copies_every_bit(options: str) -> None:
    layer = layer_of(**LAYERS[options])
    stores = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    weights = layer.head_weights()
    assert {t.untyped_storage().data_ptr() for t in weights.tensors().values()} == stores
    config = layer.config
    settings = {name: getattr(config, name) for name in LayerOptions.__annotations__}
    twin = mh.MultiHeadAttention.from_weights(weights, **settings)
    assert twin.head_weights().equal(weights)
    assert twin.config == config
    assert twin.out_proj.weight.data_ptr() != layer.out_proj.weight.data_ptr()
    inputs = inputs_of(layer, T, S)
    assert torch.equal(twin(*inputs), layer(*inputs))


def test_missing_biases_become_zero_where_another_projection_has_one() -> None:
    weights = layer_of().head_weights()
    given = {n: t.detach() for n, t in weights.tensors().items() if n not in ("b_q", "b_v")}
    layer = mh.MultiHeadAttention.from_weights(mh.HeadWeights(**given))
    found = layer.head_weights()
    assert not found.b_q.any()
    assert not found.b_v.any()
    assert torch.equal(found.b_k, given["b_k"])


def test_heads_on_their_own_give_the_head_outputs_of_the_layer() -> None:
    layer = layer_of(num_kv_heads=G, v_head_dim=2, scale=0.7)
    inputs = inputs_of(layer, T, S)
    trace = layer.trace(*inputs)
    assert isinstance(layer.heads, nn.ModuleList)
    assert len(layer.heads) == H
    stores = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    for h, head in enumerate(layer.heads):
        assert isinstance(head, mh.SingleHead)
        assert (head(*inputs) - trace.head_outputs[:, h]).abs().max() < 1e-13
        assert not list(head.parameters())
        names = ("w_q", "w_k", "w_v", "b_q", "b_k", "b_v")
        assert {getattr(head, n).untyped_storage().data_ptr() for n in names} <= stores
    layer.heads[4](*inputs).sum().backward()
    touched = layer.in_proj_weight.grad
    rows = touched.abs().sum(1) > 0
    assert rows[4 * d : 5 * d].all()
    assert rows[: H * d].sum() == d
    assert rows[H * d + 2 * d : H * d + 3 * d].all()  # heads 4 and 5 share keys and values 2


@pytest.mark.parametrize("form", FORMS)
def test_copies_of_a_layer_are_equal_and_independent(form: str) -> None:
    layer = layer_of(positions=mh.Rotary(dim=2), form=form)
    x = inputs_of(layer, T, T)[0]
    expected = layer(x)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    loaded = mh.MultiHeadAttention(
        D, H, head_dim=d, positions=mh.Rotary(dim=2), dtype=torch.float64
    )
    loaded.load_state_dict(torch.load(buffer, weights_only=True))
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
        twin.form = form
        assert torch.equal(twin(x), expected)
        with torch.no_grad():
            twin.out_proj.bias.add_(1.0)
    assert torch.equal(layer(x), expected)


@pytest.mark.parametrize("form", FORMS)
def test_layer_can_change_its_dtype(form: str) -> None:
    layer = layer_of(positions=mh.LinearBias(), form=form)
    x = inputs_of(layer, T, T)[0]
    expected = layer(x)
    layer.to(torch.float32)
    found = layer(x.float(), is_causal=False)
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() < 1e-4


@pytest.mark.parametrize("form", FORMS)
def test_training_a_layer_moves_all_parameters_and_lowers_the_loss(form: str) -> None:
    layer = layer_of(form=form, num_kv_heads=1)
    x, target = inputs_of(layer, T, T)[0], random_like(8, B, T, D)
    start = {n: p.detach().clone() for n, p in layer.named_parameters()}
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        losses.append(((layer(x, is_causal=True) - target) ** 2).mean())
        losses[-1].backward()
        optimiser.step()
    assert losses[0] > losses[1] > losses[2]
    assert all((p != start[n]).any() for n, p in layer.named_parameters())


@pytest.mark.parametrize("form", FORMS)
def test_layer_works_under_autocast_and_can_be_traced_there(form: str) -> None:
    for options in ("plain", "rotary half", "linear bias", "own kdim and vdim"):
        layer = layer_of(**LAYERS[options], dtype=torch.float32, form=form)
        inputs = inputs_of(layer, T, S)
        exact = layer(*inputs, is_causal=True)
        mask = random_like(4, T, S, dtype=torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output, weights = layer(*inputs, is_causal=True, need_weights=True)
            assert torch.equal(output, layer(*inputs, is_causal=True))
            assert torch.isfinite(layer(*inputs, attn_mask=mask)).all()
            trace = layer.trace(*inputs, is_causal=True)
            rough = layer(*[x.bfloat16() for x in inputs], is_causal=True)
        assert (rough - exact).abs().max() < 0.3
        assert output.dtype == torch.bfloat16
        assert (output - exact).abs().max() < 0.3
        assert (weights.float().sum(-1) - 1).abs().max() < 0.02
        assert (trace.output - exact).abs().max() < 0.3


@pytest.mark.parametrize("form", FORMS)
def test_layer_works_without_gradients_and_gives_the_same(form: str) -> None:
    layer = layer_of(form=form)
    inputs, call = inputs_of(layer, T, S), MASKS["padding, causal, additive"](T, S)
    output, weights = layer(*inputs, need_weights=True, **call)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            again, weights_again = layer(*inputs, need_weights=True, **call)
        assert not again.requires_grad
        assert torch.equal(again, output)
        assert (weights_again - weights).abs().max() < 1e-15


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("form", FORMS)
def test_layer_works_with_functional_gradients_and_vmap(form: str) -> None:
    layer = layer_of(form=form)
    x = inputs_of(layer, T, T)[0]
    parameters = dict(layer.named_parameters())

    def loss(given: dict[str, torch.Tensor], sample: torch.Tensor) -> torch.Tensor:
        return functional_call(layer, given, (sample,), {"is_causal": True}).square().sum()

    found = grad(loss)(parameters, x)
    layer(x, is_causal=True).square().sum().backward()
    for name, parameter in parameters.items():
        assert (found[name] - parameter.grad).abs().max() < 1e-10
    # torch says that its fused kernel is slow under vmap; the numbers are what matters here
    each = vmap(lambda sample: layer(sample[None], is_causal=True)[0])(x)
    assert (each - layer(x, is_causal=True)).abs().max() < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_inputs_and_masks_are_read_in_any_memory_order_and_never_changed(form: str) -> None:
    layer = layer_of(form=form)
    inputs, call = inputs_of(layer, T, S), MASKS["padding, causal, additive"](T, S)
    expected = layer(*inputs, need_weights=True, **call)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
    spread = [torch.stack((x, x), dim=-1)[..., 0] for x in inputs]
    mask = call["attn_mask"].T.contiguous().T
    kept = [x.clone() for x in (*turned, mask, call["key_padding_mask"])]
    state = {n: p.clone() for n, p in layer.state_dict().items()}
    for given in (turned, spread):
        assert not given[0].is_contiguous()
        found = layer(*given, need_weights=True, **(call | {"attn_mask": mask}))
        for have, want in zip(found, expected, strict=True):
            assert (have - want).abs().max() < 1e-13
    for have, want in zip((*turned, mask, call["key_padding_mask"]), kept, strict=True):
        assert torch.equal(have, want)
    assert all(torch.equal(p, state[n]) for n, p in layer.state_dict().items())


@pytest.mark.parametrize("form", FORMS)
def test_batch_of_no_samples_gives_no_samples_and_cannot_be_traced(form: str) -> None:
    layer = layer_of(form=form)
    for name in ("none", "causal", "bool", "additive"):
        inputs = inputs_of(layer, T, S, batch=0)
        call = MASKS[name](T, S)
        output, weights = layer(*inputs, need_weights=True, **call)
        assert output.shape == (0, T, D)
        assert weights.shape == (0, H, T, S)
    with pytest.raises(ShapeError, match=r"x has shape \(0, 3, 13\), an empty batch"):
        layer.trace(*inputs)


def test_trace_equals_the_call_and_says_which_form_computed_it() -> None:
    for options, values in LAYERS.items():
        layer = layer_of(**values)
        inputs = inputs_of(layer, T, S)
        call = MASKS["padding, causal, additive"](T, S)
        expected, weights = layer(*inputs, need_weights=True, **call)
        for form, traced in (("loop", "loop"), ("packed", "packed"), ("fused", "packed")):
            layer.form = form
            trace = layer.trace(*inputs, **call)
            assert trace.form == traced, options
            assert (trace.output - expected).abs().max() < 1e-12, options
            assert (trace.attn_weights - weights).abs().max() < 1e-12, options


def test_trace_is_refused_while_dropout_is_active() -> None:
    layer = layer_of(dropout=0.1)
    x = inputs_of(layer, T, T)[0]
    with pytest.raises(
        ConfigError, match=r"dropout \(0.1\) must be inactive for a trace: call layer.eval"
    ):
        layer.trace(x)
    assert (layer.eval().trace(x).output - layer(x)).abs().max() < 1e-12


def test_printed_layer_shows_its_settings_and_form() -> None:
    shown = repr(layer_of(num_kv_heads=G, window=4, form="loop"))
    for part in ("embed_dim=13", "num_heads=6", "num_kv_heads=3", "window=4", "form='loop'"):
        assert part in shown
