"""Worksheets for users: read, edit, solve and explain them. A worksheet never changes."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets import places
from manyheads.worksheets.explain import Explanation, explained
from manyheads.worksheets.files import document_from_file, document_from_text
from manyheads.worksheets.numbers import Literal, is_json_number, parse_number
from manyheads.worksheets.sheet import Sheet
from manyheads.worksheets.sheet_text import text_from_sheet
from manyheads.worksheets.solution import Solution, solved

_DATA = Path(__file__).parent / "data"
SOURCES = {
    "river-and-cheque": "Nipun Batra, Attention, vision and language, part 3, "
    "https://github.com/nipunbatra/attention (read in 2026)",
    "three-heads": "made for manyheads",
    "two-routes": "a chapter on multi-head attention with a five-part lab, whose author and "
    "address are not recorded",
}
"""Where the given numbers of each worksheet in the package come from."""
_FLAGS = {"true": True, "false": False}


class Worksheet(Sheet):
    """A calculation that can be done by hand: the given numbers, and methods to work with them."""

    @staticmethod
    def from_text(text: str) -> "Worksheet":
        """Read the text of a worksheet file.

        Raises:
            WorksheetError: the text is not JSON, or breaks the form.
        """
        return Worksheet.from_document(document_from_text(text))

    @property
    def document(self) -> dict[str, Any]:
        """The worksheet file as a new JSON document, its numbers as they were written."""
        return document_from_text(self.text)

    def to_json(self) -> str:
        """The worksheet file that this worksheet was read from, with all edits."""
        return self.text

    def solve(self, sequence: str | None = None, exact: bool = False) -> Solution:
        """Solve one sequence.

        Args:
            sequence: its name; None for the first.
            exact: keep fractions and symbols instead of computing in float64.

        Raises:
            WorksheetError: no sequence has that name.
        """
        return solved(self, sequence, exact)

    def explain(self, quantity: str, depth: int | None = None) -> Explanation:
        """Explain how one number is computed from the given numbers.

        Args:
            quantity: such as `river.output[9][0]`, counted from 0; the sequence may be left out
                if there is only one.
            depth: number of levels to explain; None for all.

        Raises:
            WorksheetError: the quantity does not exist.
        """
        return explained(self, quantity, depth)

    def edit(self, changes: Mapping[str, object]) -> "Worksheet":
        """Change given numbers and return a new worksheet.

        Args:
            changes: places such as `heads.0.W_Q[3][1]`, counted from 0, and new numbers, such as
                0.5, "1/2" or "ln(2)"; flags take true or false; `scale` may be set where absent.

        Raises:
            WorksheetError: the place does not exist, or the value is not a number.
        """
        if not isinstance(changes, Mapping):
            raise WorksheetError(
                f"changes ({quoted(changes)}) must be a dict of places and numbers: "
                'use {"heads[0].W_Q[0][0]": "1/2"}'
            )
        document = self.document
        for place, value in changes.items():
            _change(document, places.parsed(place), value)
        return Worksheet.from_document(document)

    def __str__(self) -> str:
        """The given numbers as tables in 80 columns."""
        return text_from_sheet(self)

    def __repr__(self) -> str:
        """Name and sizes on one line."""
        return f"<Worksheet {self.name}: {self.title}>"


def _change(document: dict[str, Any], keys: tuple[places.Key, ...], value: object) -> None:
    place = places.written(keys)
    if keys == ("scale",):
        document.setdefault("scale", "1")
    old, holder = places.found(document, keys), places.found(document, keys[:-1])
    if isinstance(old, bool):
        new: object = value if isinstance(value, bool) else _FLAGS.get(str(value).lower())
        if new is None:
            raise WorksheetError(
                f"{place} ({quoted(value)}) must be true or false: use one of them"
            )
    elif isinstance(old, (dict, list)) or not _holds_number(keys):
        hint = places.first_number(old, keys) if isinstance(old, (dict, list)) else None
        use = places.written(hint) if hint and _holds_number(hint) else "heads[0].W_Q[0][0]"
        raise WorksheetError(f"{place} is not a single number: choose one, such as {use}")
    else:
        parse_number(value, place)
        text = str(value)
        new = Literal(text) if is_json_number(text) else text
    holder[keys[-1]] = new


def _holds_number(keys: tuple[places.Key, ...]) -> bool:
    """Whether the form has a number at a place."""
    if keys[0] == "sequences":
        return len(keys) == 5 and keys[2] == "X"
    return keys[0] in (*Sheet.TABLES, "scale") and keys[-1] != "label"


def worksheet_names() -> tuple[str, ...]:
    """The names of the worksheets that come with the package."""
    return tuple(sorted(path.stem for path in _DATA.glob("*.json")))


def worksheet(name_or_path: str | Path) -> Worksheet:
    """Open a worksheet that comes with the package, by name, or a worksheet file, by path.

    Raises:
        WorksheetError: the worksheet does not exist, or the file breaks the form; the message names
            the place.
    """
    names = worksheet_names()
    if not isinstance(name_or_path, (str, Path)):
        raise WorksheetError(
            f"worksheet ({quoted(name_or_path)}) must be a name or a path: use {', '.join(names)} "
            "or the path of a JSON file"
        )
    if isinstance(name_or_path, str) and name_or_path in names:
        return Worksheet.from_document(document_from_file(_DATA / f"{name_or_path}.json"))
    is_path = isinstance(name_or_path, Path) or any(c in name_or_path for c in "./\\")
    if not is_path and not os.path.exists(name_or_path):
        raise WorksheetError(
            f"worksheet ({quoted(Literal(name_or_path))}) is neither a name nor a file: "
            f"use {', '.join(names)} or the path of a JSON file"
        )
    document = document_from_file(name_or_path)
    try:
        return Worksheet.from_document(document)
    except WorksheetError as error:
        shown = quoted(Literal(name_or_path), 200)
        raise WorksheetError(f"file ({shown}): {error}") from error
