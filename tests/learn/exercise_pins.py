"""Exercises and marks kept in a file, which the tests of Python and of the page compare with.

`python -m tests.learn.exercise_pins` writes the file again, after a deliberate change of sentences.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyheads.learn.exercises import KINDS, Exercise, exercise, mark
from manyheads.learn.exercises.form import number_text
from manyheads.worksheets.arithmetic import float_of

PINS = Path(__file__).parent / "data" / "exercises.json"
SEEDS = range(1, 11)
MARKED_SEED = 1
UNCLEAR = ("", "1/0", "one", "1 / 3", "- 1/2, 3", "1" * 700, "ln 2 sqrt 2 2ln3", "1e400")


def drawn_documents() -> Iterator[dict[str, Any]]:
    """Ten exercises of every kind with all their sentences, without the worksheets behind them."""
    for kind in KINDS:
        for seed in SEEDS:
            document = exercise(kind, seed).to_json()
            del document["worksheet"]
            yield without_last_digits(document)


def without_last_digits(document: dict[str, Any]) -> Any:
    """Decimals such as `~0.1234` to 15 digits, which every processor gives."""
    text = json.dumps(document, ensure_ascii=False)
    return json.loads(re.sub(r"(?<=\"~)[^\"]+", lambda found: f"{float(found[0]):.15g}", text))


def marked_answers() -> Iterator[dict[str, Any]]:
    """Answers to one exercise of every kind with their marks: right, wrong, rounded, unreadable."""
    for kind in KINDS:
        one = exercise(kind, MARKED_SEED)
        for typed in _answers(one):
            yield {"exercise": one.id, "typed": typed, "mark": mark(one, typed).to_json()}


def _answers(one: Exercise) -> Iterator[str]:
    for row in (one.answer, *(item.values for item in one.misconceptions)):
        floats = [float_of(number) for number in row]
        yield ", ".join(number_text(number).removeprefix("~") for number in row)
        yield " ".join(f"{value:.3f}" for value in floats)
        yield "; ".join(f"{value:.2g}" for value in floats)
        yield "[" + ", ".join(f"{100 * value:.2f}%" for value in floats) + "]"
    yield " ".join(["1"] * len(one.answer))
    if one.kind == next(iter(KINDS)):
        yield from UNCLEAR


def pinned() -> Any:
    """The file's content."""
    return json.loads(PINS.read_text(encoding="utf-8"))


def main() -> None:
    """Write the file: one exercise or mark a line."""
    parts = {"exercises": drawn_documents(), "marks": marked_answers()}
    lists = [
        f'"{name}": [\n'
        + ",\n".join(json.dumps(one, ensure_ascii=False) for one in documents)
        + "\n]"
        for name, documents in parts.items()
    ]
    PINS.write_text("{" + ",\n".join(lists) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
