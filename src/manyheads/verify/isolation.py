"""Runs each subject in its own process, with limits, so that every subject gets a report.

The process is forked, so that torch is loaded once; the child then uses one thread, as the parent's
worker threads are missing there. `contained` says how a process is confined and ended.
"""

import contextlib
import faulthandler
import json
import os
import random
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from manyheads.core.errors import ManyHeadsError, SubjectError
from manyheads.verify.contained import LARGEST_ANSWER, ContainedCall, Outcome
from manyheads.verify.contained import Limits as Limits
from manyheads.verify.findings import short
from manyheads.verify.report import VerifyReport, plain, undetermined
from manyheads.verify.subject import NoSubjectError, Subject

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A verdict, and whether there was a subject."""

    report: VerifyReport
    """The verdict."""
    refused: str | None = None
    """Why nothing could be examined, where the declaration itself is wrong (no such file, say)."""


def examine(subject: Subject) -> Examined:
    """Load, build and verify a subject; this runs its code.

    Args:
        subject: what was declared.

    Returns:
        its report; `undetermined` with the reason where its code raises or it cannot be checked.
    """
    begun = time.perf_counter()
    try:
        report = _loaded_and_judged(subject)
    except ManyHeadsError as error:
        reason, refused = str(error), str(error) if isinstance(error, NoSubjectError) else None
    except (Exception, SystemExit) as error:
        reason, refused = f"verifying it raises {short(error)}", None
    else:
        return Examined(report=replace(report, seconds=time.perf_counter() - begun))
    seconds = time.perf_counter() - begun
    return Examined(report=undetermined(subject, reason, seconds=seconds), refused=refused)


def judged(target: Any, subject: Subject) -> VerifyReport:  # noqa: ANN401 - any object
    """Build a loaded target, infer what is not declared, and verify it.

    Args:
        target: a class, module or function.
        subject: what is declared of it.

    Raises:
        SubjectError: it cannot be built or called, or its declaration does not fit.
    """
    from manyheads.verify.infer import infer
    from manyheads.verify.run import verify

    known = infer(target, subject)
    return verify(known.made, known.subject, known.inferred, known.understanding)


def _loaded_and_judged(subject: Subject) -> VerifyReport:
    import torch

    from manyheads.verify.loading import load_target

    random.seed(_SEED)
    torch.manual_seed(_SEED)
    return judged(load_target(subject.target, subject.folder), subject)


def can_isolate() -> bool:
    """Whether this system can fork; where it can't, subjects run in this process without limits."""
    return hasattr(os, "fork")


def load_once() -> None:
    """Load what every subject needs, so that forked processes have it already."""
    import torch  # noqa: F401 - loaded for the processes to come

    import manyheads.verify.infer
    import manyheads.verify.loading
    import manyheads.verify.run  # noqa: F401 - loaded for the processes to come


class IsolatedRun:
    """One subject at work in its own process.

    Args:
        subject: what to examine.
        limits: time and memory that it may use.
    """

    def __init__(self, subject: Subject, limits: Limits) -> None:
        self.subject = subject
        self.call = ContainedCall(lambda: _answer(subject), limits)

    def step(self) -> Examined | None:
        """Take what has come, without waiting; the verdict once there is one."""
        outcome = self.call.step()
        return None if outcome is None else self._examined(outcome)

    def stop(self) -> None:
        """End the process and all that it started; harmless where it has ended."""
        self.call.stop()

    def _examined(self, outcome: Outcome) -> Examined:
        fix = ""
        if outcome.answer is None:
            reason, fix = what_happened(outcome, self.call.limits)
        else:
            try:
                return _with_output(self._read(outcome.answer), outcome.output)
            except ValueError as error:
                reason = f"its report cannot be read: {short(error)}"
        seconds = time.monotonic() - self.call.begun
        report = undetermined(self.subject, reason, fix=fix, seconds=seconds)
        return _with_output(Examined(report=report), outcome.output)

    def _read(self, answer: bytes) -> Examined:
        """The answer, checked against the types of a report; it is always about this subject."""
        examined = _reader().validate_json(answer)
        report = replace(examined.report, id=self.subject.id, target=self.subject.target)
        return replace(examined, report=report)


@cache
def _reader() -> "TypeAdapter[Examined]":
    from pydantic import TypeAdapter

    return TypeAdapter(Examined)


_RAISE = "find an endless loop, declare smaller sizes, or raise --time-limit"


def what_happened(outcome: Outcome, limits: Limits) -> tuple[str, str]:
    """One sentence on why there is no answer, and what to do."""
    late = f"no answer within the time limit of {limits.seconds:g} s"
    if outcome.how == "wall":
        return f"{late}: it was stopped after {limits.wall_seconds:g} s of wall time", _RAISE
    if outcome.how == "waited":
        return (
            f"{late}: it was stopped because it only waits",
            "find what it waits for (a lock, a process, the network), or raise --time-limit",
        )
    if _used_its_time(outcome, limits):
        return f"{late} of processor time: it was stopped", _RAISE
    if outcome.how == "processes":
        return (
            f"its code started more than {limits.processes} processes: they were stopped",
            "remove the code that starts processes",
        )
    if outcome.how == "guard":
        return "the process that supervises it was killed", "remove the code that kills processes"
    if outcome.how == "parent":
        return (
            f"its code ended its parent process ({_signal_name(outcome.status)})",
            "remove the code that sends signals to os.getppid() or to its process group",
        )
    return _how_it_ended(outcome.status)


def _used_its_time(outcome: Outcome, limits: Limits) -> bool:
    if outcome.how != "ended" or not os.WIFSIGNALED(outcome.status):
        return False
    name = _signal_name(outcome.status)
    # a process that ignores SIGXCPU is killed one second later
    return name == "SIGXCPU" or (name == "SIGKILL" and outcome.seconds >= limits.whole_seconds)


def _how_it_ended(status: int) -> tuple[str, str]:
    """As `_what_happened`, for a process that ended by itself without an answer."""
    if not os.WIFSIGNALED(status):
        return (
            f"its code ended the process with exit status {os.waitstatus_to_exitcode(status)}",
            "remove os._exit and similar calls from the code",
        )
    name = _signal_name(status)
    if name == "SIGKILL":
        return (
            f"its process was killed ({name}), most likely because it used too much memory",
            "declare smaller sizes",
        )
    return f"its process crashed ({name})", "run the module alone to find the crash"


def _signal_name(status: int) -> str:
    number = os.WTERMSIG(status)
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)


def _with_output(examined: Examined, output: bytes) -> Examined:
    """What was printed goes with a report that has no verdict, where it may say why."""
    text = output.decode("utf-8", errors="replace").strip()
    report = examined.report
    if not text or report.verdict != "undetermined" or not report.findings:
        return examined
    first = report.findings[0]
    first = replace(first, evidence={**first.evidence, "output": text})
    findings = (first, *report.findings[1:])
    return replace(examined, report=replace(report, findings=findings))


@contextlib.contextmanager
def worker_streams() -> Iterator[None]:
    """In the process of a subject: one thread, and Python's streams on the descriptors 0 to 2."""
    import torch

    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with (
        open(1, "w", errors="backslashreplace", closefd=False) as out,
        open(2, "w", errors="backslashreplace", closefd=False, buffering=1) as err,
        open(0, closefd=False) as sys.stdin,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        faulthandler.enable(file=err, all_threads=False)
        yield


def _answer(subject: Subject) -> bytes:
    """In the subject's process: examine it, and return the answer as JSON."""
    with worker_streams():
        try:
            examined = examine(subject)
        except BaseException as error:
            examined = _failed(subject, f"verifying it raises {short(error)}")
        answer = _packed(examined)
    if len(answer) > LARGEST_ANSWER:
        return _packed(_failed(subject, f"the report exceeds {LARGEST_ANSWER} bytes"))
    return answer


def outcome_of(work: Callable[[], bytes], limits: Limits) -> Outcome:
    """What came of a function that runs in a process of its own.

    Args:
        work: runs the code of subjects; in `worker_streams`.
        limits: time and memory.
    """
    call = ContainedCall(work, limits)
    try:
        while (outcome := call.step()) is None:
            wait(call.pipes, timeout=max(0.0, call.remaining))
    finally:
        call.stop()
    return outcome


def answer_of(work: Callable[[], bytes], limits: Limits) -> bytes:
    """The answer of a function that runs in a process of its own.

    Args:
        work: runs the code of subjects; in `worker_streams`.
        limits: time and memory.

    Raises:
        SubjectError: there is no answer; the message says why and what to do.
    """
    outcome = outcome_of(work, limits)
    if outcome.answer is None:
        reason, fix = what_happened(outcome, limits)
        raise SubjectError(f"{reason}: {fix}" if fix else reason)
    return outcome.answer


def _failed(subject: Subject, reason: str) -> Examined:
    return Examined(report=undetermined(subject, reason))


def _packed(examined: Examined) -> bytes:
    return json.dumps(plain(asdict(examined)), allow_nan=False).encode()


OnDone = Callable[[int, Examined], None]


def default_jobs() -> int:
    """Default number of subjects at a time: one per processor, at most two."""
    return min(2, os.cpu_count() or 1)


def verify_subjects(
    subjects: Sequence[Subject | SubjectError],
    *,
    jobs: int | None = None,
    limits: Limits | None = None,
    on_done: OnDone | None = None,
) -> list[VerifyReport]:
    """Check subjects, each in its own process; this runs their code.

    Args:
        subjects: as `read_manifest` gives them; an error in place of a subject that cannot be read.
        jobs: number of subjects at a time; by default one per processor, at most two.
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
        folder = getattr(subjects[index], "folder", None)
        if folder is not None:
            report = replace(examined.report, folder=str(folder))
            examined = replace(examined, report=report)
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
    pipes = [fd for run in runs for fd in run.call.pipes]
    wait(pipes, timeout=max(0.0, min(run.call.remaining for run in runs)))
