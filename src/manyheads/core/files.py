"""Files that are whole or absent, never half-written, and folders that one process holds alone.

Failures are plain OSError: whoever writes says which argument named the file and what helps.
"""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in place at once: whoever is killed meanwhile leaves the earlier one.

    Args:
        path: where it shall be; its folder is there.
        data: its content.

    Raises:
        OSError: the file system refuses, or something that is no plain file lies there.
    """
    if path.exists() and not path.is_file():  # a rename would put a file where a device was
        raise OSError(errno.EINVAL, "what lies there is no plain file", str(path))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(path.parent)


def clear_parts(folder: Path) -> None:
    """Remove what a process that was killed while it wrote has left; the folder is locked."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            part.unlink()


def reason_of(error: OSError) -> str:
    """What the file system says, without the number and the path."""
    return error.strerror or str(error)


@contextmanager
def lock_folder(folder: Path, patience: float = 5.0) -> Iterator[None]:
    """Hold a folder as the only process; the system frees it however the process ends.

    Args:
        folder: it is there.
        patience: seconds to wait for another process, which may be about to end.

    Raises:
        BlockingIOError: another process holds it; its number is the error's text.
        OSError: the lock's file cannot be opened.
    """
    path = folder / ".lock"
    with path.open("a+", encoding="ascii") as stream:
        try:
            _hold(stream, time.monotonic() + patience)
        except OSError as error:
            stream.seek(0)
            owner = stream.read().strip() or "unknown"
            raise BlockingIOError(errno.EAGAIN, owner) from error
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where folders can be opened."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
