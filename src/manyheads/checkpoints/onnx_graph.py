"""The studies' models as ONNX graphs: a few standard operators, weights under our own names.

The attention block is the last-query path with W_K folded into the query and W_V applied after
mixing, as in `attention/last_query.py`. Writing and checking files is left to `onnx_export.py`.
"""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from manyheads.models.attention_lm import AttentionLM
from manyheads.models.mlp import FixedWindowMLP
from manyheads.models.special_ids import PAD_ID

Model = AttentionLM | FixedWindowMLP

_LOWEST = np.finfo(np.float32).min


class _Nodes:
    """Nodes and stored tensors, in the order in which they are added."""

    def __init__(self, helper: ModuleType, numpy_helper: ModuleType) -> None:
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self._helper, self._numpy_helper = helper, numpy_helper

    def store(self, name: str, values: Tensor | NDArray[Any]) -> str:
        """Keep a tensor in the file: weights as float32, given arrays as they are."""
        array = values if isinstance(values, np.ndarray) else _float32(values)
        tensor = self._numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.stored.append(tensor)
        return name

    def ints(self, name: str, *values: int) -> str:
        """Keep a list of whole numbers in the file."""
        return self.store(name, np.array(values, dtype=np.int64))

    def add(self, operator: str, result: str, *inputs: str, **attributes: int | list[int]) -> str:
        """Add a node of one result, which names it."""
        node = self._helper.make_node(operator, list(inputs), [result], name=result, **attributes)
        self.nodes.append(node)
        return result


def _float32(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().cpu().float().numpy()
    return array


def onnx_graph(model: Model, weights: bool) -> Any:  # noqa: ANN401 - onnx is untyped
    """A model as an `onnx.GraphProto`.

    Args:
        model: one of the studies' models.
        weights: whether the attention weights are a result too.
    """
    from onnx import TensorProto, helper, numpy_helper

    config, nodes = model.config, _Nodes(helper, numpy_helper)
    number, whole = TensorProto.FLOAT, TensorProto.INT64
    inputs = [helper.make_tensor_value_info("tokens", whole, ["batch", config.context])]
    outputs = [helper.make_tensor_value_info("logits", number, ["batch", config.vocab_size])]
    if isinstance(model, AttentionLM):
        heads = config.num_heads
        inputs.append(helper.make_tensor_value_info("head_mask", number, [heads]))
        row = _attention(nodes, model, weights)
        if weights:
            shape = ["batch", heads, config.context]
            outputs.append(helper.make_tensor_value_info("attn_weights", number, shape))
    else:
        row = _joined_rows(nodes, model)
    _predict(nodes, model, row)
    name = f"manyheads_{config.kind.replace('-', '_')}"
    return helper.make_graph(nodes.nodes, name, inputs, outputs, initializer=nodes.stored)


def _joined_rows(nodes: _Nodes, model: FixedWindowMLP) -> str:
    """All word rows of the window side by side, (batch, T*D)."""
    table = nodes.store("token_embedding", model.token_embedding.weight)
    rows = nodes.add("Gather", "rows", table, "tokens")  # (batch, T, D)
    return nodes.add("Flatten", "joined_rows", rows, axis=1)


def _predict(nodes: _Nodes, model: Model, row: str) -> None:
    """Logits from one row a window, through the hidden layer."""
    for name, source, layer in (("hidden", row, model.hidden), ("logits", "active", model.output)):
        w = nodes.store(f"w_{name}", layer.weight)  # (out, in), as in nn.Linear
        b = nodes.store(f"b_{name}", layer.bias)
        nodes.add("Gemm", name, source, w, b, transB=1)
        if name == "hidden":
            nodes.add("Relu", "active", name)


def _attention(nodes: _Nodes, model: AttentionLM, weights: bool) -> str:
    """The last row plus its message, (batch, D); A attention heads speak for H heads."""
    config, heads = model.config, model.attention.head_weights()
    H, A = config.num_heads or 0, heads.num_heads  # A is 1 where all heads share one pattern
    first, both = nodes.ints("axis_1", 1), nodes.ints("axes_1_2", 1, 2)
    table = nodes.store("token_embedding", model.token_embedding.weight)
    words = nodes.add("Gather", "words", table, "tokens")
    positions = nodes.store("position_embedding", model.position_embedding.weight)
    x = nodes.add("Add", "x", words, positions)  # (batch, T, D)
    last = nodes.add("Gather", "last", x, nodes.ints("last_index", config.context - 1), axis=1)
    seen = _weights(nodes, model, x, last)  # (batch, A, 1, T)
    rows = nodes.add("Unsqueeze", "x_of_heads", x, first)  # (batch, 1, T, D)
    mixed = nodes.add("MatMul", "mixed", seen, rows)  # (batch, A, 1, D)
    out = nodes.add("MatMul", "values", mixed, nodes.store("w_v", heads.w_v))
    per_head = nodes.ints("shape_of_heads", 0, H, 1, config.width_of_head)
    out = nodes.add("Reshape", "head_outputs", out, per_head)  # (batch, H, 1, d)
    mask = nodes.add("Unsqueeze", "mask_of_heads", "head_mask", both)  # (H, 1, 1)
    out = nodes.add("Mul", "masked_head_outputs", out, mask)
    w_o = model.attention.out_proj.weight.mT.unflatten(0, (H, -1))  # (H, d, D)
    parts = nodes.add("MatMul", "head_contributions", out, nodes.store("w_o", w_o))
    message = nodes.add("ReduceSum", "message", parts, first, keepdims=0)  # (batch, 1, D)
    row = nodes.add("Add", "updated", last, message)
    row = nodes.add("Squeeze", "updated_row", row, first)  # (batch, D)
    if weights:
        shown = nodes.add("Squeeze", "weights_of_row", seen, nodes.ints("axis_2", 2))
        nodes.add("Expand", "attn_weights", shown, nodes.ints("all_heads", 1, H // A, 1))
    return row


def _weights(nodes: _Nodes, model: AttentionLM, x: str, last: str) -> str:
    """The last row's weights on all rows, (batch, A, 1, T); zero on padding."""
    heads = model.attention.head_weights()
    asking = nodes.add("Unsqueeze", "asking", last, "axis_1")  # (batch, 1, 1, D)
    q = nodes.add("MatMul", "q", asking, nodes.store("w_q", heads.w_q))  # (batch, A, 1, d)
    scale = nodes.store("scale", np.float32(model.attention.config.scale).reshape(1))
    q = nodes.add("Mul", "scaled_q", q, scale)
    folded = nodes.add("MatMul", "q_times_w_k", q, nodes.store("w_k_turned", heads.w_k.mT))
    columns = nodes.add("Transpose", "x_turned", x, perm=[0, 2, 1])  # (batch, D, T)
    columns = nodes.add("Unsqueeze", "x_turned_of_heads", columns, "axis_1")
    scores = nodes.add("MatMul", "scores", folded, columns)
    pad = nodes.store("pad_id", np.array(PAD_ID, dtype=np.int64))
    is_pad = nodes.add("Equal", "is_padding", "tokens", pad)
    allowed = nodes.add("Not", "is_word", is_pad)
    allowed = nodes.add("Unsqueeze", "allowed", allowed, "axes_1_2")  # (batch, 1, 1, T)
    # Not -inf: a window of padding alone would then divide zero by zero.
    lowest = nodes.store("lowest", np.array(_LOWEST, dtype=np.float32))
    masked = nodes.add("Where", "masked_scores", allowed, scores, lowest)
    shares = nodes.add("Softmax", "shares", masked, axis=-1)
    kept = nodes.add("Cast", "kept", allowed, to=1)  # TensorProto.FLOAT
    return nodes.add("Mul", "weights", shares, kept)
