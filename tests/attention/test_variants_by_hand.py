"""Norms of q and k, soft-cap, sinks, scaled rotary and gate against plain formulas, in float64."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import manyheads as mh
from manyheads.attention.positions import rotary_frequencies
from tests.factories import FORMS, B, S, T, inputs_of, layer_of, random_like

L2 = math.log(2.0)


def plain(layer: Any, x: Tensor) -> dict[str, Tensor]:
    """Causal attention with every variant, one line each; nothing is shared with the layer."""
    w, c = layer.head_weights(), layer.config
    q = torch.einsum("btd,hde->bhte", x, w.w_q) + w.b_q[:, None]
    k = torch.einsum("btd,hde->bhte", x, w.w_k) + w.b_k[:, None]
    v = torch.einsum("btd,hde->bhte", x, w.w_v) + w.b_v[:, None]
    q = q / (q.square().mean(-1, keepdim=True) + c.qk_norm.eps).sqrt() * w.q_gain
    k = k / (k.square().mean(-1, keepdim=True) + c.qk_norm.eps).sqrt() * w.k_gain
    scores = c.softcap * torch.tanh(q @ k.mT * c.scale / c.softcap)
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    powers = scores.exp().masked_fill(future, 0.0)
    total = powers.sum(-1, keepdim=True) + w.sinks.exp()[:, None, None]
    gate = torch.sigmoid(torch.einsum("btd,hde->bhte", x, w.w_g) + w.b_g[:, None])
    output = torch.einsum("bhte,hed->btd", powers / total @ v * gate, w.w_o) + w.b_o
    return {"attn_weights": powers / total, "gate": gate, "output": output}


@pytest.mark.parametrize("form", FORMS)
def test_all_variants_together_equal_the_plain_formula(form: str) -> None:
    layer = layer_of(qk_norm=mh.QKNorm(eps=0.01), softcap=0.2, sinks=True, gate="sigmoid")
    layer.form = form
    x = random_like(3, B, T, 13)
    expected = plain(layer, x)
    trace = layer.trace(x, is_causal=True)
    torch.testing.assert_close(layer(x, is_causal=True), expected["output"], atol=1e-12, rtol=0)
    for name, value in expected.items():
        torch.testing.assert_close(trace[name], value, atol=1e-12, rtol=0)
    whole = trace.attn_weights.sum(-1) + trace["sink_weights"]
    torch.testing.assert_close(whole, torch.ones_like(whole))
    assert trace["capped_scores"].abs().max() < 0.2 < trace.scores.abs().max()
    again = mh.AttentionTrace.from_json(trace.to_json())
    assert torch.equal(again["gate"], trace["gate"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("score", [0.0, 900.0])
def test_a_sink_adds_its_power_to_the_denominator_without_overflow(form: str, score: float) -> None:
    layer = mh.MultiHeadAttention(2, 1, bias=False, sinks=True, form=form, dtype=torch.float64)
    with torch.no_grad():
        layer.in_proj_weight.zero_()
        layer.in_proj_weight[4:].copy_(torch.eye(2))
        layer.out_proj.weight.copy_(torch.eye(2))
        layer.sinks.fill_(score)
    x = torch.tensor([[[3.0, 6.0], [3.0, 6.0]]], dtype=torch.float64)
    share = 1.0 / (2.0 + math.exp(score)) if score < 700 else 0.0  # two equal keys and the sink
    torch.testing.assert_close(layer(x), 2.0 * share * x, atol=1e-15, rtol=0)


@pytest.mark.parametrize("form", FORMS)
def test_a_query_without_keys_gives_everything_to_the_sink(form: str) -> None:
    layer = layer_of(sinks=True)
    layer.form = form
    x = inputs_of(layer, T, S)[0].requires_grad_()
    y = layer(x, attn_mask=torch.zeros(T, T, dtype=torch.bool))
    torch.testing.assert_close(y, layer.out_proj.bias.expand_as(y))
    y.sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("form", FORMS)
def test_cached_steps_equal_one_pass_with_every_variant(form: str) -> None:
    scaling = mh.RotaryScaling(type="llama3", factor=4.0, original_length=16)
    layer = layer_of(
        head_dim=6, positions=mh.Rotary(dim=4, scaling=scaling), qk_norm=mh.QKNorm(over="all"),
        softcap=2.0, sinks=True, gate="sigmoid", form=form,
    )  # fmt: skip
    x, cache, parts = random_like(4, B, 5, 13), mh.KVCache(), []
    for piece in (x[:, :2], x[:, 2:3], x[:, 3:]):
        y, cache = layer(piece, is_causal=True, kv_cache=cache)
        parts.append(y)
    whole = layer(x, is_causal=True)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-12, rtol=0)


def test_frequencies_of_scaled_rotary_positions_follow_their_formulas() -> None:
    plain = rotary_frequencies(mh.Rotary(base=16.0), 4)
    assert plain.tolist() == [1.0, 0.25]

    def scaled(**options: Any) -> list[float]:
        rotary = mh.Rotary(base=16.0, scaling=mh.RotaryScaling(**options))
        return rotary_frequencies(rotary, 4).tolist()

    assert scaled(type="linear", factor=2.0) == [0.5, 0.125]
    assert scaled(type="ntk", factor=4.0) == [1.0, 1.0 / 16.0]  # base 16 * 4 ** (4 / 2)
    turns = 8.0 * 0.25 / (2.0 * math.pi)  # of the second pair over the original length
    part = (turns - 0.25) / 0.75
    low = part * 0.25 + (1.0 - part) * 0.125
    llama = scaled(
        type="llama3", factor=2.0, original_length=8, low_freq_factor=0.25, high_freq_factor=1.0
    )
    assert llama == pytest.approx([1.0, low])
    yarn = {"type": "yarn", "factor": 2.0, "original_length": 8}
    assert scaled(**yarn, beta_fast=1.0, beta_slow=0.1) == pytest.approx([1.0, 0.1875])
    assert mh.RotaryScaling(**yarn).magnitude == pytest.approx(0.1 * L2 + 1.0)


def test_attention_factor_multiplies_the_product_of_the_rotated_channels_twice() -> None:
    scaling = mh.RotaryScaling(type="yarn", factor=2.0, original_length=8, attention_factor=1.5)
    layer = layer_of(positions=mh.Rotary(dim=2, scaling=scaling))
    trace = layer.trace(random_like(5, B, 1, 13))
    turned = layer.head_weights()
    q = trace.x @ turned.w_q[0] + turned.b_q[0]
    torch.testing.assert_close(trace.q[:, 0, :, :2], 1.5 * q[..., :2])  # at position 0: no angle
    torch.testing.assert_close(trace.q[:, 0, :, 2:], q[..., 2:])


def test_the_gate_has_a_hook_point_in_every_form() -> None:
    layer = layer_of(gate="sigmoid")
    x = random_like(6, B, T, 13)
    closed = [layer.heads[h].hook_gate.register_forward_hook(lambda *_: 0 * _[2]) for h in range(6)]
    for form in FORMS:
        layer.form = form
        torch.testing.assert_close(layer(x), layer.out_proj.bias.expand(B, T, -1))
    for handle in closed:
        handle.remove()


@pytest.mark.parametrize("norm", [mh.QKNorm(type="layer"), mh.QKNorm(over="all")])
def test_weights_with_norm_sinks_and_gate_make_an_equal_layer(norm: mh.QKNorm) -> None:
    layer = layer_of(qk_norm=norm, sinks=True, gate="sigmoid", num_kv_heads=2)
    weights, x = layer.head_weights(), random_like(7, B, T, 13)
    copy = mh.MultiHeadAttention.from_weights(weights, qk_norm=norm)
    assert copy.head_weights().equal(weights)
    assert torch.equal(copy(x), layer(x))
    with pytest.raises(mh.ManyHeadsError, match=r"qk_norm \(None\)"):
        mh.MultiHeadAttention.from_weights(weights)
    with pytest.raises(mh.ManyHeadsError, match="q_gain has shape"):
        other = mh.QKNorm(type=norm.type, over="all" if norm.over == "head" else "head")
        mh.MultiHeadAttention.from_weights(weights, qk_norm=other)


def test_a_head_of_a_layer_with_a_variant_is_not_called_alone() -> None:
    layer = layer_of(softcap=3.0)
    with pytest.raises(mh.ManyHeadsError, match="softcap"):
        layer.heads[0](random_like(8, B, T, 13))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: mh.MultiHeadAttention(4, 2, softcap=0.0), "softcap"),
        (lambda: mh.MultiHeadAttention(4, 2, gate="tanh"), "gate"),
        (lambda: mh.MultiHeadAttention(4, 2, sinks=1), "sinks"),
        (lambda: mh.MultiHeadAttention(4, 2, qk_norm="rms"), "qk_norm"),
        (lambda: mh.QKNorm(type="l2"), "type"),
        (lambda: mh.QKNorm(eps=-1.0), "eps"),
        (lambda: mh.QKNorm(affine=1), "affine"),
        (lambda: mh.Rotary(scaling={"type": "linear"}), "scaling"),
        (lambda: mh.RotaryScaling(type="dynamic", factor=2.0), "type"),
        (lambda: mh.RotaryScaling(type="linear", factor=0.5), "factor"),
        (lambda: mh.RotaryScaling(type="yarn", factor=2.0), "original_length"),
        (lambda: mh.RotaryScaling(type="linear", factor=2.0, beta_fast=4.0), "beta_fast"),
        (
            lambda: mh.RotaryScaling(
                type="llama3", factor=2.0, original_length=8, low_freq_factor=5.0
            ),
            "low_freq_factor",
        ),
    ],
)  # fmt: skip
def test_impossible_variants_are_refused_by_name(make: Any, names: str) -> None:
    from tests.factories import annotations_unchecked

    with annotations_unchecked(), pytest.raises(mh.ManyHeadsError, match=names):
        make()
