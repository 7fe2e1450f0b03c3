"""`head_mask` multiplies each head's message before the output projection."""

import pytest
import torch

import manyheads as mh
from manyheads.core.errors import ShapeError
from tests.factories import FORMS, B, H, S, T, annotations_unchecked, inputs_of, layer_of


@pytest.mark.parametrize("form", FORMS)
def test_each_contribution_is_multiplied_by_its_factor(form: str) -> None:
    layer = layer_of(form=form, num_kv_heads=3)
    inputs = inputs_of(layer, T, S)
    plain = layer.trace(*inputs)
    for mask in (torch.arange(H).double(), torch.arange(B * H).view(B, H).double()):
        factors = mask.expand(B, H)[:, :, None, None]
        expected = (factors * plain.head_contributions).sum(dim=1) + plain.b_o
        assert (layer(*inputs, head_mask=mask) - expected).abs().max() < 1e-12
        trace = layer.trace(*inputs, head_mask=mask)
        assert (trace.output - expected).abs().max() < 1e-12
        assert (trace.head_outputs - factors * plain.head_outputs).abs().max() < 1e-12
        assert torch.equal(trace.attn_weights, plain.attn_weights)


@pytest.mark.parametrize("form", FORMS)
def test_a_boolean_mask_removes_heads_with_a_cache_and_from_the_gradient(form: str) -> None:
    layer = layer_of(form=form)
    x, keep = inputs_of(layer, S, S)[0], torch.arange(H) != 2
    full = layer(x, is_causal=True, head_mask=keep)
    first, cache = layer(x[:, :2], is_causal=True, head_mask=keep, kv_cache=mh.KVCache())
    last, _ = layer(x[:, 2:], is_causal=True, head_mask=keep, kv_cache=cache)
    assert (torch.cat((first, last), dim=1) - full).abs().max() < 1e-12
    full.sum().backward()
    by_head = layer.in_proj_weight.grad.view(3, H, -1).abs().sum(dim=(0, 2))
    assert (by_head > 0).tolist() == keep.tolist()


def test_gradients_reach_a_head_mask() -> None:
    layer = layer_of()
    inputs = inputs_of(layer, T, S)
    mask = torch.ones(H, dtype=torch.float64, requires_grad=True)
    layer(*inputs, head_mask=mask).sum().backward()
    expected = layer.trace(*inputs).head_contributions.sum(dim=(0, 2, 3))
    assert (mask.grad - expected).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(H + 1), r"head_mask has shape \(7,\), expected \(H,\) = \(6,\) or \(B, H\)"),
        (torch.ones(H, B), r"head_mask has shape \(6, 2\)"),
        (torch.ones(H, dtype=torch.long), r"head_mask has dtype torch.int64.*use head_mask.bool"),
        ([1.0] * H, r"head_mask \(list\) must be a tensor"),
    ],
)
def test_another_shape_or_dtype_is_refused(mask: object, message: str) -> None:
    layer = layer_of()
    with annotations_unchecked(), pytest.raises(ShapeError, match=message):
        layer(inputs_of(layer, T, T)[0], head_mask=mask)
