"""The deck as a file for other programs: an Anki package, or text with tabs that Anki imports."""

import csv
import hashlib
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from manyheads.core.errors import LearnError
from manyheads.core.extras import require
from manyheads.core.files import reason_of, write_whole
from manyheads.learn.cards.deck import Card

_DECK, _MODEL = "manyheads: multi-head attention", "manyheads card"
_STYLE = ".card { font-family: sans-serif; font-size: 20px; text-align: left; max-width: 40em; }"
_ANSWER = '{{FrontSide}}<hr id="answer">{{Back}}'


def write_deck(cards: Sequence[Card], out: Path, force: bool = False) -> None:
    """Write cards to a file in the format of its ending: .apkg, .txt or .tsv.

    Imported again, a card replaces its earlier text and keeps what Anki knows of its reviews.

    Args:
        cards: of the deck.
        out: the file; its folder is there.
        force: replace a file that is there.

    Raises:
        LearnError: another ending, a file that is there, one that cannot be written, or genanki is
            missing.
    """
    make = {".apkg": _package, ".txt": _text, ".tsv": _text}.get(out.suffix.lower())
    if make is None:
        raise LearnError(f"OUT ({out}) must end in .apkg, .txt or .tsv: use {out.stem}.apkg")
    if out.exists() and not force:
        raise LearnError(f"OUT ({out}) exists already: use another name, or --force")
    content = make(cards)
    try:
        write_whole(out, content)
    except OSError as error:
        raise LearnError(
            f"OUT ({out}) cannot be written ({reason_of(error)}): choose another file"
        ) from error


def _package(cards: Sequence[Card]) -> bytes:
    require("learn", "genanki", purpose="an .apkg file")
    import genanki

    model = genanki.Model(
        _number_of(_MODEL),
        _MODEL,
        fields=[{"name": "Front"}, {"name": "Back"}],
        templates=[{"name": "Recall", "qfmt": "{{Front}}", "afmt": _ANSWER}],
        css=_STYLE,
    )
    deck = genanki.Deck(_number_of(_DECK), _DECK)
    for card in cards:
        fields = [escape(str(card.front)), escape(str(card.back))]
        deck.add_note(
            genanki.Note(model=model, fields=fields, tags=[card.topic], guid=_guid_of(card))
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "deck.apkg"
        genanki.Package(deck).write_to_file(str(path))
        return path.read_bytes()


def _text(cards: Sequence[Card]) -> bytes:
    stream = io.StringIO()
    stream.write("#separator:tab\n#html:false\n#guid column:1\n#tags column:4\n")
    stream.write(f"#deck:{_DECK}\n#columns:guid\tFront\tBack\tTags\n")
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    writer.writerows(
        (_guid_of(card), str(card.front), str(card.back), card.topic) for card in cards
    )
    return stream.getvalue().encode()


def _guid_of(card: Card) -> str:
    """The name by which Anki knows a card again."""
    return f"manyheads-{card.id}"


def _number_of(name: str) -> int:
    """A number for a deck or a model, always the same and never another program's."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) | 1 << 30
