"""State dicts of well-known modules to and from our weights.

Weights alone do not tell how positions enter or which scale is used: give `positions` and `scale`
to `MultiHeadAttention.from_weights`, and `qk_norm` and `softcap` where the model has them. Llama,
Phi, GPT-NeoX and Falcon have rotary positions of the style "half", BLOOM a linear bias. Mistral,
Qwen3, OLMo 2, Gemma 2 and GPT-OSS use the names of Llama.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from manyheads.core.errors import LayoutError
from manyheads.core.text import brief
from manyheads.core.weights import HeadWeights
from manyheads.layouts.arrangements import (
    heads_from_interleaved_rows,
    heads_from_separate_rows,
    heads_from_stacked_columns,
    heads_from_stacked_rows,
    interleaved_rows_from_heads,
    separate_rows_from_heads,
    stacked_columns_from_heads,
    stacked_rows_from_heads,
)
from manyheads.layouts.blocks import JoinedWeights, SeparateWeights
from manyheads.layouts.limits import (
    check_joined_width,
    check_no_extras,
    check_no_groups,
    check_value_width,
    without_extras,
)

Arrangement = Literal["stacked rows", "stacked columns", "interleaved rows", "separate rows"]
BiasRule = Literal["always", "all or none", "free"]


@dataclass(frozen=True, kw_only=True)
class StateLayout:
    """Names and arrangement of one family's attention weights, and what its modules support."""

    name: str
    """The name that users give."""
    arrangement: Arrangement
    """Arrangement of the matrices."""
    names: Mapping[str, str]
    """Name in the state dict by field of JoinedWeights or SeparateWeights."""
    buffers: tuple[str, ...] = ()
    """Names that hold no weights, such as a stored causal mask; they are ignored."""
    biases: BiasRule = "all or none"
    """Biases that its modules have."""
    has_groups: bool = False
    """Whether query heads may share key/value heads."""
    has_free_width: bool = False
    """Whether the heads together may be wider or narrower than the model."""
    extras: Mapping[str, str] = field(default_factory=dict)
    """Name in the state dict by field of HeadWeights, of norms and sinks that modules may have."""


def _joined(qkv: str, out: str) -> dict[str, str]:
    weights = {"qkv": f"{qkv}.weight", "out": f"{out}.weight"}
    return {**weights, "qkv_bias": f"{qkv}.bias", "out_bias": f"{out}.bias"}


def _separate(out: str) -> dict[str, str]:
    modules = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": out}
    weights = {part: f"{module}.weight" for part, module in modules.items()}
    return {**weights, **{f"{part}_bias": f"{module}.bias" for part, module in modules.items()}}


_MASKS, _ANGLES = ("bias", "masked_bias"), ("rotary_emb.inv_freq",)
_OUT = {"out": "out_proj.weight", "out_bias": "out_proj.bias"}
TORCH = StateLayout(
    name="torch",
    arrangement="stacked rows",
    names={"qkv": "in_proj_weight", "qkv_bias": "in_proj_bias", **_OUT},
)
TORCH_SEPARATE = StateLayout(
    name="torch",
    arrangement="separate rows",
    names={
        **{part: f"{part}_proj_weight" for part in "qkv"},
        **{f"{part}_bias": "in_proj_bias" for part in "qkv"},
        "o": "out_proj.weight",
        "o_bias": "out_proj.bias",
    },
)
STATE_LAYOUTS = (
    TORCH,
    StateLayout(
        name="nanogpt",
        arrangement="stacked rows",
        names=_joined("c_attn", "c_proj"),
        buffers=_MASKS,
    ),
    StateLayout(
        name="gpt2",
        arrangement="stacked columns",
        names=_joined("c_attn", "c_proj"),
        buffers=_MASKS,
        biases="always",
    ),
    StateLayout(
        name="llama",
        arrangement="separate rows",
        names=_separate("o_proj"),
        buffers=_ANGLES,
        biases="free",
        has_groups=True,
        has_free_width=True,
        extras={"q_gain": "q_norm.weight", "k_gain": "k_norm.weight", "sinks": "sinks"},
    ),
    StateLayout(
        name="phi",
        arrangement="separate rows",
        names=_separate("dense"),
        buffers=_ANGLES,
        biases="always",
        has_groups=True,
        extras={
            f"{part}_{row}": f"{part}_layernorm.{kind}"
            for part in "qk"
            for row, kind in (("gain", "weight"), ("shift", "bias"))
        },
    ),
    StateLayout(
        name="whisper", arrangement="separate rows", names=_separate("out_proj"), biases="free"
    ),
    StateLayout(
        name="neox",
        arrangement="interleaved rows",
        names=_joined("query_key_value", "dense"),
        buffers=(*_MASKS, *_ANGLES),
    ),
    StateLayout(
        name="bloom",
        arrangement="interleaved rows",
        names=_joined("query_key_value", "dense"),
        biases="always",
    ),
    StateLayout(
        name="falcon",
        arrangement="interleaved rows",
        names=_joined("query_key_value", "dense"),
        buffers=_ANGLES,
        has_groups=True,
    ),
)


def _layout_named(name: str) -> StateLayout:
    """The layout of this name.

    Raises:
        LayoutError: the name is not known.
    """
    for layout in STATE_LAYOUTS:
        if layout.name == name:
            return layout
    known = ", ".join(f'"{layout.name}"' for layout in STATE_LAYOUTS)
    raise LayoutError(f"layout ({name!r}) is not known: use one of {known}")


def _check_state_names(state: Mapping[str, object], layout: StateLayout, start: str) -> None:
    """Check the names below a prefix against those that the layout's modules have."""
    given = {name.removeprefix(start) for name in state if name.startswith(start)}
    biases = {name for part, name in layout.names.items() if part.endswith("_bias")}
    weights = set(layout.names.values()) - biases
    allowed = {*layout.buffers, *layout.extras.values()}
    is_biased = layout.biases == "always" or (layout.biases == "all or none" and biases & given)
    required = weights | biases if is_biased else weights
    missing = sorted(start + name for name in required - given)
    unexpected = sorted(start + name for name in given - required - biases - allowed)
    if missing or unexpected:
        faults = [f"lacks {', '.join(missing)}"] if missing else []
        faults += [f"has the unexpected {', '.join(unexpected)}"] if unexpected else []
        raise LayoutError(
            f'state (read as layout "{layout.name}") {" and ".join(faults)}: '
            f"{_prefix_hint(state, weights, start)}"
        )


def _prefix_hint(state: Mapping[str, object], weights: set[str], start: str) -> str:
    """Prefixes that hold the weights of this layout; first those that end like the given one.

    `nn.DataParallel` writes `module.` in front of every name, `torch.compile` `_orig_mod.`.
    """
    first = min(weights)
    prefixes = [name.removesuffix(first) for name in state if name.endswith(first)]
    fitting = [p for p in prefixes if all(p + name in state for name in weights)]
    near = [p for p in fitting if p.endswith(start)] or fitting
    if not near or start in fitting:
        return "check layout and prefix"
    shown = " or ".join(f'"{prefix.removesuffix(".")}"' for prefix in near[:2])
    return f"use prefix {shown}" + (f" or one of {len(near) - 2} more" if len(near) > 2 else "")


def _check_is_state(state: object) -> None:
    """Check that a state dict was given, not a file or a module."""
    if isinstance(state, Mapping):
        odd = next((name for name in state if not isinstance(name, str)), None)
        if odd is not None:
            kind = type(odd).__name__
            raise LayoutError(
                f"state has a name of type {kind}, expected text: use module.state_dict()"
            )
        return
    if isinstance(state, nn.Module):
        raise LayoutError(f"state ({type(state).__name__}) must be a dict: use module.state_dict()")
    kind, remedy = type(state).__name__, "load the tensors by name first"
    if isinstance(state, str | PathLike):
        kind = brief(str(state))
        remedy = "use safetensors.torch.load_file(path) or torch.load(path, weights_only=True)"
        if Path(state).suffix == ".onnx":
            remedy = (
                "an ONNX file holds a graph whose tensors have no names of modules; save the "
                "state dict of the model that it was exported from"
            )
    raise LayoutError(f"state ({kind}) must be a dict of tensors by name: {remedy}")


def _check_biases_can_be_held(absent: list[str], total: int, layout: StateLayout) -> None:
    """Check the missing biases of heads against the layout's rule.

    Args:
        absent: names of the missing ones.
        total: how many biases there can be.
        layout: the layout to write.

    Raises:
        LayoutError: modules of this layout need one that is missing.
    """
    needed = layout.biases == "always" or (layout.biases == "all or none" and len(absent) < total)
    if absent and needed:
        rule = "in all its modules" if layout.biases == "always" else "where another bias is"
        raise LayoutError(
            f'{", ".join(absent)} (None) must be there in layout "{layout.name}", {rule}: '
            "use fill_biases(heads)"
        )


_JOINED_READERS: Mapping[Arrangement, Callable[..., HeadWeights]] = {
    "stacked rows": heads_from_stacked_rows,
    "stacked columns": heads_from_stacked_columns,
    "interleaved rows": heads_from_interleaved_rows,
}
_WRITERS: Mapping[Arrangement, Callable[[HeadWeights], JoinedWeights | SeparateWeights]] = {
    "stacked rows": stacked_rows_from_heads,
    "stacked columns": stacked_columns_from_heads,
    "interleaved rows": interleaved_rows_from_heads,
    "separate rows": separate_rows_from_heads,
}
_SHARED_BIAS = "in_proj_bias"


def heads_from_state_dict(
    state: Mapping[str, Tensor],
    *,
    layout: str,
    num_heads: int,
    num_kv_heads: int | None = None,
    prefix: str = "",
) -> HeadWeights:
    """Read one attention module's weights out of a state dict; the result may view them.

    Args:
        state: tensors by name, of a module, a model or a weights file.
        layout: a name of `STATE_LAYOUTS`, such as "torch", "gpt2" or "llama".
        num_heads: H.
        num_kv_heads: G, H unless given.
        prefix: the module's name in the model, for instance "transformer.h.0.attn"; "" for a state
            dict of the module alone.

    Raises:
        LayoutError: a file or a module instead of its state dict, names below the prefix that are
            missing or unexpected, a tensor of the wrong size, sizes that modules of this layout
            cannot have, or an unknown layout.
    """
    _check_is_state(state)
    start, chosen = _with_dot(prefix), _layout_named(layout)
    own = {name.removeprefix(start): t for name, t in state.items() if name.startswith(start)}
    if chosen is TORCH and TORCH_SEPARATE.names["q"] in own:
        chosen = TORCH_SEPARATE
    _check_state_names(state, chosen, start)
    tensors = {part: own[name] for part, name in chosen.names.items() if name in own}
    names = {part: start + name for part, name in chosen.names.items()}
    extras = {part: own[name] for part, name in chosen.extras.items() if name in own}
    names |= {part: start + name for part, name in chosen.extras.items()}
    for part, tensor in {**tensors, **extras}.items():
        if not isinstance(tensor, Tensor):
            raise LayoutError(
                f"{names[part]} ({type(tensor).__name__}) must be a tensor: load it first"
            )
    if chosen is TORCH_SEPARATE and _SHARED_BIAS in own:
        tensors |= _cut_shared_bias(own[_SHARED_BIAS], start)
        names |= {f"{part}_bias": f"{start}{_SHARED_BIAS}[{part}]" for part in "qkv"}
    counts = {"num_heads": num_heads, "num_kv_heads": num_kv_heads}
    if chosen.arrangement == "separate rows":
        heads = heads_from_separate_rows(SeparateWeights(names=names, **tensors), **counts)  # type: ignore[arg-type]  # names are checked
    else:
        heads = _JOINED_READERS[chosen.arrangement](JoinedWeights(names=names, **tensors), **counts)
    _check_sizes(heads, chosen)
    return replace(heads, **extras)


def state_dict_from_heads(
    heads: HeadWeights, *, layout: str, prefix: str = ""
) -> dict[str, Tensor]:
    """Write one attention module's weights as a state dict: detached copies that share no memory.

    Args:
        heads: one matrix per head.
        layout: as in `heads_from_state_dict`; "torch" has separate matrices where widths differ.
        prefix: the module's name in the model.

    Raises:
        LayoutError: sizes or biases that modules of this layout cannot have, or an unknown layout.
    """
    start, chosen = _with_dot(prefix), _layout_named(layout)
    _check_sizes(heads, chosen)
    check_no_extras(heads, f'layout "{layout}"', tuple(chosen.extras))
    biases = {name: getattr(heads, name) for name in ("b_q", "b_k", "b_v", "b_o")}
    absent = [name for name, bias in biases.items() if bias is None]
    _check_biases_can_be_held(absent, len(biases), chosen)
    if chosen is TORCH and {heads.w_k.shape[1], heads.w_v.shape[1]} != {heads.embed_dim}:
        chosen = TORCH_SEPARATE
    foreign = _WRITERS[chosen.arrangement](without_extras(heads))
    tensors = {name: getattr(foreign, part) for part, name in chosen.names.items()}
    tensors |= {name: getattr(heads, part) for part, name in chosen.extras.items()}
    if chosen is TORCH_SEPARATE and heads.b_q is not None:
        tensors[_SHARED_BIAS] = torch.cat([getattr(foreign, f"{part}_bias") for part in "qkv"])
    return {start + name: t.detach().clone() for name, t in tensors.items() if t is not None}


def _with_dot(prefix: str) -> str:
    if not isinstance(prefix, str):
        kind = type(prefix).__name__
        raise LayoutError(
            f'prefix ({kind}) must be text: give the name of the module, or "" for none'
        )
    return prefix if not prefix or prefix.endswith(".") else f"{prefix}."


def _cut_shared_bias(bias: Tensor, start: str) -> dict[str, Tensor]:
    """The thirds of the bias that `nn.MultiheadAttention` keeps in one piece."""
    if bias.dim() != 1 or bias.shape[0] % 3:
        raise LayoutError(
            f"{start}{_SHARED_BIAS} has shape {tuple(bias.shape)}, expected (3 * embed_dim,): it "
            "holds the biases of queries, keys and values"
        )
    return {f"{part}_bias": third for part, third in zip("qkv", bias.chunk(3), strict=True)}


def _check_sizes(heads: HeadWeights, layout: StateLayout) -> None:
    """Refuse sizes that no module of this layout can have."""
    target = f'layout "{layout.name}"'
    check_value_width(heads, target)
    if not layout.has_groups:
        check_no_groups(heads, target)
    if not layout.has_free_width:
        check_joined_width(heads, target)
