"""What every run of a study uses: folder, data, processes, progress events and the stop request."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from manyheads.data.windows import Corpus
from manyheads.models.training import Trainable
from manyheads.study.corpus import unigram_bias
from manyheads.study.folder import Folder, RunKey
from manyheads.study.machine import Crew


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of a run."""

    run: str
    """The run's name."""
    kind: str
    """"begin", "step", "validation", "done" (trained), "test" (tested) or "note" (see says)."""
    step: int = 0
    """Steps taken."""
    steps: int = 0
    """Steps of the whole run."""
    train_loss: float | None = None
    """Mean since the last validation, in nats per target."""
    validation_loss: float | None = None
    """On the fixed slice, in nats per target."""
    learning_rate: float | None = None
    """Of the last step."""
    says: str = ""
    """A sentence for the reader."""


Report = Callable[[Event], None]


def nothing(event: Event) -> None:
    """A report that does nothing."""


class Stopped(KeyboardInterrupt):
    """A study was asked to stop and has saved everything; `str` says how to continue."""


class StopSign:
    """A request that the training loop checks after each step."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        """Request a stop after the current step."""
        self._asked.set()

    @property
    def is_asked(self) -> bool:
        """Whether a stop was requested."""
        return self._asked.is_set()


@contextmanager
def listening() -> Iterator[StopSign]:
    """Turn Ctrl-C and the terminate signal into a request; a second Ctrl-C stops at once.

    Only the main thread receives signals; in another thread they have no effect.
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


@dataclass(frozen=True, kw_only=True)
class Site:
    """The context of a run, and the receiver of its events."""

    folder: Folder
    """The study's folder."""
    corpus: Corpus
    """The stories; the test split is sealed."""
    crew: Crew
    """The processes that share the work."""
    report: Report
    """Called with every event."""
    is_stopping: Callable[[], bool]
    """Checked after each step."""
    environment: Mapping[str, Any]
    """Stored with each result."""


def fresh_model(site: Site, run: RunKey) -> Trainable:
    """A run's model with its initial values, on the device."""
    plan, corpus, crew = site.folder.plan, site.corpus, site.crew
    is_unigram = plan.protocol.output_bias == "unigram"
    return Trainable.create(
        plan.config(run.model, corpus.tokenizer.vocab_size),
        seed=run.seed,
        embedding_scale=plan.protocol.embedding_scale,
        output_bias=unigram_bias(corpus).to(crew.dtype) if is_unigram else None,
        is_linear=plan.protocol.initial == "linear",
        device=crew.device,
        dtype=crew.dtype,
    )
