"""Many runs: learning rates are checked with the first seed, on validation data alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import StudyError
from manyheads.report import report_from_folder
from manyheads.study.run import run_study
from manyheads.study.site import Stopped
from tests.study.tiny import at, ctrl_c, tiny

CHECKED = tiny(
    ("learning_rate = 0.02", "learning_rates = [1e-5, 0.005, 0.01]"),
    ("warmup_steps = 2", "warmup_steps = 2\nlr_check_steps = 5"),
)


def record(folder: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((folder / name / "run.json").read_text()))


def test_the_rate_with_the_least_validation_loss_is_chosen_for_all_seeds(tmp_path: Path) -> None:
    told: list[str] = []

    def report(event: Any) -> None:
        if event.kind == "done":
            told.append(event.run)

    result = run_study(CHECKED, out=tmp_path, report=report)
    assert result is not None
    names = ["two-heads-lr1e-05", "two-heads-lr0.005", "two-heads-lr0.01"]
    assert told[:3] == names
    checks = [record(tmp_path / "checks", name) for name in names]
    assert [(run["steps"], run["seed"]) for run in checks] == [(5, 3)] * 3
    losses = {run["learning_rate"]: run["validation_loss"] for run in checks}
    chosen = min(losses, key=lambda rate: losses[rate])
    assert losses[1e-5] == max(losses.values())
    rates = {(run["model"], run["learning_rate"]) for run in result.runs}
    assert rates == {("mlp", 0.01), ("two-heads", chosen)}
    assert result.content["learning_rates"]["two-heads"] == {
        "chosen": chosen,
        "candidates": [
            {"learning_rate": rate, "validation_loss": losses[rate]} for rate in (1e-5, 0.005, 0.01)
        ],
    }
    frozen = json.loads((tmp_path / "choices.json").read_text())
    assert frozen["learning_rates"] == result.content["learning_rates"]


def test_a_rate_whose_loss_is_no_number_is_noted_and_not_chosen(tmp_path: Path) -> None:
    wild = tiny(
        ("learning_rate = 0.02", "learning_rates = [1e38, 0.05]"),
        ("warmup_steps = 2", "warmup_steps = 2\nlr_check_steps = 5"),
    )
    notes: list[tuple[str, str]] = []
    result = run_study(wild, out=tmp_path, report=lambda e: notes.append((e.run, e.says)))
    assert result is not None
    check = record(tmp_path / "checks", "two-heads-lr1e+38")
    assert check["has_diverged"]
    assert check["validation_loss"] is None
    says = "the loss is not a finite number: this learning rate is not chosen"
    assert ("two-heads-lr1e+38", says) in notes
    rates = result.content["learning_rates"]["two-heads"]
    assert rates["chosen"] == 0.05
    assert rates["candidates"][0] == {"learning_rate": 1e38, "validation_loss": None}
    assert {run["learning_rate"] for run in result.runs if run["model"] == "two-heads"} == {0.05}
    report_from_folder(tmp_path).write(tmp_path / "report")
    written = "".join(path.read_text() for path in (tmp_path / "report").glob("*.md"))
    assert "1e+38: loss not finite" in written


def test_a_study_whose_every_rate_diverges_says_so(tmp_path: Path) -> None:
    wild = tiny(
        ("learning_rate = 0.02", "learning_rates = [1e38, 1e37]"),
        ("warmup_steps = 2", "warmup_steps = 2\nlr_check_steps = 5"),
    )
    with pytest.raises(StudyError, match=r"learning rates \(1e\+38, 1e\+37\) all led to a loss"):
        run_study(wild, out=tmp_path)


def test_a_check_has_a_schedule_of_its_own_length(tmp_path: Path) -> None:
    run_study(CHECKED, out=tmp_path, only=("two-heads-seed3",))
    trace = record(tmp_path / "checks", "two-heads-lr0.005")["trace"]
    assert [entry["step"] for entry in trace] == [4, 5]
    assert trace[-1]["learning_rate"] == 0.005 * 1 / 3
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["two-heads-seed3"]


def test_checks_that_were_stopped_go_on(tmp_path: Path) -> None:
    only = ("two-heads-seed3",)
    run_study(CHECKED, out=tmp_path / "a", only=only)
    with pytest.raises(Stopped, match="run two-heads-lr0.01 is saved at step 1 of 5"):
        press = at("two-heads-lr0.005", 5, ctrl_c)  # its last step: the next run stops
        run_study(CHECKED, out=tmp_path / "b", only=only, report=press)
    run_study(CHECKED, out=tmp_path / "b", only=only, resume=True)
    for name in ("checks/two-heads-lr0.01", "runs/two-heads-seed3"):
        one, other = record(tmp_path / "a", name), record(tmp_path / "b", name)
        assert (one["trace"], one["sha256"]) == (other["trace"], other["sha256"])
