"""More than one process or device: the same results, by Lightning Fabric."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import MissingExtraError, StudyError
from manyheads.study.machine import Machine, _layout, join_crew, launched_outside
from manyheads.study.run import run_study
from tests.study.tiny import ONE_RUN, TEXT, best_files, measured, tiny

pytest.importorskip("lightning_fabric", reason="install the extra study: manyheads[study]")

UNEVEN = (*ONE_RUN, ("batch_targets = 24", "batch_targets = 27"))  # 9 windows: 5 and 4


def numbers(folder: Path) -> list[float]:
    """Every loss of a study of one run."""
    run: dict[str, Any] = measured(folder)[0]
    losses = [entry[name] for entry in run["trace"] for name in ("train_loss", "validation_loss")]
    return [*losses, run["test_loss"]]


def test_two_processes_equal_one_with_the_same_global_batch(tmp_path: Path) -> None:
    run_study(tiny(*UNEVEN), out=tmp_path / "one", precision="64-true")
    run_study(tiny(*UNEVEN), out=tmp_path / "two", precision="64-true", devices=2)
    assert numbers(tmp_path / "two") == pytest.approx(numbers(tmp_path / "one"), abs=1e-12)
    assert (
        measured(tmp_path / "two")[0]["tokens_seen"]
        == (measured(tmp_path / "one")[0]["tokens_seen"])
    )


@pytest.mark.slow
def test_two_processes_equal_one_in_float32_up_to_rounding(tmp_path: Path) -> None:
    run_study(tiny(), out=tmp_path / "one")
    run_study(tiny(), out=tmp_path / "two", devices=2)
    assert numbers(tmp_path / "two") == pytest.approx(numbers(tmp_path / "one"), abs=1e-6)


@pytest.mark.slow
def test_torchrun_starts_the_processes_as_well(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TEXT)
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    argv += ["-m", "manyheads.cli.main", "study", "run", "tiny.toml", "--out", "two"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Study tiny, plan") == 1
    run_study(tiny(), out=tmp_path / "one")
    assert numbers(tmp_path / "two") == pytest.approx(numbers(tmp_path / "one"), abs=1e-6)


@pytest.mark.gpu
def test_a_gpu_gives_the_processor_losses_up_to_rounding(tmp_path: Path) -> None:
    run_study(tiny(), out=tmp_path / "cpu", precision="64-true")
    run_study(tiny(), out=tmp_path / "gpu", precision="64-true", device="cuda")
    assert numbers(tmp_path / "gpu") == pytest.approx(numbers(tmp_path / "cpu"), abs=1e-9)


def test_float64_is_kept_in_the_weights_and_float32_resumes_no_float64(tmp_path: Path) -> None:
    run_study(tiny(*ONE_RUN), out=tmp_path / "a", precision="64-true")
    run_study(tiny(*ONE_RUN), out=tmp_path / "b")
    wide, narrow = best_files(tmp_path / "a")["mlp-seed3"], best_files(tmp_path / "b")["mlp-seed3"]
    assert (b'"F64"' in wide, b'"F32"' in wide) == (True, False)
    assert (b'"F64"' in narrow, b'"F32"' in narrow) == (False, True)


def test_a_device_that_is_not_there_is_refused() -> None:
    import torch

    if torch.backends.mps.is_available():
        pytest.skip("this computer has an Apple GPU: run on one that has none")
    with pytest.raises(StudyError, match=r"device \(mps\) cannot be used \(.*use another --device"):
        join_crew(Machine(device="mps"))


def test_without_fabric_the_advice_is_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    assert join_crew(Machine()).size == 1
    with pytest.raises(MissingExtraError, match=r"manyheads\[study\]"):
        join_crew(Machine(device="auto"))


@pytest.mark.parametrize(
    "variables, layout",
    [
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "2"}, (2, 3)),
        ({"SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, (4, 2)),
    ],
)
def test_the_launcher_tells_processes_and_computers(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], layout: tuple[int, int]
) -> None:
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    assert not launched_outside()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert launched_outside()
    assert _layout() == layout


@pytest.mark.parametrize("text", ["many", "", "0", "-1", "10000000", "9" * 5000])
def test_a_launcher_that_tells_no_number_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NTASKS", text)
    with pytest.raises(StudyError, match=r"SLURM_NTASKS \(.{0,40}\) must be a whole number from 1"):
        launched_outside()


def test_a_launcher_may_tell_a_number_of_seven_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "9999999")
    assert launched_outside()
