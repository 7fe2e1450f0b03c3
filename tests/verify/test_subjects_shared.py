"""The published subjects: each faulty one named first, each sound one sound."""

import json
from pathlib import Path

import pytest
import torch

from manyheads.verify.loading import build, load_target
from manyheads.verify.report import VerifyReport
from manyheads.verify.run import verify
from manyheads.verify.subject import Subject
from manyheads.verify.subject_files import read_manifest
from tests.factories import annotations_unchecked

FAULTY = [
    "f-split-view",
    "f-merge-view",
    "f-view-both",
    "f-query-view",
    "f-folded-axes",
    "f-sequence-first-merge",
    "f-view-as-transpose",
    "f-head-minor-split",
    "f-stack-heads",
    "f-attends-over-heads",
    "f-batch-as-sequence",
    "f-channels-first-view",
    "f-dropout-in-eval",
    "f-dropout-after-values",
    "f-dropout-on-scores",
    "f-dropout-not-rescaled",
    "f-dropout-renormalised",
    "f-returns-dropped-weights",
    "f-returns-unmasked-weights",
    "f-scale-grows-with-calls",
    "f-input-edited",
    "f-squeeze",
]
SOUND = [
    "c-loop-over-heads",
    "c-packed-chunk",
    "c-packed-unbind",
    "c-packed-per-head",
    "c-einsum",
    "c-separate-linears",
    "c-sequence-first",
    "c-in-out-weights",
    "c-channels-first",
    "c-head-minor-order",
    "c-sum-of-head-projections",
    "c-key-without-bias",
    "c-shared-key-value",
    "c-shared-query-key",
    "c-wide-heads",
    "c-value-width",
    "c-without-biases",
    "c-rotary-half",
    "c-rotary-interleaved",
    "c-rotary-complex",
    "c-linear-bias",
    "c-concat-cache",
    "c-buffer-cache",
    "c-grouped-repeat",
    "c-grouped-reshaped-queries",
    "c-multi-query",
    "c-cross-widths",
    "c-functional-weights",
    "c-functional-heads",
    "c-functional-upcast",
    "c-functional-loops",
]


def _manifest(shared: Path, kind: str) -> Path:
    return shared / "subjects" / kind / "manifest.json"


def _judged(shared: Path, kind: str, name: str) -> VerifyReport:
    subjects = read_manifest(_manifest(shared, kind))
    subject = next(s for s in subjects if isinstance(s, Subject) and s.id == name)
    torch.manual_seed(0)
    with annotations_unchecked():
        return verify(build(load_target(subject.target, subject.folder), subject), subject)


@pytest.mark.parametrize("name", FAULTY)
def test_fault_of_a_published_subject_is_named_first(shared: Path, name: str) -> None:
    cases = json.loads(_manifest(shared, "faulty").read_text(encoding="utf-8"))["cases"]
    wanted = next(case["fault"] for case in cases if case["id"] == name)
    report = _judged(shared, "faulty", name)
    assert report.verdict == "faulty"
    assert report.findings[0].fault == wanted, [(f.fault, f.says) for f in report.findings]
    assert report.id == name


@pytest.mark.parametrize("name", SOUND)
def test_published_sound_subject_is_sound(shared: Path, name: str) -> None:
    report = _judged(shared, "sound", name)
    assert report.verdict == "sound", [(f.fault, f.says) for f in report.findings]
    assert any(check.status == "passed" for check in report.checks)


@pytest.mark.parametrize(("kind", "names"), [("faulty", FAULTY), ("sound", SOUND)])
def test_no_published_subject_is_left_out(shared: Path, kind: str, names: list[str]) -> None:
    found = [s.id for s in read_manifest(_manifest(shared, kind)) if isinstance(s, Subject)]
    assert found == names
