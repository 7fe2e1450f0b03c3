"""Standard output and standard error of a command, so that it ends well however they end.

A reader that closes a pipe early (`manyheads check ... | head`) changes neither the exit status nor
the files that a command writes. A full disk is reported as a failure of standard output. A stream
that was closed before the start (`>&-`) takes the output and drops it, and a character that the
terminal cannot show is written as an escape.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from manyheads.core.files import reason_of


class OutputError(Exception):
    """Standard output cannot be written."""


class _Descriptor(io.RawIOBase):
    """An open file descriptor that drops what is written once nobody can read it."""

    def __init__(self, number: int, *, is_required: bool) -> None:
        self._number = number
        self._is_required = is_required
        self._is_open = True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: "memoryview") -> int:  # type: ignore[override]  # what a buffer passes
        if not self._is_open:
            return len(data)
        try:
            return os.write(self._number, data)
        except OSError as error:
            self._is_open = False
            if self._is_required and not isinstance(error, BrokenPipeError):
                raise OutputError(
                    f"standard output ({reason_of(error)}) cannot be written: "
                    "free space on the disk, or redirect the output to another place"
                ) from error
            return len(data)


@contextmanager
def patient_streams() -> Iterator[None]:
    """Replace the process's own output streams while a command runs."""
    before = sys.stdout, sys.stderr
    sys.stdout = _patient("stdout", is_required=True)
    sys.stderr = _patient("stderr", is_required=False)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OutputError, OSError):
                stream.flush()
        sys.stdout, sys.stderr = before


def _patient(name: str, *, is_required: bool) -> Any:  # noqa: ANN401 - programs set any kind
    stream = getattr(sys, name)
    if stream is None:  # closed before the start
        return open(os.devnull, "w", encoding="utf-8")
    if stream is not getattr(
        sys, f"__{name}__"
    ):  # replaced by a program or a test that collects the output
        return stream
    stream.flush()
    if stream.isatty():
        stream.reconfigure(errors="backslashreplace")
        return stream
    raw: Any = _Descriptor(stream.fileno(), is_required=is_required)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=not is_required,
    )
