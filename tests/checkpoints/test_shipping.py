"""From a study's folder to shipped models: measured, small enough, and all or nothing."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from manyheads.checkpoints import shipping
from manyheads.checkpoints.files import read_model
from manyheads.checkpoints.shipping import mean_loss, ship
from manyheads.core.errors import CheckpointError
from manyheads.data.windows import Corpus
from tests.checkpoints.small_study import KINDS, SEED, small_batches
from tests.house.sources import ROOT


def test_every_model_of_the_seed_is_written_as_float16(
    shipped_folder: Path, finished_study: Path
) -> None:
    names = {path.name for path in shipped_folder.iterdir()}
    models = {f"{name}.safetensors" for name in KINDS}
    assert names == models | {"tokenizer.json", "models.json", "MODEL_CARD.md"}
    for name in KINDS:
        half = read_model(shipped_folder / f"{name}.safetensors")
        path = finished_study / "runs" / f"{name}-seed{SEED}" / "best.safetensors"
        for key, value in read_model(path).model.state_dict().items():
            assert torch.equal(half.model.state_dict()[key], value.half().float())
        assert half.facts["run"] == f"{name}-seed{SEED}"


def test_the_list_states_both_losses_as_measured(
    shipped_folder: Path, finished_study: Path, corpus: Corpus
) -> None:
    index = json.loads((shipped_folder / "models.json").read_text())
    results = json.loads((finished_study / "results.json").read_text())
    batches = small_batches(corpus)
    for run in results["runs"]:
        entry = index["models"][run["model"]]
        half = read_model(shipped_folder / entry["file"])
        assert entry["validation_loss_float16"] == mean_loss(half.model, batches)
        assert entry["validation_loss"] == pytest.approx(run["validation_loss"], abs=1e-6)
        assert 0 < abs(entry["validation_loss_float16"] - entry["validation_loss"]) < 0.01
        assert entry["test_loss"] == run["test_loss"]
        assert entry["size"] == (shipped_folder / entry["file"]).stat().st_size
    assert index["study"]["seed"] == SEED


def test_mean_loss_counts_targets_and_not_batches() -> None:
    class Certain(nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(tokens), 4)

    batches = [
        (torch.zeros(3, 2, dtype=torch.int64), torch.tensor([0, 1, 2])),
        (torch.zeros(1, 2, dtype=torch.int64), torch.tensor([3])),
    ]
    assert mean_loss(Certain(), batches) == pytest.approx(math.log(4), abs=1e-6)


def test_shipping_again_gives_the_same_bytes(
    shipped_folder: Path, finished_study: Path, corpus: Corpus, tmp_path: Path
) -> None:
    ship(finished_study, tmp_path, seed=SEED, batches=small_batches(corpus))
    for path in shipped_folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_other_data_than_the_study_had_are_noticed(
    study: Path, corpus: Corpus, tmp_path: Path
) -> None:
    wrong = [(tokens.flip(1), targets) for tokens, targets in small_batches(corpus)]
    with pytest.raises(CheckpointError, match=r"validation loss \(\d\.\d{4}\) must be the study's"):
        ship(study, tmp_path / "out", seed=SEED, batches=wrong)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_model_that_is_too_large_leaves_the_earlier_ones(
    study: Path, corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(shipping, "MAX_SIZES", {"attention": 900, "fixed-window-mlp": 5_000_000})
    with pytest.raises(CheckpointError, match=r"one-head.safetensors \(\d,\d+ bytes\) must be"):
        ship(study, folder, seed=SEED, batches=small_batches(corpus))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_seed_without_runs_names_those_there_are(study: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"seed \(12\) has no runs in .*: use one of 11"):
        ship(study, tmp_path / "out", seed=12, batches=[])


def test_another_tokenizer_is_refused(study: Path, corpus: Corpus, tmp_path: Path) -> None:
    (study / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="is not the tokenizer that"):
        ship(study, tmp_path / "out", seed=SEED, batches=small_batches(corpus))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"runs": [{}]}', "lacks data, data_sha256, environment"),
    ],
)
def test_results_that_are_no_results_are_refused(
    text: str, said: str, study: Path, tmp_path: Path
) -> None:
    (study / "results.json").write_text(text)
    with pytest.raises(CheckpointError, match=said):
        ship(study, tmp_path / "out", seed=SEED, batches=[])


def test_an_unfinished_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"results.json\) cannot be read"):
        ship(tmp_path, tmp_path / "out", seed=SEED, batches=[])


def test_the_command_tells_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "manyheads.cli.ship", str(tmp_path), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "plan.toml" in done.stderr


@pytest.mark.slow
def test_a_real_study_is_shipped_and_its_models_tell_stories(tmp_path: Path) -> None:
    from manyheads.study.run import run_study

    run_study("smoke", out=tmp_path / "study", seeds=[SEED])
    line = [sys.executable, "-m", "manyheads.cli.ship", "study", "shipped", "--seed", str(SEED)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert [text.split(":")[0] for text in done.stdout.splitlines()] == list(KINDS)
    told = set()
    for model in ("shipped/four-heads", f"study/runs/four-heads-seed{SEED}/best"):
        line = [sys.executable, "-m", "manyheads.cli.main", "generate", "one day"]
        line += ["--model", f"{model}.safetensors", "--temperature", "0", "--max-tokens", "8"]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        told.add(done.stdout)
    assert len(told) == 1  # rounding to float16 does not change so short a text
