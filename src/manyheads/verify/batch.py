"""Many subjects, a few at a time, each in its own process; reports in the order of the subjects."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait

from manyheads.core.errors import SubjectError
from manyheads.verify.examine import Examined, examine, undetermined
from manyheads.verify.isolation import IsolatedRun, Limits, can_isolate, load_once
from manyheads.verify.report import VerifyReport
from manyheads.verify.subject import Subject

_TICK = 0.25
"""Seconds after which a process that ended without closing its pipes is noticed."""

OnDone = Callable[[int, Examined], None]


def default_jobs() -> int:
    """How many subjects run at a time unless said: one a processor, at most two."""
    return min(2, os.cpu_count() or 1)


def verify_subjects(
    subjects: Sequence[Subject | SubjectError],
    *,
    jobs: int | None = None,
    limits: Limits | None = None,
    on_done: OnDone | None = None,
) -> list[VerifyReport]:
    """Judge subjects, each in a process of its own; this runs their code.

    Args:
        subjects: as `read_manifest` gives them; an error stands for a subject that can't be read.
        jobs: how many run at a time; by default one a processor, at most two.
        limits: time and memory of one subject.
        on_done: called with the index and the verdict of each subject when it is done.

    Returns:
        a report for each, in order; `undetermined` with the reason where there is no verdict.
    """
    examined = examine_subjects(subjects, jobs=jobs, limits=limits, on_done=on_done)
    return [one.report for one in examined]


def examine_subjects(
    subjects: Sequence[Subject | SubjectError],
    *,
    jobs: int | None = None,
    limits: Limits | None = None,
    on_done: OnDone | None = None,
) -> list[Examined]:
    """As `verify_subjects`, with the word whether the declaration itself was wrong."""
    load_once()
    found: dict[int, Examined] = {}
    waiting: deque[tuple[int, Subject]] = deque()

    def done(index: int, examined: Examined) -> None:
        found[index] = examined
        if on_done is not None:
            on_done(index, examined)

    for index, subject in enumerate(subjects):
        if isinstance(subject, SubjectError):
            done(index, _unreadable(subject))
        elif can_isolate():
            waiting.append((index, subject))
        else:
            done(index, examine(subject))
    for index, examined in _finished(waiting, jobs or default_jobs(), limits or Limits()):
        done(index, examined)
    return [found[index] for index in range(len(subjects))]


def _unreadable(error: SubjectError) -> Examined:
    return Examined(report=undetermined(None, str(error)), refused=str(error))


def _finished(
    waiting: deque[tuple[int, Subject]], jobs: int, limits: Limits
) -> Iterator[tuple[int, Examined]]:
    """Each subject's index and verdict, as they come; nothing is left running afterwards."""
    running: dict[int, IsolatedRun] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, subject = waiting.popleft()
                running[index] = IsolatedRun(subject, limits)
            _wait(list(running.values()))
            for index, run in list(running.items()):
                examined = run.step()
                if examined is not None:
                    del running[index]
                    yield index, examined
    finally:
        for run in running.values():
            run.stop()


def _wait(runs: Sequence[IsolatedRun]) -> None:
    """Until one of them has something to say, may have ended, or runs out of time."""
    pipes = [fd for run in runs for fd in run.pipes]
    wait(pipes, timeout=max(0.0, min([_TICK, *(run.remaining for run in runs)])))
