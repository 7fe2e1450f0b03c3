"""Separate matrices, by rows and by columns."""

from typing import Any

import pytest
import torch
from hypothesis import given

from manyheads.core.errors import LayoutError
from manyheads.layouts.arrangements import (
    heads_from_separate_columns,
    heads_from_separate_rows,
    separate_columns_from_heads,
    separate_rows_from_heads,
)
from manyheads.layouts.blocks import SeparateWeights
from tests.layouts.random_heads import any_sizes, random_heads

ROWS = {
    "q": torch.zeros(30, 10),
    "k": torch.zeros(15, 11),
    "v": torch.zeros(12, 13),
    "o": torch.zeros(10, 24),
}


@given(any_sizes())
def test_rows_round_trip_bit_for_bit_with_any_biases(sizes: dict[str, Any]) -> None:
    heads = random_heads(**sizes)
    counts = {"num_heads": heads.num_heads, "num_kv_heads": heads.num_kv_heads}
    written = separate_rows_from_heads(heads)
    assert heads_from_separate_rows(written, **counts).equal(heads)
    assert (written.k_bias is None) == (heads.b_k is None)


@given(any_sizes())
def test_columns_round_trip_bit_for_bit_and_are_the_rows_transposed(sizes: dict[str, Any]) -> None:
    heads = random_heads(**sizes)
    counts = {"num_heads": heads.num_heads, "num_kv_heads": heads.num_kv_heads}
    rows, columns = separate_rows_from_heads(heads), separate_columns_from_heads(heads)
    assert heads_from_separate_columns(columns, **counts).equal(heads)
    for part in "qkvo":
        assert torch.equal(getattr(columns, part), getattr(rows, part).T)


def test_rows_by_hand() -> None:
    """Two query heads share one key/value head, all of width 1."""
    heads = heads_from_separate_rows(
        SeparateWeights(
            q=torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
            k=torch.tensor([[5.0, 6.0]]),
            v=torch.tensor([[7.0, 8.0]]),
            o=torch.tensor([[9.0, 10.0], [11.0, 12.0]]),
            q_bias=torch.tensor([13.0, 14.0]),
        ),
        num_heads=2,
        num_kv_heads=1,
    )
    assert heads.w_q.tolist() == [[[1.0], [2.0]], [[3.0], [4.0]]]
    assert heads.w_k.tolist() == [[[5.0], [6.0]]]
    assert heads.w_v.tolist() == [[[7.0], [8.0]]]
    assert heads.w_o.tolist() == [[[9.0, 11.0]], [[10.0, 12.0]]]
    assert heads.b_q is not None
    assert heads.b_q.tolist() == [[13.0], [14.0]]


def test_sizes_come_from_the_matrices() -> None:
    heads = heads_from_separate_rows(SeparateWeights(**ROWS), num_heads=6, num_kv_heads=3)
    assert (heads.head_dim, heads.v_head_dim, heads.embed_dim) == (5, 4, 10)
    assert (heads.w_k.shape[1], heads.w_v.shape[1]) == (11, 13)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"q": torch.zeros(31, 10)}, r"num_heads \(6\) must divide the 31 channels of q"),
        ({"v": torch.zeros(13, 13)}, r"num_kv_heads \(3\) must divide the 13 channels of v"),
        ({"k": torch.zeros(30, 11)}, r"k has shape \(30, 11\), expected \(15, 11\): 3 key heads"),
        ({"o": torch.zeros(24, 10)}, r"o has shape \(24, 10\), expected \(10, 24\): 6 heads"),
        ({"k_bias": torch.zeros(30)}, r"k_bias has shape \(30,\), expected \(15,\)"),
        ({"o_bias": torch.zeros(24)}, r"o_bias has shape \(24,\), expected \(10,\)"),
        ({"v": torch.zeros(1, 12, 13)}, r"v has shape \(1, 12, 13\), expected 2 axes"),
    ],
)
def test_a_misshaped_tensor_is_named(change: dict[str, torch.Tensor], says: str) -> None:
    separate = SeparateWeights(**{**ROWS, **change})
    with pytest.raises(LayoutError, match=f"^{says}"):
        heads_from_separate_rows(separate, num_heads=6, num_kv_heads=3)


def test_grouped_weights_read_without_a_group_count_are_refused() -> None:
    heads = random_heads(head_dim=4)
    with pytest.raises(LayoutError, match=r"k has shape \(12, 10\), expected \(24, 10\)"):
        heads_from_separate_rows(separate_rows_from_heads(heads), num_heads=6)


def test_column_errors_give_shapes_as_the_matrix_lies() -> None:
    columns = SeparateWeights(
        **{name: matrix.T for name, matrix in ROWS.items()} | {"o": ROWS["o"]}
    )
    with pytest.raises(LayoutError, match=r"^o has shape \(10, 24\), expected \(24, 10\)"):
        heads_from_separate_columns(columns, num_heads=6, num_kv_heads=3)
