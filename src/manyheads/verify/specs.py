"""What may be declared of a subject: what it computes, how it is called, where its weights are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from manyheads.core.config import Rotary

FORMS = ("self", "cross", "qkv", "heads", "cache", "static_cache")
LAYOUTS = ("BTE", "TBE", "BET")
AXES = ("BS", "TS", "BTS", "B1TS", "(BH)TS", "B")
CONVENTIONS = ("allowed", "blocked", "additive", "one_zero", "lengths")
RETURNS = ("out", "out,weights", "out,cache")
ARRANGEMENTS = (
    "separate",
    "packed",
    "packed_per_head",
    "packed_kv",
    "per_head_modules",
    "per_head_tensors",
    "in_out",
    "head_minor",
    "conv1x1",
    "slices",
    "mha",
    "args",
    "identity",
)
COUNTS = (
    "embed_dim",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "v_head_dim",
    "kdim",
    "vdim",
    "window",
)


@dataclass(frozen=True, kw_only=True)
class MaskSpec:
    """One mask argument of the callee."""

    arg: str
    """Its keyword."""
    axes: str
    """BS, TS, BTS, B1TS, (BH)TS (sample-major) or B (with lengths)."""
    convention: str
    """allowed, blocked, additive, one_zero or lengths."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What the subject is declared to compute; None is not declared."""

    embed_dim: int | None = None
    """D."""
    num_heads: int | None = None
    """H."""
    num_kv_heads: int | None = None
    """G."""
    head_dim: int | None = None
    """d."""
    v_head_dim: int | None = None
    """Value width."""
    kdim: int | None = None
    """Width of the key input."""
    vdim: int | None = None
    """Width of the value input."""
    scale: float | None = None
    """What each q·k is multiplied by."""
    causal: str | None = None
    """"always" where the subject is causal without being asked."""
    window: int | None = None
    """Keys a query sees, itself included."""
    position: Rotary | str | None = None
    """Rotary settings, "alibi", or None."""
    dropout: float | None = None
    """Share of weights dropped in training."""
    fully_masked: str | None = None
    """"zero" or "unspecified"."""
    compute_dtype: str | None = None
    """The dtype that the subject works in inside."""

    @property
    def heads(self) -> int:
        """H, which inference or declaration must have given."""
        assert self.num_heads is not None
        return self.num_heads

    @property
    def kv_heads(self) -> int:
        """G, H unless given."""
        return self.heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def width(self) -> int:
        """D, H * d where only the head width is known."""
        if self.embed_dim is not None:
            return self.embed_dim
        assert self.head_dim is not None
        return self.heads * self.head_dim

    @property
    def d(self) -> int:
        """Head width, D / H unless given."""
        return self.width // self.heads if self.head_dim is None else self.head_dim

    @property
    def dv(self) -> int:
        """Value width, d unless given."""
        return self.d if self.v_head_dim is None else self.v_head_dim

    @property
    def factor(self) -> float:
        """The scale, 1/sqrt(d) unless given."""
        return float(self.d**-0.5) if self.scale is None else self.scale


@dataclass(frozen=True, kw_only=True)
class CallSpec:
    """How the subject is called; None is not declared."""

    form: str | None = None
    """self, cross, qkv, heads, cache or static_cache."""
    layout: str | None = None
    """BTE, TBE or BET."""
    unbatched: bool = False
    """Whether it also takes (T, E)."""
    masks: tuple[MaskSpec, ...] | None = None
    """Its mask arguments."""
    causal_arg: str | None = None
    """The keyword that asks for causality."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keywords given in every call."""
    flags: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Keywords that must not change the answer, with their values."""
    returns: str | None = None
    """out, out,weights or out,cache."""
    weights_axes: str = "BHTS"
    """BHTS, or BTS for a mean over heads."""


@dataclass(frozen=True, kw_only=True)
class ParamSpec:
    """Where the weights are."""

    layout: str
    """One of ARRANGEMENTS."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Attribute path of q, k, v, o, qkv, kv or module; {h} stands for the head index."""
    biases: Mapping[str, str] = field(default_factory=dict)
    """Attribute path of biases that are tensors of their own."""
    order: str = "qkv"
    """Order of the blocks of a packed matrix."""
