"""Splitting, merging and repeating heads, with numbers that show where each one goes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import ShapeError
from manyheads.core.shapes import check_axes, check_input, merge_heads, repeat_kv, split_heads

SIZES = st.integers(1, 5)


def test_split_heads_by_hand() -> None:
    x = torch.arange(12.0).view(1, 2, 6)
    assert split_heads(x, 3).tolist() == [[[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]]


def test_merge_heads_by_hand() -> None:
    x = torch.arange(8.0).view(1, 2, 2, 2)
    assert merge_heads(x).tolist() == [[[0, 1, 4, 5], [2, 3, 6, 7]]]


@given(SIZES, SIZES, SIZES, SIZES)
def test_merging_undoes_splitting(batch: int, length: int, heads: int, width: int) -> None:
    x = torch.arange(float(batch * length * heads * width)).view(batch, length, heads * width)
    parts = split_heads(x, heads)
    assert parts.shape == (batch, heads, length, width)
    assert torch.equal(merge_heads(parts), x)
    assert torch.equal(parts[:, 0], x[..., :width])


def test_split_heads_takes_any_memory_order_and_an_empty_batch() -> None:
    x = torch.arange(24.0).view(1, 6, 4).transpose(1, 2)
    assert torch.equal(split_heads(x, 3), split_heads(x.contiguous(), 3))
    assert split_heads(torch.zeros(0, 4, 6), 3).shape == (0, 3, 4, 2)


def test_split_heads_refuses_a_width_that_no_heads_fill() -> None:
    with pytest.raises(ShapeError, match=r"num_heads \(4\) must divide the joined width \(6\)"):
        split_heads(torch.zeros(1, 2, 6), 4)


def test_repeat_kv_gives_neighbouring_heads_the_same_keys() -> None:
    kv = torch.arange(3.0).view(1, 3, 1, 1)
    assert repeat_kv(kv, 6).flatten().tolist() == [0, 0, 1, 1, 2, 2]
    assert repeat_kv(kv[:, :1], 4).flatten().tolist() == [0, 0, 0, 0]
    assert repeat_kv(kv, 3) is kv


@given(SIZES, SIZES, SIZES)
def test_query_head_reads_key_head_of_its_group(groups: int, share: int, length: int) -> None:
    kv = torch.randn(2, groups, length, 3, generator=torch.Generator().manual_seed(0))
    repeated = repeat_kv(kv, groups * share)
    for h in range(groups * share):
        assert torch.equal(repeated[:, h], kv[:, h // share])


def test_repeat_kv_refuses_heads_that_groups_do_not_share_evenly() -> None:
    with pytest.raises(
        ShapeError, match=r"num_heads \(5\) must be a multiple .* \(3\): use 3 or a"
    ):
        repeat_kv(torch.zeros(1, 3, 1, 1), 5)


def test_check_input_accepts_what_is_right() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        check_input("x", torch.zeros(2, 1, 5, dtype=dtype), 5)
    check_input("x", torch.zeros(0, 1, 5), 5)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.zeros(3, 5), r"z has shape \(3, 5\), expected \(B, T, 5\): use z\[None\]"),
        (torch.zeros(5), r"z has shape \(5,\), expected \(B, T, 5\): use batch, position, width"),
        (
            torch.zeros(1, 3, 4),
            r"z has shape \(1, 3, 4\), expected \(B, T, 5\): its last axis must be 5",
        ),
        (
            torch.zeros(1, 0, 5),
            r"z has shape \(1, 0, 5\), an empty sequence: give at least one position",
        ),
        (
            torch.zeros(1, 3, 5).int(),
            r"z has dtype torch.int32, expected floating point: use z.float\(\)",
        ),
        (torch.zeros(1, 3, 5).cfloat(), r"z has dtype torch.complex64, expected floating point"),
    ],
)
def test_check_input_refuses(x: torch.Tensor, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        check_input("z", x, 5)


def test_check_axes_names_both_tensors_that_disagree() -> None:
    seen: dict[str, tuple[int, str]] = {}
    check_axes("one", torch.zeros(2, 3), ("A", "B"), seen)
    check_axes("two", torch.zeros(3, 4), ("B", "C"), seen)
    assert seen == {"A": (2, "one"), "B": (3, "one"), "C": (4, "two")}
    with pytest.raises(
        ShapeError, match=r"three has shape \(5,\), expected \(C\) with C = 4 as in two"
    ):
        check_axes("three", torch.zeros(5), ("C",), seen)
    with pytest.raises(ShapeError, match=r"four has shape \(5,\), expected \(A, B\): give 2 axes"):
        check_axes("four", torch.zeros(5), ("A", "B"), seen)
