"""Answers to exercises about attention, right and wrong, computed in floats by other code.

Nothing here reads the exercise's own answers: the worksheet goes through the faulty pipelines of
`manyheads.faults`, and slips that no code makes are computed by numpy from the tables shown.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults.head_layout import HeadsCombined, HeadsRolled, Relayout
from manyheads.faults.masking import MaskAfterSoftmax
from manyheads.faults.projections import (
    OtherWeights,
    Unprojected,
    _exchanged,
    _transposed,
    _without_bias,
)
from manyheads.faults.softmax import OtherScale, SoftmaxOverAxis
from manyheads.learn.exercises import Exercise
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.tensors import input_from_sheet, weights_from_sheet

Array = npt.NDArray[np.float64]
Wrong = Callable[["Shown"], Array | Tensor]
PLAIN = Pipeline()
INTERLEAVED = Relayout(None, ("BTdH", "BTHd"))
BY_VIEW = Relayout(None, ("BHTd", "BTHd"))


class Shown:
    """What somebody sees of an exercise: the question's numbers, the tables, and the worksheet."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise, self.prompt = exercise, exercise.prompt
        self.tables = {
            table.name: np.array([[float_of(n) for n in row] for row in table.rows])
            for table in exercise.given
        }
        self.outputs = [int(n) - 1 for n in re.findall(r"output (\d+)", " ".join(exercise.asks))]

    def number(self, word: str) -> int:
        """The number after a word of the question, counted from 0."""
        found = re.search(rf"(?i)\b{word} (\d+)", self.prompt)
        assert found is not None, (word, self.prompt)
        return int(found[1]) - 1

    @cached_property
    def receiver(self) -> int:
        """The receiver that is asked; where none is named, the one whose numbers are shown."""
        if re.search(r"receiver \d", self.prompt):
            return self.number("receiver")
        shown = self.tables.get("concat", self.tables.get("head outputs"))
        assert shown is not None
        _, y = self.attended(PLAIN, self.problem)
        rows = y[0].permute(1, 0, 2).flatten(1).numpy()  # (T, H*v)
        return int(np.argmin(np.abs(rows - shown.reshape(1, -1)).sum(axis=1)))

    @cached_property
    def problem(self) -> Problem:
        """The worksheet as one call."""
        assert self.exercise.worksheet is not None
        sheet = Worksheet.from_document(self.exercise.worksheet)
        x, weights = input_from_sheet(sheet), weights_from_sheet(sheet)
        scale = sheet.head_dim**-0.5 if sheet.scale is None else float_of(sheet.scale)
        heads = sheet.num_heads
        return Problem(
            x_q=x, x_k=x, x_v=x, weights=weights, num_heads=heads, num_kv_heads=heads,
            scale=scale, is_causal=sheet.is_causal,
        )  # fmt: skip

    def attended(self, pipeline: Pipeline, p: Problem) -> tuple[Tensor, Tensor]:
        """Weights (B, H, T, S) and head outputs (B, H, T, v)."""
        q, k, v = pipeline.heads(p)
        y, weights = pipeline.attend(p, q, k, v, 0)
        return weights, y

    def output(self, pipeline: Pipeline, p: Problem | None = None) -> Tensor:
        """The coordinates asked of the receiver's output."""
        row = pipeline.run(p or self.problem).output[0, self.receiver]
        return row[self.outputs]

    def only(self, heads: list[int], *, has_bias: bool) -> Problem:
        """The call with other heads silenced before W_O."""
        p = self.problem
        assert p.weights is not None
        kept = torch.zeros(p.num_heads, 1, 1, dtype=torch.float64)
        kept[heads] = 1
        b_o = p.weights.b_o if has_bias else None
        return replace(p, weights=replace(p.weights, w_v=p.weights.w_v * kept, b_o=b_o))


def _scores(pipeline: Pipeline) -> Wrong:
    def answer(s: Shown) -> Tensor:
        p = s.problem
        q, k, _ = pipeline.heads(p)
        return pipeline.scores(p, q, k)[0, 0, s.receiver, :3]

    return answer


def _scaled(power: float, of: str) -> Wrong:
    def answer(s: Shown) -> Array | Tensor:
        p = s.problem
        assert p.weights is not None
        width = p.weights.w_q.shape[1 if of == "model" else 2]
        return _scores(OtherScale(float(width) ** power))(s)

    return answer


def _raw(s: Shown) -> Array:
    x, width = s.tables["x"], s.tables["W_Q"].shape[1]
    return np.array(x[:3] @ x[s.receiver] / np.sqrt(width))


SCORE: dict[str, Wrong] = {
    "right": _scores(PLAIN),
    "scale:model-width": _scaled(-0.5, "model"),
    "scale:width-itself": _scaled(-1.0, "head"),
    "scale:none": _scaled(0.0, "head"),
    "scale:multiplied": _scaled(0.5, "head"),
    "unpack-order:query-key": _scores(OtherWeights(_exchanged("kqv"))),
    "projections-skipped": _raw,
}


def _weights(pipeline: Pipeline, *, is_causal: bool = False) -> Wrong:
    def answer(s: Shown) -> Tensor:
        p = replace(s.problem, is_causal=is_causal)
        return s.attended(pipeline, p)[0][0, 0, s.receiver]

    return answer


def _row(s: Shown) -> Array:
    return np.array(s.tables["scores"][s.receiver])


WEIGHT_ROW: dict[str, Wrong] = {
    "right": _weights(PLAIN),
    "softmax-axis:receivers": _weights(SoftmaxOverAxis(-2)),
    "scale:twice": _weights(OtherScale(0.25)),
    "forgot-exp": lambda s: _row(s) / _row(s).sum(),
    "forgot-division": lambda s: np.exp(_row(s)),
    "divided-by-whole-table": lambda s: np.exp(_row(s)) / np.exp(s.tables["scores"]).sum(),
    "masked-anyway": _weights(PLAIN, is_causal=True),
}


def _values(s: Shown) -> Array:
    return s.tables["v"] if "v" in s.tables else s.tables["x"] @ s.tables["W_V"]


def _seen(s: Shown) -> Array:
    return _values(s)[: s.receiver + 1]


def _unprojected(s: Shown) -> Tensor:
    _, y = s.attended(Unprojected("v"), s.problem)
    return y[0, s.number("head"), s.receiver]


MESSAGE: dict[str, Wrong] = {
    "right": lambda s: s.attended(PLAIN, s.problem)[1][0, s.number("head"), s.receiver],
    "column-for-row": lambda s: s.tables["weights"][:, s.receiver] @ _values(s),
    "weights-ignored": lambda s: _seen(s).mean(axis=0),
    "summed-values": lambda s: _seen(s).sum(axis=0),
    "took-largest": lambda s: _values(s)[s.tables["weights"][s.receiver].argmax()],
    "value-projection-unused": _unprojected,
}


def _without_query(pipeline: Pipeline, *, is_causal: bool = True) -> Wrong:
    def answer(s: Shown) -> Tensor:
        p = s.problem
        assert p.weights is not None
        weights = replace(p.weights, w_q=torch.zeros_like(p.weights.w_q))
        _, y = s.attended(pipeline, replace(p, weights=weights, is_causal=is_causal))
        return y[0, s.number("head"), s.receiver]

    return answer


ZERO_QUERY: dict[str, Wrong] = {
    "right": _without_query(PLAIN),
    "causal-hint-ignored": _without_query(PLAIN, is_causal=False),
    "mask-after-softmax": _without_query(MaskAfterSoftmax("all")),
    "zero-message": lambda s: np.zeros(s.tables["v"].shape[1]),
    "query-kept": lambda s: s.tables["weights before"][s.receiver] @ s.tables["v"],
    "summed-values": lambda s: _seen(s).sum(axis=0),
    "own-value-only": lambda s: s.tables["v"][s.receiver],
}


def _merged(pipeline: Pipeline) -> Wrong:
    def answer(s: Shown) -> Tensor:
        p = s.problem
        _, y = s.attended(PLAIN, p)
        return pipeline.merge(p, y)[0, s.receiver]

    return answer


def _parts(s: Shown) -> Array:
    return np.array([table[s.receiver] for table in s.tables.values()])


CONCAT: dict[str, Wrong] = {
    "right": _merged(PLAIN),
    "heads-averaged:mean": _merged(HeadsCombined(is_mean=True)),
    "heads-averaged:mean-once": lambda s: _parts(s).mean(axis=0),
    "heads-averaged:sum": _merged(HeadsCombined(is_mean=False)),
    "heads-averaged:sum-once": lambda s: _parts(s).sum(axis=0),
    "head-order-at-concat:interleaved": _merged(INTERLEAVED),
    "head-order-at-concat:reversed": _merged(HeadsRolled(is_reversed=True)),
    "merge-by-view": _merged(BY_VIEW),
}

PROJECTED: dict[str, Wrong] = {
    "right": lambda s: s.output(PLAIN),
    "output-projection-missing": lambda s: s.output(Unprojected("o")),
    "bias-dropped": lambda s: s.output(OtherWeights(_without_bias("o"))),
    "weight-transposed": lambda s: s.output(OtherWeights(_transposed("o"))),
    "head-order-at-concat": lambda s: s.output(INTERLEAVED),
    "heads-averaged": lambda s: s.output(HeadsCombined(is_mean=True)),
    "counted-one-head": lambda s: s.output(PLAIN, s.only([0], has_bias=True)),
    "bias-for-each-head": lambda s: (
        s.output(PLAIN).numpy() + (s.problem.num_heads - 1) * s.tables["b_O"][0, s.outputs]
    ),
}


def _head(s: Shown) -> int:
    return s.number("head")


def _next(s: Shown) -> int:
    return (_head(s) + 1) % len(s.tables["head outputs"])


def _added(pipeline: Pipeline) -> Wrong:
    """What the head alone gives through a pipeline, without the bias."""
    return lambda s: s.output(pipeline, s.only([_head(s)], has_bias=False))


def _cut(s: Shown, keeps: bool) -> Array:
    """The finished output with the head's own columns kept, or with them taken away."""
    width = s.tables["head outputs"].shape[1]
    is_own = [output // width == _head(s) for output in s.outputs]
    row = s.output(PLAIN).numpy()
    return np.where(np.array(is_own) == keeps, row, 0.0)


def _others(s: Shown, head: int) -> list[int]:
    return [h for h in range(len(s.tables["head outputs"])) if h != head]


def _moved_rows(s: Shown) -> Array:
    width = s.tables["head outputs"].shape[1]
    rows = s.tables["W_O"][_next(s) * width : (_next(s) + 1) * width]
    return np.array((s.tables["head outputs"][_head(s)] @ rows)[s.outputs])


CONTRIBUTION: dict[str, Wrong] = {
    "right": _added(PLAIN),
    "cut-after-output": lambda s: _cut(s, keeps=True),
    "whole-output": lambda s: s.output(PLAIN),
    "other-head": lambda s: s.output(PLAIN, s.only([_next(s)], has_bias=False)),
    "other-rows": _moved_rows,
    "head-order-at-concat": _added(INTERLEAVED),
    "weight-transposed": _added(OtherWeights(_transposed("o"))),
    "sign-lost": lambda s: np.abs(np.asarray(_added(PLAIN)(s))),
    "bias-included": lambda s: s.output(PLAIN, s.only([_head(s)], has_bias=True)),
}


def _rescaled(s: Shown) -> Array:
    heads = len(s.tables["head outputs"])
    rest = np.asarray(s.output(PLAIN, s.only(_others(s, _head(s)), has_bias=False)))
    return np.array(rest * heads / (heads - 1) + s.tables["b_O"][0, s.outputs])


def _closed(s: Shown) -> Array:
    left = np.delete(s.tables["head outputs"], _head(s), axis=0).ravel()
    rows = s.tables["W_O"][: left.size]
    return np.array((left @ rows + s.tables["b_O"][0])[s.outputs])


ABLATION: dict[str, Wrong] = {
    "right": lambda s: s.output(PLAIN, s.only(_others(s, _head(s)), has_bias=True)),
    "cut-after-output": lambda s: _cut(s, keeps=False),
    "contribution-itself": _added(PLAIN),
    "nothing-removed": lambda s: s.output(PLAIN),
    "other-head": lambda s: s.output(PLAIN, s.only(_others(s, _next(s)), has_bias=True)),
    "rescaled-rest": _rescaled,
    "bias-dropped": lambda s: s.output(PLAIN, s.only(_others(s, _head(s)), has_bias=False)),
    "closed-the-gap": _closed,
}

SHOWN: dict[str, dict[str, Wrong]] = {
    "score": SCORE,
    "weight-row": WEIGHT_ROW,
    "message": MESSAGE,
    "concat": CONCAT,
    "projected-output": PROJECTED,
    "contribution": CONTRIBUTION,
    "zero-query": ZERO_QUERY,
    "ablation": ABLATION,
}
"""By kind and misconception; "right" is the right answer."""
