"""Places in source files: what is shown around a line, and errors raised there."""

import linecache
import traceback
from pathlib import Path

import pytest

from manyheads.verify.findings import Where
from manyheads.verify.place import excerpt, raise_at, shown_path

LINES = ["import math", "", "class A:", "    def one(self):", "        return 1", "", "x = 2"]
CODE = "return 1"


def place(folder: Path, line: int = 5, code: str = CODE, name: str = "a.py") -> Where:
    path = folder / name
    if not path.exists():
        path.write_text("\n".join(LINES) + "\n")
    return Where(step="q", relation="other", file=str(path), line=line, code=code)


def last_frame(error: BaseException, where: Where | None) -> traceback.FrameSummary:
    with pytest.raises(type(error)) as caught:
        raise_at(error, where)
    assert caught.value is error
    return traceback.extract_tb(error.__traceback__)[-1]


def test_the_lines_around_a_place_end_at_the_ends_of_the_file(tmp_path: Path) -> None:
    seen = excerpt(place(tmp_path), around=2)
    assert seen is not None
    assert (seen.first, seen.lines, seen.marked) == (3, ("class A:", *LINES[3:5], "", LINES[6]), 5)
    whole = excerpt(place(tmp_path))
    assert whole is not None
    assert (whole.first, len(whole.lines)) == (1, 7)


def test_what_could_steer_a_terminal_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("a = 1  # \x1b[2J\n")
    seen = excerpt(place(tmp_path, 1, "a = 1  # \x1b[2J", "b.py"))
    assert seen is not None
    assert seen.lines == ("a = 1  # \\x1b[2J",)


@pytest.mark.parametrize(("line", "code"), [(5, "return 2"), (4, CODE), (99, ""), (0, "")])
def test_another_line_than_the_code_is_not_shown(tmp_path: Path, line: int, code: str) -> None:
    assert excerpt(place(tmp_path, line, code)) is None


def test_files_that_are_not_there_or_no_files_are_not_read(tmp_path: Path) -> None:
    assert excerpt(Where(step="q", relation="other")) is None
    for file in ("/dev/zero", str(tmp_path), str(tmp_path / "none.py")):
        assert excerpt(Where(step="q", relation="other", file=file, line=1)) is None


def test_a_notebook_cell_is_read_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = (9, None, ["y = 3\n"], "<cell>")
    monkeypatch.setitem(linecache.cache, "<cell>", entry)
    seen = excerpt(Where(step="q", relation="other", file="<cell>", line=1, code="y = 3"))
    assert seen is not None
    assert seen.lines == ("y = 3",)


def test_paths_below_the_current_folder_are_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(tmp_path / "b" / "a.py")) == str(Path("b/a.py"))
    assert shown_path(str(tmp_path.parent / "a.py")) == str(tmp_path.parent / "a.py")
    assert shown_path("<cell>") == "<cell>"


def test_an_error_is_raised_at_the_line_in_its_function(tmp_path: Path) -> None:
    where = place(tmp_path)
    frame = last_frame(AssertionError("no"), where)
    assert (frame.filename, frame.lineno, frame.name, frame.line) == (where.file, 5, "one", CODE)


def test_an_error_outside_of_functions_or_in_no_python_is_raised_at_the_line(
    tmp_path: Path,
) -> None:
    assert last_frame(ValueError("no"), place(tmp_path, 1, "import math")).name == "<module>"
    (tmp_path / "b.py").write_text("def def def\n\n")
    frame = last_frame(ValueError("no"), place(tmp_path, 1, "def def def", "b.py"))
    assert (frame.lineno, frame.name) == (1, "<module>")


def test_without_a_line_the_error_is_raised_all_the_same(tmp_path: Path) -> None:
    assert last_frame(ValueError("no"), None).name == "raise_at"
    assert last_frame(ValueError("no"), place(tmp_path, 5, "changed")).name == "raise_at"
