"""Our reference agrees with the Attention node cases that ship with the onnx package."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.verify.onnx_cases import NODE_TOLERANCE, OnnxCase, onnx_cases, reference_outputs

CASES = onnx_cases()
# all keys of a query are alike, or it has one or none: the scale cannot matter
SCALELESS = {
    "test_attention_3d_transpose_verification",
    "test_attention_bidirectional_window",
    "test_attention_causal_boolmask_nan_robustness",
    "test_attention_local_window_ext_cache_float16_mask",
}
_HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def misses(expected: np.ndarray, actual: Tensor) -> int:
    """How many numbers differ by more than is allowed: two last places of a half type."""
    want = torch.from_numpy(expected.astype(np.float64))
    assert want.shape == actual.shape
    half = _HALF.get(expected.dtype.name)
    if half is None:
        relative, absolute = NODE_TOLERANCE
        close = torch.isclose(actual, want, rtol=relative, atol=absolute, equal_nan=True)
        return int((~close).sum())
    info = torch.finfo(half)
    step = info.eps * 2.0 ** want.abs().clamp_min(info.tiny).log2().floor()
    rounded = actual.to(half).double()
    return int((~((rounded == want) | ((rounded - want).abs() <= 2 * step))).sum())


def test_there_are_93_cases() -> None:
    assert len(CASES) == 93
    assert len({case.name for case in CASES}) == 93


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reference_agrees_with_the_published_case(case: OnnxCase) -> None:
    outputs = reference_outputs(case)
    for name, expected in case.outputs.items():
        assert misses(expected, outputs[name]) == 0, name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_another_scale_would_have_been_seen(case: OnnxCase) -> None:
    attributes = {"scale": 3 * case.attributes.get("scale", case.inputs["V"].shape[-1] ** -0.5)}
    changed = reference_outputs(replace(case, attributes=case.attributes | attributes))
    seen = sum(misses(expected, changed[name]) for name, expected in case.outputs.items())
    assert (seen == 0) == (case.name in SCALELESS)


def test_two_units_in_the_last_place_are_two() -> None:
    one = np.array([1.0, -2.0], dtype=np.float16)
    step = 2.0**-10
    assert misses(one, torch.tensor([1 + 2 * step, -2 - 4 * step], dtype=torch.float64)) == 0
    assert misses(one, torch.tensor([1 + 3 * step, -2 - 6 * step], dtype=torch.float64)) == 2
    assert misses(one, torch.tensor([math.nan, math.inf], dtype=torch.float64)) == 2
