"""Files of a study's folder: whole or absent, never half-written; and who may write them."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from manyheads.core.errors import StudyError

_MAX_DIGITS = 40


def write_bytes(path: Path, data: bytes) -> None:
    """Put a file in place at once: whoever is killed meanwhile leaves the earlier one.

    Args:
        path: where it shall be; its folder is there.
        data: its content.

    Raises:
        StudyError: the file system refuses, for instance because it is full.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.exists() and not path.is_file():  # a rename would put a file where a device was
            raise StudyError(f"file ({path}) is no plain file: move it away")
        try:
            with part.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise StudyError(
            f"file ({path}) cannot be written ({error.strerror or error}): what was saved before "
            "is unharmed; make room there, then go on with --resume"
        ) from error


def clear_parts(folder: Path) -> None:
    """Remove what a process that was killed while it wrote has left; the folder is locked."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            part.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where folders can be opened."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, document: object) -> None:
    """Write a JSON document; the numbers in it are finite.

    Raises:
        StudyError: as for `write_bytes`.
    """
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    write_bytes(path, f"{text}\n".encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON document that `write_json` wrote.

    Raises:
        StudyError: no such file, or one that is damaged.
    """
    try:
        document = json.loads(path.read_bytes(), parse_constant=_refuse, parse_int=_whole)
    except (OSError, ValueError, RecursionError) as error:
        raise StudyError(f"file ({path}) is missing or damaged ({error}): restore it") from error
    if not isinstance(document, dict):
        raise StudyError(f"file ({path}) is damaged: it must hold one JSON object")
    return document


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:  # more than a float can hold would fail wherever it is used
        raise ValueError(f"{digits[:_MAX_DIGITS]}... is too large")
    return int(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def file_sha256(path: Path) -> str:
    """Hash of a file, in hexadecimal digits.

    Raises:
        StudyError: it cannot be read.
    """
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        reason = error.strerror or str(error)
        raise StudyError(f"file ({path}) cannot be read ({reason}): restore it") from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it.

    Raises:
        StudyError: the file system refuses.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StudyError(f"folder ({path}) cannot be made ({reason}): choose another") from error


class BusyError(StudyError):
    """Another process works in the same folder."""


@contextmanager
def lock(folder: Path, patience: float = 5.0) -> Iterator[None]:
    """Hold a folder as the only process; the system frees it however the process ends.

    Args:
        folder: made where it is not there.
        patience: seconds to wait for another process, which may be about to end.

    Raises:
        BusyError: another process holds it.
    """
    path = folder / ".lock"
    make_folder(folder)
    try:
        stream = path.open("a+", encoding="ascii")
    except OSError as error:
        reason = error.strerror or str(error)
        raise StudyError(f"file ({path}) cannot be opened ({reason}): check the folder") from error
    with stream:
        try:
            _hold(stream, time.monotonic() + patience)
        except OSError as error:
            stream.seek(0)
            owner = stream.read().strip() or "unknown"
            raise BusyError(
                f"folder ({folder}) is in use by process {owner}: wait until it has ended"
            ) from error
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


def _hold(stream: IO[str], until: float) -> None:
    while True:
        try:
            return _hold_now(stream)
        except OSError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.1)


def _hold_now(stream: IO[str]) -> None:
    if sys.platform == "win32":
        import msvcrt

        stream.seek(1 << 20)  # far behind the text, which others shall be able to read
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        stream.seek(0)
    else:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
