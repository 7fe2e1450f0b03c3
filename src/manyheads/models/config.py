"""Sizes of the models, checked and frozen, and the four special ids; nothing here loads torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from manyheads.core.config import AttentionConfig, Rotary
from manyheads.core.errors import ConfigError

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3


Kind = Literal["fixed-window-mlp", "attention"]
Pattern = Literal["learned", "uniform", "shared"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Kind and sizes of one model.

    Raises:
        ConfigError: sizes or names that no model can have.
    """

    kind: Kind
    """A fixed-window MLP, or one attention block."""
    num_heads: int | None = None
    """H; attention only."""
    head_dim: int | None = None
    """d, width of a head; width / H unless given."""
    pattern: Pattern = "learned"
    """Source of the weights: "learned", each head's own scores; "uniform", equal weights for all
    visible words; "shared", one pattern for all heads."""
    vocab_size: int = 4000
    """V."""
    context: int = 64
    """T, number of words that a prediction sees."""
    width: int = 64
    """D, width of a word's embedding."""
    hidden: int = 256
    """Units of the hidden layer."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(f"kind ({self.kind!r}) must be one of {', '.join(get_args(Kind))}")
        for name in ("vocab_size", "context", "width", "hidden"):
            _check_size(name, getattr(self, name))
        if self.pattern not in get_args(Pattern):
            known = ", ".join(get_args(Pattern))
            raise ConfigError(f"pattern ({self.pattern!r}) must be one of {known}")
        if self.kind == "attention":
            self._check_heads()
        elif self.num_heads is not None or self.head_dim is not None or self.pattern != "learned":
            raise ConfigError(
                f"num_heads, head_dim and pattern ({self.num_heads}, {self.head_dim}, "
                f"{self.pattern}) belong to attention: leave them out of a {self.kind}"
            )

    def _check_heads(self) -> None:
        _check_size("num_heads", self.num_heads)
        if self.head_dim is not None:
            _check_size("head_dim", self.head_dim)
        elif self.width % (self.num_heads or 1):
            raise ConfigError(
                f"num_heads ({self.num_heads}) must divide width ({self.width}): "
                "choose a divisor, or give head_dim"
            )

    @property
    def width_of_head(self) -> int:
        """d, width of one head; 0 for a model without heads."""
        if self.num_heads is None:
            return 0
        return self.head_dim or self.width // self.num_heads

    @property
    def num_parameters(self) -> int:
        """Number of parameters that the model stores."""
        V, T, D, hidden = self.vocab_size, self.context, self.width, self.hidden
        last = hidden * V + V
        if self.num_heads is None:
            return V * D + T * D * hidden + hidden + last
        joined = self.num_heads * self.width_of_head
        asking = self.width_of_head if self.pattern == "shared" else joined
        return V * D + T * D + 2 * D * asking + 2 * D * joined + D * hidden + hidden + last

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """Build a config from the result of `to_dict`.

        Raises:
            ConfigError: an unknown or missing field.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown or "kind" not in values:
            wrong = ", ".join(unknown) or "no kind"
            raise ConfigError(
                f"model config ({wrong}) is not valid: use the fields {', '.join(sorted(known))}"
            )
        return cls(**dict(values))


def _check_size(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1 << 20:
        raise ConfigError(
            f"{name} ({value!r}) must be a whole number from 1 to 1048576: use one such as 64"
        )


PositionKind = Literal["learned", "rotary"]

_COUNTS = ("vocab_size", "context", "width", "num_layers", "num_heads", "num_kv_heads", "hidden")
_FLAGS = ("bias", "tie_weights")


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Sizes and flags of a TinyGPT, checked once.

    Raises:
        ConfigError: a size or flag that no model can have.
    """

    vocab_size: int = 4000
    """V, number of tokens."""
    context: int = 64
    """Tokens of the longest input, cached ones included."""
    width: int = 64
    """D, width of the residual stream."""
    num_layers: int = 2
    """Number of blocks."""
    num_heads: int = 4
    """H, query heads of each block; divides D."""
    num_kv_heads: int | None = None
    """G, key/value heads of each block; H unless given."""
    hidden: int | None = None
    """Units of each feed-forward net; 4 D unless given, as in GPT-2."""
    dropout: float = 0.0
    """Fraction of embeddings, weights and outputs dropped in training, 0 to 1."""
    bias: bool = True
    """Whether projections, feed-forward layers and norms have a bias; the output layer has none."""
    positions: PositionKind = "learned"
    """"learned": an embedding of each position is added; "rotary": q and k are rotated."""
    tie_weights: bool = True
    """Whether the output layer uses the token embedding, as in GPT-2."""

    def __post_init__(self) -> None:
        """Check every field, those of attention by its own rules."""
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None or name not in ("num_kv_heads", "hidden"):
                _check_count(name, value)
        for name in _FLAGS:
            if not isinstance(value := getattr(self, name), bool):
                raise ConfigError(f"{name} ({value!r}) must be a bool: use True or False")
        if self.positions not in get_args(PositionKind):
            raise ConfigError(
                f'positions ({self.positions!r}) is not known: use "learned" or "rotary"'
            )
        AttentionConfig.of(
            embed_dim=self.width,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            dropout=self.dropout,
            positions=self.rotary,
        )

    @property
    def rotary(self) -> Rotary | None:
        """Rotation of q and k; None if positions are learned."""
        return Rotary() if self.positions == "rotary" else None

    @property
    def feed_forward_width(self) -> int:
        """Units of each feed-forward net, resolved."""
        return 4 * self.width if self.hidden is None else self.hidden

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters; a tied embedding counts once."""
        width, hidden, bias = self.width, self.feed_forward_width, int(self.bias)
        groups = self.num_heads if self.num_kv_heads is None else self.num_kv_heads
        projected = width + 2 * groups * (width // self.num_heads)  # q, k and v rows
        norm = width + bias * width
        attention = projected * width + width * width + bias * (projected + width)
        feed_forward = 2 * width * hidden + bias * (hidden + width)
        tables = 1 if self.tie_weights else 2
        rows = tables * self.vocab_size + (self.context if self.positions == "learned" else 0)
        return rows * width + self.num_layers * (2 * norm + attention + feed_forward) + norm

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "GPTConfig":
        """Build a config from the result of `to_dict`.

        Raises:
            ConfigError: an unknown field, or a size or flag that no model can have.
        """
        unknown = sorted(set(fields) - set(cls.__dataclass_fields__))
        if unknown:
            raise ConfigError(
                f"config ({', '.join(unknown)}) has unknown fields: "
                f"use {', '.join(cls.__dataclass_fields__)}"
            )
        return cls(**fields)


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} ({value!r}) must be a whole number: use an int such as 8")
    if value < 1:
        raise ConfigError(f"{name} ({value}) must be at least 1: use 1 or more")
