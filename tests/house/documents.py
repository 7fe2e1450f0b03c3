"""Runs the code in a Markdown page.

- `python` blocks of one page run one after another and share their names. A `text` block right
  after one is what it prints.
- An HTML comment `<!-- file: NAME -->` right above a `python` block also saves it under this name
  in the folder where commands run.
- In `console` and `sh` blocks each line after `$ ` is a command (in `sh` blocks each line is one);
  those of `manyheads` and `python` run and must end with exit status 0, or with N after a comment
  `# exit status N`. In `console` blocks the lines below are what they print. Commands that set the
  project up (`git`, `make`, `cd`, `pip`) do not run.
- In expected output, `...` stands for anything. An HTML comment `<!-- not run: reason -->` right
  above a block leaves it out.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from manyheads.cli.main import main

FENCE = re.compile(r"(<!-- not run: [^\n]+ -->\n)?^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.M | re.S)
SETTING_UP = {"git", "make", "cd", "pip", "uv", "source", "."}
RUNNING = {"echo", "manyheads", "python", ".venv/bin/manyheads", ".venv/bin/python"}


class Block(NamedTuple):
    """One fenced block: its language, text and first line, and what stands before it."""

    language: str
    text: str
    line: int
    gap: str


def blocks(page: str) -> list[Block]:
    """Every fenced block that may run, and the text blocks."""
    found, end = [], 0
    for match in FENCE.finditer(page):
        gap, end = page[end : match.start()], match.end()
        if match[1] is None:
            line = page.count("\n", 0, match.start(2)) + 1
            found.append(Block(match[2], match[3], line, gap))
    return found


def assert_prints(printed: str, expected: str, where: str) -> None:
    """Raise unless the output is as expected, where `...` stands for anything."""
    trimmed = "\n".join(line.rstrip() for line in printed.rstrip().splitlines())
    wanted = "\n".join(line.rstrip() for line in expected.rstrip().splitlines())
    pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
    if not re.fullmatch(pattern, trimmed, re.S):
        raise AssertionError(f"{where} prints\n{trimmed}\nwhere the page has\n{wanted}")


def run_python(block: Block, names: dict[str, object], where: str, folder: Path) -> str:
    """Run a block and return what it printed."""
    code, printed = "\n" * block.line + block.text, io.StringIO()
    saved = re.search(r"<!-- file: (\w+\.py) -->\n$", block.gap)
    if saved:
        (folder / saved[1]).write_text(block.text, encoding="utf-8")
        code, where = block.text, str(folder / saved[1])
    with contextlib.redirect_stdout(printed):
        exec(compile(code, where, "exec"), names)
    return printed.getvalue()


def commands(block: Block) -> list[tuple[str, str | None]]:
    """The commands of a console or sh block, each with the output shown for it, if any."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "sh":
        return [(line, None) for line in lines if line.strip() and not line.startswith("#")]
    found: list[tuple[str, str | None]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], None))
        elif found:
            command, output = found[-1]
            found[-1] = (command, (output or "") + line + "\n")
        else:
            raise AssertionError(
                f"a console block begins with a line that is no `$ ` command: {line}"
            )
    return found


def run_command(command: str, folder: Path) -> str | None:
    """Run a command in a folder and return what it printed; None if it only sets the project up."""
    words = shlex.split(command, comments=True)
    if words[0] in SETTING_UP:
        return None
    if words[0] not in RUNNING:
        raise AssertionError(f"`{command}`: a page may not show {words[0]}; use {sorted(RUNNING)}")
    run = run_manyheads if words[0].endswith("manyheads") else run_other
    status, printed, errors = run(words[1:] if run is run_manyheads else command, folder)
    announced = re.search(r"# exit status (\d+)$", command)
    if status != (int(announced[1]) if announced else 0):
        raise AssertionError(f"`{command}` ended with {status}: {errors}")
    return printed


def run_manyheads(words: list[str], folder: Path) -> tuple[int, str, str]:
    """Run the command line in this process, where torch is loaded already."""
    *words, target = words if words[-2:-1] == [">"] else [*words, ""]
    written, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        open(os.devnull, encoding="utf-8") as nothing,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(written),
        contextlib.redirect_stderr(errors),
    ):
        patch.setattr("sys.stdin", nothing)
        patch.setenv("COLUMNS", "100")
        status = main([word for word in words if word != ">"])
    written.seek(0)
    printed = written.read()
    if target:
        (folder / target).write_text(printed, encoding="utf-8")
    return status, "" if target else printed, errors.getvalue()


def run_other(command: str, folder: Path) -> tuple[int, str, str]:
    """Run another command in a shell."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    done = subprocess.run(
        command.replace(".venv/bin/", ""),
        shell=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PATH": os.pathsep.join(places)},
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def run_page(page: str, name: str, folder: Path) -> int:
    """Run all the code of a page and return how many blocks and commands ran."""
    names: dict[str, object] = {"__name__": "__page__"}
    count, printed = 0, None
    for block in blocks(page):
        where = f"{name}:{block.line}"
        if block.language == "text" and printed is not None and not block.gap.strip():
            assert_prints(printed, block.text, where)
        printed = None
        if block.language == "python":
            printed = run_python(block, names, where, folder)
            count += 1
        if block.language not in {"console", "sh"}:
            continue
        for command, expected in commands(block):
            output = run_command(command, folder)
            count += output is not None
            if output is not None and expected is not None:
                assert_prints(output, expected, where)
    return count
