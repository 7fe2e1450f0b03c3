"""The public names: exports of the root package and of each subpackage.

``python -m tests.house.public_names`` writes the pinned list again, after a deliberate change.
"""

import importlib
from pathlib import Path

from tests.house.sources import PACKAGE

PINNED = Path(__file__).with_suffix(".txt")


def packages() -> list[str]:
    """The import names of the root package and of every subpackage."""
    return [
        "manyheads",
        *sorted(f"manyheads.{p.parent.name}" for p in PACKAGE.glob("*/__init__.py")),
    ]


def exported(module: str) -> list[str]:
    """The `__all__` of a package; empty if it has none."""
    return list(getattr(importlib.import_module(module), "__all__", ()))


def public_names() -> list[str]:
    """Every public name, such as manyheads.heads.entropy, in order of packages and names."""
    return [f"{package}.{name}" for package in packages() for name in exported(package)]


if __name__ == "__main__":
    PINNED.write_text("\n".join(public_names()) + "\n", encoding="utf-8")
