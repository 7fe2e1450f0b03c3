"""`pytest --manyheads ...` as its users run it: in a process of its own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.verify.strangers import declaration, write_strangers


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    write_strangers(folder)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        check=False,
    )


def write_manifest(folder: Path, *names: str) -> None:
    cases = [declaration(name) for name in names]
    (folder / "manifest.json").write_text(json.dumps({"cases": cases}))


OWN = """
from strangers_attention import Faulty
from manyheads.verify import assert_sound

def test_sum():
    assert 1 + 1 == 2

def test_own():
    assert_sound(Faulty(), embed_dim=12, num_heads=3, form='self')
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What a run over a manifest and a file of tests prints, and its report for a CI server."""
    folder = tmp_path_factory.mktemp("found")
    write_manifest(folder, "Sound", "Drops", "Raises", "Faulty")
    (folder / "test_own.py").write_text(OWN)
    asked = ("--manyheads-subjects", "manifest.json", "--junitxml", "found.xml")
    done = run_pytest(folder, "-v", "--import-mode=prepend", *asked)
    assert done.returncode == 1, done.stderr
    return done.stdout, (folder / "found.xml").read_text()


def test_a_manifest_gives_a_test_for_each_subject(found: tuple[str, str]) -> None:
    printed, _ = found
    assert "collected 6 items" in printed
    assert "manyheads::sound PASSED" in printed
    assert "manyheads::drops FAILED" in printed
    assert "manyheads::raises FAILED" in printed
    assert "test_own.py::test_sum PASSED" in printed
    assert "FAULTY: drops: strangers_attention.py:Drops" in printed
    assert "1. dropout-in-eval (error)" in printed
    assert "UNDETERMINED: raises" in printed
    assert "Traceback" not in printed


def test_a_failure_points_at_the_line_of_the_fault(found: tuple[str, str]) -> None:
    printed, report = found
    assert re.search(r"\nstrangers_attention.py:\d+: faulty: ", printed), printed
    assert re.search(r"FAILED manyheads::faulty - faulty: \S", printed)
    assert "\nSteps:\n" in printed
    assert re.search(r'<failure message="faulty: [^"]+">', report)


def test_a_test_that_asserts_soundness_points_at_the_line_of_the_fault(
    found: tuple[str, str],
) -> None:
    printed, _ = found
    assert ">       assert_sound(Faulty()" in printed, printed
    assert ">       return " in printed, printed
    assert re.search(r"\nstrangers_attention.py:\d+: AssertionError", printed)
    assert "place.py" not in printed


def test_subjects_can_be_chosen_by_keyword_and_named_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(declaration("Sound", id="the one")))
    done = run_pytest(
        tmp_path,
        *("-q", "-k", "the and one", "--manyheads-subject", "one.json"),
        *("--manyheads", "strangers_attention.py:Hangs"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 deselected" in done.stdout


def test_declared_sizes_and_the_time_limit_reach_the_subject(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        *("-q", "--manyheads", "strangers_attention.py:Hangs", "--manyheads-embed-dim", "12"),
        *("--manyheads-num-heads", "3", "--manyheads-time-limit", "0.5"),
    )
    assert done.returncode == 1
    assert "time limit of 0.5 s" in done.stdout


def test_a_manifest_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--manyheads-subjects", "none.json")
    assert done.returncode == 4
    assert "cannot be read" in done.stderr


def test_a_run_that_does_not_ask_for_it_loads_neither_torch_nor_checks(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "import sys\n\ndef test_own():\n    assert 'manyheads.verify.plugin' in sys.modules\n"
        "    assert 'torch' not in sys.modules\n"
        "    assert 'manyheads.verify.run' not in sys.modules\n"
    )
    done = run_pytest(tmp_path, "-q", "-W", "error")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
