"""Exercises for the page, drawn in advance: the list of the kinds, and one script per kind.

The list is built into the page. A script is loaded when an exercise of its kind is opened; a page
that was opened from disk may load scripts, but no data files.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from manyheads.core.files import write_whole
from manyheads.learn.exercises import KINDS, exercise

SEEDS = 200
"""The page has the exercises of the seeds 0 to 199."""
EXERCISE_FOLDER = "exercises"
"""Where the page finds the scripts."""


def exercise_index() -> dict[str, Any]:
    """The number of seeds, and every kind with its title."""
    kinds = [{"name": kind.name, "title": kind.title} for kind in KINDS.values()]
    return {"seeds": SEEDS, "kinds": kinds}


def exercise_script(kind: str, seeds: int = SEEDS) -> str:
    """A script that leaves the exercises of a kind in `manyheadsExercises`, by kind and seed.

    Args:
        kind: a name in `KINDS`.
        seeds: how many, from seed 0 on.
    """
    documents = [exercise(kind, seed).to_json() for seed in range(seeds)]
    for document in documents:
        del document["worksheet"]  # the page computes nothing of an exercise
    text = json.dumps(documents, ensure_ascii=False, separators=(",", ":"))
    return f"(globalThis.manyheadsExercises??={{}})[{json.dumps(kind)}]={text};\n"


def write_exercise_scripts(files: Path) -> None:
    """Write `exercises/KIND.js` for every kind below a folder; takes some CPU seconds per kind."""
    folder = files / EXERCISE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        for kind, script in zip(KINDS, pool.map(exercise_script, KINDS), strict=True):
            write_whole(folder / f"{kind}.js", script.encode())
