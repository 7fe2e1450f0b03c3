"""Hooks on the heads of a layer fire in every form, and what they return takes effect."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manyheads as mh
from manyheads.attention.hooks import POINTS
from manyheads.core.errors import ConfigError, ShapeError
from tests.factories import FORMS, B, G, H, S, T, d, inputs_of, layer_of

SHAPES = {
    "q": (B, T, d), "k": (B, S, d), "v": (B, S, 2), "scores": (B, T, S), "weights": (B, T, S),
    "message": (B, T, 2), "gate": (B, T, 2),
}  # fmt: skip


def grouped(form: str = "fused", **options: Any) -> Any:
    """A layer with shared keys, rotary positions and narrow values."""
    return layer_of(num_kv_heads=G, v_head_dim=2, positions=mh.Rotary(dim=2), form=form, **options)


def point(layer: Any, h: int, name: str) -> Any:
    """One hook point of one head."""
    return getattr(layer.heads[h], f"hook_{name}")


def replaced_by(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """A forward hook that replaces what it sees."""
    return lambda module, args, output: change(output)


def test_heads_of_a_layer_are_always_the_same_modules_and_hold_no_state() -> None:
    layer = grouped()
    before = list(layer.state_dict())
    assert layer.heads is layer.heads
    assert len(layer.heads) == H
    assert list(layer.state_dict()) == before
    assert not list(layer.heads.parameters())


@pytest.mark.parametrize("form", FORMS)
def test_every_hook_point_sees_what_the_trace_shows(form: str) -> None:
    layer = grouped(form, gate="sigmoid")
    inputs = inputs_of(layer, T, S)
    trace, expected = layer.trace(*inputs, is_causal=True), layer(*inputs, is_causal=True)
    seen: dict[str, Tensor] = {}
    for name in POINTS:
        point(layer, 4, name).register_forward_hook(
            lambda module, args, output, name=name: seen.update({name: output})
        )
    assert (layer(*inputs, is_causal=True) - expected).abs().max() < 1e-12
    assert {name: tuple(x.shape) for name, x in seen.items()} == SHAPES
    values = {
        "q": trace.q[:, 4], "k": trace.k[:, 2], "v": trace.v[:, 2], "scores": trace.scores[:, 4],
        "weights": trace.attn_weights[:, 4], "message": trace.head_outputs[:, 4],
        "gate": trace["gate"][:, 4],
    }  # fmt: skip
    for name, tensor in values.items():
        assert (seen[name] - tensor).abs().max() < 1e-12, name


@pytest.mark.parametrize("form", FORMS)
def test_a_forward_hook_on_a_head_gets_the_inputs_and_the_message(form: str) -> None:
    layer = grouped(form)
    inputs, seen = inputs_of(layer, T, S), []
    trace, expected = layer.trace(*inputs), layer(*inputs)
    handle = layer.heads[3].register_forward_hook(lambda *call: seen.append(call))
    assert (layer(*inputs) - expected).abs().max() < 1e-12
    head, arguments, message = seen[0]
    assert head is layer.heads[3]
    assert all(x is y for x, y in zip(arguments, inputs, strict=True))
    assert (message - trace.head_outputs[:, 3]).abs().max() < 1e-12
    layer.trace(*inputs)
    assert len(seen) == 2, "a trace is a call as well"
    handle.remove()
    assert not layer.is_hooked
    layer(*inputs)
    assert len(seen) == 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", ["head", "message"])
def test_a_replaced_message_is_what_head_mask_gives(where: str, form: str) -> None:
    layer = grouped(form)
    inputs = inputs_of(layer, T, S)
    factors = torch.ones(H, dtype=torch.float64)
    factors[1] = 0.5
    expected = layer(*inputs, head_mask=factors)
    module = layer.heads[1] if where == "head" else point(layer, 1, "message")
    module.register_forward_hook(replaced_by(lambda x: 0.5 * x))
    assert (layer(*inputs) - expected).abs().max() < 1e-12
    trace = layer.trace(*inputs)
    assert (trace.output - expected).abs().max() < 1e-12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["q", "k", "v", "scores", "weights"])
def test_a_replaced_step_changes_what_follows_in_this_head_only(name: str, form: str) -> None:
    layer = grouped(form)
    inputs = inputs_of(layer, T, S)
    before = layer.trace(*inputs)
    point(layer, 4, name).register_forward_hook(replaced_by(lambda x: x.flip(1)))
    after = layer.trace(*inputs)
    changed = (after.head_outputs - before.head_outputs).abs().amax(dim=(0, 2, 3))
    assert (changed > 1e-3).tolist() == [h == 4 for h in range(H)]
    weights = {"weights": before.attn_weights[:, 4].flip(1)}.get(name, after.attn_weights[:, 4])
    values = before.v[:, 2].flip(1) if name == "v" else before.v[:, 2]
    assert (after.head_outputs[:, 4] - weights @ values).abs().max() < 1e-12
    assert (layer(*inputs) - after.output).abs().max() < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_hooks_see_cached_keys_and_gradients_pass_through_them(form: str) -> None:
    layer = grouped(form)
    x, seen = inputs_of(layer, S, S)[0], []
    full = layer(x, is_causal=True)
    point(layer, 0, "k").register_forward_hook(lambda m, a, output: seen.append(output.shape[1]))
    point(layer, 0, "weights").register_full_backward_hook(
        lambda module, inputs, outputs: seen.append(outputs[0].shape)
    )
    first, cache = layer(x[:, :1], is_causal=True, kv_cache=mh.KVCache())
    last, cache = layer(x[:, 1:], is_causal=True, kv_cache=cache)
    assert seen == [1, S]
    assert (torch.cat((first, last), dim=1) - full).abs().max() < 1e-12
    last.sum().backward()
    assert seen[2] == (B, S - 1, S)
    assert layer.in_proj_weight.grad.abs().sum() > 0


def test_copies_of_a_hooked_layer_have_heads_of_their_own() -> None:
    layer = grouped()
    assert layer.heads[0].w_q.shape
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        with torch.no_grad():
            twin.in_proj_weight.zero_()
        assert not twin.heads[0].w_q.any()
        assert layer.heads[0].w_q.all()


def test_a_single_head_has_the_same_hook_points() -> None:
    head, seen = mh.SingleHead(6, 3), []
    for name in POINTS:
        getattr(head, f"hook_{name}").register_forward_hook(
            lambda module, args, output, name=name: seen.append(name)
        )
    head(torch.randn(2, 4, 6))
    assert tuple(seen) == tuple(name for name in POINTS if name != "gate")


def test_hooks_that_a_view_cannot_serve_are_refused() -> None:
    head = grouped().heads[2]
    with pytest.raises(ConfigError, match=r"heads\[2\].* no forward pre-hook: use hook_q"):
        head.register_forward_pre_hook(print)
    with pytest.raises(ConfigError, match=r"heads\[2\].* no full backward hook: use hook_message"):
        head.register_full_backward_hook(print)
    assert isinstance(head, nn.Module)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*POINTS, ""])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[..., 1:], r"shape \(2, .* expected \(2, "),
        (lambda x: x.float(), r"torch.float32 .* torch.float64 .*: return a tensor like"),
        (lambda x: (x, x), r"returned tuple, expected a tensor"),
    ],
)
def test_a_hook_that_returns_another_kind_of_value_is_named(
    form: str, name: str, change: Callable[[Tensor], Any], message: str
) -> None:
    layer = grouped(form, gate="sigmoid")
    target = point(layer, 1, name) if name else layer.heads[1]
    target.register_forward_hook(lambda module, inputs, x: change(x))
    with pytest.raises(
        ShapeError, match=rf"{f'hook_{name}' if name else r'heads.1.'}: .*{message}"
    ):
        layer(*inputs_of(layer, T, S))
