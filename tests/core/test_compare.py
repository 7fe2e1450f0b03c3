"""Budgets that sound results keep and planted errors break, and a comparison that raises."""

import math
import re

import pytest
import torch

from manyheads.core.compare import MismatchError, check_close, difference, dot_budget, unit_roundoff

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def test_unit_roundoff_by_hand() -> None:
    assert [unit_roundoff(dtype) for dtype in DTYPES] == [2.0**-53, 2.0**-24, 2.0**-11, 2.0**-8]


def test_budget_by_hand() -> None:
    assert dot_budget(1, torch.float64) == 2.0**-53 / (1 - 2.0**-53)
    assert dot_budget(1000, torch.float32) == pytest.approx(1000 * 2.0**-24, rel=1e-4)
    assert dot_budget(10, torch.float16) == pytest.approx(2.0**-11 + 10 * 2.0**-24)
    assert dot_budget(2**25, torch.float32) == math.inf


@pytest.mark.parametrize("length", [1, 2, 7, 64, 513, 4096])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_matrix_products_keep_their_budget(dtype: torch.dtype, length: int) -> None:
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        a = torch.randn(9, length, generator=generator, dtype=torch.float64).to(dtype)
        b = torch.randn(length, 11, generator=generator, dtype=torch.float64).to(dtype)
        exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
        allowed = (dot_budget(length, dtype) + dot_budget(length, torch.float64)) * size
        found = check_close("a @ b", a @ b, exact, allowed=allowed)
        assert found.total == 99
        if dtype != torch.float64 and length > 1:
            assert found.largest > 0
            wrong = (a @ b).double()
            wrong[4, 5] += 2.5 * allowed[4, 5]
            with pytest.raises(MismatchError, match=r"a @ b: 1 of 99 .* \[4, 5\]"):
                check_close("a @ b", wrong, exact, allowed=allowed)


def test_planted_error_is_counted_placed_and_measured() -> None:
    expected = torch.zeros(2, 3, 4)
    actual = expected.clone()
    actual[1, 2, 3], actual[0, 1, 0] = 0.5, -0.25
    found = difference("x", actual, expected, allowed=0.1)
    assert (found.count, found.total, found.largest, found.index, found.allowed) == (
        2, 24, 0.5, (1, 2, 3), 0.1,
    )  # fmt: skip
    words = (
        "x: 2 of 24 elements differ by more than allowed, most at index [1, 2, 3]: 0.5 where 0.1 is"
    )
    with pytest.raises(MismatchError, match=re.escape(words)):
        check_close("x", actual, expected, allowed=0.1)


def test_index_is_where_the_allowance_is_exceeded_most() -> None:
    actual, allowed = torch.tensor([5.0, 1.0, math.inf]), torch.tensor([10.0, 0.1, math.inf])
    found = difference("x", actual, torch.zeros(3), allowed=allowed)
    assert (found.count, found.index, found.largest) == (1, (1,), 1.0)


def test_difference_at_the_limit_passes_and_beyond_it_does_not() -> None:
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    assert check_close("x", one, zero, allowed=1.0).count == 0
    with pytest.raises(MismatchError):
        check_close("x", one + 2.0**-52, zero, allowed=1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_number_that_is_not_finite_equals_only_itself(bad: float) -> None:
    fine, broken = torch.tensor([1.0, 2.0]), torch.tensor([1.0, bad])
    assert check_close("x", broken, broken.clone(), allowed=0.0).largest == 0.0
    for actual, expected in ((fine, broken), (broken, fine), (-broken, broken)):
        if math.isnan(bad) and actual is not fine and expected is not fine:
            continue
        with pytest.raises(MismatchError, match=r"x: 1 of 2 .* \[1\]: inf where"):
            check_close("x", actual, expected, allowed=1e300)


def test_allowance_of_nan_allows_nothing() -> None:
    with pytest.raises(MismatchError, match="1 of 2"):
        check_close("x", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), allowed=math.nan)
    check_close("x", torch.ones(2), torch.ones(2), allowed=math.nan)


def test_other_shape_is_refused_though_it_would_broadcast() -> None:
    with pytest.raises(MismatchError, match=r"x has shape \(3,\), expected \(1, 3\)"):
        check_close("x", torch.zeros(3), torch.zeros(1, 3), allowed=1.0)


def test_offset_by_one_place_is_noticed() -> None:
    expected = torch.linspace(0, 1, 50, dtype=torch.float64)
    with pytest.raises(MismatchError, match="50 of 50"):
        check_close("x", expected.roll(1), expected, allowed=1e-3)


def test_nothing_to_compare_passes() -> None:
    assert check_close("x", torch.zeros(0, 2), torch.zeros(0, 2), allowed=0.0).total == 0
