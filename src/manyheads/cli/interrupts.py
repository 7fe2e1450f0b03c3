"""Ctrl-C while a module is being imported.

Some libraries swallow an exception that is raised during their import, so that a command would
carry on, or fail with a module that is only half there. Ctrl-C therefore waits until the import
has ended.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

_IMPORT = "<frozen importlib._bootstrap>"
_SECONDS = 0.02
"""How long to wait before looking again."""


@contextmanager
def patient_interrupts(outside: CodeType) -> Iterator[None]:
    """Hold back Ctrl-C during imports; Python's own handler must be in place, else do nothing.

    Args:
        outside: the function whose callers' imports do not count.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not _is_importing(frame, outside):
            raise KeyboardInterrupt
        again = threading.Timer(_SECONDS, signal.raise_signal, (number,))
        again.daemon = True
        again.start()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_importing(frame: FrameType | None, outside: CodeType) -> bool:
    while frame is not None and frame.f_code is not outside:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False
