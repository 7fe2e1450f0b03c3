"""Change one thing in the source at a time, and report the changes that no test notices.

    .venv/bin/python -m tools.mutants core attention worksheets study --sample 40 --seed 1

A mutant is one changed operator, number or condition. It is alive if the tests of its package
still pass. Test files that name its module run first, the others of the package after all mutants
have had those. A test that notices a mutant is run once without any change, where it must pass.
Subprocesses of the tests see the change too. Mutants that cannot change a result are listed with
the reason in tools/mutants.toml.
"""

import argparse
import ast
import copy
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "manyheads"
EQUIVALENT = Path(__file__).with_suffix(".toml")
SLOWEST = 300.0
"""Seconds after which a mutant counts as noticed: it made something endless."""

ENDLESS = 99
"""Exit status of tests that had to be ended."""
OUTPUT = "pytest.txt"
"""What the latest run of pytest wrote, beside the changed package."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One changed source file."""

    path: Path
    """The file."""
    line: int
    """Line of the change, from 1."""
    text: str
    """That line as written, without its indent."""
    before: str
    """The expression as written."""
    after: str
    """The expression as changed."""
    source: str
    """The whole changed file."""

    @property
    def key(self) -> str:
        """File, change and text of the line, whose number would move."""
        file = self.path.relative_to(PACKAGE)
        return f"{file}: {self.before} -> {self.after} in `{self.text}`"


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Every changed form of one node."""
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[index] = COMPARISONS[type(op)]()
            yield changed
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not is_text_join(node):
        yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(other_number(node.value))


def other_number(number: bool | int | float) -> bool | int | float:
    """The other truth value, the next integer, or ten times the number."""
    if isinstance(number, bool):
        return not number
    return number + 1 if isinstance(number, int) else number * 10 or 1.0


def is_text_join(node: ast.BinOp) -> bool:
    """Whether the node adds or formats text, which is not arithmetic."""
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def places(node: ast.AST) -> Iterator[ast.expr]:
    """Every expression that decides something when the program runs."""
    skipped = {"annotation", "returns", "decorator_list", "type_params"}
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.expr):
        yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in skipped:
                yield from places(child)


def with_change(source: str, node: ast.expr, text: str) -> str:
    """The source with one expression replaced; every other line keeps its text and its number."""
    lines = source.encode().splitlines(keepends=True)
    start, end = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before, after = lines[start][: node.col_offset], lines[end][node.end_col_offset :]
    change = ("(" + text + "\n" * (end - start) + ")").encode()
    return b"".join([*lines[:start], before + change + after, *lines[end + 1 :]]).decode()


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of one file."""
    source = path.read_text(encoding="utf-8")
    return [
        Mutant(
            path=path,
            line=node.lineno,
            text=source.splitlines()[node.lineno - 1].strip(),
            before=ast.unparse(node),
            after=ast.unparse(other),
            source=with_change(source, node, ast.unparse(other)),
        )
        for node in places(ast.parse(source))
        for other in replacements(node)
    ]


@contextmanager
def changed_tree(tree: Path, mutant: Mutant) -> Iterator[None]:
    """Put the mutant's file into a tree of links to the package, and the link back at the end."""
    file = tree / mutant.path.relative_to(PACKAGE.parent)
    file.unlink()
    file.write_text(mutant.source, encoding="utf-8")
    forget_compiled(file)
    try:
        yield
    finally:
        file.unlink()
        file.symlink_to(mutant.path)
        forget_compiled(file)


def forget_compiled(file: Path) -> None:
    """Delete the compiled forms of a file: they are told apart by size and whole seconds only."""
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def run_tests(tree: Path, tests: Sequence[str]) -> int:
    """Run pytest in a fork, which begins with the libraries loaded, and return its exit status."""
    child = os.fork()
    if child:
        return wait(child)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    written = os.open(tree / OUTPUT, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.chdir(ROOT)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    import pytest

    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests])))


def wait(child: int) -> int:
    """The exit status of a forked process; ENDLESS if it ran too long."""
    until = time.monotonic() + SLOWEST
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return ENDLESS


def preload() -> None:
    """Load the libraries once, so that a fork begins with them; never the package itself."""
    import sympy  # noqa: F401 - loaded for the forks; pytest's plugins must not be loaded here
    import torch

    torch.set_num_threads(1)


def tests_for(path: Path) -> tuple[list[str], list[str]]:
    """The test files of a source file's package: those that name its module, and the others."""
    files = sorted((ROOT / "tests" / path.relative_to(PACKAGE).parts[0]).rglob("test_*.py"))
    word = re.compile(rf"\b{re.escape(path.stem)}\b")
    own = [file for file in files if file.stem.startswith(f"test_{path.stem}")]
    naming = [file for file in files if word.search(file.read_text(encoding="utf-8"))]
    near = list(dict.fromkeys([*own, *naming]))
    return [*map(str, near)], [str(file) for file in files if file not in near]


class Trials:
    """Runs tests on mutants, and remembers which tests pass without any change."""

    def __init__(self, tree: Path) -> None:
        """Make a tree of links to the package in an empty folder."""
        self.tree = tree
        self.sound: set[str] = set()
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, tree / PACKAGE.name, ignore=skipped, copy_function=link)

    def noticed_by(self, mutant: Mutant, files: list[str]) -> str:
        """The first test in some files that fails with a mutant, or "" if all pass."""
        if not files:
            return ""
        with changed_tree(self.tree, mutant):
            status = run_tests(self.tree, files)
        if status in (0, ENDLESS):
            return "nothing: it does not end" if status else ""
        test = first_failure(self.tree)
        if test not in self.sound:
            if run_tests(self.tree, [test]):
                raise SystemExit(f"{test} fails without any change: fix it first")
            self.sound.add(test)
        return test


def survivors_of(
    package: str, sample: int, seed: int, near: bool = False
) -> tuple[list[Mutant], int]:
    """The mutants of a package that no test noticed, and how many were tried."""
    equivalent = set(tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"])
    paths = sorted((PACKAGE / package).rglob("*.py"))
    every = [mutant for path in paths for mutant in mutants_of(path)]
    sampled = random.Random(seed).sample(every, min(sample, len(every)))
    alive = chosen = [mutant for mutant in sampled if mutant.key not in equivalent]
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(Path(folder).resolve())
        turns = ("tests that name its module", f"tests of {package}")
        for turn, tests in enumerate(turns[:1] if near else turns):
            left = []
            for mutant in alive:
                found = trials.noticed_by(mutant, tests_for(mutant.path)[turn])
                verdict = f"noticed by {found}" if found else f"alive after the {tests}"
                print(f"line {mutant.line} of {mutant.key}: {verdict}", flush=True)
                left += [] if found else [mutant]
            alive = left
    return alive, len(chosen)


def link(source: str, target: str) -> None:
    """Link to a file; `shutil.copytree` calls it in place of a copy."""
    os.symlink(source, target)


def first_failure(tree: Path) -> str:
    """The first test, or file of tests, that failed in the latest run."""
    text = (tree / OUTPUT).read_text(encoding="utf-8", errors="replace")
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
    if failed is None:
        raise SystemExit(f"pytest ended without a result:\n{text[-2000:]}")
    return failed.group(1)


def main() -> None:
    """Run the mutants of the named packages and print the share that survived in each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package", nargs="+", help="a folder of src/manyheads, such as core")
    parser.add_argument("--sample", type=int, default=40, help="mutants per package (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the sample (default 1)")
    parser.add_argument(
        "--near", action="store_true", help="run only the test files that name the mutant's module"
    )
    options = parser.parse_args()
    preload()
    rows = [
        (package, *survivors_of(package, options.sample, options.seed, options.near))
        for package in options.package
    ]
    for package, alive, tried in rows:
        print(f"{package}: {len(alive)} of {tried} mutants alive ({len(alive) / tried:.1%})")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
