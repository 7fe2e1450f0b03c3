"""Several runs at a time: crews of worker processes, each given one run after another."""

import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from manyheads.core import errors
from manyheads.core.errors import StudyError
from manyheads.study.folder import RunKey
from manyheads.study.machine import Machine
from manyheads.study.site import Event, Site, Stopped, StopSign

SECONDS_TO_END = 60.0
"""Maximum time for a worker to finish its step, save and end, in seconds."""


class _Workers:
    """The processes that share one run at a time; the first of them sends events."""

    def __init__(self, machine: Machine, folder: Path, data: Path | None) -> None:
        alone = replace(machine, jobs=1)
        request = {
            "folder": str(folder.absolute()),
            "data": None if data is None else str(data.absolute()),
            "machine": asdict(alone),
        }
        self.is_stopped = False
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the workers
        argv = [sys.executable, "-m", "manyheads.study.worker", json.dumps(request)]
        self.members = [
            self._started(argv, place, index == 0)
            for index, place in enumerate(_places(machine.devices, machine.threads))
        ]

    def _started(
        self, argv: Sequence[str], place: dict[str, str], is_first: bool
    ) -> "subprocess.Popen[str]":
        # A session of its own: Ctrl-C reaches the parent alone, which then asks for a stop.
        return subprocess.Popen(
            argv,
            env={**os.environ, **place},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if is_first else subprocess.DEVNULL,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def stop(self) -> None:
        """Ask all members to finish their step, save and end."""
        self.is_stopped = True
        self.tell("stop")

    def tell(self, line: str) -> None:
        """Send a line to all members; one that has ended is noticed when it does not answer."""
        for member in self.members:
            with suppress(OSError, ValueError):
                _pipe(member.stdin).write(f"{line}\n")
                _pipe(member.stdin).flush()

    def train(self, run: RunKey, site: Site) -> str:
        """Train a run in this crew and forward its events.

        Returns:
            why it was stopped; empty if it is done.

        Raises:
            StudyError: it cannot continue, or a process ended.
        """
        self.tell(json.dumps(asdict(run)))
        for line in _pipe(self.members[0].stdout):
            message: dict[str, Any] = json.loads(line)
            if "event" in message:
                site.report(Event(**message["event"]))
            elif "error" in message:
                kind = getattr(errors, message["type"], StudyError)
                raise kind(message["error"])
            elif "stopped" in message:
                return str(message["stopped"])
            else:
                return ""
        status = self.members[0].wait()
        if self.is_stopped and status == 0:
            return f"run {run.name} was not started: continue with --resume"
        raise StudyError(
            f"run {run.name}: its process ended with status {status} ({self._last_words()}): "
            "continue with --resume; files saved before are intact"
        )

    def _last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:300] if said else "no message"

    def end(self, is_broken: bool) -> None:
        """Wait for the members to end; kill those that do not."""
        self.tell("stop" if is_broken else "end")
        news = _pipe(self.members[0].stdout)
        # Nothing reads it now, and a worker must not wait for a reader.
        drain = threading.Thread(target=news.read)
        drain.start()
        for member in self.members:
            with suppress(OSError):
                _pipe(member.stdin).close()
            try:
                member.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                member.kill()
                member.wait()
        drain.join()
        news.close()
        self.errors.close()


def _pipe(stream: object) -> TextIOWrapper:
    assert isinstance(stream, TextIOWrapper)
    return stream


def _places(devices: int, threads: int) -> list[dict[str, str]]:
    """The environment of each member, in the form that Fabric reads."""
    common = {"OMP_NUM_THREADS": str(threads)}
    if devices == 1:
        return [common]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    common |= {"WORLD_SIZE": str(devices), "LOCAL_WORLD_SIZE": str(devices)}
    return [common | {"LOCAL_RANK": str(rank)} for rank in range(devices)]


def train_in_workers(
    todo: Sequence[RunKey], machine: Machine, site: Site, sign: StopSign, data: Path | None
) -> None:
    """Train runs in worker processes, `machine.jobs` at a time.

    Args:
        todo: the runs.
        machine: number of processes.
        site: folder and event receivers.
        sign: requests a stop.
        data: the file of stories, which each process reads itself.

    Raises:
        Stopped: a stop was requested; every state is saved.
        StudyError: a run cannot continue; the others were stopped and saved.
    """
    pool = _Pool(todo, machine, site, data)
    threads = [threading.Thread(target=pool.serve) for _ in range(min(machine.jobs, len(todo)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.1)
                if sign.is_asked:
                    pool.stop()
    finally:
        pool.stop()
        for thread in threads:
            thread.join()
    if pool.failures:
        raise pool.failures[0]
    if pool.stopped or sign.is_asked:
        raise Stopped("; ".join(pool.stopped) or "no run was under way")


class _Pool:
    """The waiting runs, and the crews that train them."""

    def __init__(
        self, todo: Sequence[RunKey], machine: Machine, site: Site, data: Path | None
    ) -> None:
        self.waiting: queue.SimpleQueue[RunKey] = queue.SimpleQueue()
        for run in todo:
            self.waiting.put(run)
        self.machine, self.data = machine, data
        self.site = replace(site, report=self._report)
        self.tell_user = site.report
        self.failures: list[BaseException] = []
        self.stopped: list[str] = []
        self.workers: list[_Workers] = []
        self.is_stopped = False
        self.guard = threading.Lock()

    def serve(self) -> None:
        """Give one crew run after run until none is left, or training must stop."""
        try:
            with self.guard:
                if self.is_stopped:
                    return
                workers = _Workers(self.machine, self.site.folder.path, self.data)
                self.workers.append(workers)
            is_broken = True
            try:
                is_broken = self._feed(workers)
            finally:
                with self.guard:
                    self.workers.remove(workers)
                workers.end(is_broken)
        except BaseException as error:  # passed to the main thread, which raises it
            self.failures.append(error)
            self.stop()

    def _feed(self, workers: _Workers) -> bool:
        """Train the waiting runs, and return whether that ended early."""
        while not self.is_stopped:
            try:
                run = self.waiting.get_nowait()
            except queue.Empty:
                return False
            stopped = workers.train(run, self.site)
            if stopped:
                self.stopped.append(stopped)
                return True
        return True

    def stop(self) -> None:
        """Ask all crews to finish their step, save and end."""
        with self.guard:
            is_first = not self.is_stopped
            self.is_stopped = True
            if is_first:
                for workers in self.workers:
                    workers.stop()

    def _report(self, event: Event) -> None:
        with self.guard:
            self.tell_user(event)
