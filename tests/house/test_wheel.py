"""The wheel holds what it must, and every command works with the base dependencies alone.

The commands run in a fresh interpreter without site-packages. It sees a folder with the unpacked
wheel and links to the packages that the wheel's own requirements name, and nothing of the extras.
"""

import json
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from packaging.requirements import Requirement

from tests.cli.test_hostile import commands
from tests.house.sources import PACKAGE, ROOT

DATA_SUFFIXES = {".json", ".toml", ".typed", ".html", ".js", ".css", ".svg"}
EXTRA = re.compile(r"manyheads\[(\w+)\]")

# A command runs with the first example of its help. These need other arguments: a file that
# exists, a free port, a shorter run or an answer on the command line.
ARGUMENTS = {
    "check": "torch.nn:MultiheadAttention --embed-dim 8 --num-heads 2",
    "compare": "torch.nn:MultiheadAttention --dtype float32 --embed-dim 8 --num-heads 2",
    "generate": "Once --max-tokens 2",
    "serve": "--no-open --port 0",
    "worksheet solve": "two-routes --exact --json",
    "worksheet try": "two-routes zero-query --predict 1/3",
}
EXTRAS = {
    "cards export": "learn",
    "export onnx": "export",
    "look compare": "look",
    "look labels": "look",
    "notebooks": "notebooks",
    "study report": "study",
    "study run": "study",
    "worksheet print": "learn",
}
DRIVER = """
import contextlib, io, json, os, signal, sys, threading
sys.path[:] = [path for path in sys.path if "site-packages" not in path]
sys.path.insert(0, sys.argv[1])
from manyheads.cli.main import main
def run(line):
    out, errors = io.StringIO(), io.StringIO()
    stop = threading.Timer(2, lambda: os.kill(os.getpid(), signal.SIGINT))
    if line[0] == "serve":
        stop.start()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = main(line)
    stop.cancel()
    return {"status": status, "out": out.getvalue(), "errors": errors.getvalue()}
print(json.dumps([run(line) for line in json.load(sys.stdin)]))
"""


class Outcome(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    errors: str


def missing_from(wheel: Path) -> list[str]:
    """The package's sources and data that the wheel lacks."""
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = [path for path in PACKAGE.rglob("*") if path.suffix in DATA_SUFFIXES | {".py"}]
    names = (path.relative_to(PACKAGE.parent).as_posix() for path in wanted)
    return [name for name in names if name not in held]


def closure(requirements: list[str]) -> dict[str, Distribution]:
    """The installed distributions that the requirements, without extras, resolve to."""
    found: dict[str, Distribution] = {}
    waiting = [(text, "") for text in requirements]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name not in found:
            found[requirement.name] = distribution(requirement.name)
            needs = found[requirement.name].requires or []
            waiting += [(need, name) for need in needs for name in ("", *requirement.extras)]
    return found


def link(found: Distribution, folder: Path) -> None:
    """Link the packages and modules of a distribution into a folder."""
    names = {path.parts[0] for path in found.files or ()} - {"..", "__pycache__"}
    for name in names:
        target = folder / name
        if not target.exists():
            target.symlink_to(str(found.locate_file(name)))


def example_of(words: str, help_text: str) -> str | None:
    """The arguments of the first example in a command's help, without a redirection."""
    lines = help_text.partition("Example")[2].split("\n")
    found = (line.partition(f"manyheads {words}") for line in lines)
    return next((after.partition(">")[0] for _, name, after in found if name), None)


def command_lines() -> dict[str, list[str]]:
    """A command line for each command, by its words; a group runs without arguments."""
    lines = {}
    for parts, command in commands():
        words = " ".join(parts)
        example = "" if isinstance(command, click.Group) else example_of(words, command.help or "")
        assert example is not None, f"the help of {words} shows no example"
        lines[words] = [*parts, *shlex.split(ARGUMENTS.get(words, example))]
    return lines


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=180)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A folder with the wheel and its base dependencies."""
    folder = wheel.parent / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for found in closure(project["dependencies"]).values():
        link(found, folder)
    return folder


@pytest.fixture(scope="module")
def outcomes(
    installed: Path, static_page: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """How each sample ended, all run one after another in one interpreter."""
    lines = command_lines()
    done = subprocess.run(
        [sys.executable, "-S", "-c", DRIVER, str(installed)],
        input=json.dumps(list(lines.values())),
        capture_output=True,
        text=True,
        cwd=tmp_path_factory.mktemp("work"),
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout.splitlines()[-1])
    return {name: Outcome(**end) for name, end in zip(lines, ends, strict=True)}


def test_wheel_holds_every_source_and_data_file(wheel: Path, static_page: Path) -> None:
    assert not missing_from(wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "manyheads/web/static/index.html" in names
    assert any(name.startswith("manyheads/worksheets/data/two-routes") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_wheel_holds_the_texts_of_the_notebooks_and_nothing_beside_them(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        prefix = "manyheads/notebook_texts/"
        held = {name: archive.read(name) for name in archive.namelist() if prefix in name}
    sources = (ROOT / "notebooks").glob("*.py")
    assert held == {prefix + source.name: source.read_bytes() for source in sources}
    assert held


def test_wheel_names_its_command_and_its_requirements(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        lines = archive.read(name).decode().splitlines()
        points = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    asked = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist" in line]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [line for line in asked if "extra ==" not in line] == sorted(project["dependencies"])
    assert "manyheads = manyheads.cli.start:main" in points


def test_only_commands_that_exist_have_arguments_or_an_extra() -> None:
    assert {*ARGUMENTS, *EXTRAS} <= set(command_lines())


def test_example_of_a_help_page_is_its_first_one() -> None:
    shown = "Words.\n\n\b\nExamples:\n  manyheads a b --c 1 > out.txt\n  manyheads a b\n"
    assert example_of("a b", shown) == " --c 1 "
    assert example_of("a b", "manyheads a b --before") is None
    assert example_of("a c", shown) is None


def test_base_dependencies_leave_out_the_extras(installed: Path) -> None:
    assert {"torch", "numpy", "click"} <= {path.name for path in installed.iterdir()}
    assert not {"scipy", "onnx", "typst", "pytest"} & {path.name for path in installed.iterdir()}


def test_each_command_works_or_names_its_extra_at_once(outcomes: dict[str, Outcome]) -> None:
    offenders = []
    for command, end in outcomes.items():
        extra = EXTRAS.get(command)
        named = EXTRA.search(end.errors)
        is_right = (end.status, named and named[1]) == (2, extra) if extra else not named
        if not is_right or (extra and end.errors.count("\n") != 1):
            offenders.append((command, end.status, end.errors[-300:]))
    assert not offenders


def test_results_of_the_installed_commands_are_whole(outcomes: dict[str, Outcome]) -> None:
    assert json.loads(outcomes["worksheet solve"].out)
    assert outcomes["lab"].out.splitlines()[-1] == "CHECK PASSED"
    ended = {command: end.status for command, end in outcomes.items() if command not in EXTRAS}
    may_refuse = {"cards import", "quiz", "cards", "cards review", "serve"}
    may_refuse |= {"practice judge", "practice grade"}
    assert {c: s for c, s in ended.items() if s != 0 and c not in may_refuse} == {}


def test_a_file_that_the_wheel_lacks_is_found(tmp_path: Path) -> None:
    empty = tmp_path / "empty.whl"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("manyheads/__init__.py", "")
    assert "manyheads/core/errors.py" in missing_from(empty)
    assert "manyheads/__init__.py" not in missing_from(empty)
