"""The public names: what the root package and each room export.

``python -m tests.house.public_names`` writes the pinned list anew, for a change that means to.
"""

import importlib
from pathlib import Path

from tests.house.sources import PACKAGE

PINNED = Path(__file__).with_suffix(".txt")


def rooms() -> list[str]:
    """The import names of the root package and of every room."""
    return [
        "manyheads",
        *sorted(f"manyheads.{p.parent.name}" for p in PACKAGE.glob("*/__init__.py")),
    ]


def exported(module: str) -> list[str]:
    """What a room exports, in the order in which it says so; nothing where it has no __all__."""
    return list(getattr(importlib.import_module(module), "__all__", ()))


def public_names() -> list[str]:
    """Every public name, such as manyheads.core.shapes.split_heads, in order of rooms and names."""
    return [f"{room}.{name}" for room in rooms() for name in exported(room)]


if __name__ == "__main__":
    PINNED.write_text("\n".join(public_names()) + "\n", encoding="utf-8")
