"""One head on its own, and the softmax of one row."""

import math

import pytest
import torch
from torch.nn import functional as F

import manyheads as mh
from manyheads.attention.loop import head_steps, softmax_of_row
from manyheads.core.errors import ConfigError, ShapeError
from tests.factories import annotations_unchecked, random_like


def head_of(**options: object) -> mh.SingleHead:
    """A head with drawn weights, in float64."""
    head = mh.SingleHead(4, 3, **options).double()
    with torch.no_grad():
        for index, parameter in enumerate(head.parameters()):
            parameter.copy_(random_like(index, *parameter.shape))
    return head


def test_single_head_against_torch_function() -> None:
    head = head_of(v_head_dim=2, kdim=5, vdim=6, scale=0.2)
    query, key, value = (random_like(i, 2, n, w) for i, n, w in ((1, 3, 4), (2, 7, 5), (3, 7, 6)))
    allowed = torch.ones(3, 7, dtype=torch.bool).tril(2)
    bias = random_like(4, 2, 3, 7)
    q, k, v = query @ head.w_q + head.b_q, key @ head.w_k + head.b_k, value @ head.w_v + head.b_v
    mask = bias.masked_fill(~allowed, -math.inf)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.2)
    found = head(query, key, value, allowed=allowed[None], bias=bias)
    assert (found - expected).abs().max() < 1e-13


def test_single_head_has_parameters_of_its_own_that_learn() -> None:
    head = head_of()
    assert {n: tuple(p.shape) for n, p in head.named_parameters()} == {
        "w_q": (4, 3), "w_k": (4, 3), "w_v": (4, 3), "b_q": (3,), "b_k": (3,), "b_v": (3,)
    }  # fmt: skip
    head(random_like(1, 2, 5, 4)).square().sum().backward()
    moved = {n for n, p in head.named_parameters() if p.grad.abs().max() > 1e-9}
    assert moved == {
        "w_q",
        "w_k",
        "w_v",
        "b_q",
        "b_v",
    }  # a key bias shifts all scores of a row alike
    assert not list(mh.SingleHead(4, 3, bias=False).named_buffers())
    assert mh.SingleHead(4, 3, bias=False).b_q is None


def test_single_head_scales_by_the_root_of_its_width_unless_told() -> None:
    assert mh.SingleHead(4, 9).scale == 1 / 3
    assert mh.SingleHead(4, 9, scale=2.0).scale == 2.0
    with pytest.raises(ConfigError, match=r"head_dim \(0\) must be at least 1"):
        mh.SingleHead(4, 0)


def test_single_head_refuses_wrong_inputs() -> None:
    head = head_of()
    with annotations_unchecked():
        with pytest.raises(ShapeError, match=r"query has shape \(5, 4\)"):
            head(random_like(1, 5, 4))
        with pytest.raises(ShapeError, match=r"key has shape \(1, 5, 3\), expected \(B, T, 4\)"):
            head(random_like(1, 1, 5, 4), random_like(1, 1, 5, 3))


def test_softmax_of_a_row_by_hand() -> None:
    row = [torch.tensor([0.0, -math.inf]), torch.tensor([math.log(3.0), -math.inf])]
    weights = torch.stack(softmax_of_row(row), dim=1)
    assert (weights - torch.tensor([[0.25, 0.75], [0.0, 0.0]])).abs().max() < 1e-7


def test_softmax_of_a_row_holds_for_large_scores() -> None:
    row = [torch.tensor([1e4], dtype=torch.float64), torch.tensor([1e4 - 1], dtype=torch.float64)]
    weights = torch.stack(softmax_of_row(row), dim=1)
    assert (weights - torch.tensor([[1.0, 0.0]]).double().add(-1.0).softmax(-1)).abs().max() < 1e-15


def test_head_steps_keep_scores_before_and_after_the_mask() -> None:
    q, k = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0], [5.0, 6.0]]])
    steps = head_steps(
        q, k, k, scale=0.5,
        allowed=torch.tensor([[[False, True]]]), bias=torch.tensor([[[1.0, 2.0]]]),
    )  # fmt: skip
    assert steps.scores.tolist() == [[[5.5, 8.5]]]
    assert steps.masked_scores.tolist() == [[[-math.inf, 10.5]]]
    assert steps.attn_weights.tolist() == [[[0.0, 1.0]]]
    assert steps.head_output.tolist() == [[[5.0, 6.0]]]
