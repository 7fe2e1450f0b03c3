"""Model files: what is written comes back bit for bit, and nothing broken is used."""

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyheads.checkpoints import files
from manyheads.checkpoints.files import read_model, write_model
from manyheads.core.errors import CheckpointError
from manyheads.models import build_model
from manyheads.models.config import ModelConfig
from manyheads.study.state import save_tensors

CONFIGS = {
    "mlp": ModelConfig(kind="fixed-window-mlp", vocab_size=11, context=3, width=4, hidden=5),
    "heads": ModelConfig(
        kind="attention", num_heads=3, head_dim=2, vocab_size=11, context=7, width=4, hidden=5
    ),
    "shared": ModelConfig(
        kind="attention",
        num_heads=2,
        pattern="shared",
        vocab_size=11,
        context=7,
        width=4,
        hidden=5,
    ),
}


def made(name: str = "heads") -> torch.nn.Module:
    torch.manual_seed(5)
    return build_model(CONFIGS[name])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_model(tmp_path / "model.safetensors", made(), facts={"run": "heads-seed11"})
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_come_back_bit_for_bit(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = made(name).to(dtype)
    digest = write_model(tmp_path / "m.safetensors", model, facts={"seed": 11}, dtype=dtype)
    found = read_model(tmp_path / "m.safetensors", sha256=digest)
    assert found.config == CONFIGS[name]
    assert found.facts == {"seed": 11}
    assert found.sha256 == hashlib.sha256((tmp_path / "m.safetensors").read_bytes()).hexdigest()
    assert found.size == (tmp_path / "m.safetensors").stat().st_size
    numbers = found.model.state_dict()
    assert set(numbers) == set(model.state_dict())
    for key, value in model.state_dict().items():
        assert numbers[key].dtype == dtype
        assert torch.equal(numbers[key], value)


def test_float16_halves_the_file_and_is_read_into_float32(tmp_path: Path) -> None:
    model = made()
    write_model(tmp_path / "whole.safetensors", model)
    write_model(tmp_path / "half.safetensors", model, dtype=torch.float16)
    whole, half = (read_model(tmp_path / f"{name}.safetensors") for name in ("whole", "half"))
    saved = CONFIGS["heads"].num_parameters * 2
    assert abs(whole.size - half.size - saved) < 40  # the header names the types
    for key, value in half.model.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, model.state_dict()[key].half().float())


def test_equal_models_and_facts_give_equal_bytes(tmp_path: Path) -> None:
    facts = [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    hashes = {write_model(tmp_path / "m.safetensors", made(), facts=f) for f in facts}
    assert len(hashes) == 1


def test_reading_leaves_the_global_generator_alone(path: Path) -> None:
    state = torch.get_rng_state()
    read_model(path)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_failed_write_leaves_the_earlier_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"cannot be written \(No space left on device\)"):
        write_model(path, made())
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_device_or_pipe_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CheckpointError, match=r"pipe\) cannot be written .*not a regular file"):
        write_model(pipe, made())
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_bit_that_changed_in_the_weights_of_a_study_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    facts = {"config": CONFIGS["heads"].to_dict()}
    save_tensors(path, made().state_dict(), facts)
    assert read_model(path).config == CONFIGS["heads"]
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"is damaged \(its checksum is wrong\): restore it"):
        read_model(path)


def test_a_number_that_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    model = made()
    with torch.no_grad():
        next(model.parameters())[0, 0] = 70_000.0
    with pytest.raises(CheckpointError, match=r"1 numbers that are not finite in float16"):
        write_model(tmp_path / "m.safetensors", model, dtype=torch.float16)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".pt", ".bin", ".PTH", ".ckpt"])
def test_a_pickle_is_refused_by_its_name_with_the_remedy(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{ending}"
    path.write_bytes(b"anything")
    with pytest.raises(CheckpointError, match=r"is a pickle.*save it as .safetensors"):
        read_model(path)


def test_a_header_whose_length_begins_as_a_pickle_does_is_no_pickle(tmp_path: Path) -> None:
    path, found = tmp_path / "m.safetensors", 0
    for length in range(400):  # one of them has a header of 640 bytes
        write_model(path, made(), facts={"note": "x" * length})
        found += path.read_bytes()[0] == 0x80 and bool(read_model(path).facts)
    assert found


class Trap:
    """Unpickling it would make a file."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, ("sprung", "w")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_in_disguise_is_never_opened(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(pickle.dumps(Trap(), protocol=protocol))
    with pytest.raises(CheckpointError, match="is a pickle"):
        read_model(path)
    assert not (tmp_path / "sprung").exists()


def test_an_archive_of_torch_in_disguise_is_refused(tmp_path: Path) -> None:
    torch.save(made().state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="is a pickle"):
        read_model(tmp_path / "model.safetensors")


def test_a_file_with_another_hash_is_not_used(path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has the hash \w{12}, expected 000000000000"):
        read_model(path, sha256="0" * 64)


@pytest.mark.parametrize("cut", [0, 4, 40, -1])
def test_a_file_that_was_cut_off_is_damaged(cut: int, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CheckpointError, match=r"model.safetensors\) is damaged"):
        read_model(path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"absent.safetensors\) cannot be read"):
        read_model(tmp_path / "absent.safetensors")
    with pytest.raises(CheckpointError, match="is a folder"):
        read_model(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_model("zero\0.safetensors")
    with pytest.raises(CheckpointError, match="is not a regular file"):
        read_model("/dev/zero")


def test_a_file_that_is_too_large_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    with pytest.raises(CheckpointError, match="has more than 100 bytes"):
        read_model(path)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for metadata in (None, {"format": "pt"}, {"manyheads-model": "{"}, {"manyheads-model": "[]"}):
        save_file({"weight": torch.zeros(3)}, path, metadata=metadata)
        with pytest.raises(CheckpointError, match="is not a model file of manyheads"):
            read_model(path)


Change = Callable[[dict[str, Tensor], dict[str, Any]], None]


def changed(path: Path, change: Change) -> None:
    """Write the file anew after a change to its numbers and to what it says of itself."""
    tensors = load_file(path)
    header = path.read_bytes()
    length = int.from_bytes(header[:8], "little")
    about = json.loads(json.loads(header[8 : 8 + length])["__metadata__"]["manyheads-model"])
    change(tensors, about)
    save_file(tensors, path, metadata={"manyheads-model": json.dumps(about)})


def rename(tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
    tensors["hidden.bais"] = tensors.pop("hidden.bias")


def reshape(tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
    tensors["hidden.weight"] = tensors["hidden.weight"].t().contiguous()


def drop(tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
    del tensors["hidden.bias"]


def not_finite(tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
    tensors["hidden.bias"][2:4] = torch.tensor([torch.nan, torch.inf])


def whole_numbers(tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
    for name, tensor in tensors.items():
        tensors[name] = tensor.to(torch.int32)


def mixed_types(tensors: dict[str, Tensor], _: dict[str, Any]) -> None:
    tensors["hidden.bias"] = tensors["hidden.bias"].half()


def huge(_: dict[str, Tensor], about: dict[str, Any]) -> None:
    about["config"].update(vocab_size=1 << 20, hidden=1 << 20)


def no_heads(_: dict[str, Tensor], about: dict[str, Any]) -> None:
    about["config"]["num_heads"] = 0


def unknown_size(_: dict[str, Tensor], about: dict[str, Any]) -> None:
    about["config"]["depth"] = 3


def no_config(_: dict[str, Tensor], about: dict[str, Any]) -> None:
    about["config"] = None


def newer(_: dict[str, Tensor], about: dict[str, Any]) -> None:
    about["format"] = 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rename, "lacks hidden.bias"),
        (reshape, r"hidden.weight has shape \(4, 5\), expected \(5, 4\)"),
        (drop, r"holds 2\d\d numbers, expected 2\d\d"),
        (not_finite, "hidden.bias has 2 numbers that are not finite in float32"),
        (whole_numbers, "holds int32, expected one floating-point type"),
        (
            mixed_types,
            "holds float16, float32, expected one .* type: save all tensors as one",
        ),
        (huge, "numbers, expected 1,09"),
        (no_heads, r"no usable model config: num_heads \(0\)"),
        (unknown_size, "no usable model config.*depth"),
        (no_config, "it has no sizes: write the file with write_model"),
        (newer, "has format 2, expected 1"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change: Change, said: str, path: Path) -> None:
    changed(path, change)
    with pytest.raises(CheckpointError, match=said) as caught:
        read_model(path)
    assert str(path) in str(caught.value)


def test_the_change_and_nothing_else_is_what_is_refused(path: Path) -> None:
    changed(path, lambda tensors, about: None)
    assert read_model(path).facts == {"run": "heads-seed11"}
