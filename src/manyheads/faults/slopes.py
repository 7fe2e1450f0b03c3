"""Faults of the linear position bias: other slopes, or another sign."""

from dataclasses import replace

from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults.variant import Variant


class OtherSlopes(Pipeline):
    """Other slopes, or another sign, of the linear bias."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def slopes(self, heads: int) -> list[float]:
        """The slopes that the fault uses."""
        power = 1 << (heads.bit_length() - 1)
        upper = power if power == heads else 2 * power
        made = {
            "from 2^0": [2.0 ** (-8.0 * h / heads) for h in range(heads)],
            "by H": [2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)],
            "by the next higher power": [2.0 ** (-8.0 * (h + 1) / upper) for h in range(heads)],
            "by the next higher power, from 2^0": [2.0 ** (-8.0 * h / upper) for h in range(heads)],
            "by the next lower power": [2.0 ** (-8.0 * (h + 1) / power) for h in range(heads)],
            "1 / 2^(h + 1)": [2.0 ** -(h + 1) for h in range(heads)],
            "1 / 2^h": [2.0**-h for h in range(heads)],
            "without the 8": [2.0 ** (-(h + 1) / heads) for h in range(heads)],
            "of 2^-4": [2.0 ** (-4.0 * (h + 1) / heads) for h in range(heads)],
            "of 2^-16": [2.0 ** (-16.0 * (h + 1) / heads) for h in range(heads)],
            "all equal to 1": [1.0] * heads,
        }
        return made[self.kind]

    def add_bias(self, p: Problem, scores: Tensor) -> Tensor:
        """The bias as the fault has it."""
        if p.slopes is None:
            return scores
        right = list(p.slopes)
        special = {
            "reversed": right[::-1],
            "positive": [-s for s in right],
            "for one head": right[:1] * len(right),
        }
        slopes = special[self.kind] if self.kind in special else self.slopes(p.num_heads)
        return super().add_bias(replace(p, slopes=tuple(slopes)), scores)


def _has_slopes(p: Problem) -> bool:
    return p.slopes is not None


_SLOPES = (
    "from 2^0",
    "by H",
    "by the next higher power",
    "by the next higher power, from 2^0",
    "by the next lower power",
    "1 / 2^(h + 1)",
    "1 / 2^h",
    "without the 8",
    "of 2^-4",
    "of 2^-16",
    "all equal to 1",
    "reversed",
    "positive",
    "for one head",
)


def variants() -> list[Variant]:
    """All readings of this family."""
    found = []
    for kind in _SLOPES:
        found.append(
            Variant(
                fault="linear-bias-slopes",
                says=f"the output equals the formula with slopes {kind}",
                pipeline=OtherSlopes(kind),
                applies=_has_slopes,
            )
        )
    return found
