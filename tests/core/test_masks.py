"""Every mask and every conversion, by hand and as properties."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core import masks
from manyheads.core.errors import ShapeError
from manyheads.core.masks import Visibility

LENGTH = st.integers(1, 6)
CPU = torch.device("cpu")


def picture(mask: torch.Tensor) -> list[str]:
    """Rows of a Boolean mask, x where allowed."""
    return ["".join("x" if allowed else "." for allowed in row) for row in mask.tolist()]


def test_causal_mask_by_hand_is_aligned_to_the_last_key() -> None:
    assert picture(masks.causal_mask(3, 3)) == ["x..", "xx.", "xxx"]
    assert picture(masks.causal_mask(2, 4)) == ["xxx.", "xxxx"]
    assert picture(masks.causal_mask(3, 2)) == ["..", "x.", "xx"]


def test_window_mask_by_hand_counts_the_query_itself() -> None:
    assert picture(masks.window_mask(4, 4, 2)) == ["x...", "xx..", ".xx.", "..xx"]
    assert picture(masks.window_mask(2, 4, 1)) == ["..x.", "...x"]
    assert picture(masks.window_mask(3, 2, 9)) == ["..", "x.", "xx"]


@given(LENGTH, LENGTH, LENGTH)
def test_query_sees_keys_by_position(queries: int, keys: int, window: int) -> None:
    behind = [[t + keys - queries - s for s in range(keys)] for t in range(queries)]
    causal, near = masks.causal_mask(queries, keys), masks.window_mask(queries, keys, window)
    assert causal.tolist() == [[n >= 0 for n in row] for row in behind]
    assert near.tolist() == [[0 <= n < window for n in row] for row in behind]


@given(LENGTH, LENGTH, st.one_of(st.none(), LENGTH), st.booleans())
def test_visibility_by_order_is_that_of_the_masks_for_any_block_of_queries(
    queries: int, keys: int, window: int | None, is_causal: bool
) -> None:
    seen = Visibility(num_queries=queries, num_keys=keys, window=window, is_causal=is_causal)
    expected = torch.ones(queries, keys, dtype=torch.bool)
    if window is not None:
        expected = masks.window_mask(queries, keys, window)
    elif is_causal:
        expected = masks.causal_mask(queries, keys)
    for start in range(queries):
        for stop in range(start + 1, queries + 1):
            allowed, bias = seen.rows(start, stop, CPU)
            block = expected[start:stop]
            assert bias is None
            assert torch.equal(block, torch.ones_like(block) if allowed is None else allowed)
            outside = torch.ones(keys, dtype=torch.bool)
            outside[seen.keys_seen(start, stop)] = False
            assert not block[:, outside].any()
            assert (~outside).any()
    assert expected.all() or not seen.hides_nothing
    assert seen.can_empty_a_row or expected.any(-1).all()


def test_each_kind_of_mask_ends_the_short_ways() -> None:
    given: list[dict[str, Any]] = [
        {"window": 3},
        {"attn_mask": torch.ones(2, 2, dtype=torch.bool)},
        {"key_padding_mask": torch.zeros(1, 2, dtype=torch.bool)},
        {"slopes": torch.ones(1)},
    ]
    for change in given:
        for is_causal in (True, False):
            seen = Visibility(num_queries=2, num_keys=2, is_causal=is_causal, **change)
            assert not seen.hides_nothing
            assert not seen.is_square_causal
    assert Visibility(num_queries=2, num_keys=3).hides_nothing
    assert Visibility(num_queries=1, num_keys=3, is_causal=True).hides_nothing
    assert Visibility(num_queries=2, num_keys=2, is_causal=True).is_square_causal
    assert not Visibility(num_queries=2, num_keys=3, is_causal=True).is_square_causal


def test_all_given_masks_must_allow_a_key() -> None:
    seen = Visibility(
        num_queries=2,
        num_keys=3,
        is_causal=True,
        attn_mask=torch.tensor([[True, False, True], [True, True, True]]),
        key_padding_mask=torch.tensor([[False, False, False], [True, False, False]]),
    )
    allowed, _ = seen.rows(0, 2, CPU)
    assert allowed is not None
    assert picture(allowed[0, 0]) == ["x..", "xxx"]
    assert picture(allowed[1, 0]) == ["...", ".xx"]


def test_additive_mask_and_slopes_add_and_minus_infinity_hides() -> None:
    additive = torch.tensor([[1.0, -math.inf], [0.0, 2.0]])
    slopes = torch.tensor([0.5, 0.0])
    seen = Visibility(num_queries=2, num_keys=2, attn_mask=additive, slopes=slopes)
    allowed, bias = seen.rows(0, 2, CPU)
    assert allowed is not None
    assert bias is not None
    assert picture(allowed) == ["x.", "xx"]
    assert bias[0].tolist() == [[[1.0, -0.5], [-0.5, 2.0]], [[1.0, 0.0], [0.0, 2.0]]]
    assert torch.isfinite(bias).all()


BITS = st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=4)


@given(BITS)
def test_conversions_of_masks_go_there_and_back(rows: list[list[bool]]) -> None:
    allowed = torch.tensor(rows)
    assert torch.equal(masks.allowed_from_blocked(masks.blocked_from_allowed(allowed)), allowed)
    assert not (masks.blocked_from_allowed(allowed) & allowed).any()
    for dtype in (torch.float32, torch.float64, torch.float16):
        additive = masks.additive_from_allowed(allowed, dtype)
        assert additive.dtype == dtype
        assert torch.equal(masks.allowed_from_additive(additive), allowed)
        assert not additive[allowed].any()
        assert (additive[~allowed] == -math.inf).all()
    for keep in (allowed, allowed.long(), allowed.float()):
        assert torch.equal(masks.key_padding_from_keep(keep), ~allowed)
    assert torch.equal(masks.allowed_from_key_padding(~allowed)[:, 0, 0], allowed)
    assert masks.allowed_from_key_padding(allowed).shape == (len(rows), 1, 1, 3)


def test_lengths_become_padding_at_the_end() -> None:
    padding = masks.key_padding_from_lengths(torch.tensor([3, 0, 2]), 3)
    assert picture(padding) == ["...", "xxx", "..x"]


def test_softmax_by_hand_gives_zeros_and_finite_gradients_without_any_key() -> None:
    scores = torch.tensor([[[[0.0, math.log(3.0)], [1.0, 2.0]]]], requires_grad=True)
    allowed = torch.tensor([[True, True], [False, False]])
    masked = masks.mask_scores(scores, allowed, None)
    weights = masks.softmax_over_keys(masked, allowed)
    assert (weights - torch.tensor([[0.25, 0.75], [0.0, 0.0]])).abs().max() < 1e-7
    weights[..., 0].sum().backward()
    assert scores.grad is not None
    assert (scores.grad - torch.tensor([[0.1875, -0.1875], [0.0, 0.0]])).abs().max() < 1e-7


def test_mask_scores_adds_before_it_blocks() -> None:
    scores, bias = torch.ones(1, 1, 1, 2), torch.tensor([[2.0, 3.0]])
    allowed = torch.tensor([[True, False]])
    assert masks.mask_scores(scores, None, bias).tolist() == [[[[3.0, 4.0]]]]
    assert masks.mask_scores(scores, allowed, bias).tolist() == [[[[3.0, -math.inf]]]]
    assert masks.mask_scores(scores, None, None) is scores


def test_rows_without_key_are_found() -> None:
    allowed = torch.tensor([[True, False], [False, False]])
    assert masks.rows_without_key(allowed).tolist() == [[False], [True]]


@pytest.mark.parametrize(
    "shape", [(3, 4), (1, 4), (3, 1), (1, 1), (2, 6, 3, 4), (1, 6, 1, 4)], ids=str
)
def test_attn_mask_of_a_shape_that_broadcasts_is_accepted(shape: tuple[int, ...]) -> None:
    masks.check_attn_mask(torch.ones(shape, dtype=torch.bool), (2, 6, 3, 4), torch.float32)
    masks.check_attn_mask(torch.ones(shape), (2, 6, 3, 4), torch.float32)


@pytest.mark.parametrize(
    "shape", [(4, 3), (4,), (3, 3, 4), (6, 2, 3, 4), (2, 6, 3, 5), (0, 4)], ids=str
)
def test_attn_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="attn_mask has shape"):
        masks.check_attn_mask(torch.ones(shape, dtype=torch.bool), (2, 6, 3, 4), torch.float32)
