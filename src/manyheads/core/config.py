"""Sizes and flags of an attention layer, checked once and frozen; loads no torch."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack, get_args

from manyheads.core.errors import ConfigError
from manyheads.core.numbers import check_count, check_number, divisors
from manyheads.core.variants import QKNorm, RotaryScaling

TracedForm = Literal["loop", "packed"]
"""Forms that keep every step."""
TRACED_FORMS: tuple[TracedForm, ...] = get_args(TracedForm)
Form = Literal[TracedForm, "fused"]
"""Forms of attention, all of which compute the same; each is a module of `attention/`."""
FORMS: tuple[Form, ...] = get_args(Form)
RotaryStyle = Literal["half", "interleaved"]
Gate = Literal["sigmoid"]


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Rotary positions: q and k are rotated by an angle that grows with their position.

    Source: Su et al. 2021, arXiv:2104.09864, section 3.2.
    """

    base: float = 10000.0
    """Pair i is rotated by position / base**(2i / dim) radians; 10000 is the published value."""
    style: RotaryStyle = "half"
    """"half" pairs channel i with i + dim/2 (Llama, GPT-NeoX); "interleaved" 2i with 2i + 1."""
    dim: int | None = None
    """Channels of each head that are rotated, from the first; None rotates all of head_dim."""
    scaling: RotaryScaling | None = None
    """Changed frequencies, for more positions than in training; None changes nothing."""
    frequencies: tuple[float, ...] | None = None
    """Radians per position of each channel pair, in place of those of the base, as in LongRoPE."""
    magnitude: float = 1.0
    """Factor of cosine and sine, as in LongRoPE; YaRN has its own in `scaling`."""

    def __post_init__(self) -> None:
        """Check the settings that do not depend on a layer."""
        if check_number("base", self.base, "use 10000.0") <= 0:
            raise ConfigError(f"base ({self.base}) must be positive: use 10000.0")
        if self.style not in get_args(RotaryStyle):
            raise ConfigError(
                f'style ({self.style!r}) is not a rotary pairing: use "half" or "interleaved"'
            )
        if self.dim is not None and check_count("dim", self.dim, 2) % 2:
            raise ConfigError(
                f"dim ({self.dim}) must be even, channels are rotated in pairs: use {self.dim - 1}"
            )
        if not isinstance(self.scaling, RotaryScaling | None):
            raise ConfigError(
                f"scaling ({self.scaling!r}) must be RotaryScaling(...) or None: "
                'use manyheads.RotaryScaling(type="linear", factor=2.0)'
            )
        if check_number("magnitude", self.magnitude, "use 1.0") <= 0:
            raise ConfigError(f"magnitude ({self.magnitude}) must be positive: use 1.0")
        if self.frequencies is not None:
            given = tuple(check_number("frequencies", f, "use radians") for f in self.frequencies)
            object.__setattr__(self, "frequencies", given)


@dataclass(frozen=True, kw_only=True)
class LinearBias:
    """Linear position bias (ALiBi): head h adds -slopes[h] * |i - j| to the score of i and j.

    Source: Press et al. 2022, arXiv:2108.12409, section 3.
    """

    slopes: tuple[float, ...] | None = None
    """One slope per head, in score units per position; None takes the published ones."""

    def __post_init__(self) -> None:
        """Check that each slope is a finite number."""
        if self.slopes is not None:
            if not isinstance(self.slopes, Iterable):
                raise ConfigError(f"slopes ({self.slopes!r}) must be a tuple: give one per head")
            checked = tuple(check_number("slopes", s, "use finite slopes") for s in self.slopes)
            object.__setattr__(self, "slopes", checked)


Positions = Rotary | LinearBias
_COUNTS = (
    *("embed_dim", "num_heads", "num_kv_heads", "head_dim", "v_head_dim", "kdim", "vdim"),
    "window",
)


class Variants(TypedDict, total=False):
    """Options beyond the published layer; as the fields of `AttentionConfig`."""

    qk_norm: QKNorm | None
    softcap: float | None
    sinks: bool
    gate: Gate | None


class LayerOptions(TypedDict, total=False):
    """Options of a layer that its weights do not determine; as in its constructor."""

    dropout: float
    scale: float | None
    window: int | None
    positions: Positions | None
    qk_norm: QKNorm | None
    softcap: float | None


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """Every size and flag of a layer; a field with a default is never None.

    Build it with `AttentionConfig.of`, which fills in what is left out.
    """

    embed_dim: int
    """D, the width of the query input and of the output."""
    num_heads: int
    """H, the number of query heads."""
    num_kv_heads: int
    """G, the number of key/value heads; divides H."""
    head_dim: int
    """d, the width of a query or key head."""
    v_head_dim: int
    """The width of a value head."""
    kdim: int
    """The width of the key input."""
    vdim: int
    """The width of the value input."""
    bias: bool
    """Whether queries, keys and values have a bias."""
    out_bias: bool
    """Whether the output projection has a bias."""
    dropout: float
    """Fraction of attention weights dropped in training, from 0 to below 1."""
    scale: float
    """What each q·k is multiplied by."""
    window: int | None
    """Number of keys that a query sees: its own and earlier ones; None means all."""
    positions: Positions | None
    """How positions enter the scores; None means no positions."""
    qk_norm: QKNorm | None = None
    """How queries and keys are normalised before rotary positions; None means not."""
    softcap: float | None = None
    """c: scores become c * tanh(scores / c) before the mask; None leaves them as they are."""
    sinks: bool = False
    """Whether each head has a learned score that takes part in the softmax, without a value."""
    gate: Gate | None = None
    """"sigmoid": head outputs are multiplied by a sigmoid of the query input; None means not."""

    @classmethod
    def of(  # noqa: PLR0913 - mirrors the constructor of nn.MultiheadAttention
        cls,
        *,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        v_head_dim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
        window: int | None = None,
        positions: Positions | None = None,
        **variants: Unpack[Variants],
    ) -> "AttentionConfig":
        """Fill in the defaults: G = H, d = D / H, value width d, kdim = vdim = D, scale 1/sqrt(d).

        Raises:
            ConfigError: a size or flag that no layer can have.
        """
        embed_dim = check_count("embed_dim", embed_dim)
        num_heads = check_count("num_heads", num_heads)
        if head_dim is None:
            head_dim = _default_head_dim(embed_dim, num_heads)
        head_dim = check_count("head_dim", head_dim)
        return cls(
            embed_dim=embed_dim,
            num_heads=num_heads,
            num_kv_heads=num_heads if num_kv_heads is None else num_kv_heads,
            head_dim=head_dim,
            v_head_dim=head_dim if v_head_dim is None else v_head_dim,
            kdim=embed_dim if kdim is None else kdim,
            vdim=embed_dim if vdim is None else vdim,
            bias=bias,
            out_bias=bias if out_bias is None else out_bias,
            dropout=dropout,
            scale=1.0 / math.sqrt(head_dim) if scale is None else scale,
            window=window,
            positions=positions,
            **variants,
        )

    def __post_init__(self) -> None:
        """Check every field against the others.

        Raises:
            ConfigError: a size or flag that no layer can have.
        """
        for name in _COUNTS:
            if name != "window" or self.window is not None:
                object.__setattr__(self, name, check_count(name, getattr(self, name)))
        for name in ("bias", "out_bias", "sinks"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ConfigError(f"{name} ({value!r}) must be a bool: use True or False")
        _check_kv_heads(self.num_heads, self.num_kv_heads)
        _check_dropout_and_scale(self.dropout, self.scale)
        _check_positions(self.positions, self.num_heads, self.head_dim)
        _check_variants(self.qk_norm, self.softcap, self.gate)

    @property
    def has_one_input_width(self) -> bool:
        """Whether query, key and value inputs are equally wide: one matrix projects them."""
        return self.kdim == self.embed_dim and self.vdim == self.embed_dim

    @property
    def projection_widths(self) -> tuple[int, int, int]:
        """Widths of the joined query, key and value rows: (H*d, G*d, G*dv)."""
        kv = self.num_kv_heads
        return self.num_heads * self.head_dim, kv * self.head_dim, kv * self.v_head_dim

    @property
    def concat_dim(self) -> int:
        """Width of the joined head outputs, H times the value width."""
        return self.num_heads * self.v_head_dim

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the options in use that `nn.MultiheadAttention` and a plain head lack."""
        names = ("qk_norm", "softcap", "sinks", "gate")
        return tuple(name for name in names if getattr(self, name))


def _default_head_dim(embed_dim: int, num_heads: int) -> int:
    if embed_dim % num_heads:
        raise ConfigError(
            f"num_heads ({num_heads}) must divide embed_dim ({embed_dim}): "
            f"use {divisors(embed_dim)}, or pass head_dim"
        )
    return embed_dim // num_heads


def _check_kv_heads(num_heads: int, num_kv_heads: int) -> None:
    if num_heads % num_kv_heads:
        raise ConfigError(
            f"num_kv_heads ({num_kv_heads}) must divide num_heads ({num_heads}): "
            f"use {divisors(num_heads)}"
        )


def _check_dropout_and_scale(dropout: object, scale: object) -> None:
    if not 0.0 <= check_number("dropout", dropout, "use a fraction such as 0.1") < 1.0:
        raise ConfigError(
            f"dropout ({dropout}) must be at least 0 and below 1: use a fraction such as 0.1"
        )
    if check_number("scale", scale, "use None for 1/sqrt(head_dim)") < 0:
        raise ConfigError(f"scale ({scale}) must not be negative: use None for 1/sqrt(head_dim)")


def _check_variants(qk_norm: object, softcap: object, gate: object) -> None:
    if not isinstance(qk_norm, QKNorm | None):
        raise ConfigError(
            f"qk_norm ({qk_norm!r}) must be QKNorm(...) or None: use manyheads.QKNorm()"
        )
    if softcap is not None and check_number("softcap", softcap, "use 50.0") <= 0:
        raise ConfigError(f"softcap ({softcap}) must be positive: use None for no cap")
    if gate is not None and gate not in get_args(Gate):
        raise ConfigError(f'gate ({gate!r}) is not known: use "sigmoid" or None')


def _check_positions(positions: object, num_heads: int, head_dim: int) -> None:
    if isinstance(positions, Rotary):
        width = head_dim if positions.dim is None else positions.dim
        if width > head_dim:
            raise ConfigError(
                f"positions.dim ({width}) must not exceed head_dim ({head_dim}): use {head_dim}"
            )
        given = positions.frequencies
        if given is not None and len(given) != width // 2:
            raise ConfigError(
                f"positions.frequencies ({len(given)} values) must be one per channel pair: "
                f"give {width // 2}"
            )
        if width % 2:
            raise ConfigError(
                f"head_dim ({head_dim}) must be even for rotary positions: "
                f"use {head_dim + 1}, or Rotary(dim=...)"
            )
    elif isinstance(positions, LinearBias):
        slopes = positions.slopes
        if slopes is not None and len(slopes) != num_heads:
            raise ConfigError(
                f"positions.slopes ({len(slopes)} values) must be one per head: give {num_heads}"
            )
    elif positions is not None:
        raise ConfigError(
            f"positions ({positions!r}) must be Rotary(...), LinearBias(...) or None: "
            "use manyheads.Rotary()"
        )
