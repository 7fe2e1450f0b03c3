"""What a language model of the studies is: kind and sizes, checked once, frozen; no torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from manyheads.core.errors import ConfigError

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
    """Where weights come from: each head's own scores; "uniform": all seen words alike, never
    learned; "shared": every head uses the first head's weights."""
    vocab_size: int = 4000
    """V."""
    context: int = 64
    """T, words that a prediction can see."""
    width: int = 64
    """D, width of a word's row."""
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
        """How many numbers the model stores."""
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
        """Read what `to_dict` gave.

        Raises:
            ConfigError: an unknown or missing field.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown or "kind" not in values:
            wrong = ", ".join(unknown) or "no kind"
            raise ConfigError(f"model config ({wrong}) may have {', '.join(sorted(known))}")
        return cls(**dict(values))


def _check_size(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1 << 20:
        raise ConfigError(f"{name} ({value!r}) must be a whole number from 1 to 1048576")
