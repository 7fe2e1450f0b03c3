"""NumPy subjects are watched as those of torch are."""

import inspect

import numpy as np
import pytest
import torch
from torch import Tensor

from manyheads.verify.arrays import of_tensors
from tests.verify import arrays
from tests.verify.kinds import E
from tests.verify.test_verdict import is_compared, judged, status_of


@pytest.mark.parametrize("kind", [arrays.Loop, arrays.Causal])
def test_sound_numpy_is_compared(kind: type[arrays.Loop]) -> None:
    report = judged(kind(), embed_dim=12)
    assert report.verdict == "sound", str(report)
    assert is_compared(report)
    assert status_of(report, "gradients") == "skipped"


@pytest.mark.parametrize(
    ("kind", "fault"),
    [(arrays.OneLater, "causal-off-by-one"), (arrays.OverQueries, "softmax-axis")],
)
def test_the_line_of_a_mistake_in_numpy_is_named(kind: type[arrays.Loop], fault: str) -> None:
    finding = judged(kind(), embed_dim=12).findings[0]
    assert finding.fault == fault
    assert finding.where is not None
    lines, _ = inspect.getsourcelines(arrays)
    assert lines[finding.where.line - 1].endswith("# the line\n")


def test_numpy_that_gives_other_numbers_each_time_is_undetermined() -> None:
    report = judged(arrays.Random(), embed_dim=12)
    assert report.verdict == "undetermined"
    assert "draws random numbers" in str(report)


def test_numpy_means_numpy_again_after_a_call() -> None:
    of_tensors(arrays.Loop())(torch.randn(2, 4, 12, dtype=torch.float64))
    assert arrays.np is np


def with_arguments(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> Tensor:
    """One sample (T, E), weights (out, in)."""
    rows = [(x @ w.mT).unflatten(-1, (num_heads, -1)).transpose(0, 1) for w in (w_q, w_k, w_v)]
    scores = rows[0] @ rows[1].mT / rows[0].shape[-1] ** 0.5
    return (scores.softmax(-1) @ rows[2]).transpose(0, 1).flatten(1) @ w_o.mT


def test_weights_that_are_arguments_need_no_registration() -> None:
    report = judged(with_arguments, embed_dim=E, num_heads=3)
    assert report.verdict == "sound", str(report)
