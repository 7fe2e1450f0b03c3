"""What may be loaded by what, seen in a fresh interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

TORCHLESS = [
    "import manyheads",
    "import manyheads.worksheets.exact",
    "import manyheads.core.config",
    "import manyheads.core.errors",
    "import manyheads.models.gpt_config",
    "import manyheads.data.stories",
]
TORCHLESS_COMMANDS = [
    "--help",
    "serve --help",
    "site --help",
    "worksheet list",
    "worksheet show two-routes",
    "worksheet solve two-routes --exact",
    "study plans",
    "generate --help",
    "export onnx --help",
    "quiz --help",
    "quiz exercises score --json",
    "worksheet try two-routes",
    "cards --help",
    "notebooks --help",
]


def loads_torch(code: str) -> bool:
    """Run code in a fresh interpreter and tell whether torch was loaded when it ended."""
    probe = (
        "import atexit, os, sys\n"
        "atexit.register(lambda: os.write(2, b'torch ' + str('torch' in sys.modules).encode()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe + code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.endswith("torch True")


@pytest.mark.parametrize("code", TORCHLESS)
def test_torch_is_not_loaded_by(code: str) -> None:
    assert not loads_torch(code)


@pytest.mark.parametrize("arguments", TORCHLESS_COMMANDS)
def test_torch_is_not_loaded_by_the_command(arguments: str) -> None:
    argv = ["manyheads", *arguments.split()]
    assert not loads_torch(
        f"sys.argv = {argv}\nfrom manyheads.cli.main import main\nsys.exit(main())"
    )


def test_loading_torch_is_noticed() -> None:
    assert loads_torch("import torch")


def test_studies_are_imported_without_plotting_statistics_or_launching() -> None:
    heavy = ("matplotlib", "scipy", "lightning_fabric", "tensorboard", "pyarrow", "onnx")
    code = f"import sys, manyheads.study; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


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
ROOMS = "Rooms import downwards only"
FORBIDDEN_IMPORTS = [
    ("core/config.py", "import manyheads.attention.loop", ROOMS),
    ("web/export.py", "import manyheads.report.pages", ROOMS),
    ("core/shapes.py", "import manyheads.core.config", "No cycles"),
    ("attention/packed.py", "import manyheads.attention.loop", "The three forms"),
    ("worksheets/exact.py", "import manyheads.core.shapes", "The exact oracle"),
    ("verify/checks/masking.py", "import manyheads.faults.softmax", "Checks never reach"),
]


@pytest.fixture
def small_house(tmp_path: Path) -> Path:
    """A package with our rooms and contracts, all of which are kept."""
    files = ["attention/loop.py", "attention/packed.py", "attention/fused.py", "core/shapes.py"]
    files += ["core/config.py", "faults/softmax.py", "report/pages.py", "verify/checks/masking.py"]
    files += ["web/export.py", "worksheets/exact.py", "cli/main.py"]
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


def test_contracts_hold_for_a_sound_house(small_house: Path) -> None:
    done = lint_imports(small_house)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("name", "code", "contract"), FORBIDDEN_IMPORTS)
def test_contract_catches_a_forbidden_import(
    name: str, code: str, contract: str, small_house: Path
) -> None:
    (small_house / "src" / "manyheads" / name).write_text(f"{code}\n", encoding="utf-8")
    done = lint_imports(small_house)
    broken = [line for line in done.stdout.splitlines() if line.endswith("BROKEN")]
    assert done.returncode == 1
    assert [line for line in broken if line.startswith(contract)], done.stdout


def test_contract_catches_a_room_that_is_not_listed(small_house: Path) -> None:
    (small_house / "src" / "manyheads" / "utils.py").touch()
    done = lint_imports(small_house)
    assert done.returncode == 1
    assert "utils" in done.stdout
