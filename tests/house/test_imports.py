"""What may be loaded by what, seen in a fresh interpreter."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.house.sources import ROOT

HEAVY = ("torch", "matplotlib", "scipy", "lightning_fabric", "tensorboard", "pyarrow", "onnx")
MODULES_WITHOUT_TORCH = [
    "manyheads",
    "manyheads.worksheets.exact",
    "manyheads.core.config",
    "manyheads.core.errors",
    "manyheads.models.config",
    "manyheads.data.stories",
    "manyheads.study.stats",
    "manyheads.web.models",
    "manyheads.web.server",
]
COMMANDS_WITHOUT_TORCH = [
    "--help",
    "serve --help",
    "worksheet list",
    "worksheet show two-routes",
    "worksheet solve two-routes --exact",
    "worksheet explain two-routes output[2][0]",
    "study plans",
    "generate --help",
    "export onnx --help",
    "quiz --help",
    "quiz list --data {folder}",
    "quiz exercises score --json",
    "worksheet try two-routes",
    "cards --help",
    "notebooks {folder}/notebooks",
    "site {folder}/site",
]
PROBE = """
import contextlib, io, json, sys
from importlib import import_module
def run(command):
    if not command.startswith("manyheads "):
        return import_module(command)
    from manyheads.cli.main import main
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(command.split()[1:]) == 0, command
for command in json.loads(sys.argv[1]):
    run(command)
    loaded = [name for name in json.loads(sys.argv[2]) if name in sys.modules]
    if loaded:
        sys.exit(f"{command} loads {loaded}")
"""


def loaded_by(commands: list[str], packages: Sequence[str]) -> str:
    """Run commands and imports in one fresh interpreter; name the first that loads a package."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(commands), json.dumps(packages)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    return done.stderr


def test_help_loads_no_library_for_numbers_or_files() -> None:
    assert loaded_by(["manyheads", "manyheads --help"], [*HEAVY, "numpy", "pydantic"]) == ""


def test_modules_and_commands_without_tensors_do_not_load_torch(
    static_page: Path, tmp_path: Path
) -> None:
    commands = [f"manyheads {line.format(folder=tmp_path)}" for line in COMMANDS_WITHOUT_TORCH]
    assert loaded_by(MODULES_WITHOUT_TORCH + commands, HEAVY) == ""


def test_studies_are_imported_without_plotting_statistics_or_launching() -> None:
    assert loaded_by(["manyheads.study"], HEAVY[1:]) == ""


def test_a_package_that_is_loaded_is_named() -> None:
    assert "json.tool loads ['json']" in loaded_by(["json.tool"], ["json"])


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run this repository's import contracts on a package in another folder."""
    code = (
        "import sys; sys.path.insert(0, 'src')\n"
        "from importlinter.cli import lint_imports\n"
        "sys.exit(lint_imports(config_filename='pyproject.toml', no_cache=True))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
    )


# file, what it is made to import, and the contract that forbids it
LEVELS = "Packages import only lower levels"
FORBIDDEN_IMPORTS = [
    ("core/config.py", "manyheads.attention.loop", LEVELS),
    ("web/site.py", "manyheads.report.pages", LEVELS),
    ("core/shapes.py", "manyheads.core.config", "No cycles"),
    ("attention/packed.py", "manyheads.attention.loop", "The three forms"),
    ("worksheets/exact.py", "manyheads.core.shapes", "The exact solution"),
    ("verify/checks/masking.py", "manyheads.faults.softmax", "Checks never import"),
]


@pytest.fixture
def small_package(tmp_path: Path) -> Path:
    """A package with our folders and contracts, all of which are kept."""
    files = ["attention/loop.py", "attention/packed.py", "attention/fused.py", "core/shapes.py"]
    files += ["core/config.py", "faults/softmax.py", "report/pages.py", "verify/checks/masking.py"]
    files += ["web/site.py", "worksheets/exact.py", "cli/main.py"]
    for name in files:
        path = tmp_path / "src" / "manyheads" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in path.parents[: len(path.relative_to(tmp_path / "src").parents) - 1]:
            (folder / "__init__.py").touch()
        path.write_text("import torch\n" if name == "core/shapes.py" else "", encoding="utf-8")
    config = tmp_path / "src" / "manyheads" / "core" / "config.py"
    config.write_text("import manyheads.core.shapes\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    return tmp_path


def test_contracts_hold_for_a_sound_package(small_package: Path) -> None:
    done = lint_imports(small_package)
    assert done.returncode == 0, done.stdout


def test_contracts_catch_forbidden_imports(small_package: Path) -> None:
    for name, imported, _ in FORBIDDEN_IMPORTS:
        with (small_package / "src" / "manyheads" / name).open("a", encoding="utf-8") as file:
            file.write(f"import {imported}\n")
    done = lint_imports(small_package)
    assert done.returncode == 1
    for name, imported, contract in FORBIDDEN_IMPORTS:
        section = next(part for part in broken_parts(done.stdout) if part.startswith(contract))
        importer = "manyheads." + name.removesuffix(".py").replace("/", ".")
        arrows = [f"{importer} -> {imported}", ".shapes -> .config"]  # cycles: without the package
        assert any(arrow in section for arrow in arrows), section


def broken_parts(report: str) -> list[str]:
    """The part of import-linter's report for each contract that is broken."""
    return re.findall(r"^(\S.*\n-+\n(?:.*\n)*?)(?=^\S.*\n-+\n|\Z)", report, re.M)


def test_contract_catches_a_room_that_is_not_listed(small_package: Path) -> None:
    (small_package / "src" / "manyheads" / "utils.py").touch()
    done = lint_imports(small_package)
    assert done.returncode == 1
    assert "utils" in done.stdout
