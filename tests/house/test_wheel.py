"""The wheel builds, holds what it must, and works in an environment of its own.

To stay quick and without a network, the new environment sees the packages of this one through a
path file, after its own: what it runs of manyheads is what the wheel brought. What the wheel asks
for is checked against pyproject.toml instead.
"""

import json
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.house.sources import PACKAGE, ROOT

DATA_SUFFIXES = {".json", ".toml", ".typed", ".html", ".js", ".css", ".svg"}


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command in a folder and return what it printed."""
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def missing_from(wheel: Path) -> list[str]:
    """The package's sources and data that the wheel lacks."""
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = [path for path in PACKAGE.rglob("*") if path.suffix in DATA_SUFFIXES | {".py"}]
    names = (path.relative_to(PACKAGE.parent).as_posix() for path in wanted)
    return [name for name in names if name not in held]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder)]
    run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The interpreter of an environment that has only the wheel, and our packages behind it."""
    folder = wheel.parent / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", folder], wheel.parent)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", wheel], wheel.parent)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run([python, "-c", code], wheel.parent).strip())
    (site / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def test_wheel_holds_every_source_and_data_file(wheel: Path, static_page: Path) -> None:
    assert not missing_from(wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "manyheads/web/static/index.html" in names
    assert any(name.endswith(".schema.json") for name in names)
    assert any(name.startswith("manyheads/worksheets/data/two-routes") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_wheel_holds_the_texts_of_the_notebooks_and_nothing_beside_them(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        prefix = "manyheads/notebook_texts/"
        held = {name: archive.read(name) for name in archive.namelist() if prefix in name}
    sources = (ROOT / "notebooks").glob("*.py")
    assert held == {prefix + source.name: source.read_bytes() for source in sources}
    assert held


def test_wheel_asks_for_what_the_project_declares(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        lines = archive.read(name).decode().splitlines()
    asked = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist" in line]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [line for line in asked if "extra ==" not in line] == sorted(project["dependencies"])


def test_installed_wheel_solves_a_worksheet(installed: Path, tmp_path: Path) -> None:
    code = "import manyheads; print(manyheads.__file__)"
    place = run([installed, "-c", code], tmp_path).strip()
    assert Path(place).is_relative_to(installed.parents[1])
    command = installed.parent / "manyheads"
    shown = run([command, "worksheet", "solve", "two-routes", "--exact", "--json"], tmp_path)
    assert json.loads(shown)


def test_installed_wheel_runs_the_lab(installed: Path, tmp_path: Path) -> None:
    shown = run([installed.parent / "manyheads", "lab"], tmp_path)
    assert shown.splitlines()[-1] == "CHECK PASSED"


def test_installed_wheel_writes_its_notebooks(installed: Path, tmp_path: Path) -> None:
    command = installed.parent / "manyheads"
    shown = json.loads(run([command, "notebooks", tmp_path / "out", "--json"], tmp_path))
    names = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))
    assert [item["name"] for item in shown["notebooks"]] == names
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == names


def test_a_file_that_the_wheel_lacks_is_found(tmp_path: Path) -> None:
    empty = tmp_path / "empty.whl"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("manyheads/__init__.py", "")
    assert "manyheads/core/errors.py" in missing_from(empty)
    assert "manyheads/__init__.py" not in missing_from(empty)
