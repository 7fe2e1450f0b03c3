"""Saved tensors and files: whole or absent, and checked when they are read."""

import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from manyheads.core.errors import StudyError
from manyheads.study.folder import BusyError, file_sha256, lock, read_json, write_bytes, write_json
from manyheads.study.state import Progress, load_tensors, save_tensors

TENSORS = {"flat": torch.arange(7.0), "step": torch.tensor(3.0), "wide": torch.ones(2, 3).double()}


def test_tensors_and_facts_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    facts = {"loss": 0.1 + 0.2, "name": "\u00e9", "none": None}
    digest = save_tensors(path, TENSORS, facts)
    tensors, again = load_tensors(path)
    assert again == facts
    assert digest == file_sha256(path)
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_tensors(path, TENSORS, {"loss": 0.25})
    whole = path.read_bytes()
    load_tensors(path)
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(StudyError, match=r"damaged|not written by a study"):
            load_tensors(path)


def test_a_file_of_another_maker_is_refused(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "other.safetensors")
    with pytest.raises(StudyError, match="was not written by a study: restore it, or delete it"):
        load_tensors(tmp_path / "other.safetensors")


def test_progress_survives_json_bit_for_bit() -> None:
    entry = {"step": 4, "train_loss": 1 / 3, "validation_loss": 0.1 + 0.2, "learning_rate": 1e-5}
    held = Progress(step=4, loss_sum=2 / 3, best_loss=0.1, trace=(entry,))
    assert Progress.from_dict(json.loads(json.dumps(held.to_dict()))) == held


def test_a_write_that_fails_leaves_the_earlier_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"earlier")

    def broken(handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StudyError, match=r"file \(.*file\) cannot be written \(Input/output"):
        write_bytes(path, b"later")
    assert path.read_bytes() == b"earlier"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"none.file\) cannot be written \(No such file"):
        write_bytes(tmp_path / "none" / "file", b"text")


def test_json_with_a_number_that_is_none_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file", {"loss": float("nan")})


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff"])
def test_damaged_json_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(StudyError, match=r"file\.json\) is "):
        read_json(path)


def test_a_folder_is_waited_for_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def held(path: Path, patience: float) -> nullcontext[None]:
        asked.append((path, patience))
        return nullcontext()

    monkeypatch.setattr("manyheads.study.folder.lock_folder", held)
    with lock(tmp_path):
        assert asked == [(tmp_path, 5.0)]


def test_a_folder_is_held_by_one_and_then_free(tmp_path: Path) -> None:
    with (
        lock(tmp_path / "run"),
        pytest.raises(BusyError, match=rf"is in use by process {os.getpid()}: wait"),
        lock(tmp_path / "run", patience=0.0),
    ):
        raise AssertionError("two hold one folder")
    with lock(tmp_path / "run", patience=0.0):
        pass
