"""The parameters of a layer, with the names and layout of `nn.MultiheadAttention`.

Rows of `in_proj_weight` are the outputs of queries, then keys, then values, head after head;
columns of `out_proj.weight` are the concatenated heads.
"""

from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.norms import register_norms
from manyheads.core.config import AttentionConfig
from manyheads.core.errors import ConfigError
from manyheads.core.weights import HeadWeights

PROJECTIONS = ("q_proj_weight", "k_proj_weight", "v_proj_weight")


def register_parameters(layer: nn.Module, config: AttentionConfig, where: dict[str, Any]) -> None:
    """Register a layer's parameters, with one stacked input matrix if the inputs are equally wide.

    Args:
        layer: the module that gets them.
        config: its sizes.
        where: device and dtype.

    Raises:
        ConfigError: a dtype that is not floating point, or a device that torch does not have.
    """
    _check_where(**where)
    widths, inputs = config.projection_widths, (config.embed_dim, config.kdim, config.vdim)
    names = ("in_proj_weight", *PROJECTIONS, "in_proj_bias")
    shapes: dict[str, tuple[int, ...] | None] = dict.fromkeys(names)
    if config.has_one_input_width:
        shapes["in_proj_weight"] = (sum(widths), config.embed_dim)
    else:
        shapes.update(zip(PROJECTIONS, zip(widths, inputs, strict=True), strict=True))
    if config.bias:
        shapes["in_proj_bias"] = (sum(widths),)
    for name, shape in shapes.items():
        made = None if shape is None else nn.Parameter(torch.empty(shape, **where))
        layer.register_parameter(name, made)
    layer.out_proj = nn.Linear(config.concat_dim, config.embed_dim, bias=config.out_bias, **where)
    register_norms(layer, config, where)
    sinks = nn.Parameter(torch.empty(config.num_heads, **where)) if config.sinks else None
    layer.register_parameter("sinks", sinks)
    layer.register_module("gate_proj", None)
    if config.gate is not None:
        sizes = (config.embed_dim, config.concat_dim)
        layer.gate_proj = nn.Linear(*sizes, bias=config.bias, **where)


def _check_where(device: object, dtype: object) -> None:
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ConfigError(
            f"dtype ({dtype!r}) must be a floating-point torch.dtype: use torch.float32"
        )
    try:
        torch.empty(0, device=device)  # type: ignore[call-overload]  # any value of the user
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        raise ConfigError(
            f'device ({device!r}) is not available: use "cpu", or leave it out'
        ) from error


def reset_parameters(layer: nn.Module) -> None:
    """Initial values as in `nn.MultiheadAttention`: Xavier uniform weights, zero biases.

    Sinks are zero, norms one; a gate begins as `nn.Linear` does.
    """
    for name, parameter in layer.named_parameters(recurse=False):
        if name.endswith("weight"):
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
    out_proj = layer.out_proj
    assert isinstance(out_proj, nn.Linear)
    out_proj.reset_parameters()
    for part in (layer.q_norm, layer.k_norm, layer.gate_proj):
        if isinstance(part, nn.RMSNorm | nn.LayerNorm | nn.Linear):
            part.reset_parameters()
    if out_proj.bias is not None:
        nn.init.zeros_(out_proj.bias)


def _value(layer: nn.Module, name: str) -> Tensor:
    """A parameter, or its replacement, such as in `torch.func.functional_call`."""
    value: Tensor = attrgetter(name)(layer)
    return value


def parameter_dtype(layer: nn.Module, config: AttentionConfig) -> torch.dtype:
    """The dtype of the input projections; the output projection may have been replaced."""
    return _value(layer, "in_proj_weight" if config.has_one_input_width else PROJECTIONS[0]).dtype


def projection_parts(
    layer: nn.Module, config: AttentionConfig
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Query, key and value matrices (out, in) and biases (out,): views of the parameters."""
    widths = list(config.projection_widths)
    if config.has_one_input_width:
        weights = list(torch.split(_value(layer, "in_proj_weight"), widths))
    else:
        weights = [_value(layer, name) for name in PROJECTIONS]
    biases: list[Tensor | None] = [None, None, None]
    if config.bias:
        biases = list(torch.split(_value(layer, "in_proj_bias"), widths))
    return weights, biases


def input_heads(
    layer: nn.Module, config: AttentionConfig
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Weights w_q, w_k, w_v and biases b_q, b_k, b_v of `HeadWeights`: views of the parameters."""
    weights, biases = projection_parts(layer, config)
    counts = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
    per_head = [w.view(n, -1, w.shape[1]).mT for w, n in zip(weights, counts, strict=True)]
    rows = [None if b is None else b.view(n, -1) for b, n in zip(biases, counts, strict=True)]
    return per_head, rows


def has_plain_out_proj(layer: nn.Module) -> bool:
    """Whether the output projection is an `nn.Linear`, not an adapter or a quantised module."""
    out_proj = layer.out_proj
    return isinstance(out_proj, nn.Linear) and type(out_proj).forward is nn.Linear.forward


def heads_from_parameters(layer: nn.Module, config: AttentionConfig) -> HeadWeights:
    """View the layer's parameters as one matrix per head; no number is copied.

    Raises:
        ConfigError: `out_proj` was replaced, so that its weight does not determine the output.
    """
    if not has_plain_out_proj(layer):
        raise ConfigError(
            f"out_proj ({type(layer.out_proj).__name__}) must be an nn.Linear to be divided by "
            "head: merge the adapter into it, or put the nn.Linear back"
        )
    per_head, rows = input_heads(layer, config)
    joined = _value(layer, "out_proj.weight")
    out = joined.view(config.embed_dim, config.num_heads, config.v_head_dim)  # (D, H, v)
    gain, shift = _norm_rows(layer, "weight"), _norm_rows(layer, "bias")
    gates: dict[str, Tensor] = {}
    if config.gate:
        gates["w_g"] = (
            _value(layer, "gate_proj.weight").view(config.num_heads, -1, config.embed_dim).mT
        )
    if config.gate and config.bias:
        gates["b_g"] = _value(layer, "gate_proj.bias").view(config.num_heads, -1)
    return HeadWeights(
        w_q=per_head[0],
        w_k=per_head[1],
        w_v=per_head[2],
        w_o=out.permute(1, 2, 0),  # (H, v, D)
        b_q=rows[0],
        b_k=rows[1],
        b_v=rows[2],
        b_o=_value(layer, "out_proj.bias") if config.out_bias else None,
        q_gain=gain[0],
        k_gain=gain[1],
        q_shift=shift[0],
        k_shift=shift[1],
        sinks=_value(layer, "sinks") if config.sinks else None,
        **gates,
    )


def _norm_rows(layer: nn.Module, part: str) -> list[Tensor | None]:
    """One parameter of the norms of queries and of keys; None where there is none."""
    norms = (getattr(layer, "q_norm", None), getattr(layer, "k_norm", None))
    return [None if norm is None else getattr(norm, part, None) for norm in norms]


def _check_sizes(given: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    for name, tensor in given.items():
        if name not in own:
            raise ConfigError(
                f"{name} ({tuple(tensor.shape)}) has no place in this layer: remove it"
            )
        if tensor.shape != own[name].shape:
            raise ConfigError(
                f"{name} has shape {tuple(tensor.shape)}, expected {tuple(own[name].shape)}: check "
                "whether qk_norm.over is the model's"
            )


@torch.no_grad()
def copy_heads_into(layer: nn.Module, config: AttentionConfig, weights: HeadWeights) -> None:
    """Copy weights into a layer of the same sizes, bit for bit.

    Missing biases and shifts become zero, missing scales of norms one.

    Raises:
        ConfigError: a tensor of another size than the layer's, or one that the layer lacks.
    """
    views = heads_from_parameters(layer, config)
    _check_sizes(weights.tensors(), views.tensors())
    for name, target in views.tensors().items():
        source = getattr(weights, name)
        if source is None:
            target.fill_(1.0 if name.endswith("gain") else 0.0)
        else:
            target.copy_(source)
