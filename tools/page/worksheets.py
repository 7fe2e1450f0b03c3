"""The worksheets for the page; `web/src/engine/types.ts` has the format.

The page solves them with its own engine, which tests compare with the exact one.
"""

from collections.abc import Callable
from typing import Any

from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.exact import scale_of
from manyheads.worksheets.library import SOURCES, Worksheet, worksheet, worksheet_names
from manyheads.worksheets.numbers import exact_text
from manyheads.worksheets.sheet import Head, Prediction, Sequence

FORMAT = 2


def worksheets_data() -> dict[str, Any]:
    """Every worksheet that comes with the package, with its given numbers.

    Returns:
        a JSON document: `values` hold float64, `exact` hold text such as "4/7" or "ln(2)".
    """
    sheets = [_worksheet_data(worksheet(name)) for name in worksheet_names()]
    return {"format": FORMAT, "worksheets": sheets}


def _worksheet_data(sheet: Worksheet) -> dict[str, Any]:
    embedding = sheet.token_embedding
    rows = {token: _numbers(row) for token, row in embedding.items()} if embedding else None
    return {
        "name": sheet.name,
        "title": sheet.title,
        "source": SOURCES[sheet.name],
        "features": list(sheet.features),
        "is_causal": sheet.is_causal,
        "residual": sheet.has_residual,
        "scale": _numbers(scale_of(sheet)),
        "heads": [_head_data(head) for head in sheet.heads],
        "W_O": _numbers(sheet.w_o),
        "b_O": _optional(sheet.b_o),
        "prediction": _prediction_data(sheet.prediction) if sheet.prediction else None,
        "vocabulary": list(sheet.vocabulary) or None,
        "token_embedding": rows,
        "position_embedding": _optional(sheet.position_embedding),
        "sequences": [_sequence_data(sequence) for sequence in sheet.sequences],
    }


def _head_data(head: Head) -> dict[str, Any]:
    return {
        "label": head.label,
        "W_Q": _numbers(head.w_q),
        "W_K": _numbers(head.w_k),
        "W_V": _numbers(head.w_v),
        "b_Q": _optional(head.b_q),
        "b_K": _optional(head.b_k),
        "b_V": _optional(head.b_v),
    }


def _prediction_data(prediction: Prediction) -> dict[str, Any]:
    return {
        "W_hidden": _numbers(prediction.w_hidden),
        "b_hidden": _optional(prediction.b_hidden),
        "W_vocab": _numbers(prediction.w_vocab),
        "b_vocab": _optional(prediction.b_vocab),
    }


def _sequence_data(sequence: Sequence) -> dict[str, Any]:
    return {
        "name": sequence.name,
        "tokens": list(sequence.tokens),
        "token_keys": list(sequence.token_keys) if sequence.token_keys else None,
        "X": None if sequence.token_keys else _numbers(sequence.x),
        "target": sequence.target,
        "candidates": list(sequence.candidates),
    }


def _optional(table: Any) -> dict[str, Any] | None:  # noqa: ANN401 - nested numbers or None
    return None if table is None else _numbers(table)


def _numbers(table: Any) -> dict[str, Any]:  # noqa: ANN401 - nested numbers
    return {"values": _nested(_value, table), "exact": _nested(_text, table)}


def _nested(function: Callable[[Number], Any], table: Any) -> Any:  # noqa: ANN401 - nested numbers
    if isinstance(table, (list, tuple)):
        return [_nested(function, entry) for entry in table]
    return function(table)


def _value(number: Number) -> int | float:
    value = float_of(number)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _text(number: Number) -> str | None:
    return exact_text(number) if is_exact(number) else None
