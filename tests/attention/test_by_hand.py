"""The loop form, which judges the others, is itself judged by fractions and by whole numbers."""

import json
import math
from fractions import Fraction
from importlib.resources import files
from typing import Any

import pytest
import torch
from torch import Tensor

import manyheads as mh
from manyheads.core.config import TRACED_FORMS
from tests.factories import FORMS

SHEETS = ("two-routes", "three-heads")


def number(text: Any) -> float:
    """A worksheet's number: an integer, a fraction, or ln or sqrt of one, with a sign."""
    text = str(text)
    if text.startswith("-"):
        return -number(text[1:])
    for name, function in (("ln(", math.log), ("sqrt(", math.sqrt)):
        if text.startswith(name):
            return function(float(Fraction(text[len(name) : -1])))
    return float(Fraction(text))


def tensor(value: Any) -> Tensor:
    """Nested lists of a worksheet's numbers in float64."""
    if isinstance(value, list):
        return torch.stack([tensor(item) for item in value])
    return torch.tensor(number(value), dtype=torch.float64)


def sheet(name: str) -> dict[str, Any]:
    """A worksheet as its file has it; read here, so that no other code stands in between."""
    place = files("manyheads.worksheets") / "data" / f"{name}.json"
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return found


def layer_of(given: dict[str, Any], form: str) -> mh.MultiHeadAttention:
    """The worksheet's layer."""
    heads = given["heads"]
    parts = {f"w_{n}": torch.stack([tensor(h[f"W_{n.upper()}"]) for h in heads]) for n in "qkv"}
    if "b_Q" in heads[0]:
        parts |= {
            f"b_{n}": torch.stack([tensor(h[f"b_{n.upper()}"]) for h in heads]) for n in "qkv"
        }
    w_o = tensor(given["W_O"])
    parts["w_o"] = w_o.view(len(heads), -1, w_o.shape[1])
    b_o = tensor(given["b_O"]) if "b_O" in given else None
    return mh.MultiHeadAttention.from_weights(mh.HeadWeights(**parts, b_o=b_o), form=form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHEETS)
def test_every_row_against_fractions(name: str, form: str) -> None:
    given = sheet(name)
    expected = given["expected"]["main"]
    rows = expected.get("all_rows", expected)
    layer, x = layer_of(given, form), tensor(given["sequences"]["main"]["X"])[None]
    output, weights = layer(x, is_causal=True, need_weights=True)
    trace = layer.trace(x, is_causal=True)
    for found in (weights, trace.attn_weights):
        assert (found[0] - tensor(rows["attn_weights"])).abs().max() < 1e-14
    assert (trace.concat[0] - tensor(rows["concat"])).abs().max() < 1e-14
    for found in (output, trace.output):
        assert (found[0] - tensor(rows["output"])).abs().max() < 2e-14


@pytest.mark.parametrize("form", TRACED_FORMS)
def test_scores_messages_and_contributions_against_fractions(form: str) -> None:
    given = sheet("two-routes")
    trace = layer_of(given, form).trace(
        tensor(given["sequences"]["main"]["X"])[None], is_causal=True
    )
    expected = given["expected"]["main"]
    last = expected["receiver"] - 1
    for name in ("scores", "head_outputs", "head_contributions"):
        assert (trace[name][0, :, last] - tensor(expected[name])).abs().max() < 1e-14


def test_zero_queries_against_fractions() -> None:
    given = sheet("two-routes")
    for head in given["heads"]:
        head["W_Q"] = [[0] * len(row) for row in head["W_Q"]]
    expected = given["expected"]["main"]["zero_query"]
    trace = layer_of(given, "loop").trace(
        tensor(given["sequences"]["main"]["X"])[None], is_causal=True
    )
    assert (trace.attn_weights[0, :, -1] - tensor(expected["attn_weights"])).abs().max() < 1e-15
    assert (trace.concat[0, -1] - tensor(expected["concat"])).abs().max() < 1e-14
    assert (trace.output[0, -1] - tensor(expected["output"])).abs().max() < 1e-14


def counting_weights() -> mh.HeadWeights:
    """Weights 0 to 15 in a square for each projection, two heads of width 2, keys all zero."""
    square = torch.arange(16, dtype=torch.float64).view(4, 4)  # x @ square
    columns = square.view(4, 2, 2).transpose(0, 1)  # head h has columns 2h and 2h + 1
    return mh.HeadWeights(
        w_q=columns, w_k=torch.zeros_like(columns), w_v=columns, w_o=square.view(2, 2, 4)
    )


@pytest.mark.parametrize("form", FORMS)
def test_weights_0_to_15_by_hand(form: str) -> None:
    layer = mh.MultiHeadAttention.from_weights(counting_weights(), form=form)
    x = torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 2]]], dtype=torch.float64)
    # Values: row 1 is (0, 1, 2, 3); row 2 is (4, 5, 6, 7) + 2 (12, 13, 14, 15) = (28, 31, 34, 37).
    # Keys are zero, so query 1 sees row 1 alone, and query 2 the mean (14, 16, 18, 20).
    output, weights = layer(x, is_causal=True, need_weights=True)
    assert weights.tolist() == [[[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]]]]
    # (0, 1, 2, 3) times the square, and (14, 16, 18, 20) times the square
    assert output[0].tolist() == [[56.0, 62.0, 68.0, 74.0], [448.0, 516.0, 584.0, 652.0]]


def test_queries_and_scores_of_weights_0_to_15_by_hand() -> None:
    weights = counting_weights()
    keys = torch.stack(
        [torch.eye(4, 2, dtype=torch.float64), 2 * torch.eye(4, 2, dtype=torch.float64)]
    )
    weights = mh.HeadWeights(w_q=weights.w_q, w_k=keys, w_v=weights.w_v, w_o=weights.w_o)
    layer = mh.MultiHeadAttention.from_weights(weights, form="loop", scale=0.5)
    trace = layer.trace(torch.tensor([[[0.0, 1, 0, 0], [1, 0, 0, 0]]], dtype=torch.float64))
    assert trace.q[0].tolist() == [[[4, 5], [0, 1]], [[6, 7], [2, 3]]]
    assert trace.k[0].tolist() == [[[0, 1], [1, 0]], [[0, 2], [2, 0]]]
    assert trace.scores[0].tolist() == [[[2.5, 2.0], [0.5, 0.0]], [[7.0, 6.0], [3.0, 2.0]]]
