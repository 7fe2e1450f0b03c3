"""The example of docs/worksheets.md: a file of one's own, and the commands shown for it."""

import re
import shlex
from pathlib import Path

import pytest

from manyheads.cli.main import main


def block(page: str, language: str) -> str:
    """The first block of a language in a page."""
    found = re.search(rf"^```{language}\n(.*?)^```", page, re.M | re.S)
    assert found is not None
    return found.group(1)


def test_commands_of_the_page_run_on_its_file(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (root / "docs" / "worksheets.md").read_text(encoding="utf-8")
    (tmp_path / "mine.json").write_text(block(page, "json"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    parts = block(page, "console").split("$ manyheads ")[1:]
    assert len(parts) == 4
    for part in parts:
        command, _, shown = part.partition("\n")
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out.startswith(shown.removesuffix("...\n"))


def test_error_shown_by_the_page_is_the_real_one(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (root / "docs" / "worksheets.md").read_text(encoding="utf-8")
    broken = block(page, "json").replace('"W_K": [[0], [1]]', '"W_K": [[0], [1, 2]]')
    (tmp_path / "mine.json").write_text(broken, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["worksheet", "show", "mine.json"]) == 2
    line = capsys.readouterr().err.removeprefix("manyheads: ")
    assert line.startswith("file (mine.json): heads[0].W_K[1]") and line in page
