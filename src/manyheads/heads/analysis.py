"""HeadAnalysis: all measures of a trained model's heads, as `results.json` stores them."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manyheads.core.errors import ShapeError
from manyheads.heads.ablation import (
    BATCH_SIZE,
    GreedyRemoval,
    HeadRemoval,
    num_heads_of,
    remove_each,
    remove_greedily,
)
from manyheads.heads.measures import (
    DISTANCE_UNIT,
    entropy,
    largest_weight,
    mass_at_offset,
    mass_on_keys,
    mean_by_head,
    mean_distance,
    pattern_distances,
)
from manyheads.models.config import BOS_ID

_MEASURES = (
    "entropy",
    "mean_distance",
    "largest_weight",
    "mass_on_last",
    "mass_on_previous",
    "mass_on_bos",
)


@dataclass(frozen=True, kw_only=True)
class HeadAnalysis:
    """Measures of a trained model's heads on given windows; one number per head unless noted."""

    num_heads: int
    """H."""
    split: str
    """Split of the windows."""
    num_windows: int
    """Number of windows; the query is the last position of each."""
    removal: HeadRemoval
    """The loss without each head."""
    greedy: GreedyRemoval
    """The loss as heads are removed one by one."""
    entropy: tuple[float, ...]
    """Spread of the weights, nats."""
    mean_distance: tuple[float, ...]
    """Mean distance to the attended tokens, tokens."""
    largest_weight: tuple[float, ...]
    """Mean of the largest weight, fraction 0 to 1."""
    mass_on_last: tuple[float, ...]
    """Weight on the last token, the query's own, fraction 0 to 1."""
    mass_on_previous: tuple[float, ...]
    """Weight on the token before it, fraction 0 to 1."""
    mass_on_bos: tuple[float, ...] | None
    """Weight on `[BOS]` in the windows that contain it, fraction 0 to 1; None if there are none."""
    num_windows_with_bos: int
    """Number of windows that contain `[BOS]`."""
    diversity: float | None
    """Mean Jensen-Shannon distance over all pairs of heads, 0 to 1; None for one head."""
    diversity_unit: str = DISTANCE_UNIT
    """Unit of `diversity`."""

    def to_dict(self) -> dict[str, Any]:
        """The analysis as JSON holds it."""
        nested = {"removal": self.removal.to_dict(), "greedy": self.greedy.to_dict()}
        fields = {**asdict(self), **nested}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in fields.items()
        }


def analyse_heads(
    model: nn.Module,
    tokens: Int64[Tensor, "B T"],
    targets: Int64[Tensor, " B"],
    *,
    split: str = "validation",
    num_choosing: int = 256,
    batch_size: int = BATCH_SIZE,
) -> HeadAnalysis:
    """Measure every head of a trained model, and the loss without it.

    Greedy removal chooses on the first `num_choosing` windows, at most half of them, and measures
    on the others. Windows of the test split are refused, because choices may depend on the result.

    Args:
        model: takes windows, `head_mask` and `need_weights`.
        tokens: windows, (B, T), at least two; those of one story next to each other.
        targets: the word after each window, (B,).
        split: split of the windows.
        num_choosing: windows on which greedy removal chooses.
        batch_size: windows at a time.

    Raises:
        ShapeError: fewer than two windows, another number of targets, or the test split.
    """
    if split == "test":
        raise ShapeError("split ('test') must not be used to analyse heads: use validation windows")
    if len(tokens) < 2:
        raise ShapeError(f"tokens has {len(tokens)} windows: give at least 2")
    removal = remove_each(model, tokens, targets, batch_size=batch_size)
    greedy = remove_greedily(
        model,
        tokens,
        targets,
        num_choosing=min(num_choosing, len(tokens) // 2),
        batch_size=batch_size,
    )
    sums = _Sums(num_heads_of(model, tokens))
    with torch.no_grad():
        for part in tokens.split(batch_size):
            _, weights = model(part, need_weights=True)  # (b, H, T)
            sums.add(part, weights.double().unsqueeze(2))  # (b, H, 1, T)
    return HeadAnalysis(
        num_heads=sums.num_heads,
        split=split,
        num_windows=len(tokens),
        removal=removal,
        greedy=greedy,
        num_windows_with_bos=sums.num_with_bos,
        **sums.means(),
    )


class _Sums:
    """Measures summed over batches of windows, each window with one query."""

    def __init__(self, num_heads: int) -> None:
        self.num_heads = num_heads
        self.num, self.num_with_bos = 0, 0
        self.by_head = {name: torch.zeros(num_heads, dtype=torch.float64) for name in _MEASURES}
        self.distances = torch.zeros(num_heads, num_heads, dtype=torch.float64)

    def add(self, tokens: Int64[Tensor, "B S"], weights: Float[Tensor, "B H T S"]) -> None:
        """Add one batch."""
        measured = {
            "entropy": entropy(weights),
            "mean_distance": mean_distance(weights),
            "largest_weight": largest_weight(weights),
            "mass_on_last": mass_at_offset(weights, 0),
            "mass_on_previous": mass_at_offset(weights, 1),
        }
        for name, values in measured.items():
            self.by_head[name] += len(tokens) * mean_by_head(values, weights)
        self.distances += len(tokens) * pattern_distances(weights)
        self.num += len(tokens)
        self._add_bos(tokens == BOS_ID, weights)

    def _add_bos(self, is_bos: Bool[Tensor, "B S"], weights: Float[Tensor, "B H T S"]) -> None:
        has_bos = is_bos.any(dim=1)
        self.num_with_bos += int(has_bos.sum())
        mass = mass_on_keys(weights[has_bos], is_bos[has_bos])  # (b, H, 1)
        self.by_head["mass_on_bos"] += mass.sum(dim=(0, 2))

    def means(self) -> dict[str, Any]:
        """Each measure by its name, averaged over the windows."""
        counts = dict.fromkeys(_MEASURES, self.num) | {"mass_on_bos": self.num_with_bos}
        found: dict[str, Any] = {
            name: tuple((total / counts[name]).tolist()) if counts[name] else None
            for name, total in self.by_head.items()
        }
        pairs = self.num_heads * (self.num_heads - 1)
        found["diversity"] = float(self.distances.sum()) / (self.num * pairs) if pairs else None
        return found
