"""What the page loads of the shipped models: the same bytes, in two forms, with their facts."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manyheads.checkpoints.onnx_export import onnx_gap
from manyheads.checkpoints.shipped import load_shipped
from manyheads.checkpoints.shipping import ship
from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.data.tokens import WordTokenizer
from manyheads.web import models
from manyheads.web.models import model_files, model_scripts
from tests.checkpoints.small_study import SEED, small_batches, small_corpus, write_study
from tools.page.models import RUNTIME_FILES, page_index, write_onnx_files

NAMES = ["mlp", "one-head", "four-heads"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models, shipped as those of a study are; to be read only."""
    study, folder = tmp_path_factory.mktemp("study"), tmp_path_factory.mktemp("shipped")
    corpus = small_corpus()
    write_study(study, corpus)
    ship(study, folder, seed=SEED, batches=small_batches(corpus))
    return folder


@pytest.fixture
def shipped(kept: Path, tmp_path: Path) -> Path:
    """A copy, to be spoiled."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    for path in kept.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """A package like onnxruntime-web, with small files."""
    package = tmp_path / "onnxruntime-web"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").write_text('{"version": "9.8.7"}')
    for name in {name for names in RUNTIME_FILES.values() for name in names}:
        (package / "dist" / name).write_bytes(name.encode())
    return package


def spoil(path: Path, change: Any) -> None:
    """Rewrite a JSON file."""
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def test_the_page_is_given_the_shipped_bytes_and_the_words_by_id(kept: Path) -> None:
    files = model_files(kept)
    assert set(files) == {"models/words.json", *(f"models/{n}.safetensors" for n in NAMES)}
    for name in NAMES:
        assert files[f"models/{name}.safetensors"] == (kept / f"{name}.safetensors").read_bytes()
    tokenizer = WordTokenizer.load(kept / "tokenizer.json")
    assert tuple(json.loads(files["models/words.json"])) == tokenizer.words


def test_scripts_hand_over_the_same_bytes(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_PIECE", 999)  # so that small files have several pieces
    files = model_files(kept)
    scripts = model_scripts(files)
    assert set(scripts) == {path.rsplit(".", 1)[0] + ".js" for path in files}
    for path, data in files.items():
        text = scripts[path.rsplit(".", 1)[0] + ".js"].decode("ascii")
        found = re.fullmatch(r"manyheadsFile\((.*)\);\n", text)
        assert found
        name, *pieces = json.loads(f"[{found.group(1)}]")
        assert name == path
        assert len(pieces) == -(-len(data) // 999)
        assert b"".join(base64.b64decode(piece, validate=True) for piece in pieces) == data


def test_index_has_size_hash_and_facts_of_each_model(kept: Path) -> None:
    index, files = page_index(kept), model_files(kept)
    assert [model["name"] for model in index["models"]] == NAMES
    for facts in [index["words"], *(model["weights"] for model in index["models"])]:
        data = files[facts["path"]]
        assert facts["size"] == len(data)
        assert facts["sha256"] == hashlib.sha256(data).hexdigest()
    for model in index["models"]:
        _, _, known = load_shipped(model["name"], kept)
        assert model["run"] == f"{model['name']}-seed{SEED}"
        assert model["seed"] == SEED
        assert model["config"] == known["config"]
        assert model["parameters"] == known["parameters"]
        assert model["validation_loss"] == known["validation_loss_float16"]
        assert model["test_loss"] == known["test_loss"]
        assert model["onnx"] is None
    assert index["study"]["plan"] == "small"
    assert index["runtime"] is None
    json.dumps(index, allow_nan=False)


def test_without_models_the_page_says_that_there_are_none(tmp_path: Path) -> None:
    assert model_files(tmp_path) == {}
    index = page_index(tmp_path)
    assert index["models"] == []
    assert index["words"] is None and index["study"] is None and index["runtime"] is None


@pytest.mark.parametrize("name", ["mlp.safetensors", "tokenizer.json"])
def test_a_changed_file_is_refused(shipped: Path, name: str) -> None:
    data = bytearray((shipped / name).read_bytes())
    data[-3] ^= 1
    (shipped / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=rf"{name}\) was changed or damaged"):
        model_files(shipped)


def test_a_missing_file_is_refused(shipped: Path) -> None:
    (shipped / "one-head.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"one-head.safetensors\) cannot be read"):
        page_index(shipped)


@pytest.mark.parametrize("text", ["{", "[]", '{"models": {}}'])
def test_a_damaged_list_is_refused(shipped: Path, text: str) -> None:
    (shipped / "models.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"models.json\) is damaged"):
        model_files(shipped)


def test_a_file_outside_the_folder_is_not_read(shipped: Path) -> None:
    (shipped.parent / "secret").write_text("x")
    spoil(shipped / "models.json", lambda v: v["models"]["mlp"].update(file="../secret"))
    with pytest.raises(CheckpointError, match=r"shipped/secret\) cannot be read"):
        model_files(shipped)


def test_a_tokeniser_that_leaves_out_ids_is_refused(shipped: Path) -> None:
    path = shipped / "tokenizer.json"
    spoil(path, lambda v: v["model"]["vocab"].pop("[EOS]"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    spoil(shipped / "models.json", lambda v: v["tokenizer"].update(sha256=digest))
    with pytest.raises(CheckpointError, match="leaves out ids"):
        model_files(shipped)


def test_serving_models_loads_no_torch(kept: Path) -> None:
    code = (
        "import sys, pathlib; from manyheads.web.models import model_files, model_scripts; "
        f"model_scripts(model_files(pathlib.Path({str(kept)!r}))); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_onnx_files_compute_the_same_and_stand_in_the_index(
    kept: Path, runtime: Path, tmp_path: Path
) -> None:
    out = tmp_path / "files"
    (out / "onnx").mkdir(parents=True)
    (out / "onnx" / "old").write_text("of an earlier build")
    found = write_onnx_files(out, runtime, kept)
    index = page_index(kept, found)
    assert index["runtime"]["version"] == "9.8.7"
    listed = [*index["runtime"]["wasm"], *index["runtime"]["webgpu"]]
    listed += [model["onnx"] for model in index["models"]]
    for facts in listed:
        data = (out / facts["path"]).read_bytes()
        assert facts["size"] == len(data)
        assert facts["sha256"] == hashlib.sha256(data).hexdigest()
    for name in NAMES:
        model, _, _ = load_shipped(name, kept)
        assert onnx_gap(model, out / "onnx" / f"{name}.onnx", num_windows=8).is_small
    names = {path.name for path in (out / "onnx").iterdir()}
    assert names == {Path(facts["path"]).name for facts in listed} | {"LICENCE-onnxruntime.txt"}
    assert "9.8.7" in (out / "onnx" / "LICENCE-onnxruntime.txt").read_text()


def test_a_runtime_that_is_not_there_is_refused(kept: Path, runtime: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--runtime \(.*nowhere\) must be the folder"):
        write_onnx_files(tmp_path / "out", tmp_path / "nowhere", kept)
    (runtime / "dist" / "ort.wasm.min.js").unlink()
    with pytest.raises(ConfigError, match=r"ort.wasm.min.js\) cannot be read"):
        write_onnx_files(tmp_path / "out", runtime, kept)
