"""Models by name or path: what is handed out is whole, and is what the list says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.checkpoints import shipped
from manyheads.checkpoints.files import read_model
from manyheads.checkpoints.shipped import load_shipped, shipped_models, tokenizer_sha256
from manyheads.core.errors import CheckpointError
from manyheads.data.tokens import WordTokenizer
from manyheads.data.windows import Corpus


def edited(folder: Path, change: dict[str, Any]) -> None:
    """Change entries of the list of models: keys are paths with dots."""
    index = json.loads((folder / "models.json").read_text())
    for place, value in change.items():
        *above, last = place.split(".")
        entry = index
        for key in above:
            entry = entry[key]
        entry[last] = value
    (folder / "models.json").write_text(json.dumps(index))


def test_names_are_listed_in_order(shipped_folder: Path, tmp_path: Path) -> None:
    assert shipped_models(shipped_folder) == ("four-heads", "mlp", "one-head")
    assert shipped_models(tmp_path) == ()


def test_a_model_comes_with_its_tokenizer_and_facts(shipped_folder: Path, corpus: Corpus) -> None:
    found = load_shipped("four-heads", shipped_folder)
    tokenizer = WordTokenizer.from_json(found.tokenizer_json)
    assert tokenizer.words == corpus.tokenizer.words
    assert found.facts["num_heads"] == 4
    assert found.facts["model"] == "four-heads"
    assert found.facts["plan"] == "small"
    assert found.facts["sha256"] == read_model(shipped_folder / "four-heads.safetensors").sha256
    assert all(value.dtype == torch.float32 for value in found.model.state_dict().values())


def test_the_package_itself_ships_only_what_its_list_names() -> None:
    names = {path.stem for path in shipped.DATA.glob("*.safetensors")}
    assert set(shipped_models()) == names
    for name in names:
        assert load_shipped(name).facts["model"] == name


def test_a_model_of_a_study_is_found_by_its_path(study: Path, corpus: Corpus) -> None:
    path = study / "runs" / "one-head-seed11" / "best.safetensors"
    found = load_shipped(str(path))
    assert WordTokenizer.from_json(found.tokenizer_json).sha256 == corpus.tokenizer.sha256
    assert found.facts["run"] == "one-head-seed11"
    assert found.facts["model"] == str(path)


def test_a_tokenizer_beside_the_model_comes_first(study: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(study / "runs" / "mlp-seed11" / "best.safetensors", alone / "m.safetensors")
    shutil.copy(study / "tokenizer.json", alone)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert load_shipped(str(alone / "m.safetensors")).tokenizer_json != "{}"
    (alone / "tokenizer.json").unlink()
    with pytest.raises(
        CheckpointError, match="is not the tokenizer that m.safetensors was trained"
    ):
        load_shipped(str(alone / "m.safetensors"))


def test_a_model_without_a_tokenizer_is_refused_with_the_remedy(
    study: Path, tmp_path: Path
) -> None:
    place = tmp_path / "a" / "b" / "c" / "d"
    place.mkdir(parents=True)
    shutil.copy(study / "runs" / "mlp-seed11" / "best.safetensors", place)
    shutil.copy(study / "tokenizer.json", tmp_path / "a")  # three folders up is too far
    with pytest.raises(CheckpointError, match="has no tokenizer.json in its folder or up to two"):
        load_shipped(str(place / "best.safetensors"))


def test_an_unknown_name_lists_the_known_ones(shipped_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError,
        match=r"model \(five-heads\) is not known: use four-heads, mlp, one-head, or the path of",
    ):
        load_shipped("five-heads", shipped_folder)
    with pytest.raises(CheckpointError, match="this installation has no models: use the path"):
        load_shipped("four-heads", tmp_path)


@pytest.mark.parametrize("name", ["four-heads.safetensors", "tokenizer.json"])
def test_a_changed_file_is_not_used(name: str, folder: Path) -> None:
    data = bytearray((folder / name).read_bytes())
    data[-3] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{name}.*changed or damaged"):
        load_shipped("four-heads", folder)


def test_another_model_under_the_name_is_not_used(folder: Path) -> None:
    shutil.copy(folder / "one-head.safetensors", folder / "four-heads.safetensors")
    with pytest.raises(CheckpointError, match="has the hash"):
        load_shipped("four-heads", folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"models.mlp.file": "../mlp.safetensors"}, "is not a plain file name"),
        ({"models.mlp.file": "/etc/passwd"}, "is not a plain file name"),
        ({"tokenizer.file": 3}, "is not a plain file name"),
        ({"models.mlp": None}, "is damaged"),
        ({"models": []}, "it lists no models"),
        ({"format": 2}, "format 2, expected 1"),
        ({"study": None}, "is damaged"),
    ],
)
def test_a_damaged_list_is_refused(change: dict[str, Any], said: str, folder: Path) -> None:
    edited(folder, change)
    with pytest.raises(CheckpointError, match=said) as caught:
        load_shipped("mlp", folder)
    assert "models.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[1]", "{", "\udcff".encode("utf-8", "surrogateescape")])
def test_a_list_that_is_no_json_is_refused(text: str | bytes, folder: Path) -> None:
    (folder / "models.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CheckpointError, match="models.json.*is damaged"):
        shipped_models(folder)


def test_hash_of_the_text_is_that_of_the_tokenizer(study: Path, corpus: Corpus) -> None:
    text = (study / "tokenizer.json").read_text(encoding="utf-8")
    assert tokenizer_sha256(text) == corpus.tokenizer.sha256
