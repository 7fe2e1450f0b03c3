"""Printed sheets as PDF: what they consist of, and how typst sets them with `paper.typ`.

The template is ours; all text is data. The PDF is accessible (PDF/UA-1: text, structure, language),
and the same sheet has the same bytes.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manyheads.core.errors import LearnError
from manyheads.core.extras import require
from manyheads.core.files import reason_of, write_whole
from manyheads.core.text import quoted

SIZES = {"a4": "a4", "letter": "us-letter"}
"""The papers, with their names in typst."""
_TEMPLATE = Path(__file__).with_name("paper.typ")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a table: a given text, or a box to write in."""

    text: str
    """The given text, or the answer, which only a key shows."""
    is_answer: bool = False
    """Whether it is a box to write in."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table."""

    names: tuple[str, ...]
    """The names of the row, from the left."""
    cells: tuple[Cell | None, ...]
    """The cells after the names; None leaves a place empty."""
    is_total: bool = False
    """Whether there is a rule above it."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of given numbers and boxes."""

    title: str
    """One line above it; "" for none."""
    columns: tuple[str, ...]
    """A name for each name of a row and for each cell."""
    rows: tuple[Row, ...]
    """At least one."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """Tables that are placed side by side where they fit."""

    grids: tuple[Grid, ...]
    """In reading order."""


@dataclass(frozen=True, kw_only=True)
class Heading:
    """A heading, which stays with what follows and is a bookmark of the file."""

    text: str
    """One line."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """A paragraph."""

    text: str
    """Plain text."""
    has_formulas: bool = True
    """Whether W_Q and the like are set with an index; False for what a reader types again."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Ruled lines to write on."""

    count: int
    """How many a blank sheet has."""
    answers: tuple[str, ...]
    """The paragraphs that a key has instead."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Parts that stay on one page."""

    parts: "tuple[Band | Grid | Heading | Lines | Words, ...]"
    """In order."""


Part = Band | Grid | Group | Heading | Lines | Words


@dataclass(frozen=True, kw_only=True)
class Sheets:
    """A whole printed document; blank and key are the same without and with its answers."""

    title: str
    """Its heading."""
    label: str
    """The source of the sheet, at the foot of every page."""
    parts: tuple[Part, ...]
    """In order."""


def on_paper(text: str) -> str:
    """Write a number as by hand: 3*sqrt(2)/5 is 3√2/5, with a true minus sign.

    Args:
        text: a number as the worksheets write it.
    """
    text = re.sub(r"(?<!\w)-inf\b", "-\N{INFINITY}", text)
    text = re.sub(r"sqrt\((\d+)\)", "\N{SQUARE ROOT}\\1", text)
    text = re.sub(r"(?<=\d)\*(?=\N{SQUARE ROOT})", "", text).replace("*", "\N{MIDDLE DOT}")
    return re.sub(r"(?<!\de)-", "\N{MINUS SIGN}", text)


def require_paper() -> None:
    """Check that typst is installed.

    Raises:
        MissingExtraError: it is not.
    """
    require("learn", "typst", purpose="a printed sheet")


def pdf_from_sheets(
    sheets: Sheets, *, is_key: bool, size: str = "a4", font: Path | None = None
) -> bytes:
    """Typeset a document.

    Args:
        sheets: its content.
        is_key: whether the boxes and lines show their answers.
        size: the paper, `a4` or `letter`.
        font: a font file for characters that the fonts of typst lack, or None.

    Raises:
        LearnError: an unknown paper, a font that cannot be read, or a character that no font has.
        MissingExtraError: typst is not installed.
    """
    if size not in SIZES:
        raise LearnError(f"paper ({quoted(size)}) must be {' or '.join(SIZES)}: use one of them")
    require_paper()
    document = {
        "paper": SIZES[size],
        "is_key": is_key,
        "kind": "key" if is_key else "to fill in",
        "title": sheets.title,
        "label": sheets.label,
        "parts": [_with_type(part) for part in sheets.parts],
    }
    with TemporaryDirectory() as folder:
        if font is not None:
            _copy_font(font, Path(folder))
        return _typeset(document, folder)


def _with_type(part: Part) -> dict[str, Any]:
    """A part as JSON, with the name of its class."""
    inner = {"parts": [_with_type(own) for own in part.parts]} if isinstance(part, Group) else {}
    return {"type": type(part).__name__, **asdict(part), **inner}


def _copy_font(font: Path, folder: Path) -> None:
    """Copy a font to an empty folder for typst, which searches folders, not files."""
    import typst

    reason = "no font file"
    try:
        if font.is_file():  # a pipe or a device could be read forever
            (folder / "own").with_suffix(font.suffix).write_bytes(font.read_bytes())
    except OSError as error:
        reason = reason_of(error)
    found = typst.Fonts(font_paths=[folder], include_system_fonts=False).fonts()
    if all(one.path is None for one in found):
        reason = reason if font.exists() else "no such file"
        raise LearnError(
            f"font ({quoted(str(font), 200)}) cannot be read ({reason}): use a TTF or OTF file"
        )


def _typeset(document: dict[str, Any], fonts: str) -> bytes:
    import typst

    text = unicodedata.normalize("NFC", json.dumps(document, ensure_ascii=False))
    try:
        return _compiled(_TEMPLATE.read_bytes(), text, fonts)
    except typst.TypstError as error:
        for said in sorted(_texts(document), key=len):
            for character in unicodedata.normalize("NFC", said):
                if not _is_printable(character, fonts):
                    raise LearnError(
                        f"text ({quoted(said)}) has {_named(character)}, which the fonts cannot "
                        "print: pass a font file that has it (--font FILE.ttf), or replace it"
                    ) from error
        raise


def _compiled(source: bytes, text: str, fonts: str) -> bytes:
    import typst

    return bytes(
        typst.compile(  # type: ignore[call-overload]  # typst's stub wants a root of bytes
            source,
            root=fonts,  # otherwise the current folder, which may be gone
            format="pdf",
            sys_inputs={"sheet": text},
            # No system fonts, for the same bytes on every machine.
            font_paths=typst.Fonts(font_paths=[fonts], include_system_fonts=False),
            ignore_system_fonts=True,
            pdf_standards=["ua-1"],  # refuses a character that no font has
            timestamp=0,
        )
    )


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """Every text in a JSON value, its keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _is_printable(character: str, fonts: str) -> bool:
    import typst

    source = b'#set document(title: "one character")\n#sys.inputs.sheet'
    try:
        _compiled(source, character, fonts)
    except typst.TypstError:
        return False
    return True


def _named(character: str) -> str:
    shown = f"{character} " if character.isprintable() else ""
    return f"{shown}(U+{ord(character):04X}, {unicodedata.name(character, 'no name').lower()})"


def write_pdf(path: Path, data: bytes, is_forced: bool) -> None:
    """Write a PDF whole, and not over another file unless that is asked for.

    Args:
        path: the file; it ends in `.pdf`.
        data: the result of `pdf_from_sheets`.
        is_forced: whether an existing file may be replaced.

    Raises:
        LearnError: another ending, an existing file, or it cannot be written.
    """
    check_target(path, is_forced)
    try:
        write_whole(path, data)
    except OSError as error:
        raise LearnError(
            f"OUT ({quoted(str(path), 200)}) cannot be written ({reason_of(error)}): "
            "choose another place"
        ) from error


def check_target(path: Path, is_forced: bool) -> None:
    """Refuse a path where no PDF should be written, before any is made.

    Raises:
        LearnError: another ending, no such folder, or an existing file or folder.
    """
    shown = quoted(str(path), 200)
    if path.suffix.lower() != ".pdf":
        raise LearnError(f"OUT ({shown}) must end in .pdf: change the ending")
    try:
        if path.is_dir():
            raise LearnError(f"OUT ({shown}) is a folder: name a file in it")
        if not path.parent.is_dir():
            raise LearnError(f"OUT ({shown}) is in a folder that does not exist: create it first")
        if path.exists() and not is_forced:
            raise LearnError(f"OUT ({shown}) exists already: use another name, or --force")
    except (OSError, ValueError) as error:
        if isinstance(error, LearnError):
            raise
        raise LearnError(f"OUT ({shown}) is not a valid path: choose another place") from error
