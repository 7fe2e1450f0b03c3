"""Runs each subject in its own process, with limits, so that every subject gets a report.

The process is forked, so that torch is loaded once; the child then uses one thread, as the parent's
worker threads are missing there. Its result comes back through a pipe as one line of JSON; what it
prints goes to another pipe, of which beginning and end are kept.
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
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any, NoReturn

from manyheads.core.errors import ManyHeadsError, SubjectError
from manyheads.verify.findings import short
from manyheads.verify.report import VerifyReport, plain, report_from_dict, undetermined
from manyheads.verify.subject import NoSubjectError, Subject

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
    return verify(known.made, known.subject, known.inferred)


def _loaded_and_judged(subject: Subject) -> VerifyReport:
    import torch

    from manyheads.verify.loading import load_target

    random.seed(_SEED)
    torch.manual_seed(_SEED)
    return judged(load_target(subject.target, subject.folder), subject)


_MAX_ANSWER = 1 << 25
_KEPT_OUTPUT = 1000
_CUT = b"\n...\n"
_GRACE = 5.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one subject."""

    seconds: float = 60.0
    """Wall time, in seconds."""
    memory: int = 4 << 30
    """Address space in bytes, beyond what the process has when it begins."""


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
        self.subject, self.limits = subject, limits
        self.begun = time.monotonic()
        self._answer, self._output = b"", b""
        self._status: int | None = None
        self._answer_fd, answer_end = os.pipe()
        self._output_fd, output_end = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that other threads exist: the child uses none of them
            self._pid = os.fork()
        if self._pid == 0:
            _work(subject, limits, answer_end, output_end)
        os.close(answer_end)
        os.close(output_end)
        for fd in self.pipes:
            os.set_blocking(fd, False)

    @property
    def pipes(self) -> list[int]:
        """What to wait for: file descriptors that become readable when there is something to do."""
        return [fd for fd in (self._answer_fd, self._output_fd) if fd >= 0]

    @property
    def remaining(self) -> float:
        """Seconds until the time limit."""
        return self.limits.seconds - (time.monotonic() - self.begun)

    def step(self) -> Examined | None:
        """Take what has come, without waiting; the verdict once there is one."""
        has_ended = self._has_ended()  # asked before reading, so that nothing written is missed
        self._answer_fd, answer = _drain(self._answer_fd)
        self._output_fd, output = _drain(self._output_fd)
        self._answer += answer
        self._output = _shortened(self._output + output)
        is_complete = self._answer.endswith(b"\n") or len(self._answer) > _MAX_ANSWER
        if not (is_complete or has_ended or self.remaining <= 0):
            return None
        was_late = not (is_complete or has_ended)
        self.stop()
        return self._verdict(was_late)

    def stop(self) -> None:
        """End the process and all that it started; harmless where it has ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._status is None:
                os.kill(self._pid, signal.SIGKILL)
        if self._status is None:
            with contextlib.suppress(ChildProcessError):
                self._status = os.waitpid(self._pid, 0)[1]
        for fd in self.pipes:
            os.close(fd)
        self._answer_fd = self._output_fd = -1

    def _has_ended(self) -> bool:
        if self._status is None:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it
                pid, status = self._pid, 0
            self._status = status if pid else None
        return self._status is not None

    def _verdict(self, was_late: bool) -> Examined:
        seconds = time.monotonic() - self.begun
        if self._answer.endswith(b"\n") and len(self._answer) <= _MAX_ANSWER:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return _with_output(_read(self._answer), self._output)
        reason, fix = self._what_happened(was_late)
        examined = Examined(report=undetermined(self.subject, reason, fix=fix, seconds=seconds))
        return _with_output(examined, self._output)

    def _what_happened(self, was_late: bool) -> tuple[str, str]:
        """One sentence on why there is no answer, and what to do."""
        if was_late:
            return (
                f"no answer within the time limit of {self.limits.seconds:g} s: it was stopped",
                "find an endless loop or a wait, declare smaller sizes, or raise --time-limit",
            )
        if len(self._answer) > _MAX_ANSWER:
            return f"the report exceeds {_MAX_ANSWER} bytes", ""
        status = self._status or 0
        if not os.WIFSIGNALED(status):
            return (
                f"its code ended the process with exit status {os.waitstatus_to_exitcode(status)}",
                "remove os._exit and similar calls from the code",
            )
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        if number == signal.SIGKILL:
            return (
                f"its process was killed ({name}), most likely because it used too much memory",
                "declare smaller sizes",
            )
        return f"its process crashed ({name})", "run the module alone to find the crash"


def _shortened(output: bytes) -> bytes:
    """The beginning and the end of what was printed."""
    if len(output) <= 2 * _KEPT_OUTPUT + len(_CUT):
        return output
    return output[:_KEPT_OUTPUT] + _CUT + output[-_KEPT_OUTPUT:]


def _read(answer: bytes) -> Examined:
    document = json.loads(answer)
    return Examined(report=report_from_dict(document["report"]), refused=document["refused"])


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


def _drain(fd: int) -> tuple[int, bytes]:
    """Everything that can be read now; the descriptor becomes -1 at the end of the pipe."""
    parts: list[bytes] = []
    while fd >= 0 and len(parts) < 64:
        try:
            part = os.read(fd, 1 << 16)
        except BlockingIOError:
            break
        if not part:
            os.close(fd)
            fd = -1
        parts.append(part)
    return fd, b"".join(parts)


def _work(subject: Subject, limits: Limits, answer_fd: int, output_fd: int) -> NoReturn:
    """The child: examine, answer, and end without returning to the caller's code."""
    status = 1
    try:
        _confine(limits, output_fd)
        with (
            open(1, "w", errors="backslashreplace", closefd=False) as out,
            open(2, "w", errors="backslashreplace", closefd=False, buffering=1) as err,
            open(0, closefd=False) as sys.stdin,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            faulthandler.enable(file=err, all_threads=False)
            _send(answer_fd, _examined(subject))
        status = 0
    finally:
        os._exit(status)


def _examined(subject: Subject) -> Examined:
    try:
        return examine(subject)
    except BaseException as error:
        return Examined(report=undetermined(subject, f"verifying it raises {short(error)}"))


def _send(fd: int, examined: Examined) -> None:
    document = {"report": plain(examined.report.to_dict()), "refused": examined.refused}
    line = json.dumps(document, allow_nan=False).encode() + b"\n"
    while line:
        line = line[os.write(fd, line) :]


def _confine(limits: Limits, output_fd: int) -> None:
    """A process group, an alarm, a memory limit, no input, and its own place for output."""
    import torch

    os.setpgid(0, 0)
    for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + _GRACE)  # should the parent be gone
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output_fd, 1), (output_fd, 2)):
        os.dup2(source, target)
    _limit_memory(limits.memory)
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


def _limit_memory(beyond: int) -> None:
    """Let the address space grow by so many bytes; no core files. Only where the system can."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (used + beyond, used + beyond))
    except (ImportError, OSError, ValueError):
        return


_TICK = 0.25
"""Seconds after which a process that ended without closing its pipes is noticed."""

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
