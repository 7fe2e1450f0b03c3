"""Reads stories from files: plain text, JSON lines, and Parquet."""

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from manyheads.core.errors import DataError
from manyheads.core.extras import require

STORY_END = "<|endoftext|>"
"""What stands between the stories of a plain text file.

Source: the files of the data set roneneldan/TinyStories.
"""

_FORMATS = ".txt, .jsonl, .json or .parquet"
_FIELD = "text"
_STRING_TYPES = ("string", "large_string", "dictionary<values=string")  # as pyarrow writes them


def read_stories(path: Path | str, *, limit: int | None = None) -> list[str]:
    r"""Read a file of stories, in the file's order; its name says how.

    - `.txt`: stories end with `<|endoftext|>`. In a file without that mark, two or more blank lines
      stand between stories; in a file without those, each blank line does.
    - `.jsonl`, `.json`: one JSON object a line, with the story under "text".
    - `.parquet`: a column "text" (needs the extra `data`).

    Space around a story is removed, and so are stories that are empty.

    Args:
        path: the file, in UTF-8 where it is text.
        limit: the most stories that are read, all if None; the rest of the file is not looked at.

    Raises:
        DataError: the file is missing, damaged, of another kind, or without a story.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise DataError(f"limit ({limit}) must be at least 1: leave it out to read all stories")
    _require_file(path)
    readers = {
        ".txt": _text_stories,
        ".jsonl": _json_stories,
        ".json": _json_stories,
        ".parquet": _parquet_stories,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"data ({path}) must be a file named {_FORMATS}: convert or rename it")
    try:
        stripped = (story.strip() for story in reader(path))
        stories = list(islice((story for story in stripped if story), limit))
    except OSError as error:
        raise DataError(f"data ({path}) cannot be read: {error.strerror or error}") from error
    if not stories:
        raise DataError(f"data ({path}) must hold at least one story: it has none")
    return stories


def file_sha256(path: Path | str) -> str:
    """Hash of a file's bytes, in hexadecimal digits.

    Raises:
        DataError: the file cannot be read.
    """
    _require_file(Path(path))
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"data ({path}) cannot be read: {error.strerror or error}") from error


def _require_file(path: Path) -> None:
    try:
        is_file, is_there = path.is_file(), path.exists()
    except OSError as error:
        raise DataError(f"data ({path}) cannot be read: {error.strerror}") from error
    if not is_there:
        raise DataError(f"data ({path}) must be a file that is there: check the name")
    if not is_file:
        raise DataError(f"data ({path}) must be an ordinary file, and no folder: name one file")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a text file with its number, counted from 1."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the mark that some editors begin with
            if b"\0" in line:
                raise DataError(
                    f"data ({path}) must be text in UTF-8, and line {number} holds a zero byte: "
                    "give a text file, saved as UTF-8"
                )
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"data ({path}) must be text in UTF-8, and line {number} is not "
                    f"(byte {error.object[error.start]:#04x}): save it as UTF-8"
                ) from error


def _text_stories(path: Path) -> Iterator[str]:
    if any(STORY_END in line for _, line in _lines(path)):
        return _marked_stories(path)
    text = "".join(line for _, line in _lines(path)).replace("\r\n", "\n")
    wide_gap, gap = r"\n[^\S\n]*\n[^\S\n]*\n\s*", r"\n[^\S\n]*\n\s*"
    return iter(re.split(wide_gap if re.search(wide_gap, text.strip()) else gap, text.strip()))


def _marked_stories(path: Path) -> Iterator[str]:
    parts: list[str] = []
    for _, line in _lines(path):
        before, *rest = line.split(STORY_END)
        parts.append(before.replace("\r\n", "\n"))
        for piece in rest:
            yield "".join(parts)
            parts = [piece.replace("\r\n", "\n")]
    yield "".join(parts)


def _json_stories(path: Path) -> Iterator[str]:
    for number, line in _lines(path):
        if line.strip():
            yield _story_of(path, number, _json_of(path, number, line))


def _json_of(path: Path, number: int, line: str) -> Any:  # noqa: ANN401 - free JSON
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"data ({path}) must have one JSON object a line, and line {number} is none "
            f"({str(error).split(': line')[0]}): mend or remove that line"
        ) from error


def _story_of(path: Path, number: int, row: Any) -> str:  # noqa: ANN401 - free JSON
    story = row.get(_FIELD) if isinstance(row, dict) else None
    if not isinstance(story, str):
        raise DataError(
            f'data ({path}) must have a text under "{_FIELD}" in each line, and line {number} has '
            'none: write {"text": "..."}'
        )
    if any("\ud800" <= character <= "\udfff" for character in story):
        raise DataError(
            f"data ({path}) must hold whole characters, and line {number} holds half of one "
            "(a lone surrogate): mend or remove that line"
        )
    return story


def _parquet_stories(path: Path) -> Iterator[str]:
    require("data", "pyarrow", purpose=f"the Parquet file {path}")
    import pyarrow
    from pyarrow import parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            _require_text_column(path, file.schema_arrow)
            for batch in file.iter_batches(columns=[_FIELD]):
                for story in batch.column(0).to_pylist():
                    number += 1
                    if story is None:
                        raise DataError(
                            f"data ({path}) must have a text in each row, and row {number} has "
                            "none: remove that row"
                        )
                    yield story
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"data ({path}) is no whole Parquet file ({str(error).splitlines()[0]}): fetch it again"
        ) from error


def _require_text_column(path: Path, schema: Any) -> None:  # noqa: ANN401 - untyped library
    names = schema.names
    if _FIELD not in names or not str(schema.field(_FIELD).type).startswith(_STRING_TYPES):
        raise DataError(
            f'data ({path}) must have a column "{_FIELD}" of texts, and has '
            f"{', '.join(names) or 'no column'}: rename the column of stories"
        )
