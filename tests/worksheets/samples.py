"""Worksheet documents for tests: small ones, with every optional part, and broken ones."""

import json
import random
from typing import Any

from manyheads.worksheets.library import Worksheet


def small_document() -> dict[str, Any]:
    """Two tokens, width 2, one head of width 1; nothing optional."""
    return {
        "name": "small",
        "is_causal": True,
        "sequences": {"main": {"tokens": ["a", "b"], "X": [[1, 0], ["1/2", "ln(2)"]]}},
        "heads": [{"W_Q": [[1], [0]], "W_K": [[0], [1]], "W_V": [[2], [0]]}],
        "W_O": [[1, "-sqrt(2)"]],
    }


def full_document() -> dict[str, Any]:
    """Every optional part: free sizes (T=2, D=3, d=1, dv=2, J=2, V=4), no mask, scale, residual."""
    return {
        "name": "full",
        "title": "All <b>parts</b> & more",
        "is_causal": False,
        "residual": True,
        "scale": "1/3",
        "features": ["f <1>", "f2", "f3"],
        "vocabulary": ["go", "stop", "to be", "x.y"],
        "token_embedding": {"go": [1, 0.5, -1], "to be": ["ln(3)", 2, 0], "x.y": [0, 1, 1]},
        "position_embedding": [[0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]],
        "sequences": {
            "main": {"tokens": ["Go", "to be"], "target": "stop", "candidates": ["stop", "x.y"]}
        },
        "heads": [
            {
                "label": "first",
                "W_Q": [[1], [0], [2]],
                "W_K": [[0], [1], ["sqrt(2)"]],
                "W_V": [[1, 0], [0, 1], [1, 1]],
                "b_Q": [0.5],
                "b_K": ["ln(2)"],
                "b_V": [1, -1],
            },
            {"W_Q": [[1], [1], [0]], "W_K": [[1], [0], [0]], "W_V": [[0, 2], [1, 0], [0, 1]]},
        ],
        "W_O": [[1, 0, 2], [0, 1, 0], [1, 1, 1], [0, -1, 0.25]],
        "b_O": [1, 0, -1],
        "prediction": {
            "W_hidden": [[1, 0], [0, -1], [1, 1]],
            "b_hidden": [0, -2],
            "W_vocab": [[1, 0, 2, 0], [0, 1, 0, 1]],
            "b_vocab": [0, 0, 0.5, 0],
        },
        "expected": {"anything": [1, None, "goes"]},
    }


def sheet_of(document: dict[str, Any]) -> Worksheet:
    """Make a worksheet by way of JSON text, as a file would."""
    return Worksheet.from_text(json.dumps(document))


def uncausal_sheet() -> Worksheet:
    """The full document as a worksheet."""
    return sheet_of(full_document())


ODD_VALUES: tuple[Any, ...] = (
    None, True, False, "", " ", "x", "\x1b[31m", "a\nb", "\ud800", "1/0", "ln(0)", "sqrt(-1)",
    "1/ln(2)", "9" * 200, "(" * 60, 0, -1, 1e300, 10**40, 0.1, [], {}, [[]], [1], [[1]],
    [[1, 2], [3]], {"a": 1}, "W_Q", "heads", "__class__", "-", "ln", "1e999", "NaN", [None],
    ["1"] * 200, "\u202e", "é" * 81,
)  # fmt: skip


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document, the root first."""
    found = [path]
    if isinstance(value, dict):
        for key, entry in value.items():
            found += places_in(entry, (*path, key))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            found += places_in(entry, (*path, index))
    return found


def mutated(document: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Change one place of a document: replace, remove, double, rename or move what stands there."""
    document = json.loads(json.dumps(document))
    path = dice.choice(places_in(document)[1:])
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    kind = dice.randrange(5)
    if kind == 0:
        del holder[path[-1]]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(path[-1], holder[path[-1]])
    elif kind == 1:
        holder[f"{path[-1]}_"] = holder.pop(path[-1])
    elif kind == 2 and isinstance(holder, dict):
        holder[dice.choice(["extra", "", "b_Q", "X", "scale", "0"])] = dice.choice(ODD_VALUES)
    elif kind == 3 and isinstance(holder[path[-1]], list):
        dice.shuffle(holder[path[-1]])
        holder[path[-1]] = holder[path[-1]][:-1]
    else:
        holder[path[-1]] = dice.choice(ODD_VALUES)
    return document


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Change some bytes of a file: overwrite, cut, double or insert."""
    data = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            data[at : at + 1] = bytes([dice.randrange(256)])
        elif kind == 1:
            del data[at : at + dice.randint(1, 40)]
        elif kind == 2:
            data[at:at] = dice.choice(
                [b"[", b"]", b"{", b'"', b",", b"\xff", b"\x00", b"NaN", b"-", b"1"]
            )
        else:
            data[at:at] = data[at : at + dice.randint(1, 60)]
    return bytes(data)
