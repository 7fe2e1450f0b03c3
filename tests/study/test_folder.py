"""A study's folder: files that were frozen, records of runs, and who may begin it."""

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from manyheads.core.errors import StudyError
from manyheads.study.folder import lock
from manyheads.study.run import run_study
from manyheads.study.site import Stopped
from tests.study.tiny import ONE_RUN, at, ctrl_c, tiny

SEEDS = (("seeds = [3, 5]", "seeds = [3, 5]"), ONE_RUN[1])
"""Changes that leave one model and two seeds."""


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that ran without a stop."""
    folder = tmp_path_factory.mktemp("folder") / "straight"
    run_study(tiny(*SEEDS), out=folder)
    return folder


@pytest.mark.parametrize("name", ["plan.toml", "tokenizer.json"])
def test_a_frozen_file_that_was_changed_is_refused(
    straight: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "s"
    shutil.copytree(straight, folder)
    (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    with pytest.raises(StudyError, match=rf"{name}\) was changed after the study began"):
        run_study(tiny(*SEEDS), out=folder, resume=True)


def test_runs_that_changed_places_are_noticed(straight: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    shutil.copytree(straight, folder)
    for name in ("results.json", "choices.json"):
        (folder / name).unlink()
    (folder / "runs" / "mlp-seed3").rename(folder / "held")
    (folder / "runs" / "mlp-seed5").rename(folder / "runs" / "mlp-seed3")
    (folder / "held").rename(folder / "runs" / "mlp-seed5")
    with pytest.raises(StudyError, match=r"has another seed \(5, expected 3\): restore it, or"):
        run_study(tiny(*SEEDS), out=folder, resume=True)
    assert not (folder / "choices.json").exists()


def test_results_of_another_study_are_not_shown_as_this_one_s(
    straight: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "s"
    shutil.copytree(straight, folder)
    found = json.loads((folder / "results.json").read_text())
    for change, says in (
        ({"plan_sha256": "0" * 64}, "does not fit the study's plan"),
        ({"data_sha256": "0" * 64}, "does not fit the study's data"),
        ({"plan": []}, "cannot be shown"),
        ({"runs": [{}]}, "cannot be shown"),
        ({"environment": {"x": math.nan}}, "NaN is not a JSON number"),
        ({"environment": {"x": 10**400}}, "10+... is too large"),
    ):
        (folder / "results.json").write_text(json.dumps(found | change))
        with pytest.raises(StudyError, match=says):
            run_study(tiny(*SEEDS), out=folder, resume=True)


def test_two_processes_may_begin_a_study_with_resume_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, plan_ = tmp_path / "s", tiny(*ONE_RUN)

    @contextmanager
    def slow(path: Path) -> Iterator[None]:
        monkeypatch.undo()
        run_study(plan_, out=folder)  # the other process is quicker
        with lock(path):
            yield

    monkeypatch.setattr("manyheads.study.run.lock", slow)
    assert run_study(plan_, out=folder, resume=True) is not None


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run_folder = folder / "runs" / "mlp-seed3"
    folder.mkdir()
    (folder / ".plan.toml.77.part").write_text("name")  # a start that was cut short
    with pytest.raises(Stopped):
        run_study(tiny(*ONE_RUN), out=folder, report=at("mlp-seed3", 4, ctrl_c))
    for place in (folder / ".choices.json.77.part", run_folder / ".state.safetensors.77.part"):
        place.write_bytes(b"half")
    run_study(tiny(*ONE_RUN), out=folder, resume=True)
    assert not list(folder.rglob("*.part"))
