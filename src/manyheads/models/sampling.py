"""From logits to the next word: the best one, or a seeded draw; see docs/generate.md.

The page follows the same rule. Both use PCG32, a small published random number generator, so they
draw the same numbers. Training uses `torch.Generator`.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.core.pcg32 import PCG32
from manyheads.models.config import BOS_ID, PAD_ID, UNK_ID

NEVER_CHOSEN = (PAD_ID, BOS_ID, UNK_ID)
"""Ids that are never generated; the end of a story can be generated."""
DEFAULT_TOP_K = 40


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next word is chosen."""

    temperature: float = 0.8
    """The logits are divided by it; 0 takes the best word and draws nothing."""
    top_k: int | None = None
    """Number of best words to draw from; 40 unless given, or all if there are fewer."""
    seed: int = 0
    """Random seed of PCG32, from 0 to 2**64 - 1."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: a temperature, top_k or seed is out of range.
        """
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(
                f"temperature ({self.temperature}) must be a finite number of at least 0: use 0 "
                "for the most probable word, or a number such as 0.8"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k ({self.top_k}) must be at least 1: use 1 for the best word")
        PCG32(self.seed)

    def num_candidates(self, vocab_size: int) -> int:
        """Number of words to draw from, for a vocabulary of `vocab_size` ids.

        Raises:
            ConfigError: top_k asks for more than can be chosen.
        """
        most = vocab_size - len(NEVER_CHOSEN)
        if self.top_k is None:
            return min(DEFAULT_TOP_K, most)
        if self.top_k > most:
            raise ConfigError(
                f"top_k ({self.top_k}) must be at most {most}, the words that can be chosen: "
                "use a smaller one"
            )
        return self.top_k


def choose_word(
    logits: Float[Tensor, " V"], sampling: Sampling, draws: PCG32, vocab_size: int | None = None
) -> int:
    """Choose the next word; one number is drawn, or none at temperature 0.

    `[PAD]`, `[BOS]` and `[UNK]` are never chosen, whatever their logits.

    Args:
        logits: (V,), one per word.
        sampling: how to choose.
        draws: random number generator.
        vocab_size: ids from this one on are not words; V unless given.

    Returns:
        the id of the word.

    Raises:
        ConfigError: top_k asks for more words than can be chosen, or a logit is not finite.
    """
    scores = _allowed_scores(logits, vocab_size)
    if sampling.temperature == 0:
        return int(scores.argmax())  # the first of equal ones: the lowest id
    count = sampling.num_candidates(len(scores))
    words = _best_words(scores, count)
    return _drawn(words, scores[words].tolist(), sampling.temperature, draws.uniform())


def probability_of_word(logits: Float[Tensor, " V"], word_id: int) -> float:
    """Probability of a word: softmax over all V logits, at temperature 1, in float64."""
    scores = logits.detach().cpu().double().numpy()
    parts = np.exp(scores - scores.max())
    return float(parts[word_id] / parts.sum())


def _allowed_scores(logits: Tensor, vocab_size: int | None) -> NDArray[np.float64]:
    """The logits in float64, with those of words that are never chosen at minus infinity."""
    scores = logits[:vocab_size].detach().cpu().to(torch.float64, copy=True).numpy()
    if not np.isfinite(scores).all():
        place = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise ConfigError(
            f"logits ({scores[place]} at word {place}) must be finite: check the model's weights"
        )
    scores[list(NEVER_CHOSEN)] = -math.inf
    return scores


def _best_words(scores: NDArray[np.float64], count: int) -> list[int]:
    """The ids of the best words, best first; of equal ones the lowest id first."""
    least = np.partition(scores, -count)[-count]
    able = np.flatnonzero(scores >= least)  # rising ids, which a stable sort keeps
    order = np.argsort(-scores[able], kind="stable")[:count]
    return [int(word) for word in able[order]]


def _drawn(words: list[int], logits: list[float], temperature: float, u: float) -> int:
    """The first word at which the sum of probabilities so far exceeds u."""
    parts = [math.exp((logit - logits[0]) / temperature) for logit in logits]
    total = 0.0
    for part in parts:
        total += part
    reached = 0.0
    for word, part in zip(words, parts, strict=True):
        reached += part / total
        if reached > u:
            return word
    return words[-1]  # rounding left the sum of all a little below u
