"""Runs a function in a process tree of its own, with limits, and ends the whole tree afterwards.

Each call has three processes, each the child of the one above it:

    guard    ends the tree when the caller, the parent or the worker ends
    parent   only waits: it is the process that `os.getppid()` names in the worker
    worker   runs the function

The guard reads the end of a pipe that only the caller holds open. So it notices how ever the caller
ends. On Linux orphaned processes become children of the guard (`PR_SET_CHILD_SUBREAPER`), and the
guard finds all processes below it in /proc. On other systems it ends the process group.

The answer travels in anonymous shared memory. It counts only if the worker's own process writes it
together with a token that only the worker gets. The worker has no descriptor that leads out.
"""

import contextlib
import ctypes
import hashlib
import json
import math
import mmap
import os
import secrets
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Literal, NoReturn

LARGEST_ANSWER = 1 << 25
"""Bytes."""
_TOKEN, _LENGTH = 32, 8
_HEADER = _TOKEN + _LENGTH
_KEPT_OUTPUT = 1000
_CUT = b"\n...\n"
_GRACE = 5.0
"""Seconds that the guard has to end the tree."""
_TICK = 0.25
"""Seconds after which the guard counts processes again."""
_PATIENCE, _LEAST = 10, 60.0
"""Wall time as a multiple of the time limit, and its least value in seconds: much more than a busy
machine needs."""
_RUNS = frozenset({b"R", b"D"})
"""States of a process that runs, or waits for a processor or a disk. Source: proc(5)."""
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
"""Source: prctl(2)."""
_RESET = ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one subject."""

    seconds: float = 60.0
    """Processor time of each process, and time for which all of them wait, in seconds.

    Rounded up to whole seconds. Time for which a process waits for a processor does not count.
    """
    memory: int = 4 << 30
    """Address space of each process in bytes, beyond what it has when it begins."""
    processes: int = 64
    """Number of processes at the same time, where the system has /proc."""

    @property
    def whole_seconds(self) -> int:
        """The time limit as the system counts it."""
        return max(1, math.ceil(self.seconds))

    @property
    def wall_seconds(self) -> float:
        """Wall time after which a call is stopped in any case."""
        return max(_LEAST, float(_PATIENCE * self.whole_seconds))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is known of a call that has ended."""

    answer: bytes | None
    """What the function returned; None where it did not return."""
    output: bytes
    """Beginning and end of what was printed."""
    how: Literal["ended", "parent", "guard", "processes", "waited", "wall"]
    """The worker ended, its parent or its guard was killed, or a limit was reached."""
    status: int = 0
    """Wait status of the worker, or of its parent."""
    seconds: float = 0.0
    """Processor time of the worker."""


class ContainedCall:
    """One call of a function in a process tree of its own.

    Args:
        work: returns the answer.
        limits: what it may use.
    """

    def __init__(self, work: Callable[[], bytes], limits: Limits) -> None:
        self.limits = limits
        self.begun = time.monotonic()
        self._ending, self._output = b"", b""
        self._answer = mmap.mmap(-1, _HEADER + LARGEST_ANSWER)
        token = secrets.token_bytes(_TOKEN)  # kept in no object, only in the worker's own frames
        self._digest = hashlib.sha256(token).digest()
        self._ending_fd, ending = os.pipe()
        self._output_fd, output = os.pipe()
        lifeline, self._lifeline_fd = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that other threads exist: the child uses none of them
            self._guard: int | None = os.fork()
        if self._guard == 0:
            _guard(_Task(work, limits, self._answer, ending, output), token, lifeline)
        for fd in (ending, output, lifeline):
            os.close(fd)
        for fd in self.pipes:
            os.set_blocking(fd, False)
        if hasattr(mmap, "MADV_DONTFORK"):
            self._answer.madvise(mmap.MADV_DONTFORK)  # later calls do not get this memory

    @property
    def pipes(self) -> list[int]:
        """What to wait for: file descriptors that become readable when there is something to do."""
        return [fd for fd in (self._ending_fd, self._output_fd) if fd >= 0]

    @property
    def remaining(self) -> float:
        """Seconds until the limit of wall time."""
        return self.limits.wall_seconds - (time.monotonic() - self.begun)

    def step(self) -> Outcome | None:
        """Take what has come, without waiting; the outcome once the call has ended."""
        self._ending_fd, ending = _drain(self._ending_fd)
        self._output_fd, output = _drain(self._output_fd)
        self._ending += ending
        self._output = _shortened(self._output + output)
        was_late = self._ending_fd >= 0
        if was_late and self.remaining > 0:
            return None
        self.stop()
        told = json.loads(self._ending.splitlines()[0]) if self._ending else {"how": "guard"}
        if was_late:
            told = {"how": "wall"}
        return Outcome(answer=self._read(), output=self._output, **told)

    def stop(self) -> None:
        """End the whole tree; harmless where it has ended."""
        for fd in (*self.pipes, self._lifeline_fd):
            if fd >= 0:
                os.close(fd)
        self._ending_fd = self._output_fd = self._lifeline_fd = -1
        deadline = time.monotonic() + 2 * _GRACE
        while self._guard is not None:
            if time.monotonic() > deadline:
                os.kill(self._guard, signal.SIGKILL)
            try:
                has_ended = os.waitpid(self._guard, os.WNOHANG)[0] != 0
            except ChildProcessError:  # somebody else has waited for it
                has_ended = True
            if has_ended:
                self._guard = None
            else:
                time.sleep(0.002)

    def _read(self) -> bytes | None:
        token, length = self._answer[:_TOKEN], self._answer[_TOKEN:_HEADER]
        if hashlib.sha256(token).digest() != self._digest:
            return None
        return self._answer[_HEADER : _HEADER + int.from_bytes(length)]


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


def _shortened(output: bytes) -> bytes:
    """The beginning and the end of what was printed."""
    if len(output) <= 2 * _KEPT_OUTPUT + len(_CUT):
        return output
    return output[:_KEPT_OUTPUT] + _CUT + output[-_KEPT_OUTPUT:]


@dataclass(frozen=True)
class _Task:
    """What the processes of one call share."""

    work: Callable[[], bytes]
    limits: Limits
    answer: mmap.mmap
    ending: int
    """Descriptor that takes how the call ended; the guard holds it open until all is done."""
    output: int
    """Descriptor that takes what is printed."""

    def tell(self, how: str, status: int = 0, seconds: float = 0.0) -> None:
        """Tell the caller how the call ended; the first message counts."""
        told = {"how": how, "status": status, "seconds": seconds}
        os.write(self.ending, json.dumps(told).encode() + b"\n")


def _guard(task: _Task, token: bytes, lifeline: int) -> NoReturn:
    """Start the parent, wait, and end all processes below this one."""
    parent = 0
    try:
        os.setsid()
        _set_signals(signal.SIG_IGN)
        _prctl(_SET_CHILD_SUBREAPER, 1)
        _keep_only(task.ending, task.output, lifeline)
        alive, held = os.pipe()
        parent = os.fork()
        if parent == 0:
            _parent(task, token, held)
        os.close(held)
        os.close(task.output)
        _watch(task, parent, alive, lifeline)
    finally:
        _end_all(parent)
        os._exit(0)


def _watch(task: _Task, parent: int, alive: int, lifeline: int) -> None:
    """Return when the caller or the parent has ended, or a limit is reached."""
    waited = 0.0
    while True:
        ready = wait([alive, lifeline], timeout=_TICK)
        if alive in ready:
            status = os.waitpid(parent, 0)[1]
            if os.WIFSIGNALED(status):
                task.tell("parent", status)
        if ready:
            return
        states = _descendants()
        if len(states) > task.limits.processes + 1:
            task.tell("processes")
            return
        waited += 0.0 if _RUNS.intersection(states.values()) else _TICK
        if states and waited > task.limits.whole_seconds:
            task.tell("waited")
            return


def _end_all(group: int) -> None:
    """Kill the processes of a group and all below this one until there are none."""
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(group, signal.SIGKILL)
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _descendants() -> dict[int, bytes]:
    """All processes below this one, with their states; empty where the system has no /proc."""
    found: dict[int, tuple[bytes, int]] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                found[int(name)] = state, int(parent)
    below = [os.getpid()]
    for pid in below:  # grows while it is read
        below += [child for child, (_, parent) in found.items() if parent == pid]
    return {pid: found[pid][0] for pid in below[1:]}


def _parent(task: _Task, token: bytes, held: int) -> NoReturn:
    """Start the worker, wait for it, and tell the caller how it ended."""
    try:
        os.setpgid(0, 0)
        _set_signals(signal.SIG_DFL)
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        _keep_only(task.ending, task.output, held)
        worker = os.fork()
        if worker == 0:
            _work(task, token)
        os.close(task.output)
        _, status, used = os.wait4(worker, 0)
        task.tell("ended", status, used.ru_utime + used.ru_stime)
    finally:
        os._exit(0)


def _work(task: _Task, token: bytes) -> NoReturn:
    """Run the function and leave its answer, without returning to the caller's code."""
    status, worker = 1, os.getpid()
    try:
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for target in (1, 2):
            os.dup2(task.output, target)
        _keep_only(1, 2)
        _limit(task.limits)
        answer = task.work()
        if os.getpid() == worker:  # a process that the function forked may return here too
            task.answer[_HEADER : _HEADER + len(answer)] = answer
            task.answer[:_HEADER] = token + len(answer).to_bytes(_LENGTH)
        status = 0
    finally:
        os._exit(status)


def _set_signals(handler: signal.Handlers) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for name in _RESET:
        signal.signal(getattr(signal, name), signal.SIG_DFL if name == "SIGCHLD" else handler)


def _prctl(option: int, value: int) -> None:
    """Set an attribute of this process that only Linux has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _keep_only(*kept: int) -> None:
    """Replace all other descriptors by the null device.

    Their numbers stay in use: so an object that still holds one never closes a later file.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    with contextlib.suppress(OSError):
        for fd in {0, 1, 2, *map(int, os.listdir("/dev/fd"))} - {nothing, *kept}:
            os.dup2(nothing, fd, inheritable=fd < 3)


def _limit(limits: Limits) -> None:
    """Limit processor time and the growth of the address space; no core files."""
    import resource

    seconds = limits.whole_seconds
    _set_limit(resource.RLIMIT_CORE, 0, 0)
    _set_limit(resource.RLIMIT_CPU, seconds, seconds + 1)
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
        _set_limit(resource.RLIMIT_AS, used + limits.memory, used + limits.memory)


def _set_limit(kind: int, soft: int, hard: int) -> None:
    """Set a limit, unless a stricter one holds already."""
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (soft, hard))
