"""ONNX files of the studies' models: written with standard operators and compared with PyTorch.

A file has the inputs `tokens` (batch, T), int64, padded on the left with id 0, and, where the model
has heads, `head_mask` (H), float32; its outputs are `logits` (batch, V) and, on request,
`attn_weights` (batch, H, T). The attention block is that of `attention/last_query.py`, with W_K
folded into the query and W_V applied after mixing.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from manyheads.checkpoints.files import write_model_file
from manyheads.core.compare import difference
from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.core.extras import require
from manyheads.models.config import PAD_ID
from manyheads.models.lm import AttentionLM, FixedWindowMLP

Model = AttentionLM | FixedWindowMLP

_LOWEST = np.finfo(np.float32).min


class _Nodes:
    """Nodes and stored tensors, in the order in which they are added."""

    def __init__(self, helper: ModuleType, numpy_helper: ModuleType) -> None:
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self._helper, self._numpy_helper = helper, numpy_helper

    def store(self, name: str, values: Tensor | NDArray[Any]) -> str:
        """Store a tensor: weights as float32, arrays unchanged."""
        array = values if isinstance(values, np.ndarray) else _float32(values)
        tensor = self._numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.stored.append(tensor)
        return name

    def ints(self, name: str, *values: int) -> str:
        """Store a list of whole numbers."""
        return self.store(name, np.array(values, dtype=np.int64))

    def add(self, operator: str, result: str, *inputs: str, **attributes: int | list[int]) -> str:
        """Add a node with one output; the node has the output's name."""
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
        weights: whether the attention weights are an output too.
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
    """Logits from one row per window, through the hidden layer."""
    for name, source, layer in (("hidden", row, model.hidden), ("logits", "active", model.output)):
        w = nodes.store(f"w_{name}", layer.weight)  # (out, in), as in nn.Linear
        b = nodes.store(f"b_{name}", layer.bias)
        nodes.add("Gemm", name, source, w, b, transB=1)
        if name == "hidden":
            nodes.add("Relu", "active", name)


def _attention(nodes: _Nodes, model: AttentionLM, weights: bool) -> str:
    """The last row plus its message, (batch, D), from A computed patterns for H heads."""
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
    """Attention weights of the last row, (batch, A, 1, T); zero on padding."""
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


DEFAULT_OPSET = 17
"""Any ONNX Runtime since 2022 reads it, in a browser too."""
ALLOWED_GAP = 1e-4
"""Largest allowed difference of logits and weights to PyTorch, in float32."""
_OPSETS = range(13, 22)


@dataclass(frozen=True, kw_only=True)
class OnnxFile:
    """The written file."""

    path: Path
    """Path."""
    size: int
    """Size in bytes."""
    sha256: str
    """Hash, in hexadecimal digits."""
    opset: int
    """Version of the operator set."""


@dataclass(frozen=True, kw_only=True)
class OnnxGap:
    """Differences between onnxruntime, on the CPU, and PyTorch."""

    logits: float
    """Largest difference of any logit."""
    attn_weights: float | None
    """Largest difference of any weight; None if the file has no weights."""
    num_windows: int
    """Number of windows compared, each on all logits."""

    @property
    def is_small(self) -> bool:
        """Whether both differences are at most `ALLOWED_GAP`."""
        return max(self.logits, self.attn_weights or 0.0) <= ALLOWED_GAP


def export_onnx(
    model: nn.Module,
    path: Path,
    *,
    weights: bool = False,
    opset: int = DEFAULT_OPSET,
    metadata: Mapping[str, str] | None = None,
) -> OnnxFile:
    """Write a model as an ONNX file that computes in float32.

    Args:
        model: an `AttentionLM` or a `FixedWindowMLP`.
        path: the file; an existing one is replaced.
        weights: whether the attention weights are an output too.
        opset: version of the operator set, 13 to 21.
        metadata: stored in the file with the model's sizes; for instance its name, the hash of
            the checkpoint and the licence of the weights.

    Raises:
        CheckpointError: the file cannot be written, or the weights are not finite.
        ConfigError: another kind of model, weights of a model without heads, an unknown opset, or
            the onnx package is not installed.
    """
    known = _checked_model(model, weights)
    if isinstance(opset, bool) or opset not in _OPSETS:
        span = f"{_OPSETS[0]} to {_OPSETS[-1]}"
        raise ConfigError(f"opset ({opset}) must be from {span}: use {DEFAULT_OPSET}")
    require("export", "onnx", purpose="an ONNX file")
    import onnx
    from onnx import helper

    version = helper.make_opsetid("", opset)
    proto = helper.make_model(
        onnx_graph(known, weights),
        opset_imports=[version],
        ir_version=helper.find_min_ir_version_for([version]),
        producer_name="manyheads",
    )
    helper.set_model_props(proto, _properties(known, metadata or {}))
    onnx.checker.check_model(proto, full_check=True)
    content = proto.SerializeToString(deterministic=True)
    write_model_file(path, content)
    digest = hashlib.sha256(content).hexdigest()
    return OnnxFile(path=path, size=len(content), sha256=digest, opset=opset)


def onnx_gap(model: nn.Module, path: Path, *, num_windows: int = 256, seed: int = 0) -> OnnxGap:
    """Compare a file with its model: random windows, padded and full, under several head masks.

    Args:
        model: the exported model.
        path: the file.
        num_windows: number of windows; a quarter of them with each of four head masks.
        seed: random seed of windows and masks.

    Raises:
        CheckpointError: the file is not readable as ONNX, or is of another model.
        ConfigError: another kind of model, or the onnxruntime package is not installed.
        MismatchError: a result has another shape.
    """
    known = _checked_model(model, False)
    run, worst = _runner(path), {"logits": 0.0}
    generator = torch.Generator().manual_seed(seed)
    for part in random_windows(known, num_windows, generator).chunk(4):
        feeds = {"tokens": part}
        if isinstance(known, AttentionLM):
            feeds["head_mask"] = _random_mask(known, generator)
        judge = _judge(known, feeds)
        for name, values in run(feeds).items():
            gap = difference(name, values, judge[name], allowed=0.0).largest
            worst[name] = max(worst.get(name, 0.0), gap)
    return OnnxGap(
        logits=worst["logits"], attn_weights=worst.get("attn_weights"), num_windows=num_windows
    )


def random_windows(model: Model, count: int, generator: torch.Generator) -> Tensor:
    """Windows of random ids, (B, T), with 0 to T - 1 ids of padding on the left; some have none.

    Args:
        model: the model, for the number of ids and the length.
        count: B.
        generator: where they are drawn from.
    """
    V, T = model.config.vocab_size, model.config.context
    tokens = torch.randint(PAD_ID + 1, V, (count, T), generator=generator)
    padding = torch.randint(-T // 2, T, (count, 1), generator=generator)
    return tokens.masked_fill(torch.arange(T) < padding, PAD_ID)


def _checked_model(model: nn.Module, weights: bool) -> Model:
    if not isinstance(model, AttentionLM | FixedWindowMLP):
        raise ConfigError(
            f"model ({type(model).__name__}) is not a model of the studies: "
            "give an AttentionLM or a FixedWindowMLP"
        )
    if weights and isinstance(model, FixedWindowMLP):
        raise ConfigError("weights (True) need a model with heads: leave weights out for the MLP")
    broken = [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]
    if broken:
        raise CheckpointError(
            f"model ({', '.join(broken)}) has numbers that are not finite: use another checkpoint"
        )
    return model


def _properties(model: Model, metadata: Mapping[str, str]) -> dict[str, str]:
    return {
        "config": json.dumps(model.config.to_dict()),
        "num_parameters": str(model.config.num_parameters),
        **{name: str(value) for name, value in metadata.items()},
    }


def _runner(path: Path) -> Callable[[Mapping[str, Tensor]], dict[str, Tensor]]:
    """A function from inputs by name to all outputs by name, in onnxruntime, with one thread."""
    require("export", "onnxruntime", purpose="the comparison with PyTorch")
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        content = path.read_bytes()
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except OSError as error:
        raise CheckpointError(
            f"path ({path}) cannot be read ({error.strerror or error}): check the path"
        ) from error
    except Exception as error:  # onnxruntime's errors have no common class
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"path ({path}) is not a readable ONNX file ({reason}): export it again"
        ) from error
    names = [output.name for output in session.get_outputs()]

    def run(feeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
        try:
            found = session.run(names, {name: feed.numpy() for name, feed in feeds.items()})
        except Exception as error:  # as above
            reason = str(error).splitlines()[0]
            raise CheckpointError(
                f"path ({path}) is not a file of this model ({reason}): export it again"
            ) from error
        return {name: torch.from_numpy(x) for name, x in zip(names, found, strict=True)}

    return run


def _random_mask(model: AttentionLM, generator: torch.Generator) -> Tensor:
    """Random factors from 0 to 1, (H,), about half of them exactly 0 or 1."""
    factors = torch.rand(model.config.num_heads or 0, generator=generator)
    return (2.0 * factors - 0.5).clamp(0.0, 1.0)


@torch.no_grad()
def _judge(model: Model, feeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """PyTorch's results for the same windows, computed on the model's device, copied to the CPU."""
    device = model.token_embedding.weight.device
    tokens = feeds["tokens"].to(device)
    if isinstance(model, FixedWindowMLP):
        return {"logits": model(tokens).cpu()}
    logits, weights = model(tokens, feeds["head_mask"].to(device), need_weights=True)
    return {"logits": logits.cpu(), "attn_weights": weights.cpu()}
