"""Change one thing in the source at a time, and report the changes that no test notices.

    .venv/bin/python -m tools.mutants core attention worksheets study --sample 40 --seed 1

A mutant is one changed operator, number or condition. It is alive if the tests of its package
still pass. Mutants that cannot change a result are listed with the reason in tools/mutants.toml.
"""

import argparse
import ast
import copy
import importlib.machinery
import os
import random
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "manyheads"
EQUIVALENT = Path(__file__).with_suffix(".toml")
SLOWEST = 300.0
"""Seconds after which a mutant counts as noticed: it made something endless."""

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
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and len(changed.ops) == 1:
        changed.ops = [COMPARISONS[type(changed.ops[0])]()]
        yield changed
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
        yield changed
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not):
        yield changed.operand
    elif isinstance(changed, ast.BinOp) and type(changed.op) in ARITHMETIC:
        changed.op = ARITHMETIC[type(changed.op)]()
        yield changed
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, bool):
        yield ast.Constant(not changed.value)
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, int):
        yield ast.Constant(changed.value + 1)
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, float):
        yield ast.Constant(changed.value * 10 or 1.0)


def is_text_join(node: ast.AST) -> bool:
    """Whether the node adds or formats text, or joins types, which is not arithmetic."""
    if not isinstance(node, ast.BinOp):
        return False
    texts = (ast.JoinedStr,)
    sides = (node.left, node.right)
    return isinstance(node.op, ast.BitOr) or any(
        isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Every (parent, field, index) of a node that decides something when the program runs."""
    skipped = {"annotation", "returns", "decorator_list", "type_params"}
    for name, value in ast.iter_fields(node):
        if name in skipped or isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield node, name, index
                yield from places(child)


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of one file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for parent, name, index in list(places(tree)):
        held = getattr(parent, name)
        node = held if index is None else held[index]
        if is_text_join(node):
            continue
        for other in replacements(node):
            put(parent, name, index, other)
            ast.fix_missing_locations(tree)
            found.append(
                Mutant(
                    path=path,
                    line=getattr(node, "lineno", getattr(parent, "lineno", 0)),
                    before=ast.unparse(node),
                    after=ast.unparse(other),
                    source=ast.unparse(tree),
                )
            )
        put(parent, name, index, node)
    return found


def put(parent: ast.AST, name: str, index: int | None, node: ast.AST) -> None:
    """Replace one child of a node."""
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node


def serve_changed_source(mutant: Mutant) -> None:
    """Let every import of the mutant's file read the changed source, in this process only."""
    loader = importlib.machinery.SourceFileLoader
    read, stats = loader.get_data, loader.path_stats

    def get_data(self: importlib.machinery.SourceFileLoader, path: str) -> bytes:
        return mutant.source.encode() if Path(path) == mutant.path else read(self, path)

    def path_stats(self: importlib.machinery.SourceFileLoader, path: str) -> object:
        if Path(path) == mutant.path:
            raise OSError("a changed file has no compiled form")
        return stats(self, path)

    loader.get_data = get_data  # type: ignore[method-assign, assignment]
    loader.path_stats = path_stats  # type: ignore[method-assign, assignment]


def tests_for(path: Path) -> list[str]:
    """The test files of a source file's package, those that name its module first."""
    room = path.relative_to(PACKAGE).parts[0]
    files = sorted((ROOT / "tests" / room).rglob("test_*.py"))
    nearest = [f for f in files if path.stem in f.stem]
    near = [f for f in files if f not in nearest and path.stem in f.read_text(encoding="utf-8")]
    return [str(f) for f in dict.fromkeys([*nearest, *near, *files])]


def run_tests(mutant: Mutant | None, files: list[str]) -> int:
    """Run tests in a fork, which begins with the libraries loaded, and return its exit status."""
    child = os.fork()
    if child:
        return wait(child)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    if mutant is not None:
        serve_changed_source(mutant)
    import pytest

    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    os._exit(int(pytest.main([*options, *files])))


def wait(child: int) -> int:
    """The exit status of a forked process; 99 if it had to be ended."""
    until = time.monotonic() + SLOWEST
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


def survivors_of(room: str, sample: int, seed: int) -> tuple[list[Mutant], int]:
    """The mutants of a package that no test noticed, and how many were tried."""
    paths = sorted((PACKAGE / room).rglob("*.py"))
    equivalent = set(tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"])
    every = [m for path in paths for m in mutants_of(path) if m.key not in equivalent]
    chosen = random.Random(seed).sample(every, min(sample, len(every)))
    if run_tests(None, tests_for(paths[0])):
        raise SystemExit(f"the tests of {room} fail without any change: fix them first")
    alive = []
    for count, mutant in enumerate(chosen, 1):
        if run_tests(mutant, tests_for(mutant.path)) == 0:
            alive.append(mutant)
            print(f"alive: {mutant.path.name}:{mutant.line} {mutant.before} -> {mutant.after}")
        print(f"{room}: {count} of {len(chosen)}, {len(alive)} alive", file=sys.stderr)
    return alive, len(chosen)


def main() -> None:
    """Run the mutants of the named packages and print the share that survived in each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("room", nargs="+", help="a folder of src/manyheads, such as core")
    parser.add_argument("--sample", type=int, default=40, help="mutants per package (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the sample (default 1)")
    options = parser.parse_args()
    preload()
    rows = [(room, *survivors_of(room, options.sample, options.seed)) for room in options.room]
    for room, alive, tried in rows:
        print(f"{room}: {len(alive)} of {tried} mutants alive ({len(alive) / tried:.1%})")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
