"""Running a notebook in a kernel of this interpreter, wherever kernels are registered or not."""

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib.font_manager  # noqa: F401 - a fresh machine's list of fonts is made here, once
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

LIMIT_SECONDS = 60
"""Of the processor, so that a busy machine fails nobody."""
_PATIENCE = 900
"""Seconds of the clock for one cell."""


class Run(NamedTuple):
    """A notebook that ran to its end."""

    notebook: NotebookNode
    """With its outputs."""
    seconds: float
    """Of the processor, in the kernel, from its start to its end."""


def own_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register this interpreter as python3, and hide what the user has set up for Jupyter."""
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    content = {"argv": command, "display_name": "Python 3", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(content), encoding="utf-8")
    for name in ("JUPYTER_PATH", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(folder))
    for name in ("JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(folder / "no-settings"))


def execute(notebook: NotebookNode, folder: Path) -> Run:
    """Run all cells in a folder; an error in a cell is raised with the cell's text."""
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=_PATIENCE,
        resources={"metadata": {"path": str(folder)}},
    )
    begun = _seconds_of_children()
    done = client.execute()
    return Run(done, _seconds_of_children() - begun)


def _seconds_of_children() -> float:
    """Processor time of the processes that this one started and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def complaints(notebook: NotebookNode) -> list[str]:
    """What the cells wrote to standard error, warnings among it."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [o.text for o in outputs if o.output_type == "stream" and o.name == "stderr"]
