"""The test split opens for frozen choices only, and frozen choices need every run to be done."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import StudyError
from manyheads.data.windows import Corpus, SealedSplit, Split
from manyheads.study.corpus import corpus_for
from manyheads.study.folder import Folder
from manyheads.study.run import run_study
from manyheads.study.seal import FrozenChoices, freeze_choices
from tests.house.sources import python_files
from tests.study.tiny import tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("choices") / "s"
    run_study(tiny(), out=folder)
    return folder


@pytest.fixture
def trained(finished: Path, tmp_path: Path) -> Folder:
    """A study whose runs are all done, and which is not tested yet."""
    folder = tmp_path / "s"
    shutil.copytree(finished, folder)
    for name in ("choices.json", "results.json"):
        (folder / name).unlink()
    return Folder(path=folder, plan=tiny())


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return corpus_for(tiny())


def test_frozen_choices_open_the_test_split(trained: Folder, corpus: Corpus) -> None:
    split = corpus.test.open(freeze_choices(trained))
    assert split.num_targets == corpus.num_targets["test"]
    assert json.loads((trained.path / "choices.json").read_text())["runs"]["mlp-seed3"]["sha256"]


def test_choices_cannot_be_frozen_while_a_run_is_missing(trained: Folder) -> None:
    (trained.place(trained.runs()[2]) / "run.json").unlink()
    with pytest.raises(StudyError, match=r"run \(mlp-seed5\) is not done: continue with --resume"):
        freeze_choices(trained)
    assert not (trained.path / "choices.json").exists()


def test_choices_without_a_file_on_disk_open_nothing(trained: Folder, corpus: Corpus) -> None:
    made_up = FrozenChoices(folder=trained, digest="0" * 64)
    with pytest.raises(StudyError, match=r"choices\.json\) is missing"):
        corpus.test.open(made_up)


def test_choices_that_leave_a_run_out_open_nothing(trained: Folder, corpus: Corpus) -> None:
    freeze_choices(trained)
    path = trained.path / "choices.json"
    content = json.loads(path.read_text())
    del content["runs"]["mlp-seed5"]
    path.write_text(json.dumps(content))
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    few = FrozenChoices(folder=trained, digest=digest)
    with pytest.raises(StudyError, match=r"run \(mlp-seed5\) has no frozen choice"):
        corpus.test.open(few)


def test_weights_that_were_changed_after_the_choice_open_nothing(
    trained: Folder, corpus: Corpus
) -> None:
    choices = freeze_choices(trained)
    path = trained.best(trained.runs()[1])
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(StudyError, match=r"best\.safetensors\) are not the ones that were chosen"):
        corpus.test.open(choices)


def test_choices_of_a_study_on_other_stories_open_nothing(trained: Folder) -> None:
    choices = freeze_choices(trained)
    others = corpus_for(tiny(("seed = 4", "seed = 6")))
    with pytest.raises(
        StudyError, match=r"choices\.json\) belong to other data \(\w{12}, expected"
    ):
        others.test.open(choices)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"seed": 5}, r"has another seed \(5, expected 3\)"),
        ({"model": "two-heads"}, r"has another model \(two-heads, expected mlp\)"),
        ({"validation_loss": "low"}, "validation_loss must be a number"),
        ({"learning_rate": None}, "learning_rate must be a number"),
        ({"sha256": []}, "must have the weights' sha256"),
    ],
    ids=["seed", "model", "loss", "rate", "hash"],
)
def test_a_record_of_another_run_or_with_damage_freezes_nothing(
    trained: Folder, change: dict[str, Any], says: str
) -> None:
    path = trained.place(trained.runs()[0]) / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(StudyError, match=says):
        freeze_choices(trained)
    assert not (trained.path / "choices.json").exists()


def test_choices_that_were_changed_open_nothing(trained: Folder, corpus: Corpus) -> None:
    choices = freeze_choices(trained)
    path = trained.path / "choices.json"
    content = json.loads(path.read_text())
    content["runs"]["mlp-seed3"]["selected_step"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(StudyError, match="were changed after they were frozen"):
        corpus.test.open(choices)
    with pytest.raises(StudyError, match="were frozen with other runs"):
        freeze_choices(trained)


def test_a_whole_study_opens_the_test_split_once_and_after_the_last_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[list[str]] = []
    real = SealedSplit.open

    def watched(self: SealedSplit, choices: Any) -> Split:
        opened.append(sorted(path.name for path in (tmp_path / "s").rglob("*.json")))
        return real(self, choices)

    monkeypatch.setattr(SealedSplit, "open", watched)
    run_study(tiny(), out=tmp_path / "s", only=("mlp",))
    assert opened == []
    run_study(tiny(), out=tmp_path / "s", resume=True)
    assert opened == [["choices.json", *["run.json"] * 4, "study.json", "tokenizer.json"]]


def test_a_sealed_split_tells_its_name_and_counts_alone(corpus: Corpus) -> None:
    held = vars(corpus.test)
    assert {name: held[name] for name in held if not callable(held[name])} == {
        "name": "test",
        "num_stories": corpus.num_stories["test"],
        "num_targets": corpus.num_targets["test"],
    }


def test_one_place_in_the_package_opens_the_test_split() -> None:
    places = [path.name for path in python_files("src") if "test.open(" in path.read_text()]
    assert places == ["seal.py"]
