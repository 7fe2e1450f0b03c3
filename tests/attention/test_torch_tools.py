"""The layer under torch's own tools: export, compile, meta tensors, quantisation."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manyheads as mh
from manyheads.core.errors import ConfigError
from tests.factories import FORMS, D, S, T, annotations_unchecked, d, inputs_of, layer_of

COMPILED = """
import torch

import manyheads as mh

x = torch.randn(1, 2, 4, dtype=torch.float64)
call = {"is_causal": True, "need_weights": True, "kv_cache": mh.KVCache()}
for form in ("loop", "packed", "fused"):
    layer = mh.MultiHeadAttention(4, 2, num_kv_heads=1, form=form, dtype=torch.float64).eval()
    found = torch.compile(layer, fullgraph=True, backend="eager")(x, **call)
    for ours, expected in zip(found[:2], layer(x, **call)[:2], strict=True):
        assert (ours - expected).abs().max() < 1e-12, form
"""


class Causal(nn.Module):
    """A causal call, for the exporter."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Attend causally."""
        output: Tensor = self.layer(x, is_causal=True)
        return output


class Adapted(nn.Module):
    """An output projection as adapters leave it: without a weight of its own."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        """Twice the base."""
        doubled: Tensor = 2.0 * self.base(x)
        return doubled


@pytest.mark.parametrize("form", FORMS[1:])
def test_export_with_a_dynamic_length_and_causality(form: str) -> None:
    model = Causal(layer_of(form=form, num_kv_heads=2).eval())
    length = torch.export.Dim("length", max=64)
    example = inputs_of(model.layer, 5, 5)[0]
    with annotations_unchecked():  # symbolic lengths are no int
        program = torch.export.export(model, (example,), dynamic_shapes={"x": {1: length}})
    longer = inputs_of(model.layer, 11, 11)[0]
    assert (program.module()(longer) - model(longer)).abs().max() < 1e-12


def test_compiling_the_whole_call_gives_the_same_numbers_in_every_form() -> None:
    # in a process of its own: the compiler cannot trace the checks of annotations in this one
    subprocess.run([sys.executable, "-c", COMPILED], check=True)


@pytest.mark.parametrize("form", FORMS)
def test_meta_tensors_give_shapes_without_numbers(form: str) -> None:
    layer = mh.MultiHeadAttention(D, 6, head_dim=d, form=form, device="meta")
    x = torch.empty(2, T, D, device="meta")
    output, weights = layer(x, is_causal=True, need_weights=True)
    assert output.shape == (2, T, D)
    assert weights.shape == (2, 6, T, T)


@pytest.mark.parametrize("form", FORMS)
def test_a_replaced_output_projection_is_called_and_not_looked_into(form: str) -> None:
    layer = layer_of(form=form)
    inputs = inputs_of(layer, T, S)
    plain, weights = layer(*inputs, need_weights=True)
    layer.out_proj = Adapted(layer.out_proj)
    adapted, same = layer(*inputs, need_weights=True)
    assert (adapted - 2.0 * plain).abs().max() < 1e-12
    assert torch.equal(same, weights)
    for call in (lambda: layer.trace(*inputs), layer.head_weights):
        with pytest.raises(ConfigError, match=r"out_proj \(Adapted\) must be an nn.Linear"):
            call()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_dynamic_quantisation_replaces_the_output_projection() -> None:
    layer = layer_of(dtype=torch.float32).eval()
    x = inputs_of(layer, T, T)[0]
    quantised = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear})
    assert not isinstance(quantised.out_proj, nn.Linear)
    assert (quantised(x) - layer(x)).abs().max() < 0.05 * layer(x).abs().max()
