"""Measures of what heads do, from their weights, and the effect of removing heads from a model."""

from manyheads.heads.ablation import (
    GreedyRemoval,
    HeadRemoval,
    mean_loss,
    remove_each,
    remove_greedily,
)
from manyheads.heads.analysis import HeadAnalysis, analyse_heads
from manyheads.heads.measures import (
    entropy,
    largest_weight,
    mass_at_offset,
    mass_on_keys,
    mean_by_head,
    mean_distance,
    measures_from_trace,
    pattern_distances,
    pattern_diversity,
)

__all__ = [
    "GreedyRemoval",
    "HeadAnalysis",
    "HeadRemoval",
    "analyse_heads",
    "entropy",
    "largest_weight",
    "mass_at_offset",
    "mass_on_keys",
    "mean_by_head",
    "mean_distance",
    "mean_loss",
    "measures_from_trace",
    "pattern_distances",
    "pattern_diversity",
    "remove_each",
    "remove_greedily",
]
