"""Chance for exercises: whole numbers from a PCG32 stream a kind; the page draws the same."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """Draws in order; every method says how many numbers it takes from the generator.

    Args:
        seed: of the exercise.
        stream: of the kind.
    """

    def __init__(self, seed: int, stream: int) -> None:
        from manyheads.models.sampling import PCG32  # loads torch

        self._chance = PCG32(seed, stream)

    def below(self, count: int) -> int:
        """One draw: `next_u32` modulo `count`."""
        return self._chance.next_u32() % count

    def between(self, low: int, high: int) -> int:
        """One draw: a whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def choose(self, options: Sequence[T]) -> T:
        """One draw: one of the options."""
        return options[self.below(len(options))]

    def row(self, count: int, options: Sequence[int]) -> tuple[int, ...]:
        """`count` draws: one option each."""
        return tuple(self.choose(options) for _ in range(count))

    def matrix(
        self, rows: int, columns: int, options: Sequence[int]
    ) -> tuple[tuple[int, ...], ...]:
        """`rows * columns` draws, row by row."""
        return tuple(self.row(columns, options) for _ in range(rows))
