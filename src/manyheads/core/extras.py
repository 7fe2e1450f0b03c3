"""Optional packages: which of them a command needs is checked before it starts work.

Which packages an extra installs is written in pyproject.toml alone.
"""

import sys
from importlib.util import find_spec

from manyheads.core.errors import MissingExtraError

_MODULES = {"scikit-learn": "sklearn"}
"""Modules of packages that are not named like their module."""


def has_package(package: str) -> bool:
    """Whether a package can be imported; it is not imported.

    Args:
        package: its name on PyPI.
    """
    module = _MODULES.get(package, package.replace("-", "_"))
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return find_spec(module) is not None
    except ImportError:  # an import hook refuses it
        return False


def require(extra: str, *packages: str, purpose: str) -> None:
    """Raise unless packages of an extra are installed.

    Call it before any long work, so that nothing is lost when a package is missing.

    Args:
        extra: the extra that installs them.
        packages: their names on PyPI.
        purpose: what needs them, as the subject of a sentence, such as "a study report".

    Raises:
        MissingExtraError: one of them is not installed.
    """
    missing = [package for package in packages if not has_package(package)]
    if missing:
        raise MissingExtraError(
            f"{purpose} needs {' and '.join(missing)}, not installed here: "
            f'run pip install "manyheads[{extra}]"'
        )
