"""The learner's own files: where they lie, and records that survive a crash at any moment.

A file holds one JSON object a line, and lines are only ever added. What a crash leaves at the end,
half a line, is moved to a file beside it before the next line is written; nothing is deleted.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_data_path

from manyheads.core.errors import LearnError
from manyheads.core.files import lock_folder, reason_of


class Records(NamedTuple):
    """What a file of records holds."""

    records: tuple[dict[str, Any], ...]
    """The objects, oldest first."""
    torn: str
    """Half a line at the end, left by a crash; "" where there is none."""


def data_folder(chosen: Path | None = None) -> Path:
    """The folder of the learner's files, made where it is not there.

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
        content = path.read_bytes()
    except FileNotFoundError:
        return Records((), "")
    except OSError as error:
        raise LearnError(
            f"file ({path}) cannot be read ({reason_of(error)}): restore it, or move it away"
        ) from error
    *whole, rest = content.split(b"\n")
    records = tuple(_record(path, number, line) for number, line in enumerate(whole, start=1))
    return Records(records, rest.decode(errors="replace"))


def add_record(path: Path, record: Mapping[str, Any]) -> None:
    """Add one record, on disk when this returns; the folder is there.

    Raises:
        LearnError: the file cannot be written, or another process does not let go of the folder.
    """
    line = json.dumps(record, ensure_ascii=False, allow_nan=False, sort_keys=True)
    try:
        with lock_folder(path.parent), path.open("ab+") as stream:
            _set_torn_aside(path, stream.fileno())
            stream.write(f"{line}\n".encode())
            stream.flush()
            os.fsync(stream.fileno())
    except BlockingIOError as error:
        raise LearnError(
            f"folder ({path.parent}) is in use by process {error.strerror}: wait until it has ended"
        ) from error
    except OSError as error:
        raise LearnError(
            f"file ({path}) cannot be written ({reason_of(error)}): make room there, or choose "
            "another folder with --data; what was saved before is unharmed"
        ) from error


def _set_torn_aside(path: Path, handle: int) -> None:
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end == len(content):
        return
    with path.with_name(f"{path.name}.torn").open("ab") as aside:
        aside.write(content[end:] + b"\n")
        aside.flush()
        os.fsync(aside.fileno())
    os.ftruncate(handle, end)


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LearnError(
            f"file ({path}) is damaged in line {number} ({error}): mend or remove that line; "
            "nothing was changed"
        ) from error
    if not isinstance(record, dict):
        raise LearnError(
            f"file ({path}) is damaged in line {number} (no JSON object): mend or remove that "
            "line; nothing was changed"
        )
    return record
