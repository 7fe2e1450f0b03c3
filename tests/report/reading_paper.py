"""Reads a PDF back: every piece of text with its place, by a library that did not write it."""

import io
import re
from fractions import Fraction
from typing import Any, NamedTuple

import pypdf

from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.numbers import parse_number


class Piece(NamedTuple):
    """One text of a page; its place is the left end of its base line, in points."""

    page: int
    x: float
    y: float
    size: float
    text: str


def opened(data: bytes) -> pypdf.PdfReader:
    """The document, read strictly."""
    return pypdf.PdfReader(io.BytesIO(data), strict=True)


def pieces(data: bytes) -> list[Piece]:
    """Every text, in the order in which it was drawn."""
    found: list[Piece] = []
    for number, page in enumerate(opened(data).pages):

        def take(
            text: str, _: Any, place: list[float], __: Any, size: float, page: int = number
        ) -> None:
            if text.strip():
                found.append(Piece(page, place[4], place[5], size, text.strip()))

        page.extract_text(visitor_text=take)
    return found


def filled_in(blank: bytes, key: bytes) -> list[str]:
    """What a key says where the blank sheet says nothing, in order; all else must be the same.

    The lines at the head and the foot differ as they should and are left out.
    """
    before = {(p.page, p.x, p.y): p.text for p in pieces(blank) if not _is_margin(p)}
    extra = []
    for piece in pieces(key):
        if not _is_margin(piece):
            said = before.pop((piece.page, piece.x, piece.y), None)
            if said is None:
                extra.append(piece.text)
            else:
                assert said == piece.text
    assert before == {}, "the blank sheet says what its key does not"
    return extra


def _is_margin(piece: Piece) -> bool:
    return piece.text in {"KEY", "Name", "Date"} or piece.y < 40


def number_of(text: str) -> float:
    """Read a number as it is printed: 3√2/5, −ln(2), 1.2e-05, −∞."""
    text = text.replace("\N{MINUS SIGN}", "-").replace("\N{MIDDLE DOT}", "*")
    if text == "-\N{INFINITY}":
        return float("-inf")
    if re.search(r"\de", text):
        return float(text)
    text = re.sub(r"(?<=\d)\N{SQUARE ROOT}(\d+)", r"*sqrt(\1)", text)
    return float_of(parse_number(re.sub(r"\N{SQUARE ROOT}(\d+)", r"sqrt(\1)", text)))


def assert_printed(text: str, value: float) -> None:
    """Raise unless a printed number is the value: exactly written, or rounded as readers expect."""
    said = number_of(text)
    allowed = 1e-12 * max(1.0, abs(value))
    if "e" in text:
        allowed = 0.006 * abs(value)
    elif "." in text:
        allowed = 0.000501
    if said != value and abs(said - value) > allowed:
        raise AssertionError(f"the sheet says {text}, the engine {value!r}")


def assert_no_overlap(data: bytes, widths: Any) -> None:
    """Raise where a text leaves the page or runs into its neighbour.

    Args:
        data: the document.
        widths: a function of text and size in points, giving the width in points.
    """
    reader = opened(data)
    lines: dict[tuple[int, Fraction], list[Piece]] = {}
    for piece in pieces(data):
        lines.setdefault((piece.page, Fraction(round(piece.y * 2), 2)), []).append(piece)
    for (page, _), line in lines.items():
        box = reader.pages[page].mediabox
        line.sort(key=lambda piece: piece.x)
        for piece, following in zip(line, [*line[1:], None], strict=True):
            end = piece.x + widths(piece.text, piece.size)
            limit = following.x if following else float(box.width) - 30
            assert piece.x >= 30 and end <= limit + 0.5, (piece, following)
            assert 25 < piece.y < float(box.height) - 30, piece
