"""The catalogue holds every published id, each with its remedy, and each can be reached."""

import ast
from pathlib import Path

import pytest

from manyheads.core.errors import ConfigError
from manyheads.faults import FAULT_KINDS, fault_kind
from tests.faults.test_variants import READINGS
from tests.house.sources import PACKAGE


def named_in_source(*folders: str) -> set[str]:
    """Catalogue ids that stand in the code of these files."""
    found: set[str] = set()
    for folder in folders:
        for path in sorted((PACKAGE / folder).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
            found |= {text for text in texts if isinstance(text, str) and text in FAULT_KINDS}
    return found


def test_catalogue_holds_every_published_id_in_alphabetical_order(shared: Path) -> None:
    text = (shared / "verification.md").read_text(encoding="utf-8")
    table = text.split("## 2.")[1].split("## 3.")[0]
    rows = {
        line.split("|")[1].strip().strip("`")
        for line in table.splitlines()
        if line.startswith("| `")
    }
    assert len(rows) >= 60
    assert rows - set(FAULT_KINDS) == set()
    assert list(FAULT_KINDS) == sorted(FAULT_KINDS)


def test_every_kind_has_a_sentence_a_remedy_and_short_lines_wrong_and_right() -> None:
    offenders = [
        kind.id
        for kind in FAULT_KINDS.values()
        if len(kind.what) <= 20
        or len(kind.fix) <= 5
        or kind.wrong.strip() == kind.right.strip()
        or any(len(code.strip().splitlines()) > 4 for code in (kind.wrong, kind.right))
    ]
    assert offenders == []


def test_every_kind_is_named_by_a_reading_or_by_a_check() -> None:
    readings = {variant.fault for variant in READINGS}
    assert set(FAULT_KINDS) == (readings | named_in_source("verify/checks", "verify")) & set(
        FAULT_KINDS
    )


def test_unknown_kind_is_refused_by_name() -> None:
    assert fault_kind("scale").id == "scale"
    with pytest.raises(
        ConfigError, match=r"fault_id \('no-such'\) is not known: use one of attends"
    ):
        fault_kind("no-such")
