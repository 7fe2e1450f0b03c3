"""Many subjects: all of them, in order, whatever one of them does."""

import json
from pathlib import Path

import pytest

from manyheads.core.errors import SubjectError
from manyheads.verify import isolation
from manyheads.verify.isolation import (
    Examined,
    Limits,
    default_jobs,
    examine_subjects,
    verify_subjects,
)
from manyheads.verify.subject import Subject
from manyheads.verify.subject_files import read_manifest
from tests.verify.strangers import declaration, judge_by_one_call, write_strangers

NAMES = ["Hangs", "Sound", "Leaves", "Raises", "CannotBeBuilt"]


def subjects(folder: Path, names: list[str]) -> list[Subject | SubjectError]:
    write_strangers(folder)
    cases = [declaration(name) for name in names] + [{"target": 3}]
    (folder / "manifest.json").write_text(json.dumps({"cases": cases}))
    return read_manifest(folder / "manifest.json")


def test_reports_come_in_order_and_a_bad_subject_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by_one_call(monkeypatch)
    seen: dict[int, Examined] = {}
    reports = verify_subjects(
        subjects(tmp_path, NAMES),
        jobs=2,
        limits=Limits(seconds=2.0),
        on_done=lambda index, examined: seen.update({index: examined}),
    )
    assert [report.verdict for report in reports] == [
        *("undetermined", "sound", "undetermined", "undetermined", "undetermined", "undetermined")
    ]
    assert [report.id for report in reports[:5]] == [name.lower() for name in NAMES]
    assert "cases[5]: target (3)" in reports[5].findings[0].says
    assert [seen[index].report for index in range(6)] == reports


def test_what_is_not_there_is_told_from_what_goes_wrong(tmp_path: Path) -> None:
    names = ["Absent", "Raises", "CannotBeBuilt"]
    examined = examine_subjects(subjects(tmp_path, names)[:3])
    assert "has no Absent: use one of" in (examined[0].refused or "")
    assert [one.refused for one in examined[1:]] == [None, None]


def test_without_fork_subjects_run_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by_one_call(monkeypatch)
    monkeypatch.setattr(isolation, "can_isolate", lambda: False)
    reports = verify_subjects(subjects(tmp_path, ["Sound", "Raises"]))
    assert [report.verdict for report in reports] == ["sound", "undetermined", "undetermined"]


def test_processes_are_ended_when_a_caller_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: dict[str | None, isolation.IsolatedRun] = {}

    class Noted(isolation.IsolatedRun):
        def __init__(self, subject: Subject, limits: Limits) -> None:
            super().__init__(subject, limits)
            running[subject.id] = self

    monkeypatch.setattr(isolation, "IsolatedRun", Noted)

    def give_up(index: int, examined: Examined) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify_subjects(subjects(tmp_path, ["Hangs", "Leaves"])[:2], jobs=2, on_done=give_up)
    assert sorted(map(str, running)) == ["hangs", "leaves"]
    assert [run.call.pipes for run in running.values()] == [[], []]


def test_at_most_two_at_a_time_by_default() -> None:
    assert default_jobs() in (1, 2)
