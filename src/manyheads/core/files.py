"""Files that are either complete or absent, and folders that one process locks.

A failure is a plain OSError; the caller adds the name of the argument and the remedy.
"""

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it; a killed process leaves the earlier file.

    Args:
        path: the file; its folder exists.
        data: its content.

    Raises:
        OSError: the file system refuses, or the path is a folder, a device or a pipe.
    """
    if path.exists() and not path.is_file():  # a rename would put a file where a device was
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
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


def read_file(path: Path, limit: int | None = None, patience: float = 1.0) -> bytes:
    """Read a file, or a pipe that a program writes to, such as a shell's `<(...)`.

    Args:
        path: the file or pipe.
        limit: how many bytes to read, all if None; one byte more shows that there are more.
        patience: seconds to wait for a writer of a pipe, so that a pipe without one never blocks.

    Raises:
        OSError: it cannot be read, is a folder or a device, or is a pipe that nothing was written
            to.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        kind = "is a folder" if stat.S_ISDIR(mode) else "is a device"
        raise OSError(errno.EINVAL, kind, str(path))
    most = -1 if limit is None else limit + 1
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(opened, "rb") as stream:
        if stat.S_ISREG(mode):
            return stream.read(most)
        first = _first_bytes(opened, time.monotonic() + patience)
        if not first:
            raise OSError(errno.EINVAL, "nothing was written to this pipe", str(path))
        os.set_blocking(opened, True)
        return first + stream.read(most if limit is None else max(0, most - len(first)))


def _first_bytes(pipe: int, until: float) -> bytes:
    """What a pipe holds, as soon as it holds something; nothing where no program writes to it."""
    while True:
        try:
            found = os.read(pipe, 1 << 16)
        except BlockingIOError:  # a program has it open for writing, and may take its time
            os.set_blocking(pipe, True)
            found = os.read(pipe, 1 << 16)
        if found or time.monotonic() >= until:
            return found
        time.sleep(0.02)


def clear_parts(folder: Path) -> None:
    """Remove temporary files of a killed process; the folder must be locked."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            part.unlink()


def reason_of(error: OSError) -> str:
    """The reason of an OSError, without its number and the path."""
    return error.strerror or str(error)


@contextmanager
def lock_folder(folder: Path, patience: float = 5.0) -> Iterator[None]:
    """Lock a folder for this process; the system releases the lock when the process ends.

    Args:
        folder: an existing folder.
        patience: seconds to wait for another process, which may be about to end.

    Raises:
        BlockingIOError: another process holds it; the error's text is the id of that process.
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
    """Write the folder's entry to disk, where the system can open folders."""
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

        stream.seek(1 << 20)  # far behind the text, so that other processes can read it
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        stream.seek(0)
    else:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
