"""A process that trains one run after another for a study: `python -m manyheads.study.worker`.

Its argument is one JSON object; it reads runs as JSON lines from standard input, and writes events
as JSON lines to standard output. When standard input ends, for example because its parent died, it
finishes the step, saves and ends.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from manyheads.core.errors import ManyHeadsError
from manyheads.study.corpus import corpus_for
from manyheads.study.folder import RunKey, open_folder
from manyheads.study.machine import Machine, environment, join_crew
from manyheads.study.plan import plan
from manyheads.study.run import train_here
from manyheads.study.site import Event, Site, Stopped, StopSign


def main() -> int:
    """Work until nothing is left to do; every error is sent to the parent."""
    news = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with the events
    sign = StopSign()
    try:
        _work(json.loads(sys.argv[1]), news, sign)
    except Stopped as stopped:
        _send(news, {"stopped": str(stopped)})
    except ManyHeadsError as error:
        _send(news, {"error": str(error), "type": type(error).__name__})
    return 0


def _work(request: dict[str, Any], news: TextIO, sign: StopSign) -> None:
    data = None if request["data"] is None else Path(request["data"])
    path = Path(request["folder"])
    machine = Machine(**request["machine"])
    frozen = plan(path / "plan.toml")
    commands = _commands(sign)
    crew = join_crew(machine)
    corpus = corpus_for(frozen, data)

    def report(event: Event) -> None:
        _send(news, {"event": asdict(event)})

    site = Site(
        folder=open_folder(path, frozen, corpus.sha256),
        corpus=corpus,
        crew=crew,
        report=report,
        is_stopping=lambda: sign.is_asked,
        environment=environment(machine, crew),
    )
    for command in iter(commands.get, None):
        run = RunKey(**command)
        train_here(run, site)
        _send(news, {"finished": run.name})


def _commands(sign: StopSign) -> "queue.Queue[dict[str, Any] | None]":
    """The commands from standard input; None when there are no more."""
    found: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def read() -> None:
        for line in _lines():
            found.put(json.loads(line))
        found.put(None)

    def _lines() -> Iterator[str]:
        for line in sys.stdin:
            if line.strip() == "end":
                return
            if line.strip() == "stop":
                break
            yield line
        sign.ask()

    threading.Thread(target=read, daemon=True).start()
    return found


def _send(news: TextIO, message: dict[str, Any]) -> None:
    """Send a message to the parent, if it still runs."""
    with suppress(OSError):
        news.write(json.dumps(message) + "\n")
        news.flush()


if __name__ == "__main__":
    sys.exit(main())
