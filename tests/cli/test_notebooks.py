"""`manyheads notebooks` as a user meets it: files to open, or one line and nothing written."""

import json
from pathlib import Path

import pytest

from manyheads.cli.main import main
from manyheads.learn.notebooks import notebook_sources

pytest.importorskip("jupytext", reason="jupytext is missing: install the notebooks extra")

NAMES = [f"{source.stem}.ipynb" for source in notebook_sources()]


def test_notebooks_are_written_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my notes"
    assert main(["notebooks", str(folder)]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert all(name.removesuffix(".ipynb") in out for name in NAMES)
    assert f"jupyter lab '{folder}'" in out


def test_lines_fit_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["notebooks", "out"]) == 0
    Path("out", NAMES[0]).write_text("{}", encoding="utf-8")
    assert main(["notebooks", "out", "--force"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert f"in out (1 replaced, {len(NAMES) - 1} unchanged):" in out


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notebooks", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["folder"] == str(tmp_path)
    assert [Path(item["path"]).name for item in document["notebooks"]] == NAMES
    assert {item["state"] for item in document["notebooks"]} == {"written"}
    assert all(item["title"] for item in document["notebooks"])


def test_a_changed_notebook_is_kept_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / NAMES[-1]).write_text("mine", encoding="utf-8")
    assert main(["notebooks", str(tmp_path), "--json"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert NAMES[-1] in error
    assert "--force" in error
    assert [path.name for path in tmp_path.iterdir()] == [NAMES[-1]]
    assert (tmp_path / NAMES[-1]).read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("arguments", [[], ["--force"], ["one", "two"], [""]])
def test_wrong_use_is_one_line(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["notebooks", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_named_with_the_folder_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        Path("/dev/full").write_bytes(data)

    monkeypatch.setattr("manyheads.learn.notebooks.write_whole", full)
    assert main(["notebooks", str(tmp_path / "full")]) == 2
    message = capsys.readouterr().err
    assert f"DIR ({tmp_path / 'full'}) cannot hold 01-" in message
    assert "No space left on device): free some space" in message
