"""Which build of torch the set-up takes, seen with stand-ins for pip, uv and nvidia-smi."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

PYTHON = """#!/bin/sh
case "$*" in
  *"-m pip"*)
    echo "$*" >>pip.log
    case "$*" in *--no-index*) exit $LOCAL_WHEEL ;; esac
    exit 0
    ;;
  *importlib.metadata*) echo "torch==9.9+cpu" ;;
  *) exec {real} "$@" ;;
esac
"""
STAND_INS = {"nvidia-smi": "exit $GPU", "uname": "echo $SYSTEM", "uv": "exit $UV"}
YES, NO = "0", "1"
DEFAULTS = {"GPU": NO, "LOCAL_WHEEL": NO, "UV": NO, "SYSTEM": "Linux", "TORCH": ""}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the set-up scripts and a .venv whose tools only note what they are asked."""
    for name in ("scripts/setup", "scripts/stage.sh", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "python").write_text(PYTHON.format(real=sys.executable), encoding="utf-8")
    for name, code in STAND_INS.items():
        (tools / name).write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
    for path in tools.iterdir():
        path.chmod(0o755)
    return tmp_path


def set_up(checkout: Path, **machine: str) -> str:
    """Set up on a machine of this kind and return what was said."""
    tools = checkout / ".venv" / "bin"
    path = os.pathsep.join((str(tools), os.environ["PATH"]))
    done = subprocess.run(
        ["sh", "scripts/setup", "run"],
        capture_output=True,
        text=True,
        cwd=checkout,
        env=os.environ | DEFAULTS | machine | {"PATH": path, "PYTHON": str(tools / "python")},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def pip_calls(checkout: Path) -> list[str]:
    """What pip was asked to install, and forget it."""
    log = checkout / "pip.log"
    calls = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [call for call in calls if " install " in call]


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({"GPU": YES, "LOCAL_WHEEL": YES}, "the default wheel, because nvidia-smi shows a GPU"),
        ({"LOCAL_WHEEL": YES, "UV": YES}, "+cpu, a CPU wheel that pip found on this machine"),
        ({"UV": YES}, "the CPU wheel that uv chose"),
        ({"UV": YES, "SYSTEM": "Darwin"}, "the default wheel of the package index"),
        ({}, "the default wheel of the package index"),
        ({"TORCH": "torch==9.9", "GPU": YES}, "torch: torch==9.9, as TORCH= asks"),
    ],
)
def test_torch_is_chosen_by_the_machine(machine: dict[str, str], said: str, checkout: Path) -> None:
    lines = [line for line in set_up(checkout, **machine).splitlines() if "torch:" in line]
    assert len(lines) == 1
    assert said in lines[0]


def test_constraints_name_the_torch_that_is_installed_and_no_other(checkout: Path) -> None:
    set_up(checkout, TORCH="torch==9.9")
    used = (checkout / ".venv" / ".setup" / "constraints.txt").read_text(encoding="utf-8")
    assert [line for line in used.split() if line.startswith("torch=")] == ["torch==9.9+cpu"]
    assert "-c .venv/.setup/constraints.txt -e ." in pip_calls(checkout)[-1]


def test_a_second_set_up_installs_nothing_and_a_chosen_torch_stays(checkout: Path) -> None:
    set_up(checkout, TORCH="torch==9.9")
    assert len(pip_calls(checkout)) == 2
    assert set_up(checkout) == ""
    assert set_up(checkout, TORCH="torch==9.9") == ""
    assert pip_calls(checkout) == []
    assert "the default wheel" in set_up(checkout, TORCH="default", GPU=YES)


def test_another_project_file_installs_the_package_again_but_not_torch(checkout: Path) -> None:
    set_up(checkout)
    pip_calls(checkout)
    with (checkout / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert set_up(checkout) == "set-up: package\n"
    assert len(pip_calls(checkout)) == 1
