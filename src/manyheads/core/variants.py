"""Options of attention beyond the published layer: norms of q and k, and scaled rotary positions.

Loads no torch.
"""

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

from manyheads.core.errors import ConfigError
from manyheads.core.numbers import check_count, check_number

NormKind = Literal["rms", "layer"]
NormOver = Literal["head", "all"]
ScalingKind = Literal["linear", "ntk", "yarn", "llama3"]
_USED: dict[ScalingKind, tuple[str, ...]] = {
    "linear": (),
    "ntk": (),
    "yarn": ("original_length", "beta_fast", "beta_slow", "truncate", "attention_factor"),
    "llama3": ("original_length", "low_freq_factor", "high_freq_factor"),
}


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        known = ", ".join(f'"{choice}"' for choice in choices)
        raise ConfigError(f"{name} ({value!r}) is not known: use one of {known}")


@dataclass(frozen=True, kw_only=True)
class QKNorm:
    """Normalise queries and keys after the projection, before rotary positions.

    The layer then has `q_norm` and `k_norm`, an `nn.RMSNorm` or `nn.LayerNorm` each.

    Source: Henry et al. 2020, arXiv:2010.04245; Dehghani et al. 2023, arXiv:2302.05442, section
    2; per head as in Qwen3 (arXiv:2505.09388), over all heads as in OLMo 2 (arXiv:2501.00656).
    """

    type: NormKind = "rms"
    """"rms" divides by the root mean square, "layer" subtracts the mean first."""
    over: NormOver = "head"
    """"head" normalises the d channels of each head, "all" the channels of all heads together."""
    eps: float = 1e-6
    """Added to the mean square."""
    affine: bool = True
    """Whether each channel has a learned scale, and, with "layer", a learned shift."""

    def __post_init__(self) -> None:
        """Check the settings that do not depend on a layer."""
        _check_choice("type", self.type, get_args(NormKind))
        _check_choice("over", self.over, get_args(NormOver))
        if check_number("eps", self.eps, "use 1e-6") < 0:
            raise ConfigError(f"eps ({self.eps}) must not be negative: use 1e-6")
        if not isinstance(self.affine, bool):
            raise ConfigError(f"affine ({self.affine!r}) must be a bool: use True or False")


@dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """Change the frequencies of rotary positions, for more positions than in training.

    Source: linear: Chen et al. 2023, arXiv:2306.15595; ntk and yarn: Peng et al. 2023,
    arXiv:2309.00071, sections 3.1 and 3.2 to 3.4; llama3: the published code of Llama 3.1
    (`apply_scaling`), Grattafiori et al. 2024, arXiv:2407.21783.
    """

    type: ScalingKind
    """"linear" divides all frequencies by the factor; "ntk" multiplies the base by
    factor ** (dim / (dim - 2)); "yarn" and "llama3" divide low frequencies only."""
    factor: float
    """Positions of use divided by positions of training; at least 1."""
    original_length: int | None = None
    """Positions of training; "yarn" and "llama3" need it."""
    beta_fast: float = 32.0
    """yarn: pairs that turn more often than this over the original length stay as they are."""
    beta_slow: float = 1.0
    """yarn: pairs that turn less often than this are divided by the factor."""
    truncate: bool = True
    """yarn: whether the limits between the two are rounded to whole pairs (GPT-OSS: not)."""
    attention_factor: float | None = None
    """yarn: factor of cosine and sine, 0.1 * ln(factor) + 1 unless given."""
    low_freq_factor: float = 1.0
    """llama3: pairs that turn less often than this are divided by the factor."""
    high_freq_factor: float = 4.0
    """llama3: pairs that turn more often than this stay as they are."""

    def __post_init__(self) -> None:
        """Check the settings against each other."""
        _check_choice("type", self.type, get_args(ScalingKind))
        if check_number("factor", self.factor, "use 2.0") < 1.0:
            raise ConfigError(f"factor ({self.factor}) must be at least 1: use 2.0")
        used = ("type", "factor", *_USED[self.type])
        odd = [f.name for f in fields(self) if f.name not in used and self._is_given(f.name)]
        if odd:
            raise ConfigError(f'{odd[0]} has no meaning with type "{self.type}": leave it out')
        if "original_length" in used:
            if self.original_length is None:
                raise ConfigError(
                    f'original_length (None) is needed with type "{self.type}": '
                    "give the number of positions in training"
                )
            check_count("original_length", self.original_length)
        for low, high in (("beta_slow", "beta_fast"), ("low_freq_factor", "high_freq_factor")):
            below, above = (check_number(n, getattr(self, n), "use 1.0") for n in (low, high))
            if not 0.0 < below < above:
                raise ConfigError(f"{low} ({below}) must be positive and below {high} ({above})")

    def _is_given(self, name: str) -> bool:
        """Whether a field differs from its default."""
        default = next(f.default for f in fields(self) if f.name == name)
        return bool(getattr(self, name) != default)

    @property
    def magnitude(self) -> float:
        """The factor of cosine and sine, so that q·k is multiplied by its square."""
        if self.type != "yarn":
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor
        return 0.1 * math.log(self.factor) + 1.0
