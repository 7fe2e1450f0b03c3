"""The learner's own files: their folder, and records that survive a crash at any moment.

A file holds one JSON object a line, and lines are only ever added. What a crash leaves at the end,
an incomplete line, is moved to a separate file before the next line is written; nothing is deleted.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_data_path

from manyheads.core.errors import LearnError
from manyheads.core.files import lock_folder, read_file, reason_of, write_whole


class Records(NamedTuple):
    """What a file of records holds."""

    records: tuple[dict[str, Any], ...]
    """The objects, oldest first."""
    torn: str
    """An incomplete last line, left by a crash; "" if there is none."""


def data_folder(chosen: Path | None = None) -> Path:
    """The folder of the learner's files; created if it does not exist.

    Args:
        chosen: another folder than the usual one for this user's data.

    Raises:
        LearnError: it cannot be made, or is no folder.
    """
    folder = chosen if chosen is not None else user_data_path("manyheads", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LearnError(
            f"--data ({folder}) cannot be a folder ({reason_of(error)}): choose another with --data"
        ) from error
    return folder


def read_records(path: Path) -> Records:
    """Read a file of records; a missing one holds none.

    Raises:
        LearnError: it cannot be read, or a line before the last is damaged; nothing is changed.
    """
    try:
        content = read_file(path)
    except FileNotFoundError:
        return Records((), "")
    except OSError as error:
        raise LearnError(
            f"file ({path}) cannot be read ({reason_of(error)}): restore it, or move it away"
        ) from error
    *whole, rest = content.split(b"\n")
    numbered = [(number, line) for number, line in enumerate(whole, start=1) if line.strip()]
    records = tuple(_record(path, number, line) for number, line in numbered)
    return Records(records, rest.decode(errors="surrogateescape"))


def add_record(path: Path, record: Mapping[str, Any]) -> None:
    """Add one record, on disk when this returns; the folder is there.

    Raises:
        LearnError: the file cannot be written, or another process does not let go of the folder.
    """
    with _writing(path), path.open("ab+") as stream:
        _set_torn_aside(path, stream.fileno())
        stream.write(_line(record))
        stream.flush()
        os.fsync(stream.fileno())


def merge_records(
    path: Path,
    merge: Callable[[tuple[dict[str, Any], ...]], Sequence[Mapping[str, Any]]],
) -> None:
    """Put more records among those of a file, whole or not at all; the folder is there.

    Args:
        path: the file; it may be missing.
        merge: takes the records of the file and returns all records to write.

    Raises:
        LearnError: the file is damaged or cannot be written, or another process does not let go of
            the folder; nothing is changed.
    """
    with _writing(path):
        records, torn = read_records(path)
        merged = merge(records)
        if len(merged) == len(records):
            return
        if torn:
            _add_torn(path, torn.encode(errors="surrogateescape"))
        write_whole(path.resolve(), b"".join(_line(record) for record in merged))


def check_can_be_written(path: Path) -> None:
    """Find out before a learner begins whether records can be added; the folder is there.

    A missing file is not created, since the session may save nothing.

    Raises:
        LearnError: they cannot, or another process does not let go of the folder.
    """
    with _writing(path), suppress(FileNotFoundError), path.open("r+b"):
        pass


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Lock the folder of a file, and name the reason if the file cannot be written."""
    try:
        with lock_folder(path.parent):
            yield
    except BlockingIOError as error:
        raise LearnError(
            f"folder ({path.parent}) is in use by process {error.strerror}: wait until it ends"
        ) from error
    except OSError as error:
        raise LearnError(
            f"file ({path}) cannot be written ({reason_of(error)}): free some space, or choose "
            "another folder with --data; earlier records are safe"
        ) from error


def _set_torn_aside(path: Path, handle: int) -> None:
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end == len(content):
        return
    _add_torn(path, content[end:])
    os.ftruncate(handle, end)


def _add_torn(path: Path, torn: bytes) -> None:
    with path.with_name(f"{path.name}.torn").open("ab") as aside:
        aside.write(torn + b"\n")
        aside.flush()
        os.fsync(aside.fileno())


def _line(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, sort_keys=True)
    return f"{text}\n".encode(errors="backslashreplace")  # half a surrogate pair: JSON's own escape


def parse_record(line: str | bytes) -> Any:  # noqa: ANN401 - any JSON
    """Read one line as JSON proper: Infinity and NaN, which Python would take, are refused.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(line, parse_constant=_refuse, parse_float=_finite)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = parse_record(line)
    except (ValueError, RecursionError) as error:
        raise LearnError(
            f"file ({path}) is damaged in line {number} ({getattr(error, 'msg', error)}): fix or "
            "delete that line; nothing was changed"
        ) from error
    if not isinstance(record, dict):
        raise LearnError(
            f"file ({path}) is damaged in line {number} (not a JSON object): fix or delete that "
            "line; nothing was changed"
        )
    return record
