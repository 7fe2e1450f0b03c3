"""Faults of the scale: the candidates that people write, and a numeric fit for any other."""

import math
from dataclasses import replace

from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults.variant import Variant


class OtherScale(Pipeline):
    """Multiplies the scores by another number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def scores(self, p: Problem, q: Tensor, k: Tensor) -> Tensor:
        """q·k times the other number."""
        return super().scores(replace(p, scale=self.value), q, k)


def candidates(p: Problem) -> dict[str, float]:
    """Scales that people write, by their formula, for the sizes of a problem."""
    width = p.x_q.shape[-1]
    if p.weights is not None:
        width = p.weights.w_q.shape[2]
    model = p.x_q.shape[-1] if p.weights is not None else p.num_heads * width
    joined, heads = p.num_heads * width, p.num_heads
    padded = 1 << (width - 1).bit_length()
    found = {
        "1/sqrt(head width)": width**-0.5,
        "1/sqrt(model width)": model**-0.5,
        "1/sqrt(joined width)": joined**-0.5,
        "1/sqrt(number of heads)": heads**-0.5,
        "1 (no scale)": 1.0,
        "1/head width (the scale applied twice, or a deliberate 1/d)": 1.0 / width,
        "1/model width": 1.0 / model,
        "1/sqrt(1/head width) (the inverse)": width**0.5,
        "1/number of heads": 1.0 / heads,
        f"1/sqrt({padded}) (a padded head width)": padded**-0.5,
        "head width ** -0.25 (only one of q and k scaled)": width**-0.25,
        "1/sqrt(number of keys)": p.x_k.shape[-2] ** -0.5,
        "1/sqrt(number of queries)": p.x_q.shape[-2] ** -0.5,
        "1/sqrt(batch)": p.batch**-0.5,
        "1/sqrt(key/value heads)": p.num_kv_heads**-0.5,
        "1/sqrt(2 * head width)": (2 * width) ** -0.5,
        "1/log(head width)": 1 / math.log(max(width, 2)),
        "declared scale applied twice": p.scale**2,
        "declared scale times 1/sqrt(head width)": p.scale * width**-0.5,
    }
    for hard in (8, 16, 32, 48, 64, 80, 96, 128, 256, 512, 768, 1024):
        found[f"1/sqrt({hard}) (hard-coded)"] = hard**-0.5
    return found


def variants_for(p: Problem) -> list[Variant]:
    """One reading a candidate that differs from the declared scale."""
    found, seen = [], {p.scale}
    for name, value in candidates(p).items():
        if any(math.isclose(value, other, rel_tol=1e-9) for other in seen):
            continue
        seen.add(value)
        says = (
            f"scores are multiplied by {value:.6g} = {name} (divided by {1 / value:.5g}); declared "
            f"is {p.scale:.6g} (divided by {1 / p.scale if p.scale else math.inf:.5g})"
        )
        found.append(Variant(fault="scale", says=says, pipeline=OtherScale(value), is_legal=True))
    return found
