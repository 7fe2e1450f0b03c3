"""Change one thing in the source at a time, and report the changes that no test notices.

    .venv/bin/python -m tools.mutants core attention worksheets study --sample 40 --seed 1

A mutant is one changed operator, number or condition. It is alive if the tests of its package
still pass; only the test files that run its line are tried, those of its module first. Subprocesses
of the tests see the change too. Mutants that cannot change a result are listed with the reason in
tools/mutants.toml.
"""

import argparse
import ast
import copy
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "manyheads"
EQUIVALENT = Path(__file__).with_suffix(".toml")
SLOWEST = 300.0
"""Seconds after which a mutant counts as noticed: it made something endless."""

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
    lines: range
    """Lines of the statement, or of its head, from 1."""
    line: int
    """Line of the change."""
    before: str
    """The expression as written."""
    after: str
    """The expression as changed."""
    source: str
    """The whole changed file."""

    @property
    def key(self) -> str:
        """File, expression and change, without the line, which moves."""
        return f"{self.path.relative_to(PACKAGE)}: {self.before} -> {self.after}"


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


def places(node: ast.AST, lines: range) -> Iterator[tuple[ast.expr, range]]:
    """Every expression that decides something when the program runs, with its statement's lines."""
    skipped = {"annotation", "returns", "decorator_list", "type_params"}
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.stmt):
        body = getattr(node, "body", None)
        end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        lines = range(node.lineno, end + 1)
    if isinstance(node, ast.expr):
        yield node, lines
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in skipped:
                yield from places(child, lines)


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
            lines=lines,
            line=node.lineno,
            before=ast.unparse(node),
            after=ast.unparse(other),
            source=with_change(source, node, ast.unparse(other)),
        )
        for node, lines in places(ast.parse(source), range(0))
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


def run_tests(tree: Path, options: Sequence[str], limit: float) -> int:
    """Run pytest in a fork, which begins with the libraries loaded, and return its exit status."""
    child = os.fork()
    if child:
        return wait(child, limit)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    written = os.open(tree / OUTPUT, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(written, 1)
    os.dup2(written, 2)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    import pytest

    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *options])))


def wait(child: int, limit: float) -> int:
    """The exit status of a forked process; 99 if it ran longer than the limit in seconds."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 99


def preload() -> None:
    """Load the libraries once, so that a fork begins with them; never the package itself."""
    import sympy  # noqa: F401 - loaded for the forks; pytest's plugins must not be loaded here
    import torch

    torch.set_num_threads(1)


def covered_by(tree: Path, package: str) -> Mapping[Path, Mapping[int, list[str]]]:
    """The test files that run each line of a package; lines run on import only have "" alone."""
    from coverage import CoverageData

    with tempfile.TemporaryDirectory() as folder:
        os.environ["COVERAGE_FILE"] = str(Path(folder) / "data")
        cov = [f"--cov={PACKAGE / package}", "--cov-context=test", "--cov-report="]
        if run_tests(tree, [*cov, str(ROOT / "tests" / package)], math.inf):
            raise SystemExit(
                f"the tests of {package} fail without any change ({first_failure(tree)}): fix them"
            )
        data = CoverageData(os.environ["COVERAGE_FILE"])
        data.read()
        return {
            Path(file): {
                line: [test_file(context) for context in contexts]
                for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }


def test_file(context: str) -> str:
    """The file of a test that coverage names, or "" for code that runs while a module loads."""
    return context and str(ROOT / context.partition("::")[0])


def tests_for(mutant: Mutant, covered: Mapping[Path, Mapping[int, list[str]]]) -> list[str]:
    """The test files that run a mutant's lines, those that name its module first."""
    by_line = covered.get(mutant.path, {})
    files = {file for line in mutant.lines for file in by_line.get(line, [])}
    if files == {""}:  # the module computes it while it loads
        files = {file for line in by_line.values() for file in line}
    return sorted(files - {""}, key=lambda file: (mutant.path.stem not in Path(file).stem, file))


def survivors_of(package: str, sample: int, seed: int) -> tuple[list[Mutant], int]:
    """The mutants of a package that no test noticed, and how many were tried."""
    equivalent = set(tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"])
    paths = sorted((PACKAGE / package).rglob("*.py"))
    every = [m for path in paths for m in mutants_of(path) if m.key not in equivalent]
    chosen = random.Random(seed).sample(every, min(sample, len(every)))
    alive = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, tree / PACKAGE.name, ignore=skipped, copy_function=link)
        covered = covered_by(tree, package)
        for count, mutant in enumerate(chosen, 1):
            files = tests_for(mutant, covered)
            with changed_tree(tree, mutant):
                status = run_tests(tree, files, SLOWEST) if files else 0
            if status == 0:
                alive.append(mutant)
            found = {0: "alive", 99: "endless"}.get(status) or f"noticed by {first_failure(tree)}"
            print(f"{count}: line {mutant.line} of {mutant.key}: {found}", flush=True)
    return alive, len(chosen)


def link(source: str, target: str) -> None:
    """Link to a file; `shutil.copytree` calls it in place of a copy."""
    os.symlink(source, target)


def first_failure(tree: Path) -> str:
    """The first test that failed in the latest run, or the last line that was written."""
    lines = (tree / OUTPUT).read_text(encoding="utf-8", errors="replace").splitlines()
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return (failed or lines[-1:] or ["nothing"])[0][:150]


def main() -> None:
    """Run the mutants of the named packages and print the share that survived in each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package", nargs="+", help="a folder of src/manyheads, such as core")
    parser.add_argument("--sample", type=int, default=40, help="mutants per package (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the sample (default 1)")
    options = parser.parse_args()
    preload()
    rows = [
        (package, *survivors_of(package, options.sample, options.seed))
        for package in options.package
    ]
    for package, alive, tried in rows:
        print(f"{package}: {len(alive)} of {tried} mutants alive ({len(alive) / tried:.1%})")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
