"""The parts of a worksheet document, each checked at its place: rows, matrices, texts, keys."""

import re
from dataclasses import dataclass
from typing import Any

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.numbers import Literal, parse_number
from manyheads.worksheets.places import joined, listed
from manyheads.worksheets.sheet import Matrix, Row

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest worksheet: one that a person can follow and that is solved in seconds."""

    sequences: int = 8
    """Sentences in one file."""
    positions: int = 32
    """Tokens in a sentence."""
    width: int = 32
    """Features, and width of a head."""
    heads: int = 8
    """Heads."""
    joined: int = 64
    """Number of heads times width of a head's values."""
    hidden: int = 64
    """Hidden units of the prediction."""
    words: int = 128
    """Words of the vocabulary, and rows of token_embedding."""


def _shown(value: object) -> str:
    names = {dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(value)) or quoted(value)


def _counted(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def check_between(count: int, least: int, most: int, place: str, what: str) -> None:
    """Check how many entries stand at a place."""
    if not least <= count <= most:
        counted = _counted(least, most)
        raise WorksheetError(f"{place} ({count} {what}) must have {counted}: give {counted} {what}")


def check_total(total: int, most: int, place: str, what: str) -> None:
    """Check a size that is made of several."""
    if total > most:
        raise WorksheetError(
            f"{place} ({what} {total}) must not exceed {most}: use a smaller worksheet"
        )


def check_keys(
    value: dict[str, Any], place: str, required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    """Check that an object has all the keys it needs and no others."""
    for key in value:
        if key not in required and key not in optional:
            names = listed(required + optional, 20)
            raise WorksheetError(f"{joined(place, key)} is no part of the form: use {names}")
    for key in required:
        if key not in value:
            raise WorksheetError(f"{joined(place, key)} is missing: add it")


def mapping(value: object, place: str) -> dict[str, Any]:
    """Read an object."""
    if not isinstance(value, dict):
        raise WorksheetError(f"{place} ({_shown(value)}) must be an object: write it in {{ }}")
    return value


def entries(value: object, place: str, least: int, most: int, what: str) -> list[Any]:
    """Read a list of `least` to `most` entries."""
    if not isinstance(value, list):
        raise WorksheetError(
            f"{place} ({_shown(value)}) must be a list: give {_counted(least, most)} {what} in [ ]"
        )
    check_between(len(value), least, most, place, what)
    return value


def row(value: object, place: str, least: int, most: int) -> Row:
    """Read a row of numbers."""
    given = entries(value, place, least, most, "numbers")
    return tuple(parse_number(entry, f"{place}[{i}]") for i, entry in enumerate(given))


def matrix(value: object, place: str, rows: tuple[int, int], columns: tuple[int, int]) -> Matrix:
    """Read a matrix; `rows` and `columns` are the least and most of each, all rows equally long."""
    given = entries(value, place, *rows, "rows")
    read: list[Row] = []
    for index, entry in enumerate(given):
        read.append(row(entry, f"{place}[{index}]", *columns))
        columns = (len(read[0]), len(read[0]))
    return tuple(read)


def flag(value: object, place: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise WorksheetError(f"{place} ({_shown(value)}) must be true or false: use one of them")
    return value


def text(value: object, place: str) -> str:
    """Read a label: printable, on one line, not empty, at most 80 characters."""
    if not isinstance(value, str) or isinstance(value, Literal):
        raise WorksheetError(f"{place} ({_shown(value)}) must be text: write it in quotes")
    if not 1 <= len(value) <= 80:
        raise WorksheetError(f"{place} ({quoted(value)}) must have 1 to 80 characters: shorten it")
    if not value.isprintable() or not value.strip():
        raise WorksheetError(f"{place} ({quoted(value)}) must be printable: use plain letters")
    return value


def texts(value: object, place: str, least: int, most: int) -> tuple[str, ...]:
    """Read a list of labels."""
    given = entries(value, place, least, most, "texts")
    return tuple(text(entry, f"{place}[{i}]") for i, entry in enumerate(given))


def name(value: object, place: str) -> str:
    """Read a short name, which commands and quantities use."""
    if not isinstance(value, str) or isinstance(value, Literal) or not _NAME.fullmatch(value):
        raise WorksheetError(
            f"{place} ({_shown(value)}) must be a short name: use up to 40 letters, digits, - and _"
        )
    return value
