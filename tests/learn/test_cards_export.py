"""The deck for Anki: what lies in the package, and ids that never change."""

import csv
import json
import sqlite3
import sys
import zipfile
from pathlib import Path

import pytest

from manyheads.core.errors import LearnError, MissingExtraError
from manyheads.learn.cards import Card, deck
from manyheads.learn.cards.export import write_deck
from manyheads.learn.sentences import Sentence

TRICKY = Card(
    id="tricky-one",
    topic="scale",
    front=Sentence(('a < b & "c" <script>\tx\ny',)),
    back=Sentence(("<b>{{Front}}</b>",)),
)


def notes_of(path: Path) -> dict[str, tuple[str, str, int]]:
    """Fields, tags and model of every note in a package, by guid."""
    with zipfile.ZipFile(path) as package:
        package.extract("collection.anki2", path.parent)
    connection = sqlite3.connect(path.parent / "collection.anki2")
    try:
        rows = connection.execute("select guid, flds, tags, mid from notes").fetchall()
        assert connection.execute("select count(*) from cards").fetchone() == (len(rows),)
    finally:
        connection.close()
    return {guid: (fields, tags, model) for guid, fields, tags, model in rows}


def decks_of(path: Path) -> set[str]:
    connection = sqlite3.connect(path.parent / "collection.anki2")
    try:
        (decks,) = connection.execute("select decks from col").fetchone()
        return {name for name, row in json.loads(decks).items() if row["name"] != "Default"}
    finally:
        connection.close()


def test_a_package_holds_every_card(tmp_path: Path) -> None:
    write_deck(deck(), tmp_path / "deck.apkg")
    notes = notes_of(tmp_path / "deck.apkg")
    assert len(notes) == len(deck())
    first = deck()[0]
    fields, tags, _ = notes[f"manyheads-{first.id}"]
    assert fields == f"{first.front}\x1f{first.back}"
    assert tags.strip() == first.topic


def test_two_exports_have_the_same_ids_so_that_importing_again_updates(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "deck.apkg"
        write_deck(deck() if name == "one" else deck()[:5], path)
        found.append((notes_of(path), decks_of(path)))
    (one, one_decks), (two, two_decks) = found
    assert one_decks == two_decks
    assert len(one_decks) == 1
    assert {guid: one[guid] for guid in two} == two


def test_texts_are_no_html_in_a_package(tmp_path: Path) -> None:
    write_deck([TRICKY], tmp_path / "deck.apkg")
    ((fields, _, _),) = notes_of(tmp_path / "deck.apkg").values()
    assert fields.startswith("a &lt; b &amp; &quot;c&quot; &lt;script&gt;")
    assert "&lt;b&gt;" in fields


@pytest.mark.parametrize("ending", ["txt", "tsv"])
def test_a_text_has_a_line_a_card_and_says_how_to_read_it(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"deck.{ending}"
    write_deck([*deck(), TRICKY], path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    head = [line.strip() for line in lines if line.startswith("#")]
    assert head[:4] == ["#separator:tab", "#html:false", "#guid column:1", "#tags column:4"]
    rows = list(csv.reader(lines[len(head) :], delimiter="\t"))
    assert [row[0] for row in rows] == [
        *(f"manyheads-{c.id}" for c in deck()),
        "manyheads-tricky-one",
    ]
    assert rows[0][1:] == [str(deck()[0].front), str(deck()[0].back), "shapes"]
    assert rows[-1][1:] == [str(TRICKY.front), str(TRICKY.back), "scale"]


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "deck.txt"
    path.write_text("mine")
    with pytest.raises(LearnError, match=r"OUT \(.*deck.txt\) exists already: .* --force"):
        write_deck(deck(), path)
    assert path.read_text() == "mine"
    write_deck(deck(), path, force=True)
    assert path.read_text().startswith("#separator")
    assert [p.name for p in tmp_path.iterdir()] == ["deck.txt"]


@pytest.mark.parametrize("name", ["deck.pdf", "deck", ".apkg", "deck.apkg.zip"])
def test_another_ending_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(LearnError, match=r"must end in .apkg, .txt or .tsv"):
        write_deck(deck(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(LearnError, match=r"OUT \(.*\) cannot be written \(No such file"):
        write_deck(deck(), tmp_path / "missing" / "deck.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(LearnError, match=r"cannot be written"):
        write_deck(deck(), tmp_path / "folder.txt", force=True)


def test_without_genanki_the_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "genanki", None)
    with pytest.raises(MissingExtraError, match=r'pip install "manyheads\[learn\]"'):
        write_deck(deck(), tmp_path / "deck.apkg")
    write_deck(deck(), tmp_path / "deck.txt")  # text needs nothing
