"""Whole `nn.MultiheadAttention` modules to and from our layer, bit for bit.

Both have parameters of the same names and shapes, so converting copies them. What the other side
cannot represent raises an error. Boolean masks mean the opposite there.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, overload

from torch import Tensor, nn

from manyheads.attention.inputs import check_flag
from manyheads.attention.module import MultiHeadAttention
from manyheads.core.errors import LayoutError
from manyheads.layouts.drop_in import DropInAttention
from manyheads.layouts.limits import check_joined_width, check_no_groups, check_value_width

_TARGET = "nn.MultiheadAttention"


@overload
def from_torch(module: nn.Module, *, drop_in: Literal[True]) -> DropInAttention: ...
@overload
def from_torch(module: nn.Module, *, drop_in: Literal[False] = False) -> MultiHeadAttention: ...
@overload
def from_torch(module: nn.Module, *, drop_in: bool) -> MultiHeadAttention: ...
def from_torch(module: nn.Module, *, drop_in: bool = False) -> MultiHeadAttention:
    """Build our layer from an `nn.MultiheadAttention`, with a copy of its parameters.

    Widths, biases, dropout, dtype, device, which parameters are trained and training mode stay as
    they are. Our layer is always batch first, has the form "fused", and never averages weights,
    unless `drop_in` asks for torch's conventions.

    Args:
        module: an `nn.MultiheadAttention`, batch first or not.
        drop_in: build a `DropInAttention`, which takes the module's place in torch's own modules:
            `encoder_layer.self_attn = from_torch(encoder_layer.self_attn, drop_in=True)`.

    Raises:
        LayoutError: another kind of module, or one with bias_k, bias_v, add_zero_attn, a forward,
            hooks or parameters of its own, or parameters that do not fit together.
        ConfigError: a dropout of one, or a `drop_in` that is neither True nor False.
    """
    if not isinstance(module, nn.MultiheadAttention):
        raise LayoutError(
            f"module ({type(module).__name__}) must be an nn.MultiheadAttention: "
            f"{_remedy_for(module)}"
        )
    check_flag("drop_in", drop_in, "get torch's conventions")
    _check_is_plain(module)
    options: dict[str, Any] = {
        "embed_dim": module.embed_dim,
        "num_heads": module.num_heads,
        "kdim": module.kdim,
        "vdim": module.vdim,
        "bias": module.in_proj_bias is not None,
        "out_bias": module.out_proj.bias is not None,
        "dropout": module.dropout,
        "device": "meta",
    }
    layer: MultiHeadAttention
    if drop_in:
        layer = DropInAttention(batch_first=module.batch_first, **options)
    else:
        layer = MultiHeadAttention(**options)
    _copy_parameters(module, layer)
    return layer


def to_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Build an `nn.MultiheadAttention` from our layer, with copied parameters.

    It is batch first, unless the layer is a `DropInAttention` that is not.

    Args:
        layer: one whose configuration `nn.MultiheadAttention` knows.

    Raises:
        LayoutError: num_kv_heads, head_dim, v_head_dim, scale, window, positions, out_bias,
            qk_norm, softcap, sinks or gate that `nn.MultiheadAttention` does not have, or another
            kind of module.
    """
    if not isinstance(layer, MultiHeadAttention):
        raise LayoutError(
            f"layer ({type(layer).__name__}) must be a manyheads.MultiHeadAttention: use "
            "from_torch for the other direction"
        )
    drop_in = layer if isinstance(layer, DropInAttention) else None
    _check_has_own_forward(layer, DropInAttention if drop_in else MultiHeadAttention)
    _check_torch_can_hold(layer)
    config = layer.config
    module = nn.MultiheadAttention(
        config.embed_dim,
        config.num_heads,
        dropout=config.dropout,
        bias=config.bias,
        kdim=config.kdim,
        vdim=config.vdim,
        batch_first=drop_in is None or drop_in.batch_first,
        device="meta",
    )
    _copy_parameters(layer, module)
    return module


def _remedy_for(module: object) -> str:
    if isinstance(module, MultiHeadAttention):
        return "it is a manyheads layer already; use to_torch(layer) first to convert it again"
    if isinstance(module, nn.Module):
        parts = module.named_modules()
        inner = [name for name, part in parts if isinstance(part, nn.MultiheadAttention)]
        if inner:
            return f"convert one part of it, such as module.{inner[0]}"
    return "use heads_from_state_dict for weights of other modules"


def _copy_parameters(source: nn.Module, target: nn.Module) -> None:
    """Copy all parameters with dtype, device and whether they are trained, and the mode."""
    state = {name: tensor.detach().clone() for name, tensor in source.state_dict().items()}
    _check_names(set(state), set(target.state_dict()), type(source).__name__)
    _check_shapes(state, target.state_dict())
    _check_has_no_hooks(source)
    target.load_state_dict(state, assign=True)
    trained = {name: parameter.requires_grad for name, parameter in source.named_parameters()}
    for name, parameter in target.named_parameters():
        parameter.requires_grad_(trained[name])
    target.train(source.training)


def _check_names(given: set[str], expected: set[str], owner: str) -> None:
    if given != expected:
        odd = ", ".join(sorted(given ^ expected))
        raise LayoutError(
            f"module ({owner}) has other parameters than it was built with ({odd}): remove "
            "parametrizations, pruning and adapters first"
        )


def _check_shapes(given: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    for name, tensor in given.items():
        if tensor.shape != expected[name].shape:
            raise LayoutError(
                f"{name} has shape {tuple(tensor.shape)}, expected {tuple(expected[name].shape)} "
                "by the sizes of the module: build it again with the sizes of its parameters"
            )


def _check_has_no_hooks(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if part._forward_hooks or part._forward_pre_hooks:
            where = f"module.{name}" if name else "module"
            raise LayoutError(
                f"{where} ({type(part).__name__}) has forward hooks, which would be lost: "
                "remove them first"
            )


def _check_one_kind(module: nn.Module) -> None:
    """Check that all parameters have one dtype and one device."""
    first = ""
    for name, parameter in module.named_parameters():
        first = first or name
        other = module.get_parameter(first)
        if (parameter.dtype, parameter.device) != (other.dtype, other.device):
            raise LayoutError(
                f"{name} is {parameter.dtype} on {parameter.device}, but {first} is {other.dtype} "
                f"on {other.device}: use module.to({str(other.device)!r}, {other.dtype})"
            )


def _check_has_own_forward(module: nn.Module, plain: type[nn.Module]) -> None:
    if type(module).forward is not plain.forward or "forward" in vars(module):
        raise LayoutError(
            f"module ({type(module).__name__}) has a forward of its own, which would be lost: "
            f"convert a plain {plain.__name__}"
        )


def _check_is_plain(module: nn.MultiheadAttention) -> None:
    _check_has_own_forward(module, nn.MultiheadAttention)
    if not isinstance(module.out_proj, nn.Linear):
        kind = type(module.out_proj).__name__
        raise LayoutError(
            f"out_proj ({kind}) must be an nn.Linear: convert a plain nn.MultiheadAttention"
        )
    _check_one_kind(module)
    for name in ("bias_k", "bias_v"):
        bias: Tensor | None = getattr(module, name)
        if bias is not None:
            raise LayoutError(
                f"{name} (shape {tuple(bias.shape)}) adds a key and value to every sequence, which "
                "our layer does not do: convert a module with add_bias_kv=False"
            )
    if module.add_zero_attn:
        raise LayoutError(
            "add_zero_attn (True) adds a zero key and value to every sequence, which our layer "
            "does not do: convert a module with add_zero_attn=False"
        )


def _check_torch_can_hold(layer: MultiHeadAttention) -> None:
    config = layer.config
    check_no_groups(config, _TARGET)
    check_value_width(config, _TARGET)
    check_joined_width(config, _TARGET)
    usual = 1.0 / math.sqrt(config.head_dim)
    if config.scale != usual:
        raise LayoutError(
            f"scale ({config.scale}) must be 1/sqrt(head_dim) = {usual} in {_TARGET}: multiply w_q "
            "and b_q by scale * sqrt(head_dim), and build the layer without scale"
        )
    if config.window is not None:
        raise LayoutError(
            f"window ({config.window}) is unknown to {_TARGET}: build the layer without window, "
            "and pass blocked_from_allowed(window_mask(T, S, window)) as attn_mask"
        )
    if config.positions is not None:
        raise LayoutError(
            f"positions ({config.positions}) are unknown to {_TARGET}: keep the layer, or "
            "build it without"
        )
    if config.variants:
        raise LayoutError(
            f"{config.variants[0]} ({getattr(config, config.variants[0])}) is unknown to "
            f"{_TARGET}: keep the layer, or build it without"
        )
    if config.out_bias != config.bias:
        raise LayoutError(
            f"out_bias ({config.out_bias}) must equal bias ({config.bias}) in {_TARGET}: use "
            "MultiHeadAttention.from_weights(fill_biases(layer.head_weights()))"
        )
