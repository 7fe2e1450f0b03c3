"""State dicts of well-known modules to and from our weights.

Weights alone do not say how positions enter or which scale is used: give `positions` and `scale` to
`MultiHeadAttention.from_weights`. Positions of Llama, GPT-NeoX and Falcon are rotary, of the style
"half"; those of BLOOM are a linear bias.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from manyheads.core.errors import LayoutError
from manyheads.core.weights import HeadWeights
from manyheads.layouts.foreign import JoinedWeights, SeparateWeights
from manyheads.layouts.interleaved import heads_from_interleaved_rows, interleaved_rows_from_heads
from manyheads.layouts.limits import check_joined_width, check_no_groups, check_value_width
from manyheads.layouts.separate import heads_from_separate_rows, separate_rows_from_heads
from manyheads.layouts.stacked import (
    heads_from_stacked_columns,
    heads_from_stacked_rows,
    stacked_columns_from_heads,
    stacked_rows_from_heads,
)
from manyheads.layouts.state_layouts import (
    TORCH,
    TORCH_SEPARATE,
    Arrangement,
    StateLayout,
    check_biases_can_be_held,
    check_state_names,
    layout_named,
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
        layout: "torch", "nanogpt", "gpt2", "llama", "whisper", "neox", "bloom" or "falcon".
        num_heads: H.
        num_kv_heads: G, H unless given.
        prefix: where the module sits, for instance "transformer.h.0.attn"; "" for the module's own.

    Raises:
        LayoutError: names below the prefix that are missing or unexpected, a tensor of the wrong
            size, sizes that modules of this layout cannot have, or an unknown layout.
    """
    start, chosen = _with_dot(prefix), layout_named(layout)
    own = {name.removeprefix(start): t for name, t in state.items() if name.startswith(start)}
    if chosen is TORCH and TORCH_SEPARATE.names["q"] in own:
        chosen = TORCH_SEPARATE
    check_state_names(set(own), chosen, start)
    tensors = {part: own[name] for part, name in chosen.names.items() if name in own}
    names = {part: start + name for part, name in chosen.names.items()}
    for part, tensor in tensors.items():
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
    return heads


def state_dict_from_heads(
    heads: HeadWeights, *, layout: str, prefix: str = ""
) -> dict[str, Tensor]:
    """Write one attention module's weights as a state dict: detached copies that share no memory.

    Args:
        heads: one matrix per head.
        layout: as in `heads_from_state_dict`; "torch" has separate matrices where widths differ.
        prefix: where the module sits.

    Raises:
        LayoutError: sizes or biases that modules of this layout cannot have, or an unknown layout.
    """
    start, chosen = _with_dot(prefix), layout_named(layout)
    _check_sizes(heads, chosen)
    biases = {name: getattr(heads, name) for name in ("b_q", "b_k", "b_v", "b_o")}
    absent = [name for name, bias in biases.items() if bias is None]
    check_biases_can_be_held(absent, len(biases), chosen)
    if chosen is TORCH and {heads.w_k.shape[1], heads.w_v.shape[1]} != {heads.embed_dim}:
        chosen = TORCH_SEPARATE
    foreign = _WRITERS[chosen.arrangement](heads)
    tensors = {name: getattr(foreign, part) for part, name in chosen.names.items()}
    if chosen is TORCH_SEPARATE and heads.b_q is not None:
        tensors[_SHARED_BIAS] = torch.cat([getattr(foreign, f"{part}_bias") for part in "qkv"])
    return {start + name: t.detach().clone() for name, t in tensors.items() if t is not None}


def _with_dot(prefix: str) -> str:
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
