"""A change that users see is told in a fragment of its own, named for its kind."""

import re
from pathlib import Path

import pytest

from tests.house.sources import ROOT

FRAGMENT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|fixed|removed)\.md")


def bad_fragments(folder: Path) -> list[str]:
    """The files that are no fragment: named otherwise, or empty."""
    files = [path for path in sorted(folder.iterdir()) if path.name != "README.md"]
    return [
        path.name
        for path in files
        if not FRAGMENT.fullmatch(path.name) or not path.read_text(encoding="utf-8").strip()
    ]


def test_changelog_fragments_are_well_named() -> None:
    assert not bad_fragments(ROOT / "changelog.d")


@pytest.mark.parametrize(
    ("name", "text"),
    [("New_Thing.added.md", "x"), ("thing.md", "x"), ("thing.new.md", "x"), ("a.fixed.md", " \n")],
)
def test_a_bad_fragment_is_found(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "three-forms.added.md").write_text("Three forms.\n", encoding="utf-8")
    assert bad_fragments(tmp_path) == [name]
