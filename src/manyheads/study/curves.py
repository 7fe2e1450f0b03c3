"""Curves for TensorBoard, an extra: losses and learning rate of each run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manyheads.core.extras import require
from manyheads.study.events import Event, Report

_CURVES = ("train_loss", "validation_loss", "learning_rate")


@contextmanager
def curves_in(folder: Path) -> Iterator[Report]:
    """Write what runs tell as curves, a folder a run.

    Args:
        folder: made when the first run tells something.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """
    require("tensorboard", "tensorboard", purpose="--tensorboard")
    from torch.utils.tensorboard.writer import SummaryWriter

    writers: dict[str, SummaryWriter] = {}

    def report(event: Event) -> None:
        if event.kind != "validation":
            return
        if event.run not in writers:
            writers[event.run] = SummaryWriter(str(folder / event.run))
        for name in _CURVES:
            value = getattr(event, name)
            if value is not None:
                writers[event.run].add_scalar(name, value, event.step)
        writers[event.run].flush()

    try:
        yield report
    finally:
        for writer in writers.values():
            writer.close()
