"""Asking with the last row only: the plain and the folded form, and the layer's last row."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from manyheads.attention.last_query import LastQuery, last_query, last_query_folded
from manyheads.core.weights import HeadWeights
from tests.factories import B, G, T, assert_same, inputs_of, layer_of, random_like

Ask = Callable[..., LastQuery]
FORMS: dict[str, Ask] = {"plain": last_query, "folded": last_query_folded}
LAYERS: dict[str, dict[str, Any]] = {
    "no biases": {"bias": False},
    "biases": {},
    "grouped heads": {"num_kv_heads": G},
    "one key head": {"num_kv_heads": 1, "bias": False},
    "wide values": {"v_head_dim": 8},
    "one head": {"num_heads": 1, "bias": False},
    "scale": {"scale": 0.3},
}
LENGTH = 2 * T + 1


def padding(*starts: int) -> Tensor:
    """Blocked positions of each sample: those before its start, (B, S)."""
    return torch.arange(LENGTH) < torch.tensor(starts)[:, None]


BLOCKED = {"nothing blocked": None, "left padding": padding(0, 4)}


def leaf_weights(layer: Any) -> HeadWeights:
    """The layer's weights as tensors of their own, to collect gradients."""
    tensors = layer.head_weights().tensors()
    return HeadWeights(**{n: w.detach().clone().requires_grad_() for n, w in tensors.items()})


def answers(ask: Ask, layer: Any, x: Tensor, blocked: Tensor | None) -> dict[str, Tensor]:
    """Messages and weights of the heads, and the gradients of a sum in which all matter."""
    weights, rows = leaf_weights(layer), x.clone().requires_grad_()
    found = ask(rows, weights, scale=layer.config.scale, blocked=blocked)
    loss = sum((part * random_like(70, *part.shape)).sum() for part in found)
    inputs = {"x": rows} | {n: w for n, w in weights.tensors().items() if n not in ("w_o", "b_o")}
    slopes = torch.autograd.grad(
        loss, list(inputs.values()), allow_unused=True, materialize_grads=True
    )
    gradients = {f"gradient of {name}": g for name, g in zip(inputs, slopes, strict=True)}
    return found._asdict() | gradients


@pytest.mark.parametrize("blocked", BLOCKED)
@pytest.mark.parametrize("options", LAYERS)
def test_plain_and_folded_agree_in_values_and_gradients(options: str, blocked: str) -> None:
    layer = layer_of(**LAYERS[options])
    x = inputs_of(layer, LENGTH, LENGTH)[0]
    plain, folded = (answers(ask, layer, x, BLOCKED[blocked]) for ask in FORMS.values())
    assert all(part.abs().sum() > 0 for name, part in plain.items() if "b_k" not in name)
    assert_same(folded, plain, allowed=1e-12)


@pytest.mark.parametrize("blocked", BLOCKED)
@pytest.mark.parametrize("options", LAYERS)
@pytest.mark.parametrize("form", FORMS)
def test_against_loop_last_row_of_the_layer(form: str, options: str, blocked: str) -> None:
    layer = layer_of(**LAYERS[options], form="loop")
    x = inputs_of(layer, LENGTH, LENGTH)[0]
    trace = layer.trace(x, is_causal=True, key_padding_mask=BLOCKED[blocked])
    found = FORMS[form](x, layer.head_weights(), scale=layer.config.scale, blocked=BLOCKED[blocked])
    judge = {
        "head_outputs": trace.head_outputs[:, :, -1],
        "attn_weights": trace.attn_weights[:, :, -1],
    }
    assert_same(found._asdict(), judge, allowed=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_by_hand_scores_of_zero_and_ln_3(form: str) -> None:
    # D = d = 1: rows 0 and 2 give scores 2*a*0 and 2*a*2, so weights 1/4 and 3/4 for 4a = ln 3.
    ones = torch.ones(1, 1, 1, dtype=torch.float64)
    weights = HeadWeights(w_q=ones, w_k=ones, w_v=10 * ones, w_o=ones)
    x = torch.tensor([[[0.0], [2.0]]], dtype=torch.float64)
    found = FORMS[form](x, weights, scale=float(torch.tensor(3.0, dtype=torch.float64).log()) / 4)
    assert (found.attn_weights - torch.tensor([0.25, 0.75])).abs().max() < 1e-15
    assert (found.head_outputs - 15.0).abs().max() < 1e-14


@pytest.mark.parametrize("form", FORMS)
def test_a_blocked_row_cannot_matter_in_value_or_gradient(form: str) -> None:
    layer = layer_of()
    x = inputs_of(layer, LENGTH, LENGTH)[0]
    blocked = padding(2, 5)
    judge = answers(FORMS[form], layer, x, blocked)
    assert not judge["gradient of x"][blocked].any()
    assert not judge["attn_weights"].transpose(1, 2)[blocked].any()
    other = answers(FORMS[form], layer, x.masked_fill(blocked[..., None], 1e6), blocked)
    assert_same(other, judge, allowed=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_where_all_is_blocked_weights_and_messages_are_zero_and_gradients_finite(form: str) -> None:
    layer = layer_of()
    x = inputs_of(layer, LENGTH, LENGTH)[0]
    found = answers(FORMS[form], layer, x, padding(0, LENGTH))
    assert not found["attn_weights"][1].any()
    assert not found["head_outputs"][1].any()
    assert found["head_outputs"][0].all()
    assert not found["gradient of x"][1].any()
    assert all(torch.isfinite(part).all() for part in found.values())


def test_shapes_have_a_size_for_each_axis() -> None:
    layer = layer_of(v_head_dim=8)
    found = last_query(inputs_of(layer, 7, 7)[0], layer.head_weights(), scale=1.0)
    assert found.head_outputs.shape == (B, 6, 8)
    assert found.attn_weights.shape == (B, 6, 7)
