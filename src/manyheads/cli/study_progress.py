"""Progress of a running study on standard error: bars in a terminal, plain lines elsewhere."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from manyheads.core.extras import require
from manyheads.study.site import Event, Report

_CURVES = ("train_loss", "validation_loss", "learning_rate")


class _Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Task) -> Text:
        """Write the rate, once there is one."""
        return Text(f"{task.speed:.1f} steps/s" if task.speed else "- steps/s")


class _Bars:
    """A bar per run, with rate, remaining time and the last validation loss."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if event.kind == "note" or not event.steps:
            if event.says:
                self.bars.console.print(event.says, markup=False, highlight=False)
            return
        if event.run not in self.tasks:
            self.tasks[event.run] = self.bars.add_task(
                event.run, total=event.steps, completed=event.step, loss="validation -"
            )
        task = self.tasks[event.run]
        self.bars.update(task, completed=event.step)
        if event.validation_loss is not None:
            self.bars.update(task, loss=f"validation {event.validation_loss:.4f}")
        if event.kind == "test":
            self.bars.update(task, loss="tested")


def _say(event: Event) -> None:
    """Print an event as a plain line, where there is anything to print."""
    line = _line(event)
    try:
        if line:
            click.echo(line, err=True)
    except OSError:
        # A run of hours must not stop because its output cannot be written.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end


def _line(event: Event) -> str:
    """The plain line of an event; empty where it has none."""
    if event.kind == "note":
        return event.says
    if event.kind == "begin":
        return f"{event.run}: starts at step {event.step} of {event.steps}"
    if event.kind == "validation":
        text = f"training {event.train_loss:.4f}, validation {event.validation_loss:.4f}"
        return f"{event.run}: step {event.step} of {event.steps}: {text}"
    return f"{event.run}: tested" if event.kind == "test" else ""


@contextmanager
def watching(tensorboard: Path | None) -> Iterator[Report]:
    """Show a study's progress while it runs.

    Args:
        tensorboard: a folder for curves, or None.
    """
    with ExitStack() as stack:
        reports: list[Report] = []
        if sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
            more = (_Rate(), TimeRemainingColumn(), TextColumn("{task.fields[loss]}"))
            bars = Progress(*columns, *more, console=Console(stderr=True))
            reports.append(_Bars(stack.enter_context(bars)))
        else:
            reports.append(_say)
        if tensorboard is not None:
            reports.append(stack.enter_context(_curves_in(tensorboard)))

        def report(event: Event) -> None:
            for each in reports:
                each(event)

        yield report


@contextmanager
def _curves_in(folder: Path) -> Iterator[Report]:
    """Write the events of runs as curves, one folder per run.

    Args:
        folder: created at the first event.

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
