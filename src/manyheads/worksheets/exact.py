"""The answers of a worksheet as fractions and symbols, without torch: an independent oracle.

A softmax of logarithms is a fraction, since only differences of scores enter it:
weight_i = exp(s_i - m) / sum_j exp(s_j - m) for any m, here the largest score. An exponential that
has no short exact form continues as a decimal number of at least 50 significant digits.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from manyheads.worksheets.arithmetic import (
    NEGATIVE_INFINITY,
    ZERO,
    Number,
    add,
    decimal_of,
    dot,
    exponential,
    is_positive,
    multiply,
    negative,
    reciprocal,
    square_root,
)
from manyheads.worksheets.sheet import Head, Matrix, Prediction, Row, Sheet

Steps = Mapping[str, Any]
"""Nested tuples of numbers by field name; the axes are those of `fields`."""


def scale_of(sheet: Sheet) -> Number:
    """What each q·k is multiplied by: as given, else 1/sqrt(d)."""
    return reciprocal(square_root(Fraction(sheet.head_dim))) if sheet.scale is None else sheet.scale


def is_blocked(sheet: Sheet, receiver: int, source: int) -> bool:
    """Whether the mask hides a source from a receiver; both count from 0."""
    return sheet.is_causal and source > receiver


def solve_exact(sheet: Sheet, name: str | None = None) -> Steps:
    """Solve one sequence of a worksheet, as exactly as its numbers allow.

    Args:
        sheet: the worksheet.
        name: the sequence, or None for the first.

    Raises:
        WorksheetError: no sequence has that name.
    """
    x = sheet.sequence(name).x
    by_head = [_head_steps(sheet, head, x) for head in sheet.heads]
    steps: dict[str, Any] = {"x": x}
    steps |= {field: tuple(head[field] for head in by_head) for field in by_head[0]}
    outputs = steps["head_outputs"]
    rows = [[head[t] for head in outputs] for t in range(len(x))]
    steps["concat"] = tuple(tuple(number for part in row for number in part) for row in rows)
    steps["output"] = _affine(steps["concat"], sheet.w_o, sheet.b_o)
    width = sheet.v_head_dim
    steps["head_contributions"] = tuple(
        _affine(message, sheet.w_o[h * width : (h + 1) * width], None)
        for h, message in enumerate(outputs)
    )
    stream = steps["output"]
    if sheet.has_residual:
        stream = steps["updated"] = _summed(x, stream)
    return steps if sheet.prediction is None else steps | _predicted(stream, sheet.prediction)


def _head_steps(sheet: Sheet, head: Head, x: Matrix) -> dict[str, Any]:
    q, k = _affine(x, head.w_q, head.b_q), _affine(x, head.w_k, head.b_k)
    v, scale = _affine(x, head.w_v, head.b_v), scale_of(sheet)
    dots = tuple(tuple(dot(query, key) for key in k) for query in q)
    scores = tuple(tuple(multiply(number, scale) for number in row) for row in dots)
    masked = tuple(
        tuple(NEGATIVE_INFINITY if is_blocked(sheet, t, s) else n for s, n in enumerate(row))
        for t, row in enumerate(scores)
    )
    powers = tuple(tuple(exponential(number) for number in row) for row in masked)
    weights = tuple(softmax(row) for row in masked)
    columns = tuple(zip(*v, strict=True))
    return {
        "q": q,
        "k": k,
        "v": v,
        "dots": dots,
        "scores": scores,
        "masked_scores": masked,
        "exp_scores": powers,
        "exp_sum": tuple(_total(row) for row in powers),
        "attn_weights": weights,
        "head_outputs": tuple(tuple(dot(row, column) for column in columns) for row in weights),
    }


def softmax(scores: Sequence[Number]) -> Row:
    """Weights of one row of scores, of which at least one is not blocked; blocked keys get 0."""
    seen = [score for score in scores if score != NEGATIVE_INFINITY]
    highest = negative(max(seen, key=decimal_of))
    powers = [
        ZERO if score == NEGATIVE_INFINITY else exponential(add(score, highest)) for score in scores
    ]
    share = reciprocal(_total(powers))
    return tuple(multiply(power, share) for power in powers)


def _total(numbers: Iterable[Number]) -> Number:
    total: Number = ZERO
    for number in numbers:
        total = add(total, number)
    return total


def _affine(rows: Sequence[Row], weight: Matrix, bias: Row | None) -> Matrix:
    """Multiply rows (T, A) with a matrix (A, B) and add a bias (B,)."""
    columns = tuple(zip(*weight, strict=True))
    products = tuple(tuple(dot(row, column) for column in columns) for row in rows)
    return products if bias is None else _summed(products, [bias] * len(products))


def _summed(left: Sequence[Row], right: Sequence[Row]) -> Matrix:
    pairs = zip(left, right, strict=True)
    return tuple(tuple(add(a, b) for a, b in zip(*pair, strict=True)) for pair in pairs)


def _predicted(stream: Matrix, prediction: Prediction) -> dict[str, Matrix]:
    pre = _affine(stream, prediction.w_hidden, prediction.b_hidden)
    hidden = tuple(tuple(n if is_positive(n) else ZERO for n in row) for row in pre)
    logits = _affine(hidden, prediction.w_vocab, prediction.b_vocab)
    return {
        "hidden_pre": pre,
        "hidden": hidden,
        "logits": logits,
        "probabilities": tuple(softmax(row) for row in logits),
    }
