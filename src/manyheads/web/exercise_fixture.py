"""What the terminal draws and how it marks, for the page's tests to compare with."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyheads.core.errors import ManyHeadsError
from manyheads.learn.exercises.form import Exercise, number_text
from manyheads.learn.exercises.kinds import KINDS, LARGEST_SEED, exercise
from manyheads.learn.exercises.marking import mark
from manyheads.web.export import write_json
from manyheads.worksheets.arithmetic import float_of

SEEDS = (*range(24), 1234567, LARGEST_SEED)
MARKED_SEEDS = range(6)


def fixture() -> dict[str, Any]:
    """Exercises of every kind, and answers with their marks."""
    return {
        "exercises": [_drawn(exercise(kind, seed)) for kind in KINDS for seed in SEEDS],
        "marks": [
            entry
            for kind in KINDS
            for seed in MARKED_SEEDS
            for entry in _marked(exercise(kind, seed))
        ],
    }


def _drawn(one: Exercise) -> dict[str, Any]:
    document = one.to_json()
    del document["worksheet"]
    return document


def _marked(one: Exercise) -> Iterator[dict[str, Any]]:
    for typed in _answers(one):
        yield {"exercise": one.id, "typed": typed, "mark": mark(one, typed).to_json()}


def _answers(one: Exercise) -> Iterator[str]:
    """Right and wrong, exact and rounded, unreadable and too short."""
    rows = [one.answer, *(item.values for item in one.misconceptions)]
    for row in rows:
        floats = [float_of(number) for number in row]
        yield ", ".join(number_text(number).removeprefix("~") for number in row)
        yield " ".join(f"{value:.3f}" for value in floats)
        yield "; ".join(f"{value:.2g}" for value in floats)
        yield "[" + ", ".join(f"{100 * value:.2f}%" for value in floats) + "]"
    yield from ("", "1/0", "one", "1 / 3", "- 1/2, 3", "1" * 700, "ln 2 sqrt 2 2ln3", "1e400")
    yield " ".join(["1"] * len(one.answer))


def main() -> int:
    """Write the fixture: `python -m manyheads.web.exercise_fixture OUT`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("out", type=Path)
    try:
        write_json(fixture(), parser.parse_args().out)
    except ManyHeadsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
