"""Whole studies: what they write, how they stop and go on, and what stops them for good."""

import errno
import json
import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.core.errors import DataError, PlanError, StudyError
from manyheads.data.stories import generate_stories
from manyheads.study.folder import lock
from manyheads.study.plan import plan
from manyheads.study.run import run_study
from manyheads.study.site import Stopped
from manyheads.study.state import load_tensors
from tests.study.tiny import ONE_RUN, at, best_files, ctrl_c, everything, measured, tiny


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that ran without a stop."""
    folder = tmp_path_factory.mktemp("study") / "straight"
    result = run_study(tiny(), out=folder)
    assert result is not None
    return folder


def results_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results.json").read_text()))


def test_results_have_the_promised_form(straight: Path) -> None:
    results = results_of(straight)
    promised = {"plan", "plan_sha256", "data_sha256", "environment", "runs", "aggregate", "paired"}
    assert promised <= set(results)
    assert [(run["model"], run["seed"]) for run in results["runs"]] == [
        *(("mlp", 3), ("two-heads", 3), ("mlp", 5), ("two-heads", 5)),
    ]
    run = results["runs"][1]
    assert {
        *("model", "num_heads", "seed", "parameters", "steps", "selected_step", "validation_loss"),
        *("test_loss", "test_perplexity", "seconds", "tokens_seen", "trace"),
    } <= set(run)
    assert (run["num_heads"], run["steps"]) == (2, 10)
    assert results["runs"][0]["num_heads"] is None
    assert run["test_perplexity"] == math.exp(run["test_loss"])
    assert [entry["step"] for entry in run["trace"]] == [4, 8, 10]
    best = min(run["trace"], key=lambda entry: entry["validation_loss"])
    assert (run["selected_step"], run["validation_loss"]) == (best["step"], best["validation_loss"])
    assert results["aggregate"]["mlp"]["test_loss"]["mean"] == pytest.approx(
        (results["runs"][0]["test_loss"] + results["runs"][2]["test_loss"]) / 2
    )
    pair = results["paired"][0]
    assert (pair["model_a"], pair["model_b"], pair["metric"]) == ("two-heads", "mlp", "test_loss")
    assert pair["differences"][0] == run["test_loss"] - results["runs"][0]["test_loss"]


def test_the_folder_holds_plan_hash_data_and_environment(straight: Path) -> None:
    study = json.loads((straight / "study.json").read_text())
    assert plan(straight / "plan.toml").sha256 == study["plan_sha256"] == tiny().sha256
    assert study["plan"] == tiny().to_dict()
    assert len(study["data_sha256"]) == 64
    assert study["environment"]["torch"] == torch.__version__
    assert (study["environment"]["device"], study["environment"]["threads"]) == ("cpu", 1)
    assert set(study["data"]["unknown_rates"]) == {"train", "validation", "test"}


def test_targets_seen_are_counted_without_padding(straight: Path) -> None:
    seen = {run["tokens_seen"] for run in results_of(straight)["runs"] if run["seed"] == 3}
    assert len(seen) == 1
    assert 0 < seen.pop() <= 10 * 24


def test_weights_files_say_what_they_are(straight: Path) -> None:
    tensors, facts = load_tensors(straight / "runs" / "two-heads-seed5" / "best.safetensors")
    run = results_of(straight)["runs"][3]
    assert (facts["step"], facts["validation_loss"]) == (
        *(run["selected_step"], run["validation_loss"]),
    )
    assert sum(tensor.numel() for tensor in tensors.values()) == run["parameters"]
    assert facts["config"]["num_heads"] == 2


def test_the_plan_is_on_disk_before_the_first_step(tmp_path: Path) -> None:
    seen: list[bool] = []

    def look(event: Any) -> None:
        if event.kind == "begin":
            seen.append((tmp_path / "s" / "study.json").exists())

    run_study(tiny(*ONE_RUN), out=tmp_path / "s", report=look)
    assert seen == [True]


@pytest.mark.parametrize("step", [4, 8])
def test_a_study_that_was_stopped_ends_bit_for_bit_like_one_that_was_not(
    straight: Path, tmp_path: Path, step: int
) -> None:
    says = rf"run two-heads-seed3 is saved at step {step + 1} of 10"  # the step under way is taken
    with pytest.raises(Stopped, match=says):
        run_study(tiny(), out=tmp_path / "s", report=at("two-heads-seed3", step, ctrl_c))
    assert not (tmp_path / "s" / "results.json").exists()
    run_study(tiny(), out=tmp_path / "s", resume=True)
    assert measured(tmp_path / "s") == measured(straight)
    assert best_files(tmp_path / "s") == best_files(straight)


def test_a_state_between_two_validations_is_enough_to_go_on(straight: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    kept: dict[str, bytes] = {}
    path = folder / "runs" / "mlp-seed3" / "state.safetensors"

    def keep_then_stop() -> None:
        kept["state"] = path.read_bytes()  # of step 6, since step 8 is saved after this news
        ctrl_c()

    with pytest.raises(Stopped):
        run_study(tiny(), out=folder, report=at("mlp-seed3", 8, keep_then_stop))
    path.write_bytes(kept["state"])
    assert load_tensors(path)[1]["progress"]["step"] == 6
    run_study(tiny(), out=folder, resume=True)
    assert measured(folder) == measured(straight)


def test_a_finished_study_is_read_and_not_run_again(straight: Path) -> None:
    before = everything(straight)
    told: list[Any] = []
    result = run_study(tiny(), out=straight, resume=True, report=told.append)
    assert result is not None
    assert result.runs == results_of(straight)["runs"]
    assert (told, everything(straight)) == ([], before)


def test_a_folder_in_use_is_refused_without_resume(straight: Path, tmp_path: Path) -> None:
    before = everything(straight)
    with pytest.raises(StudyError, match="already contains a study: give --resume to continue it"):
        run_study(tiny(), out=straight)
    assert everything(straight) == before
    (tmp_path / "letter.txt").write_text("keep me")
    with pytest.raises(
        StudyError, match="contains other files: give a folder that is empty or new"
    ):
        run_study(tiny(), out=tmp_path)
    assert sorted(everything(tmp_path)) == ["letter.txt"]


def test_resume_begins_a_study_that_is_not_there(tmp_path: Path) -> None:
    assert run_study(tiny(*ONE_RUN), out=tmp_path / "new", resume=True) is not None


def test_another_plan_is_refused_and_nothing_is_touched(straight: Path) -> None:
    before = everything(straight)
    with pytest.raises(PlanError, match=r"plan tiny \(\w{12}\) is not the one that was frozen in"):
        run_study(tiny(("0.02", "0.03")), out=straight, resume=True)
    with pytest.raises(PlanError, match="and the same seeds, or another folder"):
        run_study(tiny(), out=straight, seeds=(3,), resume=True)
    assert everything(straight) == before


def test_other_data_are_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    stories = tmp_path / "stories.jsonl"
    texts = generate_stories(60, seed=8)
    stories.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    folder = tmp_path / "s"
    run_study(tiny(*ONE_RUN), out=folder, data=stories)
    before = everything(folder)
    stories.write_text("\n".join(json.dumps({"text": text}) for text in texts[:-1]))
    with pytest.raises(StudyError, match=r"data \(\w{12}\) are not those that .* was started"):
        run_study(tiny(*ONE_RUN), out=folder, data=stories, resume=True)
    assert everything(folder) == before
    assert json.loads(before["study.json"])["data"]["source"] == "file stories.jsonl"


def test_a_file_of_stories_that_is_not_there_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt"):
        run_study(tiny(), out=tmp_path / "s", data=tmp_path / "none.txt")
    assert not (tmp_path / "s").exists()


def test_a_damaged_state_is_noticed_and_other_runs_stay(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with pytest.raises(Stopped):
        run_study(tiny(), out=folder, report=at("two-heads-seed3", 4, ctrl_c))
    path = folder / "runs" / "two-heads-seed3" / "state.safetensors"
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    for damaged in (bytes(data), bytes(data[:-40]), b""):
        path.write_bytes(damaged)
        before = everything(folder)
        with pytest.raises(StudyError, match=r"state\.safetensors\) is damaged .* other runs are"):
            run_study(tiny(), out=folder, resume=True)
        assert everything(folder) == before
    path.unlink()
    run_study(tiny(), out=folder, only=("two-heads-seed3",), resume=True)
    assert (path.parent / "run.json").exists()


def test_a_state_of_another_run_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with pytest.raises(Stopped):
        run_study(tiny(), out=folder, report=at("two-heads-seed3", 4, ctrl_c))
    other = folder / "runs" / "two-heads-seed5"
    other.mkdir()
    (folder / "runs" / "two-heads-seed3" / "state.safetensors").replace(other / "state.safetensors")
    with pytest.raises(StudyError, match=r"has another run \(two-heads-seed3, expected two-head"):
        run_study(tiny(), out=folder, only=("two-heads-seed5",), resume=True)


def test_a_loss_that_is_no_number_stops_the_study_and_says_where(tmp_path: Path) -> None:
    wild = tiny(("learning_rate = 0.02", "learning_rate = 1e38"))
    with pytest.raises(StudyError, match=r"run two-heads-seed3, step \d+: .*not a finite number"):
        run_study(wild, out=tmp_path / "s")
    assert (tmp_path / "s" / "runs" / "mlp-seed3" / "run.json").exists()
    assert not (tmp_path / "s" / "runs" / "two-heads-seed3" / "run.json").exists()


def test_a_full_disk_stops_the_study_and_harms_nothing(
    straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    real = os.fsync
    left = [30]  # files that still find room; each is synced, and then its folder

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StudyError, match=r"cannot be written \(No space left on device\)"):
            run_study(tiny(), out=folder)
    assert not list(folder.rglob("*.part"))
    assert (folder / "runs" / "mlp-seed3" / "run.json").exists()
    run_study(tiny(), out=folder, resume=True)
    assert measured(folder) == measured(straight)


def test_parts_of_a_study_can_be_run_one_after_another(straight: Path, tmp_path: Path) -> None:
    told: list[Any] = []
    folder = tmp_path / "s"
    assert run_study(tiny(), out=folder, only=("mlp",), report=told.append) is None
    assert told[-1].says == "not done yet: two-heads-seed3, two-heads-seed5"
    assert not (folder / "choices.json").exists()
    assert run_study(tiny(), out=folder, only=("two-heads-seed5",), resume=True) is None
    assert run_study(tiny(), out=folder, resume=True) is not None
    assert measured(folder) == measured(straight)
    with pytest.raises(StudyError, match=r"only \(gru\) is not a model or run of the plan"):
        run_study(tiny(), out=tmp_path / "t", only=("gru",))
    assert not (tmp_path / "t").exists()


def test_a_run_that_another_process_holds_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.study.run.lock", partial(lock, patience=0.0))
    folder, told = tmp_path / "s", list[Any]()
    run_study(tiny(), out=folder, only=("mlp-seed5",))
    with lock(folder / "runs" / "mlp-seed3"):
        assert run_study(tiny(), out=folder, resume=True, report=told.append) is None
    notes = [event.says for event in told if event.kind == "note"]
    assert notes[0].endswith(f"is in use by process {os.getpid()}: wait until it ends")
    assert notes[1] == "not done yet: mlp-seed3"


def test_other_seeds_are_another_plan(tmp_path: Path) -> None:
    result = run_study(tiny(), out=tmp_path / "s", seeds=(7,), only=("mlp",))
    assert result is None
    assert plan(tmp_path / "s" / "plan.toml") == tiny().with_seeds((7,))


def test_a_machine_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"device \(abacus\) is not known: use one of cpu, cuda"):
        run_study(tiny(), out=tmp_path / "s", device="abacus")
    with pytest.raises(StudyError, match=r"jobs \(0\) must be from 1 to"):
        run_study(tiny(), out=tmp_path / "s", jobs=0)
    assert not (tmp_path / "s").exists()
