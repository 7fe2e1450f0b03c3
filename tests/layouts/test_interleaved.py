"""Interleaved matrices: by head, and by group."""

from typing import Any

import pytest
import torch
from hypothesis import given

from manyheads.core.errors import LayoutError
from manyheads.layouts.arrangements import heads_from_interleaved_rows, interleaved_rows_from_heads
from manyheads.layouts.blocks import JoinedWeights
from tests.layouts.random_heads import random_heads, sizes_to_join


@given(sizes_to_join())
def test_rows_round_trip_bit_for_bit(sizes: dict[str, Any]) -> None:
    heads = random_heads(**sizes)
    written = interleaved_rows_from_heads(heads)
    back = heads_from_interleaved_rows(
        written,
        num_heads=heads.num_heads,
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.head_dim,
    )
    assert back.equal(heads)
    assert torch.equal(interleaved_rows_from_heads(back).qkv, written.qkv)


def test_by_head_by_hand() -> None:
    """Rows are q0, k0, v0, q1, k1, v1."""
    joined = JoinedWeights(
        qkv=torch.arange(12.0).view(6, 2), out=torch.eye(2), qkv_bias=torch.arange(30.0, 36.0)
    )
    heads = heads_from_interleaved_rows(joined, num_heads=2)
    assert heads.w_q.tolist() == [[[0.0], [1.0]], [[6.0], [7.0]]]
    assert heads.w_k.tolist() == [[[2.0], [3.0]], [[8.0], [9.0]]]
    assert heads.w_v.tolist() == [[[4.0], [5.0]], [[10.0], [11.0]]]
    assert heads.b_k is not None
    assert heads.b_k.tolist() == [[31.0], [34.0]]


def test_by_group_by_hand() -> None:
    """Rows are q0, q1, k0, v0, q2, q3, k1, v1 for four heads in two groups."""
    joined = JoinedWeights(qkv=torch.arange(8.0).view(8, 1).expand(8, 4), out=torch.eye(4))
    heads = heads_from_interleaved_rows(joined, num_heads=4, num_kv_heads=2)
    assert heads.w_q[:, 0, 0].tolist() == [0.0, 1.0, 4.0, 5.0]
    assert heads.w_k[:, 0, 0].tolist() == [2.0, 6.0]
    assert heads.w_v[:, 0, 0].tolist() == [3.0, 7.0]


def test_gradients_reach_the_joined_matrix_through_a_group() -> None:
    written = interleaved_rows_from_heads(random_heads())
    written.qkv.requires_grad_()
    heads = heads_from_interleaved_rows(written, num_heads=6, num_kv_heads=3, head_dim=5)
    heads.w_q[2].sum().backward()  # the first head of group 1, whose rows begin at 19
    assert written.qkv.grad is not None
    touched = written.qkv.grad.sum(dim=1).nonzero().flatten().tolist()
    assert touched == [19, 20, 21, 22, 23]


def test_wrong_row_count_names_tensor_shape_and_expectation() -> None:
    joined = JoinedWeights(qkv=torch.zeros(36, 12), out=torch.zeros(12, 12))
    with pytest.raises(LayoutError, match=r"^qkv has shape \(36, 12\), expected \(20, 12\)"):
        heads_from_interleaved_rows(joined, num_heads=3, num_kv_heads=1)


def test_a_missing_bias_beside_others_is_not_filled_in_silently() -> None:
    with pytest.raises(LayoutError, match=r"b_k and b_v \(None\) must be there"):
        interleaved_rows_from_heads(random_heads(biases=("b_q",)))
