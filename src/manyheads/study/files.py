"""Files of a study's folder: whole or absent, never half-written; and who may write them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from manyheads.core.errors import StudyError
from manyheads.core.files import lock_folder, reason_of, write_whole

_MAX_DIGITS = 40


def write_bytes(path: Path, data: bytes) -> None:
    """Put a file in place at once: whoever is killed meanwhile leaves the earlier one.

    Args:
        path: where it shall be; its folder is there.
        data: its content.

    Raises:
        StudyError: the file system refuses, for instance because it is full.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise StudyError(
            f"file ({path}) cannot be written ({reason_of(error)}): what was saved before "
            "is unharmed; make room there and try again (a run goes on with --resume)"
        ) from error


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
        reason = reason_of(error)
        raise StudyError(f"file ({path}) cannot be read ({reason}): restore it") from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it.

    Raises:
        StudyError: the file system refuses.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = reason_of(error)
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
    make_folder(folder)
    with ExitStack() as held:
        try:
            held.enter_context(lock_folder(folder, patience))
        except BlockingIOError as error:
            raise BusyError(
                f"folder ({folder}) is in use by process {error.strerror}: wait until it has ended"
            ) from error
        except OSError as error:
            raise StudyError(
                f"file ({folder / '.lock'}) cannot be opened ({reason_of(error)}): check the folder"
            ) from error
        yield
