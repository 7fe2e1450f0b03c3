"""What-if questions: a new worksheet with one change; the given worksheet does not change."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.arithmetic import ZERO, add
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.numbers import Literal
from manyheads.worksheets.solution import Solution

_ZERO = Literal("0")


def zero_query(sheet: Worksheet) -> Worksheet:
    """Set every query to zero (W_Q and b_Q), so that all visible sources get equal weights."""
    document = sheet.document
    for head in document["heads"]:
        _clear(head, "W_Q", "b_Q")
    return Worksheet.from_document(document)


def without_head(sheet: Worksheet, index: int) -> Worksheet:
    """Set the values of one head to zero (W_V and b_V), so that it adds nothing to the output.

    Args:
        sheet: the worksheet.
        index: the head, counted from 0.

    Raises:
        WorksheetError: the head does not exist.
    """
    if type(index) is not int or not 0 <= index < sheet.num_heads:
        last = sheet.num_heads - 1
        raise WorksheetError(f"head index ({quoted(index)}) must be 0 to {last}: use one of them")
    document = sheet.document
    _clear(document["heads"][index], "W_V", "b_V")
    return Worksheet.from_document(document)


def one_wide_head(sheet: Worksheet) -> Worksheet:
    """Join all heads into one head of their joined width, with one softmax and its own scale.

    A scale that the worksheet gives stays as given.

    Raises:
        WorksheetError: the joined head is wider than a worksheet may be.
    """
    document = sheet.document
    given = document["heads"]
    wide: dict[str, Any] = {"label": "one wide head"}
    for name in ("W_Q", "W_K", "W_V"):
        rows = zip(*(head[name] for head in given), strict=True)
        wide[name] = [[number for part in row for number in part] for row in rows]
    for name, matrix in (("b_Q", "W_Q"), ("b_K", "W_K"), ("b_V", "W_V")):
        if any(name in head for head in given):
            parts = [head.get(name, [_ZERO] * len(head[matrix][0])) for head in given]
            wide[name] = [number for part in parts for number in part]
    document["heads"] = [wide]
    return Worksheet.from_document(document)


def heads_reordered(sheet: Worksheet, order: Sequence[int], *, with_w_o: bool) -> Worksheet:
    """Put the heads in another order, with or without their rows of W_O.

    Args:
        sheet: the worksheet.
        order: the old index of each head, counted from 0.
        with_w_o: move the rows of W_O along; otherwise they stay where they were.
    """
    document, width = sheet.document, sheet.v_head_dim
    document["heads"] = [document["heads"][h] for h in order]
    if with_w_o:
        rows = document["W_O"]
        document["W_O"] = [row for h in order for row in rows[h * width : (h + 1) * width]]
    return Worksheet.from_document(document)


def sum_instead_of_concat(solution: Solution) -> npt.NDArray[Any]:
    """Sum the head outputs instead of joining them: a mistake that W_O cannot correct.

    Args:
        solution: of all receivers, or of one.

    Returns:
        (T, dv), or (dv,) for one receiver; the numbers are exact where the solution is.
    """
    outputs = solution["head_outputs"]  # (H, T, dv) or (H, dv)
    if not solution.exact:
        total: npt.NDArray[np.float64] = outputs.sum(axis=0)
        return total
    result = np.full(outputs.shape[1:], ZERO, dtype=object)
    for part in solution.numbers["head_outputs"]:
        for index in np.ndindex(part.shape):
            result[index] = add(result[index], part[index])
    return result


def _clear(head: dict[str, Any], *names: str) -> None:
    for name in names:
        if name in head:
            head[name] = _zeros(head[name])


def _zeros(value: Any) -> Any:  # noqa: ANN401 - rows of numbers, nested
    return [_zeros(entry) for entry in value] if isinstance(value, list) else _ZERO
