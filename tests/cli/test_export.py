"""`manyheads export onnx` as a user meets it: a compared file, or one line and no file."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from manyheads.checkpoints import onnx_export
from manyheads.checkpoints.files import write_model
from manyheads.checkpoints.shipped import shipped_models, tokenizer_sha256
from manyheads.cli.main import main
from manyheads.models import build_model
from manyheads.models.config import ModelConfig

onnx = pytest.importorskip("onnx", reason="the onnx package is not there: install the dev extra")
pytest.importorskip("onnxruntime", reason="onnxruntime is not there: install the dev extra")

WORDS = '{"words": ["of", "a", "test"]}\n'
KINDS = {
    "heads": {"kind": "attention", "num_heads": 3},
    "mlp": {"kind": "fixed-window-mlp"},
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[str], Path]:
    """A maker of small checkpoints with a tokenizer file beside them."""

    def make(kind: str) -> Path:
        sizes = {"vocab_size": 17, "context": 7, "width": 12, "hidden": 10}
        model = build_model(ModelConfig.from_dict({**KINDS[kind], **sizes}))
        folder = tmp_path / "models"
        folder.mkdir(exist_ok=True)
        (folder / "tokenizer.json").write_text(WORDS)
        write_model(folder / f"{kind}.safetensors", model, dtype=torch.float16)
        return folder / f"{kind}.safetensors"

    return make


def about(path: Path) -> dict[str, str]:
    """What a file says of itself."""
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error with which a command line ends with status 2."""
    assert main(["export", "onnx", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error


def test_a_checkpoint_is_written_and_compared(
    checkpoint: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = checkpoint("heads"), tmp_path / "heads.onnx"
    assert main(["export", "onnx", str(source), str(out), "--weights"]) == 0
    said, error = capsys.readouterr()
    assert error == ""
    assert f"{out.stat().st_size:,} bytes" in said
    assert f"sha256 {hashlib.sha256(out.read_bytes()).hexdigest()}" in said
    assert "largest difference of any logit to PyTorch: " in said
    assert "largest difference of any weight to PyTorch: " in said
    assert [place.name for place in onnx.load(out).graph.output] == ["logits", "attn_weights"]


def test_json_prints_one_document_with_the_measured_differences(
    checkpoint: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = checkpoint("heads"), tmp_path / "heads.onnx"
    assert main(["export", "onnx", str(source), str(out), "--json", "--opset", "18"]) == 0
    document = json.loads(capsys.readouterr().out)
    compared = document.pop("compared")
    assert document == {
        "model": str(source),
        "path": str(out),
        "bytes": out.stat().st_size,
        "sha256": hashlib.sha256(out.read_bytes()).hexdigest(),
        "opset": 18,
    }
    assert 0.0 < compared["largest_logit_difference"] < 1e-5
    assert compared["largest_weight_difference"] is None
    assert compared["passed"] is True
    assert compared["num_windows"] == 256


def test_the_file_names_its_source_and_no_folder_of_this_computer(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    source, out = checkpoint("heads"), tmp_path / "heads.onnx"
    assert main(["export", "onnx", str(source), str(out)]) == 0
    said = about(out)
    assert said["name"] == "heads"
    assert said["source_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert said["tokenizer_sha256"] == tokenizer_sha256(WORDS)
    assert "licence" in said
    assert str(tmp_path).encode() not in out.read_bytes()


def test_every_model_that_comes_with_the_package_equals_pytorch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in shipped_models():
        out = tmp_path / f"{name}.onnx"
        weights = [] if name == "mlp" else ["--weights"]
        assert main(["export", "onnx", name, str(out), "--json", *weights]) == 0
        assert json.loads(capsys.readouterr().out)["compared"]["passed"] is True
        assert about(out)["name"] == name
        assert "MODEL_CARD.md" in about(out)["licence"]


def test_a_file_that_differs_from_pytorch_ends_with_status_1(
    checkpoint: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(onnx_export, "ALLOWED_GAP", 1e-12)
    line = ["export", "onnx", str(checkpoint("heads")), str(tmp_path / "heads.onnx"), "--json"]
    assert main(line) == 1
    assert json.loads(capsys.readouterr().out)["compared"]["passed"] is False


def test_without_onnxruntime_the_file_is_written_and_said_not_to_be_compared(
    checkpoint: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    line = ["export", "onnx", str(checkpoint("heads")), str(tmp_path / "heads.onnx")]
    assert main(line) == 0
    assert "not compared with PyTorch: onnxruntime is not installed" in capsys.readouterr().out
    assert main([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compared"] is None


def test_what_cannot_be_exported_gives_one_line_status_2_and_no_file(
    checkpoint: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mlp, out = str(checkpoint("mlp")), tmp_path / "out.onnx"
    cases = {
        "model (five-heads) is not known": ["five-heads", str(out)],
        "weights (True) need a model with heads": [mlp, str(out), "--weights"],
        "opset (99) must be from 13 to 21": [mlp, str(out), "--opset", "99"],
        f"OUT ({tmp_path}) is a folder: give a file": [mlp, str(tmp_path)],
        f"OUT ({mlp}) is the same file as MODEL": [mlp, mlp],
        "cannot be written": [mlp, str(tmp_path / "nowhere" / "out.onnx")],
        "Missing argument 'OUT'": [mlp],
    }
    for words, arguments in cases.items():
        assert words in refused(capsys, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["models"]


def test_a_damaged_checkpoint_leaves_the_earlier_file_as_it_was(
    checkpoint: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = checkpoint("heads"), tmp_path / "heads.onnx"
    assert main(["export", "onnx", str(source), str(out)]) == 0
    before = out.read_bytes()
    capsys.readouterr()
    source.write_bytes(source.read_bytes()[:-100])
    assert "damaged" in refused(capsys, str(source), str(out))
    assert out.read_bytes() == before


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["export"], ["export", "--help"], ["export", "onnx", "--help"]):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert "manyheads export onnx four-heads four-heads.onnx --weights" in out
