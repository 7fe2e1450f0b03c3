"""A subject in a process of its own: there is a verdict whatever it does, and nothing is left."""

import os
import time
from pathlib import Path

import pytest

from manyheads.verify.isolation import IsolatedRun, Limits, can_isolate, load_once, verify_subjects
from manyheads.verify.report import VerifyReport
from manyheads.verify.subject_files import subject_from_dict
from tests.verify.strangers import declaration, judge_by_one_call, write_strangers

pytestmark = pytest.mark.skipif(not can_isolate(), reason="this system has no fork")


def judged(name: str, folder: Path, seconds: float = 120.0, **limits: int) -> VerifyReport:
    write_strangers(folder)
    subject = subject_from_dict(declaration(name), folder)
    return verify_subjects([subject], limits=Limits(seconds=seconds, **limits))[0]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and ") Z " in status.read_text())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Crashes", r"its process crashed \(SIGSEGV\)"),
        ("Leaves", "its code ended the process with exit status 3"),
        ("Exits", "SystemExit: 5"),
        ("Raises", "RuntimeError: no luck"),
        ("CannotBeBuilt", "OSError: no weights"),
        ("Allocates", "allocate"),
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


def test_an_endless_loop_is_stopped_at_the_time_limit(tmp_path: Path) -> None:
    begun = time.monotonic()
    report = judged("Hangs", tmp_path, seconds=0.6)
    assert time.monotonic() - begun < 20
    assert report.verdict == "undetermined"
    assert "time limit of 0.6 s" in report.findings[0].says
    assert report.seconds == pytest.approx(0.6, abs=0.5)


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


def test_children_of_a_subject_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = judged("LeavesAChild", tmp_path, seconds=20.0)
    assert "exit status 4" in report.findings[0].says
    pid = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)


def test_a_small_memory_limit_is_met(tmp_path: Path) -> None:
    report = judged("AllocatesSome", tmp_path, memory=64 << 20)
    assert report.verdict == "undetermined"
    assert judged("AllocatesSome", tmp_path, memory=8 << 30).verdict == "sound"


def test_a_run_that_is_stopped_leaves_no_process_and_no_pipe(tmp_path: Path) -> None:
    write_strangers(tmp_path)
    load_once()
    run = IsolatedRun(subject_from_dict(declaration("Hangs"), tmp_path), Limits())
    pipes = run.pipes
    assert run.step() is None
    run.stop()
    run.stop()
    assert run.pipes == []
    for fd in pipes:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    with pytest.raises(ChildProcessError):
        os.waitpid(run._pid, os.WNOHANG)


def test_nothing_is_written_beside_the_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by_one_call(monkeypatch)
    judged("Sound", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["strangers_attention.py"]
