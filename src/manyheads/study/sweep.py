"""All runs of a plan: first those that check learning rates, then every model with every seed.

A run that is done is never trained again, and one that another process holds is left to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import StudyError
from manyheads.core.files import clear_parts
from manyheads.study.events import Event
from manyheads.study.files import BusyError, lock
from manyheads.study.folder import Folder, RunKey
from manyheads.study.machine import Machine
from manyheads.study.site import Site
from manyheads.study.stop import StopSign
from manyheads.study.train import Training

Trainer = Callable[[Sequence[RunKey]], None]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be trained, and by whom."""

    site: Site
    """Folder, data, processes and watchers."""
    machine: Machine
    """How many runs at a time."""
    only: tuple[str, ...]
    """Names of models or runs; empty for all."""
    data: Path | None
    """The file of stories, for processes that have to read it themselves."""
    sign: StopSign
    """Asks for a stop."""


def runs_wanted(folder: Folder, only: Sequence[str]) -> tuple[RunKey, ...]:
    """The runs of the plan, or those that are named by model or by run.

    Raises:
        StudyError: a name is neither.
    """
    runs = folder.runs()
    for name in only:
        if not any(name in (run.model, run.name) for run in runs):
            known = ", ".join(dict.fromkeys(run.model for run in runs))
            raise StudyError(f"only ({name}) is no model or run of the plan: use one of {known}")
    return tuple(run for run in runs if not only or {run.model, run.name} & set(only))


def train_all(order: Order) -> tuple[RunKey, ...]:
    """Train what is wanted and not done.

    Returns:
        the runs of the whole plan that are still not done, because they were not wanted or because
        another process holds them.

    Raises:
        Stopped: somebody asked for a stop; every state is saved.
        StudyError: a run cannot go on.
    """
    folder = order.site.folder
    wanted = runs_wanted(folder, order.only)
    models = {run.model for run in wanted}
    checks = [run for run in folder.checks() if run.model in models]
    for phase in (checks, wanted):
        todo = order.site.crew.agreed([run for run in phase if folder.record(run) is None])
        if order.machine.needs_workers and todo:
            from manyheads.study.pool import train_in_workers

            train_in_workers(todo, order.machine, order.site, order.sign, order.data)
        else:
            for run in todo:
                train_here(run, order.site)
    left = [run for run in (*folder.checks(), *folder.runs()) if folder.record(run) is None]
    return tuple(order.site.crew.agreed(left))


def train_here(run: RunKey, site: Site) -> None:
    """Train one run in this process, unless another one holds or has done it.

    Raises:
        Stopped: somebody asked for a stop.
        StudyError: the run cannot go on.
    """
    if not site.crew.is_first:
        if site.crew.agreed(None):
            Training(run, site).go()
        return
    try:
        with lock(site.folder.place(run)):
            clear_parts(site.folder.place(run))
            is_free = site.folder.record(run) is None
            site.crew.agreed(is_free)
            if is_free:
                Training(run, site).go()
            else:
                site.report(Event(run=run.name, kind="done"))
    except BusyError as error:
        site.crew.agreed(False)
        site.report(Event(run=run.name, kind="note", says=str(error)))
