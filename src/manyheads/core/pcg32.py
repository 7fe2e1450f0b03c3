"""PCG32, a small published random number generator; unlike torch's, it draws the same anywhere.

Generated text and exercises use it; training uses `torch.Generator`.
"""

from manyheads.core.errors import ConfigError

_MULTIPLIER = 6364136223846793005
_WORD64 = (1 << 64) - 1
_WORD32 = (1 << 32) - 1
STREAM = 54
"""The sequence of every seed, as in the demonstration program of the reference."""


class PCG32:
    """PCG-XSH-RR 64/32: 64 bits of state, 32 bits per draw.

    Args:
        seed: start of the sequence, from 0 to 2**64 - 1 (`initstate` of the reference).
        stream: which sequence, from 0 to 2**63 - 1 (`initseq` of the reference).

    Raises:
        ConfigError: seed or stream is not a whole number of that size.

    Source: O'Neill 2014, "PCG: A Family of Simple Fast Space-Efficient Statistically Good
        Algorithms for Random Number Generation", section 6.3; `pcg32_srandom_r` and
        `pcg32_random_r` of the reference library.
    """

    def __init__(self, seed: int, stream: int = STREAM) -> None:
        _check("seed", seed, 64)
        _check("stream", stream, 63)
        self._increment = (stream << 1 | 1) & _WORD64
        self._state = 0
        self.next_u32()
        self._state = (self._state + seed) & _WORD64
        self.next_u32()

    def next_u32(self) -> int:
        """Draw a whole number from 0 to 2**32 - 1."""
        old = self._state
        self._state = (old * _MULTIPLIER + self._increment) & _WORD64
        shifted = ((old >> 18 ^ old) >> 27) & _WORD32
        turn = old >> 59
        return (shifted >> turn | shifted << (-turn & 31)) & _WORD32

    def uniform(self) -> float:
        """Draw a number of at least 0 and below 1: `next_u32` / 2**32, exact in float64."""
        return self.next_u32() / (1 << 32)


def _check(name: str, value: int, bits: int) -> None:
    if isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise ConfigError(
            f"{name} ({value}) must be between 0 and 2**{bits} - 1: use a number in this range"
        )
