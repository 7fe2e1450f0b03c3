"""Files of answers to exercises: a JSON object, or a line per answer."""

import json
from pathlib import Path

from manyheads.core.errors import LearnError
from manyheads.core.files import read_file, reason_of
from manyheads.core.text import brief

MAX_BYTES = 1_000_000
"""Size of a file of answers."""


def answers_from_file(path: Path) -> dict[str, str]:
    """Read answers by exercise: a JSON object, or lines such as `score/7: 1/2, 0, 3`.

    Empty lines and lines that begin with `#` are ignored.

    Raises:
        LearnError: the file cannot be read, is too large, or answers an exercise twice.
    """
    try:
        content = read_file(path, MAX_BYTES)
    except OSError as error:
        raise LearnError(
            f"file ({path}) cannot be read ({reason_of(error)}): check the path"
        ) from error
    if len(content) > MAX_BYTES:
        raise LearnError(f"file ({path}) is larger than {MAX_BYTES} bytes: split it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LearnError(f"file ({path}) is not UTF-8 text: save it as UTF-8") from error
    found = _from_json(path, text) if text.lstrip().startswith("{") else _from_lines(path, text)
    if not found:
        raise LearnError(f"file ({path}) has no answers: write lines such as score/7: 1/2, 0, 3")
    return found


def _from_json(path: Path, text: str) -> dict[str, str]:
    try:
        given = json.loads(
            text, object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=str
        )  # an object becomes a tuple of pairs, which keeps a repeated name
    except (ValueError, RecursionError) as error:
        raise LearnError(f"file ({path}) is not JSON ({error}): fix it") from error
    return _by_name(path, [(name, _answer(path, name, value)) for name, value in given])


def _answer(path: Path, name: str, value: object) -> str:
    """A text, or a list of texts and numbers, which were kept as they were written."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "; ".join(value)
    raise LearnError(
        f"file ({path}) must answer {brief(name, 40)!r} with a text or a list of numbers: write "
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
            raise LearnError(f"file ({path}) answers {brief(name, 40)!r} twice: delete one answer")
        found[name] = answer
    return found
