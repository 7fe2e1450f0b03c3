"""Reads a PDF back through its structure, with a library that did not write it."""

import io
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pypdf

from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.numbers import parse_number


class Piece(NamedTuple):
    """One element of the document that holds text: a heading, a paragraph, a cell of a table."""

    tag: str
    """H1, H2, P, TH or TD, as in the PDF standard."""
    page: int
    """Its page, from 0; -1 where it has no text."""
    text: str
    """All of its text; "" for an empty box."""


class Run(NamedTuple):
    """A text that is drawn at once, in points from the lower left corner of its page."""

    page: int
    mark: int | None
    """The number of its content in the structure of its page; None for a footer."""
    x: float
    y: float
    width: float
    text: str


_LEAVES = ("TD", "TH", "P", "H1", "H2")


def opened(data: bytes) -> pypdf.PdfReader:
    """The document, read strictly."""
    return pypdf.PdfReader(io.BytesIO(data), strict=True)


@cache
def runs(data: bytes) -> list[Run]:
    """Every text that is drawn, in order."""
    found: list[Run] = []
    for number, page in enumerate(opened(data).pages):
        fonts = {name: _Font(font.get_object()) for name, font in _fonts(page).items()}
        found += _runs_of(number, page, fonts)
    return found


@cache
def pieces(data: bytes) -> list[Piece]:
    """Every heading, paragraph and cell of the document, in reading order."""
    reader = opened(data)
    pages = {page.indirect_reference.idnum: i for i, page in enumerate(reader.pages)}  # type: ignore[union-attr]  # of a file
    texts: dict[tuple[int, int], str] = {}
    for run in runs(data):
        if run.mark is not None:
            key = (run.page, run.mark)
            texts[key] = texts.get(key, "") + run.text
    root = reader.trailer["/Root"]["/StructTreeRoot"]  # type: ignore[index]
    return list(_pieces(root, pages, texts))


def footers(data: bytes) -> list[str]:
    """The text at the foot of each page."""
    found = [""] * len(opened(data).pages)
    for run in runs(data):
        if run.mark is None:
            found[run.page] += run.text
    return found


def texts_of(data: bytes) -> list[str]:
    """The text of every element that has one."""
    return [piece.text for piece in pieces(data) if piece.text]


def filled_in(blank: bytes, key: bytes) -> list[str]:
    """The texts of a key's boxes, in order; everything else must be the same in both.

    The first lines, with the name or with KEY, differ as they should and are left out.
    """
    before, after = (list(_body(pieces(data))) for data in (blank, key))
    assert len(before) == len(after)
    extra = []
    for old, new in zip(before, after, strict=True):
        assert old.tag == new.tag and old.text in ("", new.text), (old, new)
        if old.text != new.text:
            extra.append(new.text)
    return extra


def _body(found: list[Piece]) -> Iterator[Piece]:
    """What follows the title."""
    first = next(i for i, piece in enumerate(found) if piece.tag == "H1")
    yield from found[first:]


def _fonts(page: pypdf.PageObject) -> dict[str, Any]:
    return dict(page["/Resources"].get("/Font", {}))  # type: ignore[attr-defined]


class _Font:
    """Characters and widths of a font whose codes have two bytes."""

    def __init__(self, font: Any) -> None:
        text = font["/ToUnicode"].get_object().get_data().decode("latin1")
        self.texts: dict[int, str] = {}
        for block in re.findall(r"beginbfchar(.*?)endbfchar", text, re.DOTALL):
            for code, value in re.findall(r"<(\w+)>\s*<(\w+)>", block):
                self.texts[int(code, 16)] = bytes.fromhex(value).decode("utf-16-be")
        self.widths: dict[int, float] = {}
        below = list(font["/DescendantFonts"][0].get_object()["/W"])
        while below:
            start, widths = int(below.pop(0)), below.pop(0)
            if isinstance(widths, int):
                widths = [below.pop(0)] * (widths - start + 1)
            self.widths |= {start + i: float(width) for i, width in enumerate(widths)}

    def codes(self, data: bytes) -> list[int]:
        return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def _runs_of(number: int, page: pypdf.PageObject, fonts: dict[str, _Font]) -> Iterator[Run]:
    content = pypdf.generic.ContentStream(page.get_contents(), page.pdf)
    marks: list[int | None] = []
    place, font, size = [0.0, 0.0], None, 0.0
    for operands, operator in content.operations:
        if operator in (b"BDC", b"BMC"):
            facts = operands[1] if operator == b"BDC" else {}
            marks.append(facts.get("/MCID"))
        elif operator == b"EMC":
            marks.pop()
        elif operator == b"cm":
            place = [float(operands[4]), float(operands[5])]
        elif operator == b"Tf":
            font, size = fonts[operands[0]], float(operands[1])
        elif operator in (b"Tj", b"TJ"):
            assert font is not None
            shown = operands[0] if operator == b"TJ" else operands
            raw = [bytes(item.original_bytes) for item in shown if not _is_shift(item)]
            codes = [code for data in raw for code in font.codes(data)]
            width = sum(font.widths[code] for code in codes)
            width -= sum(float(item) for item in shown if _is_shift(item))
            text = "".join(font.texts[code] for code in codes)
            mark = next((mark for mark in reversed(marks) if mark is not None), None)
            yield Run(number, mark, place[0], place[1], width * size / 1000, text)


def _is_shift(item: Any) -> bool:
    return isinstance(item, (int, float)) or item.__class__.__name__ in (
        "FloatObject",
        "NumberObject",
    )


def _pieces(
    element: Any, pages: dict[int, int], texts: dict[tuple[int, int], str]
) -> Iterator[Piece]:
    element = element.get_object()
    if element.get("/S", "")[1:] in _LEAVES:
        marks = list(_marks(element, pages, None))
        page = marks[0][0] if marks else -1
        text = "".join(texts.get(mark, "") for mark in marks).strip()
        yield Piece(element["/S"][1:], page, text)
        return
    children = element.get("/K", [])
    for child in children if isinstance(children, list) else [children]:
        if hasattr(child.get_object(), "get"):
            yield from _pieces(child, pages, texts)


def _marks(element: Any, pages: dict[int, int], page: int | None) -> Iterator[tuple[int, int]]:
    element = element.get_object()
    if isinstance(element, int):
        assert page is not None
        yield page, int(element)
        return
    if "/Pg" in element:
        page = pages[element.raw_get("/Pg").idnum]
    if "/MCID" in element:
        assert page is not None
        yield page, int(element["/MCID"])
        return
    children = element.get("/K", [])
    for child in children if isinstance(children, list) else [children]:
        yield from _marks(child, pages, page)


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


def assert_no_overlap(data: bytes) -> None:
    """Raise where a text leaves the page or runs into its neighbour."""
    reader = opened(data)
    lines: dict[tuple[int, int], list[Run]] = {}
    for run in runs(data):
        lines.setdefault((run.page, round(run.y * 2)), []).append(run)
    for (page, _), line in lines.items():
        box = reader.pages[page].mediabox
        line.sort(key=lambda run: run.x)
        for run, following in zip(line, [*line[1:], None], strict=True):
            limit = following.x if following else float(box.width) - 40
            assert run.x >= 40 and run.x + run.width <= limit + 0.5, (run, following)
            assert 25 < run.y < float(box.height) - 30, run
