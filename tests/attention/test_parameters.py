"""How a layer keeps its weights: rows by head, and copying into a layer that is in use."""

from typing import Any

import pytest
import torch

import manyheads as mh
from manyheads.attention.parameters import copy_heads_into
from manyheads.core.errors import ConfigError
from tests.factories import D, G, H, annotations_unchecked, d, layer_of


def test_rows_of_the_stacked_matrix_are_queries_then_keys_then_values_head_after_head() -> None:
    layer = layer_of(num_kv_heads=G, v_head_dim=2)
    weights, stacked = layer.head_weights(), layer.in_proj_weight
    assert stacked.shape == (H * d + G * d + G * 2, D)
    assert torch.equal(weights.w_q[4], stacked[4 * d : 5 * d].T)
    assert torch.equal(weights.w_k[1], stacked[H * d + d : H * d + 2 * d].T)
    values = H * d + G * d
    assert torch.equal(weights.w_v[2], stacked[values + 4 : values + 6].T)
    assert torch.equal(weights.b_v[2], layer.in_proj_bias[values + 4 : values + 6])
    assert torch.equal(weights.w_o[3], layer.out_proj.weight[:, 6:8].T)


def test_copying_into_a_layer_in_use_replaces_every_bias_also_by_zero() -> None:
    layer, other = layer_of(seed=1), layer_of(seed=9, bias=False, out_bias=False)
    copy_heads_into(layer, layer.config, other.head_weights())
    assert not layer.in_proj_bias.any()
    assert not layer.out_proj.bias.any()
    assert torch.equal(layer.in_proj_weight, other.in_proj_weight)
    assert torch.equal(layer.out_proj.weight, other.out_proj.weight)


def test_resetting_gives_zero_biases_and_new_weights() -> None:
    torch.manual_seed(0)
    layer = mh.MultiHeadAttention(8, 2, kdim=3)
    before = {n: p.detach().clone() for n, p in layer.named_parameters()}
    with torch.no_grad():
        layer.out_proj.bias.fill_(1.0)
    layer.reset_parameters()
    assert not layer.in_proj_bias.any()
    assert not layer.out_proj.bias.any()
    for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"):
        after = dict(layer.named_parameters())[name]
        assert after.abs().min() > 0
        assert (after != before[name]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": torch.complex64}, r"dtype \(torch\.complex64\) must be a floating-point"),
        ({"dtype": torch.int64}, r"dtype \(torch\.int64\) must be a floating-point"),
        (
            {"dtype": "float32"},
            r"dtype \('float32'\) must be a floating-point .*: use torch\.float32",
        ),
        ({"device": "gpu"}, r"device \('gpu'\) is not available: use \"cpu\""),
        ({"device": "cuda:99"}, r"device \('cuda:99'\) is not available"),
        ({"device": 1.5}, r"device \(1\.5\) is not available"),
    ],
)
def test_dtype_or_device_that_no_layer_can_have_is_refused(
    options: dict[str, Any], words: str
) -> None:
    with annotations_unchecked(), pytest.raises(ConfigError, match=f"^{words}"):
        mh.MultiHeadAttention(8, 2, **options)
