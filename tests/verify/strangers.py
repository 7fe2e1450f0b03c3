"""Somebody's attention file, sound and otherwise, for tests of what surrounds the judging."""

from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.verify.findings import CheckResult
from manyheads.verify.report import VerifyReport
from manyheads.verify.subject import Subject

SOURCE = """
import contextlib, json, os, signal, sys, threading, time
import torch
from torch import nn
import torch.nn.functional as F


class Sound(nn.Module):
    def __init__(self, embed_dim=12, num_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        return self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Faulty(Sound):
    def split(self, x):
        return x.reshape(x.shape[0], self.num_heads, x.shape[1], -1)


class Drops(Sound):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5)


class Hangs(Sound):
    def forward(self, x):
        while True:
            pass


class Crashes(Sound):
    def forward(self, x):
        os.kill(os.getpid(), 11)


class Leaves(Sound):
    def forward(self, x):
        os._exit(3)


class LeavesAChild(Sound):
    def forward(self, x):
        if os.fork() == 0:
            open("child", "w").write(str(os.getpid()))
            time.sleep(300)
        while not os.path.exists("child") or not open("child").read():
            time.sleep(0.01)
        os._exit(4)


class Exits(Sound):
    def forward(self, x):
        sys.exit(5)


class Raises(Sound):
    def forward(self, x):
        raise RuntimeError("no luck")


class CannotBeBuilt(Sound):
    def __init__(self):
        raise OSError("no weights")


class Allocates(Sound):
    def forward(self, x):
        return super().forward(x) + torch.zeros(10**11)[0]


class AllocatesSome(Sound):
    def forward(self, x):
        return super().forward(x) + 0 * torch.empty(10**8).numel()  # asked for, not filled


class Busy(Sound):
    # prints a lot, starts a thread and a process that stay, and reads what is typed
    def forward(self, x):
        print("noise" * 100_000)
        os.write(2, b"more noise")
        if threading.active_count() == 1:
            threading.Thread(target=time.sleep, args=(300,)).start()
            if os.fork() == 0:
                time.sleep(300)
        return super().forward(x) + len(sys.stdin.read())


class Forges(Faulty):
    # writes a complete report, under another name, to every descriptor that there may be
    def forward(self, x):
        report = {"id": "other", "target": "other.py:Sound", "verdict": "sound", "inferred": {},
                  "findings": [], "checks": [], "seconds": 0.0}
        line = json.dumps({"report": report, "refused": None}).encode() + b"\\n"
        for fd in range(3, 1024):
            with contextlib.suppress(OSError):
                os.write(fd, line)
        return super().forward(x)


class KillsItsParent(Sound):
    def forward(self, x):
        os.kill(os.getppid(), 15)
        time.sleep(300)


class Waits(Sound):
    def forward(self, x):
        time.sleep(300)


class IgnoresSignals(Sound):
    def forward(self, x):
        for number in (1, 2, 3, 15):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            open("child", "w").write(f"{os.getpid()}\\n")
        elif not os.path.exists("worker"):
            open("worker", "w").write(f"{os.getpid()}\\n")
        while True:
            pass


def number():
    return 3
"""
PARAMS = {"layout": "separate", "q": "wq", "k": "wk", "v": "wv", "o": "wo"}


def write_strangers(folder: Path) -> Path:
    """The file `strangers_attention.py` in a folder."""
    path = folder / "strangers_attention.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def declaration(name: str, **changes: Any) -> dict[str, Any]:
    """The subject file of one class, declared in full."""
    return {
        "id": name.lower(),
        "target": f"strangers_attention.py:{name}",
        "build": {"kwargs": {}},
        "spec": {"embed_dim": 12, "num_heads": 3},
        "call": {"form": "self", "layout": "BTE", "returns": "out", "masks": []},
        "params": PARAMS,
    } | changes


def verdict_of_one_call(
    made: Any, subject: Subject, inferred: dict[str, Any], known: object
) -> VerifyReport:
    """Sound if one call works: stands in for the checks where a test is about something else."""
    made(torch.zeros(2, 5, 12))
    return VerifyReport(
        id=subject.id,
        target=subject.target,
        verdict="sound",
        inferred=inferred,
        findings=(),
        checks=(CheckResult(name="call", status="passed"),),
        seconds=0.0,
    )


def judge_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `verdict_of_one_call` judge, in this process and in those forked from it."""
    monkeypatch.setattr("manyheads.verify.run.verify", verdict_of_one_call)
