"""The published subjects: each faulty one named first, each sound one sound."""

import json
from pathlib import Path

import torch

from manyheads.verify.loading import build, load_target
from manyheads.verify.report import VerifyReport
from manyheads.verify.run import verify
from manyheads.verify.subject import Subject
from manyheads.verify.subject_files import read_manifest
from tests.factories import annotations_unchecked


def _manifest(shared: Path, kind: str) -> Path:
    return shared / "subjects" / kind / "manifest.json"


def _judged(subject: Subject) -> VerifyReport:
    torch.manual_seed(0)
    with annotations_unchecked():
        return verify(build(load_target(subject.target, subject.folder), subject), subject)


def test_fault_of_every_published_subject_is_named_first(shared: Path) -> None:
    cases = json.loads(_manifest(shared, "faulty").read_text(encoding="utf-8"))["cases"]
    wanted = {case["id"]: case["fault"] for case in cases}
    assert len(wanted) >= 20
    wrong = []
    for subject in read_manifest(_manifest(shared, "faulty")):
        assert isinstance(subject, Subject)
        report = _judged(subject)
        named = (report.verdict, report.findings[0].fault if report.findings else None)
        if named != ("faulty", wanted[str(subject.id)]) or report.id != subject.id:
            wrong.append((subject.id, [(f.fault, f.says) for f in report.findings]))
    assert wrong == []


def test_every_published_sound_subject_is_sound(shared: Path) -> None:
    subjects = read_manifest(_manifest(shared, "sound"))
    assert len(subjects) >= 30
    wrong = []
    for subject in subjects:
        assert isinstance(subject, Subject)
        report = _judged(subject)
        if report.verdict != "sound" or not any(c.status == "passed" for c in report.checks):
            wrong.append((subject.id, [(f.fault, f.says) for f in report.findings]))
    assert wrong == []
