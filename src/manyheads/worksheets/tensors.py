"""Convert exact numbers to float64 tensors, once, and compute the trace of a worksheet."""

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.config import TracedForm
from manyheads.core.trace import AttentionTrace
from manyheads.core.weights import HeadWeights
from manyheads.worksheets.arithmetic import ZERO, Number, float_of
from manyheads.worksheets.fields import ALL_FIELDS
from manyheads.worksheets.sheet import Matrix, Prediction, Row, Sheet


def _tensor(rows: object) -> Tensor:
    return torch.tensor(_floats(rows), dtype=torch.float64)


def _floats(rows: Number) -> object:
    return [_floats(row) for row in rows] if isinstance(rows, tuple) else float_of(rows)


def weights_from_sheet(sheet: Sheet) -> HeadWeights:
    """The weights of a worksheet in float64; a missing bias is zero if another head has one."""
    heads, dim = sheet.heads, sheet.embed_dim
    return HeadWeights(
        w_q=_tensor(tuple(head.w_q for head in heads)),
        w_k=_tensor(tuple(head.w_k for head in heads)),
        w_v=_tensor(tuple(head.w_v for head in heads)),
        w_o=_tensor(sheet.w_o).view(sheet.num_heads, sheet.v_head_dim, dim),  # (H, v, D)
        b_q=_biases(tuple(head.b_q for head in heads), sheet.head_dim),
        b_k=_biases(tuple(head.b_k for head in heads), sheet.head_dim),
        b_v=_biases(tuple(head.b_v for head in heads), sheet.v_head_dim),
        b_o=None if sheet.b_o is None else _tensor(sheet.b_o),
    )


def _biases(rows: tuple[Row | None, ...], width: int) -> Tensor | None:
    if all(row is None for row in rows):
        return None
    return _tensor(tuple((ZERO,) * width if row is None else row for row in rows))


def input_from_sheet(sheet: Sheet, name: str | None = None) -> Float[Tensor, "1 T D"]:
    """The input rows of one sequence in float64, (1, T, D).

    Raises:
        WorksheetError: no sequence has that name.
    """
    return _tensor((sheet.sequence(name).x,))


def layer_from_sheet(sheet: Sheet, form: TracedForm = "packed") -> MultiHeadAttention:
    """A layer with the worksheet's weights and scale, in float64."""
    scale = None if sheet.scale is None else float_of(sheet.scale)
    return MultiHeadAttention.from_weights(weights_from_sheet(sheet), form=form, scale=scale)


def trace_from_sheet(
    sheet: Sheet, name: str | None = None, form: TracedForm = "packed"
) -> AttentionTrace:
    """Trace one sequence of a worksheet through the loop or the packed form, with B = 1.

    Raises:
        WorksheetError: no sequence has that name.
    """
    x = input_from_sheet(sheet, name)
    with torch.no_grad():
        return layer_from_sheet(sheet, form).trace(x, is_causal=sheet.is_causal)


def solve_float(
    sheet: Sheet, name: str | None = None, form: TracedForm = "packed"
) -> dict[str, npt.NDArray[np.float64]]:
    """Solve one sequence in float64, without a batch axis, by the names of `fields`.

    Raises:
        WorksheetError: no sequence has that name.
    """
    trace = trace_from_sheet(sheet, name, form)
    steps = {field.name: trace[field.name][0] for field in ALL_FIELDS if field.name in trace}
    steps["dots"] = steps["q"] @ steps["k"].mT  # (H, T, S)
    steps["exp_scores"] = steps["masked_scores"].exp()
    steps["exp_sum"] = steps["exp_scores"].sum(dim=-1)  # (H, T)
    stream = steps["output"]
    if sheet.has_residual:
        stream = steps["updated"] = steps["x"] + stream
    if sheet.prediction is not None:
        steps |= _predicted(stream, sheet.prediction)
    return {field: tensor.numpy() for field, tensor in steps.items()}


def _predicted(stream: Tensor, prediction: Prediction) -> dict[str, Tensor]:
    pre = _affine(stream, prediction.w_hidden, prediction.b_hidden)  # (T, J)
    hidden = pre.relu()
    logits = _affine(hidden, prediction.w_vocab, prediction.b_vocab)  # (T, V)
    probabilities = logits.softmax(dim=-1)
    return {
        "hidden_pre": pre,
        "hidden": hidden,
        "logits": logits,
        "probabilities": probabilities,
    }


def _affine(rows: Tensor, weight: Matrix, bias: Row | None) -> Tensor:
    products = rows @ _tensor(weight)
    return products if bias is None else products + _tensor(bias)
