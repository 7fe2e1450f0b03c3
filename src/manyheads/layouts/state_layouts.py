"""The names that well-known attention modules use in state dicts, and how their weights lie."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from manyheads.core.errors import LayoutError

Arrangement = Literal["stacked rows", "stacked columns", "interleaved rows", "separate rows"]
BiasRule = Literal["always", "all or none", "free"]


@dataclass(frozen=True, kw_only=True)
class StateLayout:
    """Names and arrangement of one family's attention weights, and what its modules can hold."""

    name: str
    """What users call it."""
    arrangement: Arrangement
    """How the matrices lie."""
    names: Mapping[str, str]
    """Name in the state dict by field of JoinedWeights or SeparateWeights."""
    buffers: tuple[str, ...] = ()
    """Names that hold no weights, such as a stored causal mask; they are passed over."""
    biases: BiasRule = "all or none"
    """Which biases its modules have."""
    has_groups: bool = False
    """Whether query heads may share key/value heads."""
    has_free_width: bool = False
    """Whether the heads together may be wider or narrower than the model."""


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


def layout_named(name: str) -> StateLayout:
    """The layout of this name.

    Raises:
        LayoutError: there is none.
    """
    for layout in STATE_LAYOUTS:
        if layout.name == name:
            return layout
    known = ", ".join(f'"{layout.name}"' for layout in STATE_LAYOUTS)
    raise LayoutError(f"layout ({name!r}) is not known: use one of {known}")


def check_state_names(given: set[str], layout: StateLayout, start: str) -> None:
    """Check the names below a prefix against those that the layout's modules have.

    Args:
        given: names, without the prefix.
        layout: what they should be.
        start: the prefix, for the error.

    Raises:
        LayoutError: some are missing or unexpected; all are named.
    """
    biases = {name for part, name in layout.names.items() if part.endswith("_bias")}
    required = set(layout.names.values()) - biases
    if layout.biases == "always" or (layout.biases == "all or none" and biases & given):
        required |= biases
    missing = sorted(start + name for name in required - given)
    unexpected = sorted(start + name for name in given - required - biases - set(layout.buffers))
    if missing or unexpected:
        faults = [f"lacks {', '.join(missing)}"] if missing else []
        faults += [f"has the unexpected {', '.join(unexpected)}"] if unexpected else []
        raise LayoutError(
            f'state (read as layout "{layout.name}") {" and ".join(faults)}: '
            "check layout and prefix"
        )


def check_biases_can_be_held(absent: list[str], total: int, layout: StateLayout) -> None:
    """Check the missing biases of heads against the layout's rule.

    Args:
        absent: names of the missing ones.
        total: how many biases there can be.
        layout: where they shall be written.

    Raises:
        LayoutError: modules of this layout must have one that is missing.
    """
    needed = layout.biases == "always" or (layout.biases == "all or none" and len(absent) < total)
    if absent and needed:
        rule = "in all its modules" if layout.biases == "always" else "where another bias is"
        raise LayoutError(
            f'{", ".join(absent)} (None) must be there in layout "{layout.name}", {rule}: '
            "use fill_biases(heads)"
        )
