"""The reading that gives the numbers is found, and equal ones are named together."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults import Variant
from manyheads.faults.positions import OtherRotary
from manyheads.faults.softmax import OtherScale
from manyheads.verify.context import RIGHT
from manyheads.verify.variants import Observation, all_variants, fits, gap_where_known
from tests.factories import annotations_unchecked, mostly_slow
from tests.faults.problems import STANDARD, key_mask, problem_of

TOLERANCE = 1e-9


def observed(pipeline: Pipeline, problem: Problem) -> Observation:
    with torch.no_grad():
        return Observation(problem=problem, output=pipeline.run(problem).output)


def reading(fault: str, key: str) -> Variant:
    return next(v for v in all_variants() if (v.fault, v.key) == (fault, key))


def named(pipeline: Pipeline, *problems: Problem, passing: tuple[Problem, ...] = ()) -> list[str]:
    failing = [observed(pipeline, p) for p in problems]
    right = [observed(Pipeline(), p) for p in passing]
    with annotations_unchecked():  # two thousand readings
        return [fit.variant.fault for fit in fits(failing, right, TOLERANCE)]


# the key of a reading, and the problem on which it is found
READINGS = {
    "split-by-view": ("BTE:split:qkv:BTHd>BHTd", "plain"),
    "softmax-axis": ("queries", "plain"),
    "mask-polarity": ("inverted", "key mask"),
    "causal-alignment": ("first key", "causal, more keys"),
    "rotary-pairing": ("pairing", "rotary half"),
    "cache-position": ("shift:1", "pieces"),
    "grouped-order": ("tiled", "grouped"),
    "packed-layout": ("packed:hki", "packed"),
    "key-value-swapped": ("inputs:qvk", "query, key and value"),
}


@pytest.mark.parametrize(
    "fault", mostly_slow(READINGS, "split-by-view", "mask-polarity", "rotary-pairing")
)
def test_fault_is_named_first(fault: str) -> None:
    key, name = READINGS[fault]
    first = STANDARD[name]
    assert named(reading(fault, key).pipeline, first)[0] == fault


def test_passing_observations_rule_readings_out() -> None:
    masked, plain = STANDARD["key mask"], STANDARD["plain"]
    ignoring = reading("mask-ignored", "ignored").pipeline
    found = named(ignoring, masked, passing=(plain,))
    assert found[0] == "mask-ignored"
    assert "scale" not in found


def test_nothing_fits_what_no_reading_gives() -> None:
    problem = STANDARD["plain"]
    shifted = Observation(problem=problem, output=RIGHT.run(problem).output + 0.01)
    with annotations_unchecked():
        assert fits([shifted], [], TOLERANCE) == []


def test_look_alikes_are_named_together() -> None:
    fault = reading("mask-multiplied", "masks:multiplied")
    assert fault.also == ("mask-value",)
    assert reading("mask-value", "masks:fill:1e-10").also == ("mask-multiplied",)


@pytest.mark.parametrize("factor", mostly_slow([0.3173, 0.0421, 1.77, 4.4], 4.4))
def test_scale_that_nobody_writes_is_fitted(factor: float) -> None:
    problem = STANDARD["plain"]
    with annotations_unchecked():
        (fit,) = fits([observed(OtherScale(factor), problem)], [], TOLERANCE)
    assert fit.variant.fault == "scale"
    assert f"multiplied by {factor:.6g};" in fit.variant.says


@pytest.mark.parametrize("base", mostly_slow([321.0, 50000.0], 321.0))
def test_rotary_base_is_fitted(base: float) -> None:
    problem = STANDARD["rotary half"]
    with annotations_unchecked():
        found = fits([observed(OtherRotary(base=base), problem)], [], TOLERANCE)
    assert f"rotary base {base:.6g} instead of 100" in found[0].variant.says


def test_known_scales_are_said_by_their_formula() -> None:
    problem = replace(STANDARD["plain"], scale=0.5)
    with annotations_unchecked():
        found = fits([observed(OtherScale(12**-0.5), problem)], [], TOLERANCE)
    assert "1/sqrt(model width)" in found[0].variant.says


def _tensor(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def test_gap_is_relative_to_the_largest_expected_number() -> None:
    assert gap_where_known(_tensor(1.0, 4.5), _tensor(1.0, 4.0)) == pytest.approx(0.125)
    assert gap_where_known(_tensor(0.25), _tensor(0.0)) == 0.25


def test_gap_skips_what_the_expectation_leaves_open_and_nothing_else() -> None:
    nan = math.nan
    assert gap_where_known(_tensor(9.0, 1.0), _tensor(nan, 1.0)) == 0.0
    assert gap_where_known(_tensor(nan, 1.0), _tensor(1.0, 1.0)) == math.inf
    assert gap_where_known(_tensor(1.0), _tensor(1.0, 1.0)) == math.inf
    assert gap_where_known(_tensor(1.0, 1, 1, 1, 1), _tensor(1.0, nan, nan, nan, nan)) == math.inf


def test_causal_off_by_one_is_named_though_its_first_row_is_empty() -> None:
    fault = reading("causal-off-by-one", "self hidden")
    problem = problem_of(2, 6, is_causal=True, masks=(key_mask("111111", "111111"),))
    assert not observed(fault.pipeline, problem).output[:, 0].isfinite().any()
    mended = observed(fault.pipeline, problem).output.nan_to_num(0.0)
    with annotations_unchecked():
        found = fits([Observation(problem=problem, output=mended)], [], TOLERANCE)
    assert found[0].variant.fault == "causal-off-by-one"
