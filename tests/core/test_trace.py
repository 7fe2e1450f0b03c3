"""AttentionTrace: what it holds, and that contradictions are found."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
import torch

import manyheads as mh
from manyheads.core.compare import MismatchError
from manyheads.core.config import TRACED_FORMS
from manyheads.core.errors import ShapeError, TraceError
from manyheads.core.trace import FIELDS
from tests.factories import (
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
)

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SHAPES = {
    "x": (B, T, D), "q": (B, H, T, d), "k": (B, G, S, d), "v": (B, G, S, 2),
    "scores": (B, H, T, S), "masked_scores": (B, H, T, S), "attn_weights": (B, H, T, S),
    "head_outputs": (B, H, T, 2), "concat": (B, T, 2 * H), "w_o": (H, 2, D),
    "head_contributions": (B, H, T, D), "b_o": (D,), "output": (B, T, D),
}  # fmt: skip


def trace_of(form: str = "loop", dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    """A trace of grouped heads and narrow values, causal; every axis has a size of its own."""
    sizes = {"num_kv_heads": G, "v_head_dim": 2} | options
    layer = layer_of(dtype=dtype, form=form, **sizes)
    return layer.trace(*inputs_of(layer, T, S), is_causal=True)


@pytest.mark.parametrize("form", TRACED_FORMS)
def test_every_field_is_what_its_name_says(form: str) -> None:
    trace = trace_of(form)
    assert trace.form == form
    assert {n: tuple(t.shape) for n, t in trace.tensors().items()} == SHAPES
    weights = layer_of(num_kv_heads=G, v_head_dim=2).head_weights()
    x, key, value = inputs_of(layer_of(num_kv_heads=G, v_head_dim=2), T, S)
    group = [h // (H // G) for h in range(H)]
    expected = {
        "x": x,
        "q": torch.stack([x @ weights.w_q[h] + weights.b_q[h] for h in range(H)], 1),
        "k": torch.stack([key @ weights.w_k[g] + weights.b_k[g] for g in range(G)], 1),
        "v": torch.stack([value @ weights.w_v[g] + weights.b_v[g] for g in range(G)], 1),
        "scores": trace.q @ trace.k[:, group].mT / d**0.5,
        "attn_weights": trace.masked_scores.softmax(-1),
        "head_outputs": trace.attn_weights @ trace.v[:, group],
        "concat": torch.cat([trace.head_outputs[:, h] for h in range(H)], -1),
        "head_contributions": trace.head_outputs @ trace.w_o,
        "w_o": weights.w_o,
        "b_o": weights.b_o,
        "output": trace.head_contributions.sum(1) + weights.b_o,
    }
    for name, tensor in expected.items():
        assert (trace[name] - tensor).abs().max() < 1e-12, name
    causal = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    assert torch.equal(trace.masked_scores[..., causal], trace.scores[..., causal])
    assert (trace.masked_scores[..., ~causal] == -torch.inf).all()


def test_fields_are_named_in_the_order_they_arise() -> None:
    assert list(trace_of().tensors()) == list(SHAPES)
    every = trace_of(softcap=1.0, sinks=True, gate="sigmoid")
    assert list(every.tensors()) == list(FIELDS)
    assert trace_of(out_bias=False).b_o is None
    assert "b_o" not in trace_of(out_bias=False).tensors()
    with pytest.raises(TraceError, match=r"name \('z'\) is not a field of this trace: use x, q, k"):
        trace_of()["z"]


def test_trace_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        trace_of().output = torch.zeros(1)


@pytest.mark.parametrize("name", ["output", "head_contributions", "b_o"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tampered_trace_is_refused(dtype: torch.dtype, name: str) -> None:
    trace = trace_of(dtype=dtype)
    for factor in (0.0, -1.0, 1.3, float("nan"), float("inf")):
        changed = trace[name].detach().clone(memory_format=torch.contiguous_format)
        changed.view(-1)[changed.abs().argmax()] *= factor
        with pytest.raises(
            MismatchError, match=r"sum\(head_contributions\) \+ b_o: \d+ of 78 elements"
        ):
            replace(trace, **{name: changed})


def test_small_change_beyond_rounding_is_found() -> None:
    trace = trace_of()
    changed = trace.output.detach().clone()
    changed[1, 2, 3] += 1e-12
    with pytest.raises(MismatchError, match=r"1 of 78 .* \[1, 2, 3\]: 1e-12"):
        replace(trace, output=changed)


@pytest.mark.parametrize("name", SHAPES)
def test_field_of_another_shape_is_refused_by_name(name: str) -> None:
    trace = trace_of()
    flat = trace[name].detach().flatten()[None]
    with annotations_unchecked(), pytest.raises(ShapeError, match="has shape"):
        replace(trace, **{name: flat if len(SHAPES[name]) > 2 else flat[:, :3]})


@pytest.mark.parametrize("magnitude", [1e-8, 1e-4, 1.0, 100.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_identity_holds_for_numbers_of_any_size(dtype: torch.dtype, magnitude: float) -> None:
    for seed in range(4):
        for form in ("loop", "packed"):
            layer = layer_of(seed, dtype=dtype, form=form)
            with torch.no_grad():
                layer.out_proj.bias.mul_(magnitude)
            inputs = [x * magnitude for x in inputs_of(layer, T, S, seed=seed)]
            assert layer.trace(*inputs).output.dtype == dtype


def test_identity_holds_where_float16_has_no_digits_left() -> None:
    for seed in range(8):
        layer = layer_of(seed, dtype=torch.float16, form="packed", bias=False)
        trace = layer.trace(*[x * 1e-6 for x in inputs_of(layer, T, S, seed=seed)])
        assert 0 < trace.output.abs().max() < 1e-5


def test_numbers_that_are_not_finite_are_traced_as_they_come() -> None:
    layer = layer_of(form="packed")
    x = inputs_of(layer, T, T)[0]
    x[0, 1, 2] = torch.nan
    trace = layer.trace(x)
    assert trace.output[0].isnan().all()
    assert torch.isfinite(trace.output[1]).all()
    with pytest.raises(MismatchError):
        replace(trace, output=trace.output * torch.tensor([1.0, 1.1]).view(2, 1, 1))


@pytest.mark.parametrize("options", LAYERS)
def test_every_kind_of_layer_can_be_traced(options: str) -> None:
    layer = layer_of(**LAYERS[options], form="packed")
    inputs = inputs_of(layer, T, S)
    for name in ("causal", "bool with empty rows", "padding, causal, additive"):
        call = MASKS[name](T, S)
        trace = layer.trace(*inputs, **call)
        assert (trace.output - layer(*inputs, **call)).abs().max() < 1e-12


def test_gradients_flow_through_a_trace() -> None:
    layer = layer_of(form="packed")
    trace = layer.trace(*inputs_of(layer, T, S))
    trace.attn_weights[:, 2].square().sum().backward()
    assert layer.in_proj_weight.grad[2 * d : 3 * d].abs().sum() > 0
    assert layer.in_proj_weight.grad[: 2 * d].abs().sum() == 0
    assert isinstance(trace, mh.AttentionTrace)


def test_a_trace_is_iterated_like_a_dict_of_its_names() -> None:
    trace = trace_of()
    assert list(trace) == list(trace.keys()) == list(SHAPES)
    assert len(trace) == len(SHAPES)
    assert all(tensor is trace[name] for name, tensor in trace.items())
    assert dict(trace).keys() == trace.tensors().keys()
    assert len(list(trace.values())) == len(SHAPES)
    assert "b_o" in trace
    assert "b_o" not in trace_of(out_bias=False)


def test_a_trace_is_detached_moved_and_given_to_numpy() -> None:
    trace = trace_of()
    assert trace.output.requires_grad
    detached = trace.detach()
    assert not any(tensor.requires_grad for tensor in detached.values())
    assert torch.equal(detached.output, trace.output)
    assert {x.dtype for x in trace.to(dtype=torch.float16).values()} == {torch.float16}
    assert {x.dtype for x in trace.to(torch.float16).values()} == {torch.float16}
    assert {x.device.type for x in trace.to("meta").values()} == {"meta"}
    assert trace.cpu().form == trace.form
    arrays = trace.numpy()
    assert list(arrays) == list(SHAPES)
    assert (arrays["scores"] == detached.scores.numpy()).all()
    assert trace_of(dtype=torch.bfloat16).numpy()["q"].dtype == "float32"
