"""Contributions per head, and what proves them.

That contributions add up to a layer's output holds for any matrix and proves nothing. The proof is
an intervention: heads are silenced inside the attention call, the model's own operations run on,
and what the output loses must be the contribution. What is not proven is not shown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.looking.following import Projection
from manyheads.looking.watching import Site

EXACT_LIMIT = 1e-9
"""Largest `exact_error`, which float64 computes for every type of model."""
ROUNDING_LIMIT = 0.25
"""Largest `output_error` in any type; half types round by up to this in small contributions."""


@dataclass(frozen=True)
class NotAdditive:
    """In place of contributions that the intervention does not prove."""

    reason: str
    """Why not."""

    def __bool__(self) -> bool:
        """Always False, so that `if contributions` reads well."""
        return False


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The numbers that stand behind the pictures of one run."""

    output_gap: float
    """Largest difference of the output with and without the probe, both in eager attention."""
    found_gap: float | None
    """The same against the model as it was handed over; None if it was not measured."""
    sum_error: float | None
    """Contributions plus bias against the output, a fraction of the largest output; None if no
    layer is proven."""
    intervention_error: float | None
    """Loss by silencing against contribution, a fraction of the largest contribution, over all
    proven layers; None if there is none."""
    refused: Mapping[int, str]
    """The reason for each layer whose contributions are not shown."""

    def to_dict(self) -> dict[str, Any]:
        """The proof as JSON holds it."""
        return {
            "output_gap": self.output_gap,
            "found_gap": self.found_gap,
            "sum_error": self.sum_error,
            "intervention_error": self.intervention_error,
            "refused": [{"layer": i, "reason": why} for i, why in self.refused.items()],
        }


def refusal(site: Site) -> str | None:
    """Why the contributions of a call are not shown; None where they are proven."""
    proof = site.projection
    if proof is None:
        return site.follower.reason if site.follower else "the message has an unknown arrangement"
    if math.isnan(proof.intervention_error):
        return "the model's numbers are not finite here: check padding and the type of the model"
    if proof.exact_error > EXACT_LIMIT:
        return (
            "an operation between the heads and the matrix is not additive: silencing heads "
            f"changes its input by {proof.exact_error:.2g} of the largest contribution too much"
        )
    if proof.output_error > min(proof.rounding, ROUNDING_LIMIT):
        return (
            "the output depends on the heads in more ways than the matrix: silencing heads "
            f"changes it by {proof.output_error:.2g} of the largest contribution too much"
        )
    return None


def proof_from(sites: Sequence[Site], gaps: tuple[float, float | None]) -> Proof:
    """Collect the proofs of all attention calls."""
    refused = {site.index: why for site in sites if (why := refusal(site)) is not None}
    proven = [s.projection for s in sites if s.index not in refused and s.projection is not None]
    return Proof(
        output_gap=gaps[0],
        found_gap=gaps[1],
        sum_error=max((sum_error(one) for one in proven), default=None),
        intervention_error=max((one.intervention_error for one in proven), default=None),
        refused=refused,
    )


def contributions_of(projection: Projection, num_heads: int) -> Float[Tensor, "B T H D"]:
    """What each head adds to the output of its layer, (B, T, H, D), in the type of the model."""
    columns = projection.heads.argsort(stable=True).view(num_heads, -1)  # (H, v)
    rows = projection.rows[..., columns]  # (B, T, H, v)
    weight = projection.weight[:, columns].to(rows.dtype)  # (D, H, v)
    return torch.einsum("bthv,dhv->bthd", rows, weight)


def sum_error(projection: Projection) -> float:
    """All contributions plus the bias against the output, a fraction of the largest output."""
    kind = torch.promote_types(projection.rows.dtype, torch.float32)
    total = projection.rows.to(kind) @ projection.weight.to(kind).T
    if projection.bias is not None:
        total = total + projection.bias.to(kind)
    output = projection.output.to(kind)
    return float((total - output).abs().max()) / (float(output.abs().max()) or 1.0)
