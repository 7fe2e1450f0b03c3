"""The repository's source files, and their syntax trees."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "manyheads"
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[Path]:
    """Every Python file below these folders of the checkout."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def web_files() -> list[Path]:
    """The page's own TypeScript and Svelte sources, without what is generated or installed."""
    suffixes = {".ts", ".svelte"}
    folders = (ROOT / "web" / "src", ROOT / "web" / "tests")
    found = (path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes)
    return sorted(path for path in found if "generated" not in path.parts)


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree; the module comes first."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def place(path: Path, line: int) -> str:
    """`src/manyheads/core/masks.py:12`, for a message."""
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return f"{shown}:{line}"
