"""Against PyTorch: its layer, its function with an explicit mask, and rotary in complex numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import manyheads as mh
from manyheads.core.config import TRACED_FORMS
from manyheads.core.masks import blocked_from_allowed
from tests.factories import FORMS, MASKS, B, inputs_of, layer_of, random_like


def torch_layer(**options: Any) -> nn.MultiheadAttention:
    """PyTorch's layer with drawn weights and biases, in float64."""
    module = nn.MultiheadAttention(30, 6, batch_first=True, dtype=torch.float64, **options)
    with torch.no_grad():
        for index, parameter in enumerate(module.parameters()):
            parameter.copy_(0.3 * random_like(index, *parameter.shape))
    return module


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"kdim": 7, "vdim": 9}, {"vdim": 4}], ids=str
)
def test_against_torch_mha_with_padding_and_a_mask(options: dict[str, Any], form: str) -> None:
    module = torch_layer(**options)
    layer = mh.MultiHeadAttention(30, 6, form=form, dtype=torch.float64, **options)
    layer.load_state_dict(module.state_dict())
    query, key, value = inputs_of(layer, 7, 11)
    allowed = MASKS["bool"](7, 11)["attn_mask"]
    allowed[:, 0] = True
    padding = torch.zeros(B, 11, dtype=torch.bool)
    padding[1, 6:] = True
    expected, expected_weights = module(
        query,
        key,
        value,
        attn_mask=blocked_from_allowed(allowed),
        key_padding_mask=padding,
        average_attn_weights=False,
    )
    output, weights = layer(
        query, key, value, attn_mask=allowed, key_padding_mask=padding, need_weights=True
    )
    assert (output - expected).abs().max() < 1e-12
    assert (weights - expected_weights).abs().max() < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_a_mask_of_the_wrong_polarity_would_be_noticed_by_torch_mha(form: str) -> None:
    module, layer = torch_layer(), mh.MultiHeadAttention(30, 6, form=form, dtype=torch.float64)
    layer.load_state_dict(module.state_dict())
    x = random_like(1, B, 5, 30)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    expected, _ = module(x, x, x, attn_mask=~causal)
    assert (layer(x, attn_mask=causal) - expected).abs().max() < 1e-12
    assert (layer(x, is_causal=True) - expected).abs().max() < 1e-12
    assert (layer(x, attn_mask=causal.T) - expected).abs().max() > 0.01


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (1, 5)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_against_torch_function_with_an_explicit_bottom_right_mask(
    form: str, shape: tuple[int, int]
) -> None:
    queries, keys = shape
    layer = layer_of(num_kv_heads=2, scale=0.4, form=form)
    query, key, value = inputs_of(layer, queries, keys)
    w = layer.head_weights()
    q, k, v = (
        torch.einsum("btd,hde->bhte", x, weight) + bias[:, None]
        for x, weight, bias in ((query, w.w_q, w.b_q), (key, w.w_k, w.b_k), (value, w.w_v, w.b_v))
    )
    mask = torch.tensor([[s <= t + keys - queries for s in range(keys)] for t in range(queries)])
    heads = F.scaled_dot_product_attention(
        q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), attn_mask=mask, scale=0.4
    )
    expected = torch.einsum("bhtv,hvd->btd", heads, w.w_o) + w.b_o
    assert (layer(query, key, value, is_causal=True) - expected).abs().max() < 1e-12


def turned_in_the_complex_plane(
    x: Tensor, style: str, base: float, width: int, start: int
) -> Tensor:
    """Rotary positions as multiplication by exp(i angle), independent of the package."""
    half = width // 2
    first = list(range(half)) if style == "half" else list(range(0, width, 2))
    second = list(range(half, width)) if style == "half" else list(range(1, width, 2))
    position = torch.arange(start, start + x.shape[2], dtype=torch.float64)
    turned = x.clone()
    for pair, (i, j) in enumerate(zip(first, second, strict=True)):
        angle = position * base ** (-2.0 * pair / width)
        z = torch.complex(x[..., i], x[..., j]) * torch.polar(torch.ones_like(angle), angle)
        turned[..., i], turned[..., j] = z.real, z.imag
    return turned


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [None, 4])
@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_rotary_against_complex_numbers(style: Any, width: int | None, form: str) -> None:
    options = {"head_dim": 8, "num_kv_heads": 3}
    rotary = mh.Rotary(base=30.0, style=style, dim=width)
    layer, plain = layer_of(**options, positions=rotary, form=form), layer_of(**options, form=form)
    query, key, _ = inputs_of(layer, 3, 5)
    flat = plain.trace(query, key)
    trace = layer.trace(query, key)
    settings = (style, 30.0, width or 8)
    assert (trace.q - turned_in_the_complex_plane(flat.q, *settings, 2)).abs().max() < 1e-13
    assert (trace.k - turned_in_the_complex_plane(flat.k, *settings, 0)).abs().max() < 1e-13
    q, k = trace.q, trace.k.repeat_interleave(2, 1)
    expected = (q @ k.mT / 8**0.5).softmax(-1)
    assert (layer(query, key, need_weights=True)[1] - expected).abs().max() < 1e-12


SLOPES = {
    8: [2.0**-i for i in range(1, 9)],
    6: [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3],
    12: [2.0**-i for i in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5],
    3: [2.0**-4, 2.0**-8, 2.0**-2],
    1: [2.0**-8],
}


@pytest.mark.parametrize("heads", SLOPES)
@pytest.mark.parametrize("form", TRACED_FORMS)
def test_linear_bias_has_the_slopes_of_the_publication(form: str, heads: int) -> None:
    options = {"embed_dim": 4, "num_heads": heads, "head_dim": 2, "form": form}
    layer = layer_of(**options, positions=mh.LinearBias())
    trace = layer.trace(*inputs_of(layer, 3, 5)[:2])
    added = trace.masked_scores - trace.scores
    for h, slope in enumerate(SLOPES[heads]):
        for t in range(3):
            for s in range(5):
                expected = -slope * abs(t + 2 - s)
                assert (added[:, h, t, s] - expected).abs().max() < 1e-13


def test_start_values_are_drawn_as_torch_mha_draws_them() -> None:
    torch.manual_seed(3)
    ours = mh.MultiHeadAttention(60, 6)
    theirs = nn.MultiheadAttention(60, 6)
    for name, parameter in ours.named_parameters():
        other = theirs.state_dict()[name]
        assert parameter.shape == other.shape
        # uniform on (-a, a): the largest of thousands of draws is near a
        assert abs(parameter.abs().max() - other.abs().max()) < 0.01
