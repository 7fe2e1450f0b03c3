"""Every kind of exercise, and how one is drawn: the same kind and seed give the same exercise."""

from collections.abc import Callable
from dataclasses import dataclass

from manyheads.core.errors import LearnError
from manyheads.learn.exercises import (
    counting,
    grouped,
    heads_apart,
    joining,
    layout,
    mask_rows,
    message,
    score,
    weight_row,
)
from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Exercise, Numbers
from manyheads.worksheets.arithmetic import float_of

MOST_TRIES = 200
"""Draws before giving up; tests hold that a few are enough."""
LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of exercise."""

    name: str
    """As in commands and addresses."""
    title: str
    """For a reader."""
    stream: int
    """Which PCG32 stream it draws from; never changed."""
    draw: Callable[[Draws], Draft | None]
    """One try; None where the draw is no exercise."""


def _kind(name: str, title: str, stream: int, draw: Callable[[Draws], Draft | None]) -> Kind:
    return Kind(name=name, title=title, stream=stream, draw=draw)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        _kind("score", "Scaled scores", 101, score.draw),
        _kind("weight-row", "From scores to weights", 102, weight_row.draw),
        _kind("message", "What a head hands on", 103, message.draw),
        _kind("concat", "Heads side by side", 104, joining.draw),
        _kind("projected-output", "Through W_O", 105, joining.draw_output),
        _kind("contribution", "What one head adds", 106, heads_apart.draw),
        _kind("zero-query", "A query of zeros", 107, message.draw_zero_query),
        _kind("ablation", "Without one head", 108, heads_apart.draw_ablation),
        _kind("parameter-count", "What a layer stores", 109, counting.draw),
        _kind("byte-count", "Bytes of scores and cache", 110, counting.draw_bytes),
        _kind("mask-rows", "What a mask hides", 111, mask_rows.draw),
        _kind("grouped-heads", "Shared keys and values", 112, grouped.draw),
        _kind("layout-conversion", "Where an entry is stored", 113, layout.draw),
    )
}
"""All kinds by name, in the order in which they are learned."""


def exercise(kind: str, seed: int) -> Exercise:
    """Draw an exercise: again and again from the same stream, until it can be marked fairly.

    A draw is taken where no misconception gives numbers that could be read as the right ones, or as
    those of another misconception.

    Args:
        kind: a name in `KINDS`.
        seed: a whole number from 0 to 2**32 - 1.

    Raises:
        LearnError: no such kind, or no such seed.
    """
    chosen = kind_named(kind)
    draws = Draws(checked_seed(seed), chosen.stream)
    for _ in range(MOST_TRIES):
        draft = chosen.draw(draws)
        if draft is not None and is_fair(draft):
            return Exercise(kind=kind, seed=seed, title=chosen.title, **vars(draft))
    raise LearnError(f"seed ({seed}) gives no {kind} exercise: use another seed")


def kind_named(name: str) -> Kind:
    """The kind of that name.

    Raises:
        LearnError: no such kind.
    """
    if name not in KINDS:
        raise LearnError(f"kind ({name[:40]!r}) is not known: use one of {', '.join(KINDS)}")
    return KINDS[name]


def checked_seed(seed: object) -> int:
    """A seed that the page can draw from too.

    Raises:
        LearnError: no whole number of that size.
    """
    if type(seed) is not int or not 0 <= seed <= LARGEST_SEED:
        raise LearnError(
            f"seed ({str(seed)[:40]}) must be a whole number from 0 to {LARGEST_SEED}: use another"
        )
    return seed


def is_fair(draft: Draft) -> bool:
    """Whether the answer and all misconceptions differ so that three digits tell them apart."""
    rows = [draft.answer, *(item.values for item in draft.misconceptions)]
    return all(_differ(a, b) for i, a in enumerate(rows) for b in rows[:i])


def _differ(left: Numbers, right: Numbers) -> bool:
    if len(left) != len(right):
        return True
    pairs = ((float_of(a), float_of(b)) for a, b in zip(left, right, strict=True))
    return any(abs(a - b) > 0.01 * max(abs(a), abs(b)) for a, b in pairs)
