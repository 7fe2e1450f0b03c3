"""The scripts that set the project up: they stop at errors, and do nothing twice."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

SCRIPTS = [
    *sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file()),
    ROOT / ".ci/run",
]


def script_faults(path: Path) -> list[str]:
    """What keeps a script from being run and from stopping at its first error."""
    text = path.read_text(encoding="utf-8")
    faults = []
    if path.suffix != ".sh":  # those are read by the others
        if not text.startswith("#!/bin/sh\n"):
            faults.append("does not begin with #!/bin/sh")
        if "\nset -eu\n" not in text:
            faults.append("does not stop at errors: set -eu")
        if not os.access(path, os.X_OK):
            faults.append("is not executable")
    parsed = subprocess.run(["sh", "-n", path], capture_output=True, text=True, check=False)
    return faults + parsed.stderr.splitlines()


def shell(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run shell code in a folder."""
    return subprocess.run(
        ["sh", "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | environment,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_can_be_run_and_stops_at_errors(path: Path) -> None:
    assert not script_faults(path)


def test_a_script_that_does_not_stop_at_errors_is_found(tmp_path: Path) -> None:
    (tmp_path / "sample").write_text("if true; then\n", encoding="utf-8")
    assert len(script_faults(tmp_path / "sample")) >= 4


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the set-up scripts and nothing set up."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


STAGE = ". scripts/stage.sh\nset -eu\n"


def test_a_stage_runs_once_for_the_same_key_and_again_for_another(checkout: Path) -> None:
    code = STAGE + "for key in 1 1 2 2; do stage count $key sh -c 'echo x >>runs'; done"
    assert shell(code, checkout).returncode == 0
    assert (checkout / "runs").read_text(encoding="utf-8") == "x\nx\n"


def test_a_stage_that_fails_leaves_no_stamp_even_where_there_was_one(checkout: Path) -> None:
    code = STAGE + "stage a 1 true; is_done a 1 && echo done; stage a 2 false; echo not reached"
    done = shell(code, checkout)
    assert (done.returncode, done.stdout) == (1, "done\n")
    assert not (checkout / ".venv" / ".setup" / "a").exists()


def test_a_hash_tells_a_change_of_content_and_of_name(checkout: Path) -> None:
    code = (
        STAGE
        + "mkdir d; for f in a=1 a=2 b=2; do rm -f d/*; echo ${f#*=} >d/${f%=*}; hash_of d; done"
    )
    assert len(set(shell(code, checkout).stdout.split())) == 3


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("sys.exit(sys.version_info", "must be Python 3.11 or newer"),
        ("ensurepip", "has no venv module"),
        ("import sys", "does not run"),
    ],
)
def test_setup_refuses_an_interpreter_in_one_line(refused: str, said: str, checkout: Path) -> None:
    python = checkout / "python"
    refusal = f"case \"$*\" in *'{refused}'*) exit 1 ;; esac\n"
    python.write_text(f'#!/bin/sh\n{refusal}exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    done = shell("scripts/setup run", checkout, PYTHON=str(python))
    assert done.returncode == 2
    assert said in done.stderr and str(python) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (checkout / ".venv").exists()


def test_check_names_an_option_that_it_does_not_know(checkout: Path) -> None:
    done = shell("scripts/check --quick", checkout)
    assert (done.returncode, "unknown option --quick" in done.stderr) == (2, True)


def tools(checkout: Path, **codes: str) -> None:
    """Put stand-ins for the development tools into a checkout; each says its name by default."""
    folder = checkout / ".venv/bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("ruff", "mypy", "lint-imports", "python"):
        code = codes.get(name.replace("-", "_"), f"echo {name}")
        (folder / name).write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
        (folder / name).chmod(0o755)


def test_check_prints_the_summary_of_the_tests_last(checkout: Path) -> None:
    tools(checkout, python='echo "$*"; sleep 1; echo "2 passed${PYTHONDONTWRITEBYTECODE-}"')
    done = shell("scripts/check --fast", checkout, PYTHONDONTWRITEBYTECODE="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "2 passed"
    assert "-m pytest -n 2 --dist worksteal -m not slow\n" in done.stdout


@pytest.mark.parametrize("broken", ["ruff", "mypy", "lint_imports", "python"])
def test_check_runs_every_step_and_names_those_that_fail(broken: str, checkout: Path) -> None:
    tools(checkout, **{broken: "echo broken; exit 3"})
    done = shell("scripts/check --fast", checkout)
    assert done.returncode == 1
    names = {"ruff", "mypy", "lint-imports", "python"} - {broken.replace("_", "-")}
    assert names | {"broken"} <= set(done.stdout.split())
    words = {"ruff": "lint (ruff)", "lint_imports": "import-linter", "python": "tests (pytest)"}
    assert words.get(broken, broken) in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("option", "asked"),
    [("--slow", "-m "), ("--cov", "-m not slow --cov"), ("--slow --cov", "-m  --cov")],
)
def test_check_chooses_tests_and_coverage(option: str, asked: str, checkout: Path) -> None:
    tools(checkout, python='echo "$*"')
    done = shell(f"scripts/check --fast {option}", checkout)
    assert done.stdout.splitlines()[-1] == f"-m pytest -n 2 --dist worksteal {asked}"


def test_chromium_is_a_failure_under_ci_and_a_skip_elsewhere(checkout: Path) -> None:
    for name in ("sh", "id"):
        (checkout / name).symlink_to(shutil.which(name) or name)
    only_here = {"PATH": str(checkout), "MANYHEADS_CHROMIUM": ""}
    for ci, status in (("true", 1), ("", 0)):
        done = shell("scripts/chromium", checkout, CI=ci, **only_here)
        assert (done.returncode, done.stdout) == (status, "")
        assert "no browser found: install one" in done.stderr


@pytest.fixture
def runnable(checkout: Path) -> Path:
    """A checkout that is set up, with a command that writes down what it is asked."""
    (checkout / ".venv/bin").mkdir(parents=True)
    site = 'if [ "$1" = site ]; then mkdir -p "$2" && echo page >"$2/index.html"; fi\n'
    for path, code in {
        "scripts/setup": "",
        "scripts/page": "",
        ".venv/bin/manyheads": f'echo "$*" >>asked\n{site}',
    }.items():
        (checkout / path).write_text(f"#!/bin/sh\n{code}", encoding="utf-8")
        (checkout / path).chmod(0o755)
    return checkout


def test_run_without_a_terminal_writes_the_page_and_names_it(runnable: Path) -> None:
    for _ in range(2):  # a second run takes its own earlier page again
        done = shell("scripts/run", runnable)
        assert (done.returncode, done.stderr) == (0, "")
        lines = [line.split(": ")[1] for line in done.stdout.splitlines() if "browser: " in line]
        assert [Path(line) for line in lines] == [runnable.resolve() / "dist/lesson/index.html"]
        assert Path(lines[0]).read_text(encoding="utf-8") == "page\n"
    asked = (runnable / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == ["lab", "site dist/lesson"] * 2


def test_run_says_nothing_of_a_page_that_could_not_be_written(runnable: Path) -> None:
    command = runnable / ".venv/bin/manyheads"
    command.write_text('#!/bin/sh\nif [ "$1" = site ]; then exit 2; fi\n', encoding="utf-8")
    done = shell("scripts/run", runnable)
    assert (done.returncode, done.stdout) == (2, "")
