"""Public names are sorted, importable and pinned."""

import importlib
import sys
from types import ModuleType

import pytest

from tests.house.public_names import PINNED, exported, packages, public_names


def missing(module: str) -> list[str]:
    """The exported names that the package does not have."""
    package = importlib.import_module(module)
    return [name for name in exported(module) if not hasattr(package, name)]


def test_exported_names_are_sorted_and_exist() -> None:
    unsorted = [
        package for package in packages() if exported(package) != sorted(set(exported(package)))
    ]
    absent = {package: missing(package) for package in packages() if missing(package)}
    assert (unsorted, absent) == ([], {})


def test_root_exports_its_names_and_lists_them() -> None:
    root = importlib.import_module("manyheads")
    assert exported("manyheads"), "the root must export the names that a first example needs"
    assert set(exported("manyheads")) <= set(dir(root))


def test_public_names_are_pinned() -> None:
    pinned = PINNED.read_text(encoding="utf-8").split()
    new, gone = set(public_names()) - set(pinned), set(pinned) - set(public_names())
    assert public_names() == pinned, (
        f"new: {sorted(new)}, gone: {sorted(gone)}: if that is meant, run "
        "`python -m tests.house.public_names` and add a fragment to changelog.d"
    )


def test_an_exported_name_that_is_not_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("sample_package")
    package.__dict__.update({"__all__": ["absent", "there"], "there": 1})
    monkeypatch.setitem(sys.modules, "sample_package", package)
    assert missing("sample_package") == ["absent"]


def test_an_unknown_name_of_the_root_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = importlib.import_module("manyheads").no_such_name
