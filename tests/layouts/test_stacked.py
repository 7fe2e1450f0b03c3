"""Stacked matrices, by rows and by columns."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import LayoutError
from manyheads.core.weights import HeadWeights
from manyheads.layouts.arrangements import (
    heads_from_stacked_columns,
    heads_from_stacked_rows,
    stacked_columns_from_heads,
    stacked_rows_from_heads,
)
from manyheads.layouts.blocks import JoinedWeights
from tests.factories import annotations_unchecked
from tests.layouts.random_heads import random_heads, sizes_to_join

ORDERS = ["".join(order) for order in itertools.permutations("qkv")]
SIZES = {"num_heads": 6, "num_kv_heads": 3, "head_dim": 5}


def sizes_of(heads: HeadWeights) -> dict[str, int]:
    return {
        "num_heads": heads.num_heads,
        "num_kv_heads": heads.num_kv_heads,
        "head_dim": heads.head_dim,
    }


@given(sizes_to_join(), st.sampled_from(ORDERS))
def test_rows_round_trip_bit_for_bit(sizes: dict[str, Any], order: str) -> None:
    heads = random_heads(**sizes)
    stacked = stacked_rows_from_heads(heads, order=order)
    back = heads_from_stacked_rows(stacked, order=order, **sizes_of(heads))
    assert back.equal(heads)
    again = stacked_rows_from_heads(back, order=order)
    assert torch.equal(again.qkv, stacked.qkv)
    assert torch.equal(again.out, stacked.out)


@given(sizes_to_join(), st.sampled_from(ORDERS))
def test_columns_round_trip_bit_for_bit(sizes: dict[str, Any], order: str) -> None:
    heads = random_heads(**sizes)
    stacked = stacked_columns_from_heads(heads, order=order)
    back = heads_from_stacked_columns(stacked, order=order, **sizes_of(heads))
    assert back.equal(heads)


@given(sizes_to_join())
def test_columns_are_the_rows_transposed(sizes: dict[str, Any]) -> None:
    heads = random_heads(**sizes)
    rows, columns = stacked_rows_from_heads(heads), stacked_columns_from_heads(heads)
    assert torch.equal(columns.qkv, rows.qkv.T)
    assert torch.equal(columns.out, rows.out.T)


def test_rows_by_hand() -> None:
    """Two heads of width 1 in a model of width 2: row r of qkv holds 2r and 2r + 1."""
    stacked = JoinedWeights(
        qkv=torch.arange(12.0).view(6, 2),
        out=torch.tensor([[20.0, 21.0], [22.0, 23.0]]),
        qkv_bias=torch.arange(30.0, 36.0),
    )
    heads = heads_from_stacked_rows(stacked, num_heads=2)
    assert heads.w_q.tolist() == [[[0.0], [1.0]], [[2.0], [3.0]]]
    assert heads.w_k.tolist() == [[[4.0], [5.0]], [[6.0], [7.0]]]
    assert heads.w_v.tolist() == [[[8.0], [9.0]], [[10.0], [11.0]]]
    assert heads.w_o.tolist() == [[[20.0, 22.0]], [[21.0, 23.0]]]
    assert heads.b_v is not None
    assert heads.b_v.tolist() == [[34.0], [35.0]]
    assert heads.b_o is None


def test_order_names_the_blocks_from_the_first_row_on() -> None:
    stacked = JoinedWeights(qkv=torch.arange(12.0).view(6, 2), out=torch.eye(2))
    heads = heads_from_stacked_rows(stacked, num_heads=2, order="kqv")
    assert heads.w_k.flatten().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert heads.w_q.flatten().tolist() == [4.0, 5.0, 6.0, 7.0]


def test_heads_view_the_stacked_matrix_so_that_gradients_reach_it() -> None:
    stacked = stacked_rows_from_heads(random_heads())
    stacked.qkv.requires_grad_()
    heads = heads_from_stacked_rows(stacked, **SIZES)
    assert heads.w_v.untyped_storage().data_ptr() == stacked.qkv.untyped_storage().data_ptr()
    heads.w_k.sum().backward()
    assert stacked.qkv.grad is not None
    assert stacked.qkv.grad.sum(dim=1).tolist() == [0.0] * 30 + [10.0] * 15 + [0.0] * 12


@pytest.mark.parametrize("order", ["qk", "qqv", "qkvo", "", "QKV"])
def test_an_order_that_does_not_name_each_block_once_is_refused(order: str) -> None:
    with pytest.raises(
        LayoutError, match=rf"order \('{order}'\) must name each of q, k and v once"
    ):
        stacked_rows_from_heads(random_heads(), order=order)
    with pytest.raises(LayoutError, match=r"order \("):
        heads_from_stacked_rows(stacked_rows_from_heads(random_heads()), order=order, **SIZES)


def test_wrong_row_count_names_tensor_shape_and_expectation() -> None:
    stacked = JoinedWeights(qkv=torch.zeros(57, 10), out=torch.zeros(10, 24))
    with pytest.raises(
        LayoutError, match=r"^qkv has shape \(57, 10\), expected \(48, 10\): 6 query"
    ):
        heads_from_stacked_rows(stacked, num_heads=6, num_kv_heads=3)
    assert heads_from_stacked_rows(stacked, **SIZES).head_dim == 5


def test_a_wrong_group_count_is_refused_rather_than_read_with_another_head_width() -> None:
    """48 rows also divide evenly as 4 + 4 + 4 heads: only the value width tells that d is 8."""
    stacked = JoinedWeights(qkv=torch.zeros(48, 32), out=torch.zeros(32, 32))
    assert heads_from_stacked_rows(stacked, num_heads=4, num_kv_heads=1).head_dim == 8
    with pytest.raises(LayoutError, match=r"qkv has shape \(48, 32\), expected \(96, 32\)"):
        heads_from_stacked_rows(stacked, num_heads=4)


def test_column_errors_give_shapes_as_the_matrix_lies() -> None:
    stacked = JoinedWeights(
        qkv=torch.zeros(36, 12), out=torch.zeros(12, 12), names={"qkv": "h.0.attn.c_attn.weight"}
    )
    with pytest.raises(
        LayoutError, match=r"^h\.0\.attn\.c_attn\.weight has shape \(36, 12\), expected \(12, 36\)"
    ):
        heads_from_stacked_columns(stacked, num_heads=3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"qkv": torch.zeros(57)}, r"qkv has shape \(57,\), expected 2 axes \(out, in\)"),
        ({"qkv": torch.zeros(57, 11)}, r"qkv has shape \(57, 11\), expected \(57, 10\)"),
        ({"out": torch.zeros(10, 25)}, r"num_heads \(6\) must divide the 25 channels of out"),
        ({"out": torch.zeros(10, 0)}, r"num_heads \(6\) must divide the 0 channels of out"),
        (
            {"qkv_bias": torch.zeros(56)},
            r"qkv_bias has shape \(56,\), expected \(57,\): qkv has 57",
        ),
        ({"out_bias": torch.zeros(1, 10)}, r"out_bias has shape \(1, 10\), expected \(10,\)"),
        (
            {"qkv": torch.zeros(57, 10, dtype=torch.int8)},
            r"qkv has dtype torch\.int8, expected float",
        ),
        ({"out_bias": torch.zeros(10, dtype=torch.int64)}, r"out_bias has dtype torch\.int64"),
    ],
)
def test_a_misshaped_tensor_is_named(change: dict[str, torch.Tensor], says: str) -> None:
    tensors = {"qkv": torch.zeros(57, 10), "out": torch.zeros(10, 24), **change}
    with pytest.raises(LayoutError, match=f"^{says}"):
        heads_from_stacked_rows(JoinedWeights(**tensors), **SIZES)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({"num_heads": 0}, r"num_heads \(0\) must be an integer from 1"),
        ({"num_heads": 6, "num_kv_heads": 0}, r"num_kv_heads \(0\) must be an integer from 1"),
        ({"num_heads": 6.0}, r"num_heads \(6.0\) must be an integer from 1"),
        ({"num_heads": 6, "num_kv_heads": 4}, r"num_kv_heads \(4\) must divide num_heads \(6\)"),
        ({"num_heads": 6, "head_dim": 0}, r"head_dim \(0\) must be at least 1"),
    ],
)
def test_counts_that_no_layer_has_are_refused(counts: dict[str, int], says: str) -> None:
    stacked = JoinedWeights(qkv=torch.zeros(57, 10), out=torch.zeros(10, 24))
    with annotations_unchecked(), pytest.raises(LayoutError, match=f"^{says}"):
        heads_from_stacked_rows(stacked, **counts)


def test_projections_of_different_inputs_cannot_be_stacked() -> None:
    with pytest.raises(LayoutError, match=r"w_v has shape \(3, 11, 4\), expected 10 inputs"):
        stacked_rows_from_heads(random_heads(inputs=(10, 11)))


def test_a_missing_bias_beside_others_is_not_filled_in_silently() -> None:
    heads = random_heads(biases=("b_q", "b_v", "b_o"))
    with pytest.raises(LayoutError, match=r"b_k \(None\) must be there .* use fill_input_biases"):
        stacked_columns_from_heads(heads)


def test_two_dtypes_are_not_joined_silently() -> None:
    heads = random_heads(biases=())
    mixed = HeadWeights(w_q=heads.w_q.float(), w_k=heads.w_k, w_v=heads.w_v, w_o=heads.w_o)
    with pytest.raises(LayoutError, match=r"dtypes torch\.float32, torch\.float64"):
        stacked_rows_from_heads(mixed)
