"""A function in a process tree of its own: its answer cannot be forged, and nothing is left."""

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from manyheads.verify.contained import ContainedCall, Limits, Outcome

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has a subreaper and /proc"
)

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU)


def finished(call: ContainedCall) -> Outcome:
    while (outcome := call.step()) is None:
        wait(call.pipes, timeout=max(0.0, call.remaining))
    return outcome


def outcome_of(work: Callable[[], bytes], **limits: float) -> Outcome:
    return finished(ContainedCall(work, Limits(**limits)))  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    try:
        return ") Z " not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return sys.platform != "linux"


def assert_ended(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still running"
        time.sleep(0.02)


def pid_from(path: Path) -> int:
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.02)
    return int(path.read_text())


def start_detached_child(file: Path) -> None:
    """As a daemon does it: fork, a new session, fork again; the file gets its process id."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            file.write_text(f"{os.getpid()}\n")
            time.sleep(300)
        os._exit(0)
    pid_from(file)


def test_the_answer_comes_back_and_so_does_what_is_printed() -> None:
    def work() -> bytes:
        os.write(1, b"begin" + b"x" * 5_000_000 + b"end")
        return b"answer"

    outcome = outcome_of(work)
    assert (outcome.answer, outcome.how, outcome.status) == (b"answer", "ended", 0)
    assert outcome.output.startswith(b"beginx")
    assert outcome.output.endswith(b"xend")
    assert len(outcome.output) < 3000


def test_there_is_nothing_to_read_from_stdin() -> None:
    assert outcome_of(lambda: b"%d" % len(os.read(0, 10))).answer == b"0"


def write_everywhere() -> None:
    """Write a complete answer to every descriptor, by number and by what the system lists."""
    for fd in {*range(3, 1024), *map(int, os.listdir("/dev/fd"))}:
        try:
            os.write(fd, b'{"how": "ended"}\nforged')
        except OSError:
            continue


def test_what_is_written_to_any_descriptor_is_no_answer() -> None:
    def work() -> bytes:
        write_everywhere()
        return b"answer"

    def work_and_leave() -> bytes:
        write_everywhere()
        os._exit(0)

    assert outcome_of(work).answer == b"answer"
    outcome = outcome_of(work_and_leave)
    assert (outcome.answer, outcome.how) == (None, "ended")


def test_a_worker_that_closes_every_descriptor_still_answers() -> None:
    def work() -> bytes:
        os.closerange(0, 1024)
        return b"answer"

    assert outcome_of(work).answer == b"answer"


def test_a_forked_child_that_returns_does_not_answer() -> None:
    def work_and_leave() -> bytes:
        child = os.fork()
        if child == 0:
            return b"from the child"
        os.waitpid(child, 0)
        os._exit(0)

    assert outcome_of(work_and_leave).answer is None


def test_exit_handlers_and_threads_do_nothing_after_the_answer(tmp_path: Path) -> None:
    def write_late() -> None:
        time.sleep(0.3)
        (tmp_path / "late").touch()

    def work() -> bytes:
        atexit.register((tmp_path / "at exit").touch)
        threading.Thread(target=write_late).start()
        return b"answer"

    assert outcome_of(work).answer == b"answer"
    time.sleep(0.6)
    assert list(tmp_path.iterdir()) == []


def test_no_object_but_a_frame_holds_the_token() -> None:
    script = """
import gc, hashlib, types
from multiprocessing.connection import wait
from manyheads.verify.contained import ContainedCall, Limits

digests = []

class Noting(ContainedCall):
    def __setattr__(self, name, value):
        if name == "_digest":
            digests.append(value)
        super().__setattr__(name, value)

def work():
    objects = [found for found in gc.get_objects() if type(found) is not types.FrameType]
    held = [part for found in objects for part in gc.get_referents(found)]
    texts = {part for part in held if type(part) is bytes and len(part) == 32}
    return b"%d" % (digests[0] in {hashlib.sha256(text).digest() for text in texts})

call = Noting(work, Limits())
while (outcome := call.step()) is None:
    wait(call.pipes)
assert outcome.answer == b"0", outcome
"""
    # in a process of its own, because beartype passes arguments on in tuples here
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@on_linux
def test_a_later_call_cannot_write_the_answer_of_an_earlier_one() -> None:
    def work() -> bytes:
        time.sleep(300)
        return b""

    earlier = ContainedCall(work, Limits())
    try:
        outcome = outcome_of(lambda: earlier._answer[:1])
    finally:
        earlier.stop()
    assert outcome.answer is None
    assert os.WTERMSIG(outcome.status) == signal.SIGSEGV


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_worker_that_ends_its_parent_ends_only_its_own_call(number: signal.Signals) -> None:
    def work() -> bytes:
        os.kill(os.getppid(), number)
        time.sleep(300)
        return b"answer"

    outcome = outcome_of(work)
    assert (outcome.answer, outcome.how) == (None, "parent")
    assert os.WTERMSIG(outcome.status) == number


def test_a_worker_that_ends_its_process_group_ends_only_its_own_call() -> None:
    def work() -> bytes:
        os.killpg(0, signal.SIGKILL)
        return b"answer"

    outcome = outcome_of(work)
    assert (outcome.answer, outcome.how) == (None, "parent")


def test_a_call_has_a_session_of_its_own_so_that_no_key_of_the_terminal_reaches_it() -> None:
    assert outcome_of(lambda: b"%d" % os.getsid(0)).answer != b"%d" % os.getsid(0)


def guard_of_this_worker() -> int:
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().split()[3])


@on_linux
def test_the_guard_ignores_signals_that_can_be_ignored() -> None:
    def work() -> bytes:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(guard_of_this_worker(), number)
        time.sleep(0.5)
        return b"answer"

    outcome = outcome_of(work)
    assert (outcome.answer, outcome.how) == (b"answer", "ended")


@on_linux
def test_a_guard_that_is_killed_is_reported_and_the_worker_ends(tmp_path: Path) -> None:
    def work() -> bytes:
        (tmp_path / "worker").write_text(f"{os.getpid()}\n")
        os.kill(guard_of_this_worker(), signal.SIGKILL)
        time.sleep(300)
        return b"answer"

    outcome = outcome_of(work)
    assert (outcome.answer, outcome.how) == (None, "guard")
    assert_ended(pid_from(tmp_path / "worker"))


@on_linux
def test_children_in_their_own_session_end_with_the_worker(tmp_path: Path) -> None:
    def work() -> bytes:
        start_detached_child(tmp_path / "child")
        return b"answer"

    assert outcome_of(work).answer == b"answer"
    assert not is_alive(pid_from(tmp_path / "child"))


@on_linux
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"])
def test_the_tree_ends_when_the_caller_is_ended(name: str, tmp_path: Path) -> None:
    script = """
import os, signal, sys, time
from multiprocessing.connection import wait
from pathlib import Path
from manyheads.verify.contained import ContainedCall, Limits
from tests.verify.test_contained import IGNORED, start_detached_child

def work():
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    start_detached_child(Path("child"))
    Path("worker").write_text(f"{os.getpid()}\\n")
    while True:
        pass

call = ContainedCall(work, Limits())
wait(call.pipes)
"""
    root = Path(__file__).parents[2]
    caller = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.DEVNULL,
    )
    processes = [pid_from(tmp_path / name) for name in ("worker", "child")]
    caller.send_signal(getattr(signal, name))
    assert caller.wait(timeout=20) != 0
    for pid in processes:
        assert_ended(pid)


@on_linux
def test_too_many_processes_are_stopped_and_few_are_not(tmp_path: Path) -> None:
    def processes_of(doublings: int) -> Callable[[], bytes]:
        def work() -> bytes:
            me = os.getpid()
            for _ in range(doublings):
                os.fork()
            time.sleep(1.0 if os.getpid() == me else 300)
            return b"answer"

        return work

    outcome = outcome_of(processes_of(5), processes=20)
    assert (outcome.answer, outcome.how) == (None, "processes")
    assert outcome_of(processes_of(4), processes=20).answer == b"answer"


def test_an_endless_loop_ends_at_the_limit_of_processor_time_though_signals_are_ignored() -> None:
    def work() -> bytes:
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        while True:
            pass

    outcome = outcome_of(work, seconds=0.5)
    assert (outcome.answer, outcome.how) == (None, "ended")
    assert os.WTERMSIG(outcome.status) == signal.SIGKILL
    assert 1.0 < outcome.seconds < 3.0


@on_linux
def test_time_spent_waiting_is_limited_too() -> None:
    def work(seconds: float) -> bytes:
        time.sleep(seconds)
        return b"answer"

    begun = time.monotonic()
    outcome = outcome_of(lambda: work(300), seconds=1.0)
    assert (outcome.answer, outcome.how) == (None, "waited")
    assert time.monotonic() - begun > 1.0
    assert outcome_of(lambda: work(0.5), seconds=1.0).answer == b"answer"


@on_linux
def test_memory_is_limited_for_each_process() -> None:
    def work() -> bytes:
        return b"%d" % len(bytearray(200 << 20))

    outcome = outcome_of(work, memory=64 << 20)
    assert (outcome.answer, outcome.how) == (None, "ended")
    assert os.waitstatus_to_exitcode(outcome.status) == 1
    assert outcome_of(work, memory=512 << 20).answer == b"%d" % (200 << 20)


def test_a_stopped_call_leaves_no_process_and_no_pipe() -> None:
    def work() -> bytes:
        time.sleep(300)
        return b""

    call = ContainedCall(work, Limits())
    pipes, guard = call.pipes, call._guard
    assert call.step() is None
    call.stop()
    call.stop()
    assert call.pipes == []
    for fd in pipes:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    assert guard is not None
    with pytest.raises(ChildProcessError):
        os.waitpid(guard, os.WNOHANG)
