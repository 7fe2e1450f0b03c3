"""Half types: what is computed in float32, and masks near the end of a type's range."""

import pytest
import torch

import manyheads as mh
from manyheads.attention.positions import rotate
from manyheads.core.masks import Visibility
from tests.factories import FORMS, B, H, S, T, inputs_of, layer_of, random_like

HALF = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_rotary_positions_round_half_types_once(style: str, dtype: torch.dtype) -> None:
    x = random_like(1, B, H, 40, 8, dtype=dtype)
    rotary = mh.Rotary(style=style)
    exact = rotate(x.double(), rotary, 5000)
    found = rotate(x, rotary, 5000)
    assert found.dtype == dtype
    pairs = x.double().abs().amax(dim=-1, keepdim=True)
    allowed = 0.51 * torch.finfo(dtype).eps * exact.abs() + 1e-6 * pairs
    assert ((found.double() - exact).abs() <= allowed).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF], ids=str)
def test_an_added_mask_is_kept_to_half_of_the_range_of_its_type(dtype: torch.dtype) -> None:
    least = torch.finfo(dtype).min
    mask = torch.tensor(
        [[least, 0.75 * least, 0.5 * least, 0.25 * least, -3.0, 0.0, 2.0]], dtype=torch.float64
    )
    mask = mask.to(dtype)
    visibility = Visibility(num_queries=1, num_keys=7, attn_mask=mask)
    allowed, bias = visibility.rows(0, 1, torch.device("cpu"))
    assert bias is not None
    assert allowed is not None
    assert allowed.all(), "only -inf hides a key"
    assert (bias[0, :3] == 0.5 * least).all()
    assert torch.equal(bias[0, 3:], mask[0, 3:])


@pytest.mark.parametrize("form", FORMS)
def test_the_least_number_in_a_mask_leaves_low_scores_finite(form: str) -> None:
    layer = layer_of(form=form, dtype=torch.float16, scale=40.0)
    inputs = inputs_of(layer, T, S)
    mask = torch.full((T, S), torch.finfo(torch.float16).min, dtype=torch.float16)
    trace = layer.trace(*inputs, attn_mask=mask)
    assert trace.scores.amin() < -100.0, "the sum of mask and score would pass the range"
    output, weights = layer(*inputs, attn_mask=mask, need_weights=True)
    assert torch.isfinite(output).all()
    assert (weights.sum(dim=-1) - 1.0).abs().max() < 0.01
    assert weights.shape == (B, H, T, S)
