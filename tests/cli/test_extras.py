"""Commands that need an extra say so at once, before any work, and write nothing."""

import sys
from pathlib import Path

import pytest

from manyheads.cli.main import main

_STUDY = ("study", "run", "smoke", "--out", "s")
CASES = (
    ("scipy", "study", _STUDY),
    ("lightning_fabric", "study", (*_STUDY, "--device", "cuda")),
    ("lightning_fabric", "study", (*_STUDY, "--devices", "2")),
    ("tensorboard", "tensorboard", (*_STUDY, "--tensorboard")),
    ("huggingface_hub", "data", ("study", "run", "head-count", "--out", "s")),
    ("pyarrow", "data", (*_STUDY, "--data", "stories.parquet")),
    ("scipy", "study", ("study", "report", "folder")),
    ("matplotlib", "study", ("study", "report", "folder")),
    ("onnx", "export", ("export", "onnx", "four-heads", "a.onnx")),
    ("jupytext", "notebooks", ("notebooks", "out")),
    ("genanki", "learn", ("cards", "export", "a.apkg")),
)


@pytest.mark.parametrize(("module", "extra", "line"), CASES)
def test_command_names_the_missing_extra_before_it_starts_work(
    module: str,
    extra: str,
    line: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stories.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("manyheads.data.windows.build_corpus", _work)
    monkeypatch.setattr("manyheads.checkpoints.shipped.load_shipped", _work)
    assert main(line) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1
    assert f'run pip install "manyheads[{extra}]"' in error
    assert module.replace("_", "-") in error
    assert [path.name for path in tmp_path.iterdir()] == ["stories.parquet"]


def _work(*_: object, **__: object) -> None:
    raise AssertionError("work began before the extra was checked")
