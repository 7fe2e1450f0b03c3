"""`pytest --manyheads ...` as its users run it: in a process of its own."""

import json
import re
import subprocess
import sys
from pathlib import Path

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


def test_a_manifest_gives_a_test_for_each_subject(tmp_path: Path) -> None:
    write_manifest(tmp_path, "Sound", "Drops", "Raises")
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    done = run_pytest(tmp_path, "-v", "--manyheads-subjects", "manifest.json")
    assert done.returncode == 1, done.stderr
    assert "collected 4 items" in done.stdout
    assert "manyheads::sound PASSED" in done.stdout
    assert "manyheads::drops FAILED" in done.stdout
    assert "manyheads::raises FAILED" in done.stdout
    assert "test_own.py::test_own PASSED" in done.stdout
    assert "FAULTY: drops: strangers_attention.py:Drops" in done.stdout
    assert "1. dropout-in-eval (error)" in done.stdout
    assert "UNDETERMINED: raises" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_failure_points_at_the_line_of_the_fault(tmp_path: Path) -> None:
    write_manifest(tmp_path, "Faulty")
    done = run_pytest(
        tmp_path, "--manyheads-subjects", "manifest.json", "--junitxml", "found.xml", "-q"
    )
    assert re.search(r"\nstrangers_attention.py:\d+: faulty: ", done.stdout), done.stdout
    assert re.search(r"FAILED manyheads::faulty - faulty: \S", done.stdout)
    assert "\nSteps:\n" in done.stdout
    assert re.search(r'<failure message="faulty: [^"]+">', (tmp_path / "found.xml").read_text())


def test_a_test_that_asserts_soundness_points_at_the_line_of_the_fault(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "from strangers_attention import Faulty\n"
        "from manyheads.verify import assert_sound\n\n"
        "def test_own():\n"
        "    assert_sound(Faulty(), embed_dim=12, num_heads=3, form='self')\n"
    )
    done = run_pytest(tmp_path, "-q", "--import-mode=prepend", "test_own.py")
    assert ">       assert_sound(Faulty()" in done.stdout, done.stdout
    assert ">       return " in done.stdout, done.stdout
    assert re.search(r"\nstrangers_attention.py:\d+: AssertionError", done.stdout)
    assert "place.py" not in done.stdout


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
