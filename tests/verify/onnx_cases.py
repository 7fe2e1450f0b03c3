"""The published Attention node cases of the onnx package, put to our reference.

The reference works in float64 on the exact inputs; what the operator has beyond it (masks that are
added, windows to both sides, lengths per sample, scores as an output) is translated here.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.core.shapes import merge_heads, split_heads

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
NODE_TOLERANCE = (1e-3, 1e-7)  # relative and absolute, those of the package's own runner


@dataclass(frozen=True, kw_only=True)
class OnnxCase:
    """One node case: attributes, inputs by name, and expected outputs by position."""

    name: str
    """As published."""
    attributes: dict[str, Any]
    """Those that the node sets."""
    inputs: dict[str, np.ndarray]
    """Those that the node takes."""
    outputs: dict[str, np.ndarray]
    """Those that the node gives: Y, present_key, present_value, qk_matmul_output."""


def onnx_cases() -> list[OnnxCase]:
    """All Attention cases that are one node, without their expansions into many.

    `collect_testcases` would also make the cases of all other operators, which takes seconds; so
    only the module of this operator is loaded.
    """
    pytest.importorskip("onnx", reason="the onnx package is not there: install the dev extra")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import onnx
        from onnx.backend.test.case import node

        node._TargetOpType = "Attention"
        import onnx.backend.test.case.node.attention

        return [_read(onnx, case) for case in node._NodeTestCases if "_expanded" not in case.name]


def _read(onnx: Any, case: Any) -> OnnxCase:
    (node,) = case.model.graph.node
    ((given, expected),) = case.data_sets
    taken = [n for n, name in zip(INPUTS, node.input, strict=False) if name]
    names = ("Y", "present_key", "present_value", "qk_matmul_output")
    return OnnxCase(
        name=case.name,
        attributes={a.name: onnx.helper.get_attribute_value(a) for a in node.attribute},
        inputs=dict(zip(taken, given, strict=True)),
        outputs=dict(
            zip([n for n, o in zip(names, node.output, strict=False) if o], expected, strict=True)
        ),
    )


def _double(x: np.ndarray) -> Tensor:
    return torch.from_numpy(x.astype(np.float64))


class OnnxAttention(Pipeline):
    """The reference, with a mask that is added, and with its scores kept after each step."""

    def __init__(self, bias: Tensor) -> None:
        self.bias = bias
        self.kept: list[Tensor] = []

    def scores(self, p: Problem, q: Tensor, k: Tensor) -> Tensor:
        """Keep q·k (mode 0)."""
        return self._keep(super().scores(p, q, k))

    def cap(self, p: Problem, scores: Tensor) -> Tensor:
        """Keep the capped scores (mode 1)."""
        return self._keep(super().cap(p, scores))

    def add_bias(self, p: Problem, scores: Tensor) -> Tensor:
        """Add the finite part of the mask."""
        return scores + self.bias.masked_fill(self.bias == -math.inf, 0.0)

    def allowed(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """Whatever the mask does not set to minus infinity."""
        return self.bias != -math.inf

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """Keep the masked scores (mode 2)."""
        return self._keep(super().hide(p, scores, allowed))

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """Keep the weights (mode 3)."""
        return self._keep(super().softmax(p, masked, allowed))

    def _keep(self, x: Tensor) -> Tensor:
        self.kept.append(x)
        return x


def _heads(case: OnnxCase) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as heads."""
    q, k, v = (_double(case.inputs[name]) for name in "QKV")
    if q.dim() == 4:
        return q, k, v
    heads, groups = case.attributes["q_num_heads"], case.attributes["kv_num_heads"]
    return split_heads(q, heads), split_heads(k, groups), split_heads(v, groups)


def _offset(case: OnnxCase, queries: int) -> Tensor:
    """(B or 1, 1, 1, 1): how many keys come before the first query."""
    if "nonpad_kv_seqlen" in case.inputs:
        return torch.from_numpy(case.inputs["nonpad_kv_seqlen"] - queries).view(-1, 1, 1, 1)
    past = case.inputs["past_key"].shape[2] if "past_key" in case.inputs else 0
    return torch.tensor(past).view(1, 1, 1, 1)


def _ordered(case: OnnxCase, queries: int, keys: int) -> Tensor:
    """(B or 1, 1, T, S): which keys causality, windows and lengths allow."""
    place = torch.arange(queries)[:, None] + _offset(case, queries)
    ahead = torch.arange(keys) - place
    allowed = torch.ones_like(ahead, dtype=torch.bool)
    if case.attributes.get("is_causal"):
        allowed &= ahead <= 0
    if (left := case.attributes.get("left_window_size", -1)) >= 0:
        allowed &= -ahead <= left
    if (right := case.attributes.get("right_window_size", -1)) >= 0:
        allowed &= ahead <= right
    if "nonpad_kv_seqlen" in case.inputs:
        lengths = torch.from_numpy(case.inputs["nonpad_kv_seqlen"]).view(-1, 1, 1, 1)
        allowed = allowed & (torch.arange(keys) < lengths)
    return allowed


def _bias(case: OnnxCase, shape: tuple[int, int, int, int]) -> Tensor:
    """All masks as one that is added, (B, H, T, S)."""
    bias = torch.zeros(shape, dtype=torch.float64)
    given = case.inputs.get("attn_mask")
    if given is not None:
        is_bool = given.dtype == np.bool_
        mask = torch.from_numpy(given) if is_bool else _double(given)
        short = shape[-1] - mask.shape[-1]
        padded = torch.nn.functional.pad(mask, (0, short), value=0 if is_bool else -math.inf)
        bias = bias.masked_fill(~padded, -math.inf) if is_bool else bias + padded
    return bias.masked_fill(~_ordered(case, shape[2], shape[3]), -math.inf)


def reference_outputs(case: OnnxCase) -> dict[str, Tensor]:
    """Everything that the node gives, in float64."""
    q, k, v = _heads(case)
    if "past_key" in case.inputs:
        k = torch.cat((_double(case.inputs["past_key"]), k), dim=2)
        v = torch.cat((_double(case.inputs["past_value"]), v), dim=2)
    problem = Problem(
        x_q=q, x_k=k, x_v=v, weights=None, num_heads=q.shape[1], num_kv_heads=k.shape[1],
        scale=case.attributes.get("scale", q.shape[-1] ** -0.5),
        softcap=case.attributes.get("softcap") or None,
    )  # fmt: skip
    pipeline = OnnxAttention(_bias(case, (*q.shape[:3], k.shape[2])))
    output = pipeline.run(problem).output
    if case.inputs["Q"].ndim == 3:
        output = merge_heads(output)
    mode = case.attributes.get("qk_matmul_output_mode", 0)
    kept = pipeline.kept[mode]
    return {"Y": output, "present_key": k, "present_value": v, "qk_matmul_output": kept}
