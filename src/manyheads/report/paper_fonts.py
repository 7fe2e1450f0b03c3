"""The fonts of printed sheets, and what they cannot print.

DejaVu Sans comes with matplotlib, under a licence that allows embedding; a font of the user's may
stand in for the characters it lacks. fpdf2 draws characters one by one, from left to right.
"""

import importlib.util
import unicodedata
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.core.errors import LearnError
from manyheads.core.text import quoted

if TYPE_CHECKING:
    from fpdf import FPDF

FAMILY = "sans"
_OWN = "own"
_STYLES = {"": "DejaVuSans.ttf", "B": "DejaVuSans-Bold.ttf"}
_LEFTWARDS = ("R", "AL", "AN", "RLE", "RLO", "RLI")


def require_paper() -> None:
    """Refuse where what draws a sheet is not installed.

    Raises:
        LearnError: fpdf2, or the font that matplotlib carries, is not there.
    """
    for module, package in (("fpdf", "fpdf2"), ("matplotlib", "matplotlib")):
        if importlib.util.find_spec(module) is None:
            raise LearnError(
                f"{package} is not installed, and a printed sheet needs it: "
                'pip install "manyheads[learn]"'
            )


def add_fonts(pdf: "FPDF", own: Path | None) -> None:
    """Give a document its fonts.

    Args:
        pdf: the document.
        own: a font file (TTF or OTF) for characters that DejaVu Sans lacks, or None.

    Raises:
        LearnError: a font cannot be read.
    """
    found = importlib.util.find_spec("matplotlib")
    assert found is not None and found.origin is not None, "require_paper has looked"
    folder = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"
    try:
        for style, name in _STYLES.items():
            pdf.add_font(FAMILY, style, folder / name)
        if own is not None:
            _add_own(pdf, own)
    except (LearnError, OSError):
        close_fonts(pdf)
        raise


def close_fonts(pdf: "FPDF") -> None:
    """Close the files of a document's fonts, which fpdf2 leaves open."""
    for font in pdf.fonts.values():
        file = getattr(font, "ttfont", None)
        if file is not None:
            file.close()


def _add_own(pdf: "FPDF", path: Path) -> None:
    from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]  # has no types

    try:
        with TTFont(BytesIO(path.read_bytes())) as font:  # fpdf2 would leave a broken file open
            font.getBestCmap()
        pdf.add_font(_OWN, "", path)
    except (OSError, TTLibError, ValueError, RuntimeError, KeyError, AssertionError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise LearnError(
            f"font ({quoted(str(path), 200)}) cannot be read ({reason or 'no font file'}): "
            "use a TTF or OTF file"
        ) from error
    pdf.set_fallback_fonts([_OWN], exact_match=False)


def printable_text(text: str) -> str:
    """A text as it is printed: letters and their accents joined."""
    return unicodedata.normalize("NFC", text)


def check_characters(pdf: "FPDF", texts: Iterable[str]) -> None:
    """Refuse texts that the fonts cannot print.

    Args:
        pdf: a document with its fonts.
        texts: everything that it shall say.

    Raises:
        LearnError: the first character that cannot be printed, by name.
    """
    sets = [set(getattr(font, "cmap", ())) for font in pdf.fonts.values()]
    plain = set.intersection(*sets[: len(_STYLES)])
    known = plain.union(*sets[len(_STYLES) :])
    for text in sorted(texts, key=len):  # the shortest that has it says best where it stands
        for character in printable_text(text):
            if unicodedata.bidirectional(character) in _LEFTWARDS:
                raise LearnError(
                    f"text ({quoted(text)}) has {_named(character)}, which is written from right "
                    "to left: sheets are printed from left to right only, use other characters"
                )
            if ord(character) not in known or not (character.isprintable() or character == "\xa0"):
                raise LearnError(
                    f"text ({quoted(text)}) has {_named(character)}, which the sheet's font cannot "
                    "print: pass a font file that has it (--font FILE.ttf), or use another"
                )


def _named(character: str) -> str:
    shown = f"{character} " if character.isprintable() else ""
    return f"{shown}(U+{ord(character):04X}, {unicodedata.name(character, 'no name').lower()})"
