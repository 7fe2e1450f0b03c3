"""Places in a worksheet file: `heads[0].W_Q[3][1]`, counted from 0, and the values there.

Accepted as well: `heads.0.W_Q[3][1]`, and `token_embedding["to be"]` for other names.
"""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.numbers import Literal

Key = str | int
_LETTERS = r"[^\W\d][^\s\x00-,./:-@\[-^`{-\x7f]*"  # accents of other scripts are not in \w
_WORD = re.compile(_LETTERS)
_STEP = re.compile(
    rf'\.?({_LETTERS})|\.([0-9]{{1,6}})(?!\w)|\[([0-9]{{1,6}})\]|\[("(?:[^"\\]|\\.)*")\]'
)
_MAX_PLACE = 300
_EXAMPLE = "write it like heads[0].W_Q[3][1], from 0"


def joined(place: str, key: Key) -> str:
    """Write the place of an entry of the object or list at `place`."""
    if isinstance(key, int):
        return f"{place}[{key}]"
    if _WORD.fullmatch(key) and key.isprintable() and len(key) <= 40:
        return f"{place}.{key}" if place else key
    return f"{place}[{json.dumps(key if len(key) <= 40 else key[:37] + '...')}]"


def written(keys: Sequence[Key]) -> str:
    """Write a place from its steps: `("heads", 0, "W_O")` is `heads[0].W_O`."""
    place = ""
    for key in keys:
        place = joined(place, key)
    return place


def parsed(place: str) -> tuple[Key, ...]:
    """Read a place into its steps.

    Raises:
        WorksheetError: it is not a text, or not a place.
    """
    if not isinstance(place, str):
        raise WorksheetError(f"place ({quoted(place)}) must be text: {_EXAMPLE}")
    keys: list[Key] = []
    end = 0
    while end < len(place) <= _MAX_PLACE:
        found = _STEP.match(place, end)
        if found is None or (end == 0 and (found.group(2) or place.startswith("."))):
            break
        word, dotted, index, text = found.groups()
        if word is not None and end and place[end] != ".":
            break
        keys.append(word or (int(dotted or index) if dotted or index else _unquoted(text)))
        end = found.end()
    if not keys or end < len(place):
        raise WorksheetError(f"place ({quoted(place)}) cannot be read: {_EXAMPLE}")
    return tuple(keys)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise WorksheetError(
            f"place ({quoted(text)}) has a name that is not valid JSON: write it as JSON"
        ) from error


def found(document: Any, keys: Sequence[Key]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at a place of a JSON document.

    Raises:
        WorksheetError: the place does not exist; the message names the keys one step before.
    """
    value = document
    for count, key in enumerate(keys):
        place = written(keys[:count]) or "the worksheet"
        if isinstance(value, dict):
            if key not in value:
                raise WorksheetError(
                    f"{written(keys[: count + 1])} does not exist: {_keys(place, value)}"
                )
        elif not isinstance(value, list):
            raise WorksheetError(f"{written(keys)} has an index into a single value: use {place}")
        elif not isinstance(key, int) or key >= len(value):
            raise WorksheetError(
                f"{written(keys[: count + 1])} does not exist: "
                f"{place} has {len(value)} entries, use {place}[0] to {place}[{len(value) - 1}]"
            )
        value = value[key]
    return value


def _keys(place: str, value: dict[str, Any]) -> str:
    return f"{place} has {listed(value)}"


def listed(names: Collection[str], limit: int = 12) -> str:
    """List names for an error message, the first dozen of them."""
    shown = [quoted(Literal(name)) for name in list(names)[:limit]]
    return ", ".join(shown) + (", ..." if len(names) > limit else "") if shown else "nothing"


def first_number(value: Any, keys: tuple[Key, ...] = ()) -> tuple[Key, ...] | None:  # noqa: ANN401
    """Find the first single value below a place, for a hint."""
    if isinstance(value, dict) and value:
        key = next(iter(value))
        return first_number(value[key], (*keys, key))
    if isinstance(value, list) and value:
        return first_number(value[0], (*keys, 0))
    return None if isinstance(value, (dict, list)) else keys
