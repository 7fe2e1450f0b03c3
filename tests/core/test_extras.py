"""Extras: what is missing is named at once, with the command that installs it."""

import ast
import tomllib
from pathlib import Path

import pytest

from manyheads.core.errors import MissingExtraError
from manyheads.core.extras import has_package, require

_ROOT = Path(__file__).parents[2]


def test_package_is_found_by_its_name_on_pypi() -> None:
    assert has_package("numpy") and has_package("scikit-learn") == has_package("sklearn")
    assert not has_package("no-such-package")


def test_missing_packages_are_named_with_their_extra() -> None:
    require("study", "numpy", purpose="a report")
    words = (
        r"a report needs no-such and no-other, not installed here: "
        r'run pip install "manyheads\[study\]"'
    )
    with pytest.raises(MissingExtraError, match=words):
        require("study", "numpy", "no-such", "no-other", purpose="a report")


def _required() -> list[tuple[str, str, str]]:
    """File, extra and package of every call of `require` in the package."""
    found = []
    for path in sorted((_ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
                keywords = [keyword.arg for keyword in node.keywords]
                if keywords == ["purpose"]:
                    extra, *packages = (ast.literal_eval(argument) for argument in node.args)
                    found += [(path.name, extra, package) for package in packages]
    return found


def test_every_required_package_is_in_its_extra() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        extra: {line.partition(">")[0] for line in lines}
        for extra, lines in project["optional-dependencies"].items()
    }
    required = _required()
    assert required
    assert not [call for call in required if call[2] not in extras.get(call[1], ())]
