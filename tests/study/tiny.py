"""A study of a few seconds' tenth: the whole pipeline at sizes that all differ."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyheads.study.plan import Plan, plan_from_text
from manyheads.study.site import Event

TEXT = """
name = "tiny"
description = "A tiny study."
seeds = [3, 5]
[data]
source = "stories"
count = 80
seed = 4
sha256 = "35318d324587e0af05438bc4f6dbda4d96477b6e776d4624b90ea9ec3d01b1e8"
[tokenizer]
vocab_size = 90
[protocol]
steps = 10
validate_every = 4
save_every = 3
validation_windows = 40
context = 12
width = 8
hidden = 10
batch_targets = 24
targets_per_window = 3
warmup_steps = 2
decay = "linear"
output_bias = "unigram"
[[models]]
name = "mlp"
kind = "fixed-window-mlp"
learning_rate = 0.01
weight_decay = 0.01
[[models]]
name = "two-heads"
kind = "attention"
num_heads = 2
learning_rate = 0.02
weight_decay = 0.01
[[comparisons]]
first = "two-heads"
second = "mlp"
"""
CLOCKS = ("seconds", "cpu_seconds", "environment")


def tiny(*changes: tuple[str, str]) -> Plan:
    """The tiny plan with some of its text changed; each change must find its place."""
    text = TEXT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return plan_from_text(text)


ONE_RUN = (("seeds = [3, 5]", "seeds = [3]"), (TEXT[TEXT.index('[[models]]\nname = "two') :], ""))
"""Changes that leave one model and one seed."""


def measured(folder: Path) -> list[dict[str, Any]]:
    """The runs of a finished study without what a clock says."""
    runs = json.loads((folder / "results.json").read_text())["runs"]
    return [{key: run[key] for key in run if key not in CLOCKS} for run in runs]


def best_files(folder: Path) -> dict[str, bytes]:
    """The weights files of all runs."""
    return {path.parent.name: path.read_bytes() for path in folder.glob("runs/*/best.safetensors")}


def everything(folder: Path) -> dict[str, bytes]:
    """All files of a study, but for locks."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def at(run: str, step: int, act: Callable[[], object]) -> Callable[[Event], None]:
    """A report that acts when a run has been validated at a step."""

    def report(event: Event) -> None:
        if (event.run, event.kind, event.step) == (run, "validation", step):
            act()

    return report


def ctrl_c() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
