"""Sheets of exercises by seed, and files of answers to them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from manyheads.core.errors import LearnError
from manyheads.core.files import reason_of
from manyheads.learn.exercises.form import Exercise
from manyheads.learn.exercises.kinds import KINDS, LARGEST_SEED, exercise

MAX_COUNT = 1000
"""Exercises on one sheet."""
MAX_BYTES = 1_000_000
"""Size of a file of answers."""


def exercise_sheet(kinds: Sequence[str], seed: int, count: int) -> Iterator[Exercise]:
    """Draw a sheet: the kinds in turn; each round of all kinds takes the next seed.

    Args:
        kinds: names in `KINDS`; none means all.
        seed: of the first round; after the largest comes 0.
        count: how many exercises.

    Raises:
        LearnError: no such kind, seed or count.
    """
    if not 1 <= count <= MAX_COUNT:
        raise LearnError(f"count ({count}) must be 1 to {MAX_COUNT}: use one of them")
    names = list(kinds) or list(KINDS)
    for index in range(count):
        turn, place = divmod(index, len(names))
        number = (seed + turn) % (LARGEST_SEED + 1) if turn else seed
        yield exercise(names[place], number)


def exercise_named(name: str) -> Exercise:
    """Draw the exercise of an id such as `score/7`.

    Raises:
        LearnError: no such id.
    """
    kind, slash, seed = name.partition("/")
    if not slash or not (seed.isascii() and seed.isdecimal()) or len(seed) > 10:
        raise LearnError(f"exercise ({name[:40]!r}) is no kind/seed: write for instance score/7")
    return exercise(kind, int(seed))


def answers_from_file(path: Path) -> dict[str, str]:
    """Read answers by exercise: a JSON object, or a line each such as `score/7: 1/2, 0, 3`.

    Empty lines and lines that begin with `#` are passed over.

    Raises:
        LearnError: it cannot be read, is too long, or answers an exercise twice.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise LearnError(
            f"file ({path}) cannot be read ({reason_of(error)}): check the path"
        ) from error
    if len(content) > MAX_BYTES:
        raise LearnError(f"file ({path}) is larger than {MAX_BYTES} bytes: write less")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LearnError(f"file ({path}) is no UTF-8 text: save it as UTF-8") from error
    found = _from_json(path, text) if text.lstrip().startswith("{") else _from_lines(path, text)
    if not found:
        raise LearnError(f"file ({path}) has no answers: write lines such as score/7: 1/2, 0, 3")
    return found


def _from_json(path: Path, text: str) -> dict[str, str]:
    try:
        given = json.loads(
            text,
            object_pairs_hook=_pairs,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
        )
    except (ValueError, RecursionError) as error:
        raise LearnError(f"file ({path}) is no JSON ({error}): mend it") from error
    return _by_name(path, [(name, _answer(path, name, value)) for name, value in given])


def _pairs(pairs: list[tuple[str, object]]) -> tuple[tuple[str, object], ...]:
    """An object as a tuple, which keeps a name that stands twice, and differs from a list."""
    return tuple(pairs)


def _answer(path: Path, name: str, value: object) -> str:
    """A text, or a list of texts and numbers, which were kept as they were written."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "; ".join(value)
    raise LearnError(
        f"file ({path}) answers {name[:40]!r} with no text and no list of numbers: write "
        '"1/2, 0, 3"'
    )


def _from_lines(path: Path, text: str) -> dict[str, str]:
    pairs = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, answer = line.partition(":")
        if not colon:
            raise LearnError(
                f"file ({path}) has no colon in line {number}: write for instance score/7: 1/2, 0"
            )
        pairs.append((name.strip(), answer.strip()))
    return _by_name(path, pairs)


def _by_name(path: Path, pairs: list[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, answer in pairs:
        if name in found:
            raise LearnError(f"file ({path}) answers {name[:40]!r} twice: keep one of them")
        found[name] = answer
    return found
