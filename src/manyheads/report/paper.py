"""Printed sheets as PDF: real text, fonts inside, the same bytes for the same sheet."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from manyheads.core.errors import LearnError
from manyheads.core.files import reason_of, write_whole
from manyheads.core.text import quoted
from manyheads.report.paper_fonts import check_characters, require_paper
from manyheads.report.paper_grids import draw_grids, least_height
from manyheads.report.paper_page import ANSWER, LINE, MARGIN, SIZES, SOFT, Look, Page, Place
from manyheads.report.paper_parts import Band, Grid, Heading, Lines, Part, Sheets, Words, texts_of

_RULED = 9.0
_HEADINGS = ((12.0, 3.0), (10.0, 1.0))


def pdf_from_sheets(
    sheets: Sheets, *, is_key: bool, size: str = "a4", font: Path | None = None
) -> bytes:
    """Draw a document.

    Args:
        sheets: what it says.
        is_key: whether the boxes and lines hold their answers.
        size: the paper, `a4` or `letter`.
        font: a font file for characters that DejaVu Sans lacks, or None.

    Raises:
        LearnError: no such paper, a character that no font has, or fpdf2 is not installed.
    """
    if size not in SIZES:
        raise LearnError(f"paper ({quoted(size)}) must be {' or '.join(SIZES)}: use one of them")
    require_paper()
    label = f"{sheets.label} · {_kind(is_key)}"
    with closing(Page(size, label, 0, font)) as draft:
        check_characters(draft.pdf, texts_of(sheets))
        _draw(draft, sheets, is_key)
        total = draft.pdf.pages_count
    with closing(Page(size, label, total, font)) as page:
        _draw(page, sheets, is_key)
        return bytes(page.pdf.output())


def write_pdf(path: Path, data: bytes, is_forced: bool) -> None:
    """Write a PDF whole, and none over another file unless that is asked for.

    Args:
        path: where to; it ends in `.pdf`.
        data: what `pdf_from_sheets` gives.
        is_forced: whether a file that is there may be replaced.

    Raises:
        LearnError: another ending, a file is there, or it cannot be written.
    """
    check_target(path, is_forced)
    try:
        write_whole(path, data)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "no path"
        raise LearnError(
            f"OUT ({quoted(str(path), 200)}) cannot be written ({reason}): choose another place"
        ) from error


def check_target(path: Path, is_forced: bool) -> None:
    """Refuse a place where no PDF should be written, before any is made.

    Raises:
        LearnError: another ending, no such folder, or something is there already.
    """
    shown = quoted(str(path), 200)
    if path.suffix.lower() != ".pdf":
        raise LearnError(f"OUT ({shown}) must end in .pdf: call it so")
    try:
        if path.is_dir():
            raise LearnError(f"OUT ({shown}) is a folder: name a file in it")
        if not path.parent.is_dir():
            raise LearnError(f"OUT ({shown}) is in a folder that is not there: make it first")
        if path.exists() and not is_forced:
            raise LearnError(f"OUT ({shown}) is there already: use another name, or --force")
    except (OSError, ValueError) as error:
        if isinstance(error, LearnError):
            raise
        raise LearnError(f"OUT ({shown}) is no path: choose another place") from error


def _kind(is_key: bool) -> str:
    return "key" if is_key else "to fill in"


def _draw(page: Page, sheets: Sheets, is_key: bool) -> None:
    page.pdf.set_title(f"{sheets.title} ({_kind(is_key)})")
    page.pdf.set_lang("en")
    page.pdf.set_creator("manyheads")
    _draw_top(page, sheets, is_key)
    for index, part in enumerate(sheets.parts):
        _draw_part(page, part, sheets.parts[index + 1 :], is_key)


def _draw_top(page: Page, sheets: Sheets, is_key: bool) -> None:
    top, half = page.y, MARGIN + 0.55 * page.width
    if is_key:
        look = Look(12, bold=True, align="R", colour=ANSWER)
        page.put("KEY", Place(MARGIN, top, page.width, 7), look)
    else:
        page.put("Name", Place(MARGIN, top, 20, 7), Look(9, colour=SOFT))
        page.line(MARGIN + 12, top + 6, half - MARGIN)
        page.put("Date", Place(half + 20, top, 20, 7), Look(9, colour=SOFT))
        page.line(half + 30, top + 6, MARGIN + page.width - half - 30)
    page.y += 10
    page.paragraph(sheets.title, Look(15, bold=True))
    page.y += 1.5


def _draw_part(page: Page, part: Part, rest: Sequence[Part], is_key: bool) -> None:
    if isinstance(part, Heading):
        _draw_heading(page, part, rest)
    elif isinstance(part, Words):
        page.paragraph(part.text, Look(9))
        page.y += 2
    elif isinstance(part, Lines):
        _draw_lines(page, part, is_key)
    else:
        draw_grids(page, part.grids if isinstance(part, Band) else (part,), is_key)


def _draw_heading(page: Page, heading: Heading, rest: Sequence[Part]) -> None:
    points, gap = _HEADINGS[heading.level]
    page.room_for(_kept_height((heading, *rest)))
    if page.y > MARGIN:
        page.y += gap
    page.pdf.start_section(heading.text, heading.level, strict=False)
    page.paragraph(heading.text, Look(points, bold=True))
    page.y += 1.5


def _kept_height(parts: Sequence[Part]) -> float:
    """What headings need on a page together with the beginning of what they head."""
    kept = 0.0
    for part in parts:
        if isinstance(part, Heading):
            points, gap = _HEADINGS[part.level]
            kept += gap + points * LINE + 1.5
        elif isinstance(part, Words):
            kept += 12
        else:
            grid = part.grids[0] if isinstance(part, Band) else part
            return kept + (least_height(grid) if isinstance(grid, Grid) else 2 * _RULED)
    return kept


def _draw_lines(page: Page, part: Lines, is_key: bool) -> None:
    """A key writes into the space that a blank sheet leaves, or more where it says more."""
    if is_key:
        before, start = page.pdf.page, page.y
        for answer in part.answers:
            page.paragraph(answer, Look(9.5, colour=ANSWER))
            page.y += 1
        if page.pdf.page == before:
            page.y = min(max(page.y, start + part.count * _RULED), page.bottom)
    else:
        for _ in range(part.count):
            page.room_for(_RULED)
            page.line(MARGIN, page.y + _RULED - 1, page.width)
            page.y += _RULED
    page.y += 3
