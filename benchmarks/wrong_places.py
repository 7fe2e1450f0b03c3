"""Answers about layouts, right and wrong: one marked weight is packed and looked for."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from manyheads.core.weights import HeadWeights
from manyheads.layouts import interleaved_rows_from_heads, stacked_rows_from_heads
from manyheads.learn.exercises import Exercise

Wrong = Callable[[Exercise], list[float]]


class Asked(NamedTuple):
    """Which entry is looked for, read off the question; everything counts from 0."""

    part: str
    head: int
    row: int
    column: int


def _asked(exercise: Exercise) -> Asked:
    found = re.search(r"W_([QKV])\[(\d+)\]\[(\d+)\]\[(\d+)\]", exercise.prompt)
    assert found is not None
    return Asked(found[1].lower(), int(found[2]), int(found[3]), int(found[4]))


def marked(exercise: Exercise, asked: Asked) -> HeadWeights:
    """Weights that are zero but for the entry."""
    table = exercise.given[0]
    facts = {name: int(row[0]) for name, row in zip(table.row_labels, table.rows, strict=True)}
    heads, width, dim = facts["heads"], facts["head width"], facts["model width"]
    tensors = {f"w_{name}": torch.zeros(heads, dim, width) for name in "qkv"}
    tensors[f"w_{asked.part}"][asked.head, asked.row, asked.column] = 1
    return HeadWeights(**tensors, w_o=torch.zeros(heads, width, dim))


def packed(exercise: Exercise, weights: HeadWeights, order: str = "qkv") -> Tensor:
    """The matrix that the question names."""
    if "BLOOM" in exercise.prompt:
        return interleaved_rows_from_heads(weights).qkv
    rows = stacked_rows_from_heads(weights, order=order).qkv
    return rows.T if "GPT-2" in exercise.prompt else rows


def place(matrix: Tensor) -> list[float]:
    """Row and column of the one entry."""
    ((row, column),) = matrix.nonzero().tolist()
    return [row, column]


def _other_packing(exercise: Exercise) -> list[float]:
    weights = marked(exercise, _asked(exercise))
    if "BLOOM" in exercise.prompt:
        return place(stacked_rows_from_heads(weights).qkv)
    rows = interleaved_rows_from_heads(weights).qkv
    return place(rows.T if "GPT-2" in exercise.prompt else rows)


def _elsewhere(change: Callable[[Asked], Asked]) -> Wrong:
    return lambda e: place(packed(e, marked(e, change(_asked(e)))))


def _right(exercise: Exercise) -> list[float]:
    return place(packed(exercise, marked(exercise, _asked(exercise))))


def _other_order(exercise: Exercise) -> list[float]:
    weights = marked(exercise, _asked(exercise))
    if "BLOOM" in exercise.prompt:
        return place(packed(exercise, replace(weights, w_q=weights.w_k, w_k=weights.w_q)))
    return place(packed(exercise, weights, order="kqv"))


def _minor(exercise: Exercise) -> list[float]:
    """Heads alternate: the joined columns (H, d) are written as (d, H)."""

    def turned(w: Tensor) -> Tensor:
        heads, dim, width = w.shape
        joined = w.permute(2, 0, 1).reshape(heads * width, dim)  # column-major: (d, H)
        by_head: Tensor = joined.unflatten(0, (heads, width))
        return by_head.mT

    weights = marked(exercise, _asked(exercise))
    changed = {f"w_{name}": turned(getattr(weights, f"w_{name}")) for name in "qkv"}
    return place(packed(exercise, replace(weights, **changed)))


PLACES: dict[str, Wrong] = {
    "right": _right,
    "weight-transposed": lambda e: _right(e)[::-1],
    "packed-layout": _other_packing,
    "counted-from-one": lambda e: [n + 1 for n in _right(e)],
    "forgot-head": _elsewhere(lambda asked: asked._replace(head=0)),
    "forgot-part": _elsewhere(lambda asked: asked._replace(part="q")),
    "unpack-order": _other_order,
    "head-order": _minor,
}
PLACED: dict[str, dict[str, Wrong]] = {"layout-conversion": PLACES}
"""By kind and misconception; "right" is the right answer."""
