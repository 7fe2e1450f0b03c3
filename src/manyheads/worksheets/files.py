"""Worksheet files as JSON documents: open, read and write them; `sheet` checks what they mean.

A document is made of dicts, lists, texts, flags and null; its numbers stay as written (`Literal`).
"""

import json
from pathlib import Path
from typing import Any

from manyheads.core.errors import WorksheetError
from manyheads.core.files import read_file
from manyheads.core.text import quoted
from manyheads.worksheets.numbers import Literal, is_json_number
from manyheads.worksheets.places import Key, joined

MAX_BYTES, MAX_NESTING = 1_000_000, 12
"""Largest file, in bytes, and deepest lists within lists."""


class _Broken(dict[str, Any]):
    """An object that has a key twice."""

    repeated = ""


class _NotFinite(str):
    """NaN or Infinity, which JSON does not have."""

    __slots__ = ()


def document_from_file(path: str | Path) -> dict[str, Any]:
    """Read a worksheet file as a JSON document.

    Raises:
        WorksheetError: the file cannot be read, is too large, or is not JSON.
    """
    shown = quoted(Literal(path), 200)
    try:
        data = read_file(Path(path), MAX_BYTES)
    except FileNotFoundError as error:
        raise WorksheetError(f"file ({shown}) does not exist: check its name and folder") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WorksheetError(
            f"file ({shown}) cannot be opened ({reason}): give the path of a JSON file"
        ) from error
    try:
        return document_from_bytes(data)
    except WorksheetError as error:
        raise WorksheetError(f"file ({shown}): {error}") from error


def document_from_bytes(data: bytes) -> dict[str, Any]:
    """Read the bytes of a worksheet file as a JSON document.

    Raises:
        WorksheetError: too large, not UTF-8, not JSON, not an object, a key twice, or nested too
            deeply.
    """
    if len(data) > MAX_BYTES:
        raise WorksheetError(f"worksheet is larger than {MAX_BYTES:,} bytes: use a smaller one")
    try:
        text = data.decode("utf-8-sig")  # accepts a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WorksheetError(
            f"byte {error.start} (line {line}) is not UTF-8: save the file as UTF-8"
        ) from error
    return document_from_text(text)


def document_from_text(text: str) -> dict[str, Any]:
    """Read the text of a worksheet file as a JSON document.

    Raises:
        WorksheetError: as for `document_from_bytes`.
    """
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=Literal,
            parse_float=Literal,
            parse_constant=_NotFinite,
        )
    except json.JSONDecodeError as error:
        raise WorksheetError(
            f"line {error.lineno}, column {error.colno} is not JSON ({error.msg}): correct it there"
        ) from error
    except RecursionError as error:
        raise WorksheetError(_TOO_DEEP) from error
    if not isinstance(document, dict):
        raise WorksheetError("worksheet must be one JSON object: begin the file with { and a name")
    _check_everywhere(document)
    return document


_TOO_DEEP = f"worksheet is nested deeper than {MAX_NESTING}: use the form in docs/worksheets.md"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    broken, seen = _Broken(plain), set[str]()
    for key, _ in pairs:
        if key in seen:
            broken.repeated = key
        seen.add(key)
    return broken


def _check_everywhere(document: dict[str, Any]) -> None:
    open_values: list[tuple[str, int, Any]] = [("", 0, document)]
    while open_values:
        place, depth, value = open_values.pop()
        if depth > MAX_NESTING:
            raise WorksheetError(_TOO_DEEP)
        if isinstance(value, _Broken):
            raise WorksheetError(
                f"{joined(place, value.repeated)} is given twice: keep one of them"
            )
        if isinstance(value, _NotFinite):
            raise WorksheetError(
                f"{place} ({quoted(Literal(value))}) is not a finite number: use a finite one"
            )
        pairs: list[tuple[Key, Any]] = []
        if isinstance(value, dict):
            pairs = list(value.items())
        elif isinstance(value, list):
            pairs = list(enumerate(value))
        open_values += [(joined(place, key), depth + 1, entry) for key, entry in reversed(pairs)]


def text_from_document(document: object) -> str:
    """Write a document as JSON text: numbers as they were written, a row of numbers on one line."""
    return _written(document, 0) + "\n"


def _written(value: Any, depth: int) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, Literal):
        return str(value) if is_json_number(value) else json.dumps(str(value))
    if not isinstance(value, (dict, list)) or not value:
        return json.dumps(value)
    is_row = isinstance(value, list) and not any(isinstance(v, (dict, list)) for v in value)
    gap, end = (", ", "") if is_row else (",\n" + " " * (depth + 1), "\n" + " " * depth)
    start = "" if is_row else gap[1:]
    if isinstance(value, list):
        entries = [_written(v, depth + 1) for v in value]
        return f"[{start}{gap.join(entries)}{end}]"
    entries = [f"{json.dumps(k)}: {_written(v, depth + 1)}" for k, v in value.items()]
    return f"{{{start}{gap.join(entries)}{end}}}"
