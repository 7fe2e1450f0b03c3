"""Which words a training step scores: all frequent ones, and of the rare ones a sample.

Most of a step's time goes into scores of words that are hardly ever right. Scoring a sample and
subtracting the logarithm of each word's chance to be in it gives gradients that are right on
average. Validation and test always score every word.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manyheads.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The words that one step scores."""

    ids: Int64[Tensor, " C"]
    """(C,), rising."""
    log_chance: Float[Tensor, " C"]
    """(C,), logarithm of each word's chance to be among them."""
    places: Int64[Tensor, " V"]
    """(V,), where each word stands in `ids`; any number for words that are not there."""


@dataclass(frozen=True, kw_only=True)
class CandidateSampler:
    """Draws candidates; the same step of the same seed always gets the same.

    Args:
        counts: (V,), how often each word is a target of the training split.
        head: the most frequent words that every step scores.
        tail: chance of each other word to be drawn, beside the targets, a fraction from 0 to 1.
        seed: what they are drawn from, 0 to 4095.
        device: where the candidates are used; they are drawn on the CPU.

    Raises:
        ConfigError: a chance or a seed out of range, a negative head, or no counted word.
    """

    counts: Float[Tensor, " V"]
    head: int
    tail: float
    seed: int
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        if not 0 <= self.tail <= 1:
            raise ConfigError(f"tail ({self.tail}) must be from 0 to 1: it is a chance")
        if not 0 <= self.seed < 1 << 12:
            raise ConfigError(f"seed ({self.seed}) must be from 0 to 4095: use another number")
        if self.head < 0:
            raise ConfigError(f"head ({self.head}) must not be negative: it counts words")
        if self.counts.sum() <= 0:
            raise ConfigError("counts (all 0) must count some word: give those of the targets")

    @cached_property
    def _head_words(self) -> Tensor:
        return torch.argsort(self.counts, descending=True, stable=True)[: self.head]

    def choose(self, step: int, targets: Int64[Tensor, "B n"]) -> Candidates:
        """The candidates of one step.

        Args:
            step: counted from 0.
            targets: (B, n) of the whole batch; all of them are candidates. 0 = none.
        """
        num_targets = int((targets != 0).sum())
        # torch's CPU generator reads 32 bits: 12 for the seed and 20 for the step.
        generator = torch.Generator().manual_seed((self.seed << 20) + step)
        chosen = torch.rand(len(self.counts), generator=generator) < self.tail
        chosen[self._head_words] = True
        chosen[targets[targets != 0]] = True
        ids = chosen.nonzero()[:, 0]
        places = torch.zeros(len(self.counts), dtype=torch.int64)
        places[ids] = torch.arange(len(ids))
        log_chance = self._chances(num_targets)[ids].log().float()
        there = self.device
        return Candidates(
            ids=ids.to(there), log_chance=log_chance.to(there), places=places.to(there)
        )

    def _chances(self, num_targets: int) -> Tensor:
        """Each word's chance (V,) to be drawn, or to be one of so many targets."""
        frequency = self.counts.double() / self.counts.sum()
        missed = (1 - frequency) ** num_targets * (1 - self.tail)
        missed[self._head_words] = 0.0
        return (1 - missed).clamp_min(1e-9)
