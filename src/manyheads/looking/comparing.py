"""Two models, or one before and after training, head by head on the same input."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import LookError
from manyheads.core.tables import Table
from manyheads.looking.proof import NotAdditive
from manyheads.looking.reading import Look


@dataclass(frozen=True, kw_only=True)
class HeadDifference:
    """How much a head differs between two models."""

    layer: int
    head: int
    pattern: float
    """Mean total variation distance of the weights of a query, 0 to 1."""
    contribution: float | None
    """Norm of the difference of the contributions over the larger norm, 0 to 2; None if a model's
    contributions are not proven."""
    norms: tuple[float, float] | None
    """Norms of the contributions in both models."""


@dataclass(frozen=True, kw_only=True)
class LookComparison:
    """Two looks at the same input, head by head."""

    heads: tuple[HeadDifference, ...]
    """In the order of layers and heads."""

    @property
    def greatest(self) -> tuple[HeadDifference, ...]:
        """The heads by the distance of their patterns, largest first."""
        return tuple(sorted(self.heads, key=lambda one: -one.pattern))

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON holds it."""
        return {"format": "manyheads-look-compare-1", "heads": [asdict(one) for one in self.heads]}

    def table(self, most: int = 20) -> Table:
        """The heads that differ most."""
        rows = tuple(
            (
                f"{one.layer}.{one.head}",
                f"{one.pattern:.3f}",
                "not proven" if one.contribution is None else f"{one.contribution:.3f}",
            )
            for one in self.greatest[:most]
        )
        columns = ("head", "distance of patterns", "difference of contributions")
        return Table(title="Heads that differ most", columns=columns, rows=rows)


def compare_looks(a: Look, b: Look) -> LookComparison:
    """Compare two looks at the same input.

    Args:
        a: the first model.
        b: a model with the same layers and heads, on the same tokens.

    Raises:
        LookError: the models have other layers or heads, or the inputs differ.
    """
    if a.card.heads != b.card.heads:
        raise LookError(
            f"heads ({a.card.heads} and {b.card.heads}) must be equal: compare models of one shape"
        )
    ids = a.call.ids, b.call.ids
    if ids[0] is not None and ids[1] is not None and not torch.equal(ids[0], ids[1]):
        raise LookError("the tokens of both looks differ: use one tokenizer and one text")
    if any(x.shape != y.shape for x, y in zip(a.sites, b.sites, strict=True)):
        raise LookError("the inputs of both looks have different lengths: use one input")
    return LookComparison(heads=tuple(_layers(a, b)))


def _layers(a: Look, b: Look) -> list[HeadDifference]:
    found = []
    for layer in range(a.card.layers):
        distance = (a.weights(layer).double() - b.weights(layer).double()).abs().sum(-1) / 2
        patterns = distance.mean(dim=(0, 2))  # (H,)
        parts = a.contributions(layer), b.contributions(layer)
        for head, pattern in enumerate(patterns.tolist()):
            norms = change = None
            if not any(isinstance(part, NotAdditive) for part in parts):
                x, y = (_of_head(part, head) for part in parts)
                norms = float(x.norm()), float(y.norm())
                change = float((x - y).norm()) / (max(norms) or 1.0) if x.shape == y.shape else None
            found.append(
                HeadDifference(
                    layer=layer, head=head, pattern=pattern, contribution=change, norms=norms
                )
            )
    return found


def _of_head(part: Tensor | NotAdditive, head: int) -> Tensor:
    assert not isinstance(part, NotAdditive)
    return part[:, :, head].double()
