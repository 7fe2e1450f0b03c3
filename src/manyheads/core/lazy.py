"""Public names of a package, loaded on first use.

`import manyheads` stays light, because a package's `__init__.py` imports nothing. It lists the
module of each public name, and `lazy_names` loads that module on first use.
"""

import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

_Loaders = tuple[Callable[[str], Any], Callable[[], list[str]]]


def lazy_names(package: str, homes: Mapping[str, str], *, subpackages: bool = False) -> _Loaders:
    """Make the module functions `__getattr__` and `__dir__` of a package.

    Args:
        package: the package, `__name__` in its `__init__.py`.
        homes: the module of each public name, relative to the package.
        subpackages: whether the package's own subpackages load on first use as well.

    Returns:
        `__getattr__`, which raises AttributeError with the nearest name, and `__dir__`.
    """

    def names() -> list[str]:
        """All names of the package, sorted."""
        module = sys.modules[package]
        found = set(module.__all__) | set(homes)
        if subpackages:
            found |= {item.name for item in iter_modules(module.__path__) if item.ispkg}
        return sorted(found)

    def load(name: str) -> Any:  # noqa: ANN401 - any exported object
        """Load a name on first use."""
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if subpackages and name.isidentifier() and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}{_hint(name, names())}",
            name=name,
            obj=sys.modules[package],
        )

    return load, names


def _hint(name: str, known: list[str]) -> str:
    """The nearest known name, whatever its case, as the end of a sentence."""
    by_lower = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f": use {by_lower[near[0]]!r}" if near else f": use one of {', '.join(known)}"
