"""The pages of a printed sheet while they are drawn: fonts, colours, a place to go on, the foot."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from manyheads.report.paper_fonts import FAMILY, add_fonts, close_fonts, printable_text

if TYPE_CHECKING:
    from fpdf import FPDF

SIZES = {"a4": (210.0, 297.0), "letter": (215.9, 279.4)}
"""Width and height in millimetres."""
LINE = 0.46
"""Millimetres from line to line for each point of type."""
_LONGEST = 300
"""Characters of one line that are looked at; no paper is wider."""
MARGIN, FOOT = 13.0, 17.0
"""Millimetres of paper left free at the other sides, and below."""
INK, SOFT, ANSWER = (20, 20, 20), (90, 90, 90), (20, 60, 150)
"""Colours of texts, of what names or explains, and of a key's answers; all dark on any printer."""
RULE, BOX = (170, 170, 170), (70, 70, 70)
"""Colours of rules, and of the boxes to write in."""


class Place(NamedTuple):
    """A rectangle on a page, in millimetres from its upper left corner."""

    x: float
    y: float
    width: float
    height: float


class Look(NamedTuple):
    """How a line of text looks."""

    points: float
    bold: bool = False
    align: str = "L"
    colour: tuple[int, int, int] = INK


FOOTED = Look(7.5, colour=SOFT)
"""How the foot of a page looks."""


class Page:
    """The page that is being drawn, and how to begin the next."""

    def __init__(self, size: str, label: str, total: int, font: Path | None) -> None:
        """Begin a document.

        Args:
            size: a name of `SIZES`.
            label: what stands at the foot of every page.
            total: how many pages there are going to be; 0 where that is not known yet.
            font: the user's font for further characters, or None.
        """
        self.pdf = _document(size, font)
        self.width = SIZES[size][0] - 2 * MARGIN
        self.bottom = SIZES[size][1] - FOOT
        self.label, self.total = label, total
        self.y = self.bottom
        self.begin()

    def close(self) -> None:
        """Let go of the fonts' files; the document is not drawn on any more."""
        close_fonts(self.pdf)

    def begin(self) -> None:
        """Go on at the top of a new page."""
        self.pdf.add_page()
        foot = self.bottom + 5
        of = f" of {self.total}" if self.total else ""
        self.line(MARGIN, foot - 1.5, self.width)
        place = Place(MARGIN, foot, self.width, 4)
        self.put(self.shortened(self.label, self.width - 30, FOOTED), place, FOOTED)
        self.put(f"Page {self.pdf.page}{of}", place, FOOTED._replace(align="R"))
        self.y = MARGIN

    def room_for(self, height: float) -> None:
        """Begin a new page where less than this height is left on this one."""
        if self.y + height > self.bottom and self.y > MARGIN:
            self.begin()

    def put(self, text: str, place: Place, look: Look) -> None:
        """Write one line; its middle stands in the middle of the place's height."""
        self._font(look)
        self.pdf.set_text_color(*look.colour)
        self.pdf.set_xy(place.x, place.y)
        self.pdf.cell(place.width, place.height, printable_text(text), align=look.align)

    def wide(self, text: str, look: Look) -> float:
        """How many millimetres a text takes."""
        self._font(look)
        return float(self.pdf.get_string_width(printable_text(text)))

    def shortened(self, text: str, width: float, look: Look) -> str:
        """Cut a text to a width, with an ellipsis where something is left out."""
        if len(text) <= _LONGEST and self.wide(text, look) <= width:
            return text
        text = text[:_LONGEST]
        while len(text) > 1 and self.wide(f"{text}\N{HORIZONTAL ELLIPSIS}", look) > width:
            text = text[:-1]
        return f"{text}\N{HORIZONTAL ELLIPSIS}"

    def line(self, x: float, y: float, width: float) -> None:
        """Draw a fine rule."""
        self.pdf.set_draw_color(*RULE)
        self.pdf.set_line_width(0.2)
        self.pdf.line(x, y, x + width, y)

    def box(self, place: Place) -> None:
        """Draw a box to write in."""
        self.pdf.set_draw_color(*BOX)
        self.pdf.set_line_width(0.3)
        self.pdf.rect(*place)

    def paragraph(self, text: str, look: Look) -> None:
        """Write a text that is broken into lines, and pages where it has to."""
        height = look.points * LINE
        for said in self._lines(text, look):
            self.room_for(height)
            self.put(said, Place(MARGIN, self.y, self.width, height), look)
            self.y += height

    def _lines(self, text: str, look: Look) -> list[str]:
        self._font(look)
        lines = self.pdf.multi_cell(
            self.width, 1, printable_text(text), dry_run=True, output="LINES", align="L"
        )
        return list(cast("list[str]", lines))

    def _font(self, look: Look) -> None:
        self.pdf.set_font(FAMILY, "B" if look.bold else "", look.points)


def _document(size: str, font: Path | None) -> "FPDF":
    from datetime import datetime, timezone

    from fpdf import FPDF

    pdf = FPDF(unit="mm", format=SIZES[size])
    # The same sheet has the same bytes, so it does not say when it was made.
    pdf.set_creation_date(datetime.fromtimestamp(0, timezone.utc))
    pdf.set_auto_page_break(False)
    pdf.set_margins(MARGIN, MARGIN)
    pdf.c_margin = 0
    add_fonts(pdf, font)
    return pdf
