"""Means over seeds and paired differences: by hand, against SciPy, and with numbers missing."""

import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

from manyheads.core.errors import StudyError
from manyheads.study.stats import aggregate, paired_differences

SEEDS = (11, 29, 47)


def runs_of(model: str, losses: Any, **more: Any) -> list[dict[str, Any]]:
    """One run a seed, with these test losses."""
    return [
        {"model": model, "seed": seed, "test_loss": loss, **more}
        for seed, loss in zip(SEEDS, losses, strict=False)
    ]


def compared(first: Any, second: Any) -> dict[str, Any]:
    """The comparison of two models with these losses."""
    runs = runs_of("a", first) + runs_of("b", second)
    return paired_differences(runs, [("a", "b")])[0]


def many_seeds(differences: Any) -> list[dict[str, Any]]:
    """Two models that differ by these numbers, one a seed."""
    found = []
    for seed, difference in enumerate(differences):
        found.append({"model": "a", "seed": seed, "test_loss": 3.0 + float(difference)})
        found.append({"model": "b", "seed": seed, "test_loss": 3.0})
    return found


def test_mean_and_deviation_by_hand() -> None:
    runs = runs_of("a", (1.0, 2.0, 6.0), seconds=5)
    assert aggregate(runs) == {
        "a": {
            "test_loss": {"mean": 3.0, "sd": math.sqrt(7)},
            "seconds": {"mean": 5.0, "sd": 0.0},
        }
    }


def test_models_stay_in_order_and_are_not_mixed() -> None:
    found = aggregate(runs_of("z", (1.0, 3.0)) + runs_of("a", (10.0, 30.0)))
    assert [(model, metrics["test_loss"]["mean"]) for model, metrics in found.items()] == [
        ("z", 2.0),
        ("a", 20.0),
    ]


def test_one_seed_has_no_deviation() -> None:
    assert aggregate(runs_of("a", (1.5,)))["a"]["test_loss"] == {"mean": 1.5, "sd": None}


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_metric_that_one_run_lacks_has_no_mean(value: Any) -> None:
    assert aggregate(runs_of("a", (1.0, 2.0, value)))["a"]["test_loss"] == {
        "mean": None,
        "sd": None,
    }


def test_what_is_no_measurement_is_not_averaged() -> None:
    run = {"model": "a", "seed": 1, "num_heads": 4, "trace": [], "is_best": True, "parameters": 7}
    assert aggregate([run]) == {"a": {}}


def test_two_runs_of_one_seed_are_refused() -> None:
    with pytest.raises(StudyError, match=r"two runs of a with seed 11"):
        aggregate(runs_of("a", (1.0,)) * 2)


def test_differences_are_first_minus_second_seed_by_seed() -> None:
    runs = runs_of("a", (1.0, 2.0, 4.0)) + list(reversed(runs_of("b", (2.0, 5.0, 6.0))))
    found = paired_differences(runs, [("a", "b")])[0]
    assert found["seeds"] == [11, 29, 47]
    assert found["differences"] == [-1.0, -3.0, -2.0]
    assert (found["mean"], found["sd"], found["n"]) == (-2.0, 1.0, 3)
    assert (found["model_a"], found["model_b"], found["metric"]) == ("a", "b", "test_loss")


def test_t_interval_against_scipy() -> None:
    found = compared((1.0, 2.0, 4.5), (2.0, 5.0, 6.0))
    expected = scipy.stats.ttest_1samp(found["differences"], 0.0).confidence_interval(0.95)
    np.testing.assert_allclose(found["t_interval"], expected, rtol=1e-12)


def test_bootstrap_of_three_seeds_stays_within_their_range_and_says_so() -> None:
    found = compared((1.0, 2.0, 4.5), (2.0, 5.0, 6.0))
    low, high = found["interval"]
    assert -3.0 <= low < found["mean"] < high <= -1.0
    assert (found["method"], found["resamples"]) == ("BCa", 9999)
    assert "75 % of repetitions" in found["note"]
    assert "All 3 differences have the same sign" in found["note"]
    assert "25 % of repetitions" in found["note"]


def test_bootstrap_of_many_normal_differences_is_near_the_t_interval() -> None:
    differences = np.random.default_rng(0).normal(-0.1, 0.02, size=60)
    found = paired_differences(many_seeds(differences), [("a", "b")])[0]
    np.testing.assert_allclose(found["interval"], found["t_interval"], atol=0.001)
    assert "few" not in found["note"]


def test_bootstrap_is_the_same_each_time_and_depends_on_its_seed() -> None:
    runs = many_seeds(np.random.default_rng(1).normal(size=20))
    first, again = (paired_differences(runs, [("a", "b")], resamples=200) for _ in range(2))
    other = paired_differences(runs, [("a", "b")], resamples=200, seed=1)
    assert first == again
    assert first[0]["interval"] != other[0]["interval"]
    assert first[0]["resamples"] == 200


def test_percentiles_take_over_where_bca_gives_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scipy.stats.bootstrap

    def without_bca(*data: Any, method: str, **options: Any) -> Any:
        found = real(*data, method="percentile", **options)
        if method == "BCa":
            found.confidence_interval = type(found.confidence_interval)(math.nan, math.nan)
        return found

    monkeypatch.setattr(scipy.stats, "bootstrap", without_bca)
    found = compared((1.0, 2.0, 4.5), (2.0, 5.0, 6.0))
    assert found["method"] == "percentile"
    assert found["interval"] == [-3.0, -1.0]


@pytest.mark.parametrize(
    ("losses", "why"),
    [
        ((2.0, 5.0), "b has no run of this seed"),
        ((2.0, 5.0, None), "test_loss of b is missing"),
        ((2.0, 5.0, math.nan), "test_loss of b is nan"),
    ],
)
def test_a_seed_that_cannot_be_compared_is_named(losses: Any, why: str) -> None:
    found = compared((1.0, 2.0, 3.0), losses)
    assert found["seeds"] == [11, 29]
    assert found["left_out"] == [{"seed": 47, "why": why}]
    assert found["note"].startswith("1 seed(s) left out")


def test_one_seed_has_a_difference_and_no_interval() -> None:
    found = compared((1.0,), (3.0,))
    assert (found["mean"], found["sd"], found["n"]) == (-2.0, None, 1)
    assert found["interval"] is found["t_interval"] is found["method"] is None
    assert "One seed has no spread" in found["note"]


def test_no_common_seed_has_nothing_and_says_so() -> None:
    found = compared((None,), (3.0,))
    assert (found["mean"], found["n"], found["interval"]) == (None, 0, None)
    assert "No seed can be compared" in found["note"]


@pytest.mark.parametrize("second", [(2.0, 3.0, 4.0), (1.1, 2.1, 3.1)])
def test_equal_differences_have_no_interval_even_if_rounding_parts_them(second: Any) -> None:
    found = compared((1.0, 2.0, 3.0), second)
    assert found["interval"] is found["t_interval"] is None
    assert "All 3 differences are equal" in found["note"]


def test_seeds_that_disagree_are_counted() -> None:
    note = compared((1.0, 2.0, 3.0), (2.0, 1.0, 5.0))["note"]
    assert "disagree about the sign: 2 of 3 differences are below zero" in note


def test_everything_is_json() -> None:
    found = [compared((1.0, 2.0, 4.5), (2.0, math.inf, 6.0)), compared((1.0,), (1.0,))]
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("a", "c"), r"'c', which has no run: use two of a"),
        (("a",), "not a pair"),
        ("ab", "not a pair"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused(pair: Any, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        paired_differences(runs_of("a", (1.0, 2.0)), [pair])


@pytest.mark.parametrize(("seeds", "is_few"), [(5, True), (6, False)])
def test_fewer_than_six_seeds_are_few(seeds: int, is_few: bool) -> None:
    found = paired_differences(many_seeds(np.linspace(0.1, 0.2, seeds)), [("a", "b")])[0]
    assert ("seeds are few" in found["note"]) is is_few


@pytest.mark.parametrize("size", [1.0, 1024.0, 2.0**-10])
@pytest.mark.parametrize(
    ("spread", "has_interval"), [(0.5e-12, False), (4e-12, True), (1e-7, True)]
)
def test_differences_within_rounding_of_their_size_have_no_interval(
    spread: float, has_interval: bool, size: float
) -> None:
    runs = [
        {"model": model, "seed": seed, "test_loss": loss}
        for seed in range(6)
        for model, loss in (("a", size * (1.0 + spread * (seed % 2))), ("b", 0.0))
    ]
    found = paired_differences(runs, [("a", "b")], resamples=50)[0]
    assert (found["t_interval"] is not None) is has_interval
    assert (found["interval"] is not None) is has_interval
    assert ("differences are equal" in found["note"]) is not has_interval


def test_a_zero_difference_has_no_sign() -> None:
    def note(*differences: float) -> str:
        found = paired_differences(many_seeds(differences), [("a", "b")], resamples=50)
        return str(found[0]["note"])

    assert "All 3 differences have the same sign" in note(0.5, 1.0, 2.0)
    assert "disagree about the sign: 0 of 3" in note(0.0, 1.0, 2.0)
    assert "disagree about the sign: 1 of 3" in note(-1.0, 1.0, 2.0)
    assert "All 3 differences have the same sign" in note(-0.5, -1.0, -2.0)
