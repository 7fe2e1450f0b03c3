"""The program that looks for source changes which no test notices."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import mutants

SOURCE = '''"""Limits."""

LEAST = 2


def is_large(size: int) -> bool:
    """Whether a size is above the limit."""
    return size > (  # a limit
        3
    )


def doubled(size: int) -> int:
    return size * LEAST


def is_unused(size: int) -> bool:
    return not size
'''
TESTS = """from sample.limits.sizes import doubled, is_large

def test_limit_on_each_side():
    assert is_large(4) and not is_large(3)

def test_nothing_doubled_is_nothing():
    assert doubled(0) == 0
"""
FOUND = {
    ("size > 3", "size >= 3"): "noticed by tests/limits/test_sizes.py::test_limit_on_each_side",
    ("3", "4"): "noticed by tests/limits/test_sizes.py::test_limit_on_each_side",
    ("2", "3"): "alive after the tests of limits",
    ("size * LEAST", "size / LEAST"): "alive after the tests of limits",
    ("not size", "size"): "alive after the tests of limits",
}


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A package of one module, with tests that notice two of its five changes."""
    folders = tmp_path / "src" / "sample" / "limits", tmp_path / "tests" / "limits"
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[0] / "sizes.py").write_text(SOURCE)
    (folders[1] / "test_sizes.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    return tmp_path


def test_every_change_is_one_expression_and_keeps_the_other_lines(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sample / "src" / "sample" / "limits" / "sizes.py"
    monkeypatch.setattr(mutants, "PACKAGE", sample / "src" / "sample")
    found = mutants.mutants_of(file)
    assert {(one.before, one.after) for one in found} == set(FOUND)
    for one in found:
        compile(one.source, "changed", "exec")
        lines = zip(SOURCE.splitlines(), one.source.splitlines(), strict=True)
        changed = [at for at, (old, new) in enumerate(lines, 1) if old != new]
        assert changed[0] == one.line and changed[-1] <= one.line + 2, one.key


def test_changes_that_a_test_notices_are_told_from_those_that_none_notices(
    sample: Path, root: Path
) -> None:
    code = (
        "from pathlib import Path; from tools import mutants\n"
        f"mutants.ROOT = Path({str(sample)!r})\n"
        "mutants.PACKAGE = mutants.ROOT / 'src' / 'sample'\n"
        "print(len(mutants.survivors_of('limits', 9, 1)[0]), 'alive')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    for (before, after), verdict in FOUND.items():
        assert re.search(
            rf"{re.escape(f'limits/sizes.py: {before} -> {after} in ')}`.*`: {verdict}", done.stdout
        )
    assert done.stdout.endswith("3 alive\n")
