"""A subject in a process of its own: there is a verdict whatever it does, and nothing is left."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manyheads.verify import isolation
from manyheads.verify.isolation import Limits, can_isolate, verify_subjects
from manyheads.verify.report import VerifyReport
from manyheads.verify.subject_files import subject_from_dict
from tests.verify.strangers import declaration, judge_by_one_call, write_strangers
from tests.verify.test_contained import assert_ended, pid_from

pytestmark = pytest.mark.skipif(not can_isolate(), reason="this system has no fork")


def judged(name: str, folder: Path, seconds: float = 120.0, **limits: int) -> VerifyReport:
    write_strangers(folder)
    subject = subject_from_dict(declaration(name), folder)
    return verify_subjects([subject], limits=Limits(seconds=seconds, **limits))[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Crashes", r"its process crashed \(SIGSEGV\)"),
        ("Leaves", "its code ended the process with exit status 3"),
        ("Exits", "SystemExit: 5"),
        ("Raises", "RuntimeError: no luck"),
        ("CannotBeBuilt", "OSError: no weights"),
        ("Allocates", "allocate"),
        ("KillsItsParent", r"its code ended its parent process \(SIGTERM\)"),
        ("number", "."),
    ],
)
def test_a_subject_that_goes_wrong_is_undetermined_with_the_reason(
    name: str, reason: str, tmp_path: Path
) -> None:
    report = judged(name, tmp_path)
    assert report.verdict == "undetermined"
    assert report.id == name.lower()
    first = report.findings[0]
    assert (first.fault, first.severity) == (None, "warning")
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(first.says)


@pytest.mark.parametrize(
    ("name", "reason"), [("Hangs", "processor time"), ("Waits", "it only waits")]
)
def test_a_subject_is_stopped_at_the_time_limit(name: str, reason: str, tmp_path: Path) -> None:
    report = judged(name, tmp_path, seconds=0.6)
    assert report.verdict == "undetermined"
    assert "time limit of 0.6 s" in report.findings[0].says
    assert reason in report.findings[0].says


def test_the_place_of_a_crash_is_in_the_evidence(tmp_path: Path) -> None:
    assert "in forward" in judged("Crashes", tmp_path).findings[0].evidence["output"]


def test_what_a_sound_subject_does_besides_leaves_it_sound(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = judged("Busy", tmp_path)
    assert report.verdict == "sound", str(report)
    assert capfd.readouterr() == ("", "")


def test_a_fault_travels_through_the_pipe_with_its_evidence(tmp_path: Path) -> None:
    report = judged("Faulty", tmp_path)
    assert report.verdict == "faulty"
    assert report.findings[0].fault == "split-by-view"
    assert report.findings[0].evidence["influence"]
    assert report.checks


def test_a_report_written_to_every_descriptor_is_not_accepted(tmp_path: Path) -> None:
    report = judged("Forges", tmp_path)
    assert (report.id, report.target) == ("forges", "strangers_attention.py:Forges")
    assert report.verdict == "faulty"
    assert report.findings[0].fault == "split-by-view"


def test_a_report_is_about_the_subject_that_was_asked_for_and_has_the_right_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = {"id": "other", "target": "other.py:A", "inferred": {}, "findings": [], "checks": []}
    answer: dict[str, Any] = {"refused": None}
    answer["report"] = {**report, "verdict": "sound", "seconds": 0.0}
    monkeypatch.setattr(isolation, "_answer", lambda subject: json.dumps(answer).encode())
    assert judged("Sound", tmp_path).id == "sound"
    assert judged("Sound", tmp_path).target == "strangers_attention.py:Sound"
    answer["report"]["verdict"] = "excellent"
    refused = judged("Sound", tmp_path)
    assert refused.verdict == "undetermined"
    assert "its report cannot be read" in refused.findings[0].says


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a subreaper and /proc")
def test_the_command_leaves_nothing_when_it_is_terminated(tmp_path: Path) -> None:
    write_strangers(tmp_path)
    (tmp_path / "subject.json").write_text(json.dumps(declaration("IgnoresSignals")))
    command = subprocess.Popen(
        [sys.executable, "-m", "manyheads.cli.main", "check", "--subject", "subject.json"],
        cwd=tmp_path,
    )
    processes = [pid_from(tmp_path / name) for name in ("worker", "child")]
    command.terminate()
    assert command.wait(timeout=20) == -signal.SIGTERM
    for pid in processes:
        assert_ended(pid)


def test_a_small_memory_limit_is_met(tmp_path: Path) -> None:
    report = judged("AllocatesSome", tmp_path, memory=64 << 20)
    assert report.verdict == "undetermined"
    assert judged("AllocatesSome", tmp_path, memory=8 << 30).verdict == "sound"


def test_nothing_is_written_beside_the_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by_one_call(monkeypatch)
    judged("Sound", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["strangers_attention.py"]
