"""Stopping a study in good order: the step is finished, the state saved, and the way on told."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A study was asked to stop, and has saved everything; `str` tells how to go on."""


class StopSign:
    """Something that a training loop looks at after each step."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        """Ask for a stop after the present step."""
        self._asked.set()

    @property
    def is_asked(self) -> bool:
        """Whether somebody has asked."""
        return self._asked.is_set()


@contextmanager
def listening() -> Iterator[StopSign]:
    """Turn Ctrl-C and the terminate signal into a request; a second Ctrl-C stops at once.

    Only the main thread can listen to signals; in another one the sign is never set by them.
    """
    sign = StopSign()

    def heard(number: int, frame: FrameType | None) -> None:
        if sign.is_asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        sign.ask()

    if threading.current_thread() is not threading.main_thread():
        yield sign
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, heard) for number in numbers]
    try:
        yield sign
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
