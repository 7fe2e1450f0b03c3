"""Every kind of exercise, and how an exercise is drawn: kind and seed decide it."""

from collections.abc import Iterator, Sequence

from manyheads.core.errors import LearnError
from manyheads.core.text import brief, quoted
from manyheads.learn.exercises.counting import BYTE_COUNT, PARAMETER_COUNT
from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Exercise, Kind
from manyheads.learn.exercises.grouped import GROUPED_HEADS
from manyheads.learn.exercises.heads_apart import ABLATION, CONTRIBUTION
from manyheads.learn.exercises.joining import CONCAT, PROJECTED_OUTPUT
from manyheads.learn.exercises.layout import LAYOUT_CONVERSION
from manyheads.learn.exercises.mask_rows import MASK_ROWS
from manyheads.learn.exercises.message import MESSAGE, ZERO_QUERY
from manyheads.learn.exercises.score import SCORE
from manyheads.learn.exercises.weight_row import WEIGHT_ROW
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.sheet import Row

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        SCORE,
        WEIGHT_ROW,
        MESSAGE,
        CONCAT,
        PROJECTED_OUTPUT,
        CONTRIBUTION,
        ZERO_QUERY,
        ABLATION,
        PARAMETER_COUNT,
        BYTE_COUNT,
        MASK_ROWS,
        GROUPED_HEADS,
        LAYOUT_CONVERSION,
    )
}
"""All kinds by name, in the order in which they are learned."""
MOST_TRIES = 200
"""Draws before giving up; the tests check that 25 are enough."""
LARGEST_SEED = 2**32 - 1
MAX_COUNT = 1000
"""Maximum number of exercises on one sheet."""
DIFFERENCE = 0.01
"""Two answers differ where some number differs by more than this fraction of the larger size."""


def exercise(kind: str, seed: int) -> Exercise:
    """Draw an exercise: again and again from the same stream, until it can be marked fairly.

    Args:
        kind: a name in `KINDS`.
        seed: a whole number from 0 to 2**32 - 1.

    Raises:
        LearnError: the kind does not exist, or the seed is out of range.
    """
    if kind not in KINDS:
        raise LearnError(
            f"kind ({brief(kind, 40)!r}) does not exist: use one of {', '.join(KINDS)}"
        )
    if type(seed) is not int or not 0 <= seed <= LARGEST_SEED:
        raise LearnError(
            f"seed ({quoted(seed)}) must be a whole number from 0 to {LARGEST_SEED}: use another"
        )
    chosen = KINDS[kind]
    draws = Draws(seed, chosen.stream)
    for _ in range(MOST_TRIES):
        draft = chosen.draw(draws)
        if draft is not None and is_fair(draft):
            return Exercise(kind=kind, seed=seed, title=chosen.title, **vars(draft))
    raise LearnError(f"seed ({seed}) gives no {kind} exercise: use another seed")


def is_fair(draft: Draft) -> bool:
    """Whether the answer and all misconceptions differ in their first three digits."""
    rows = [draft.answer, *(item.values for item in draft.misconceptions)]
    return all(_differ(a, b) for i, a in enumerate(rows) for b in rows[:i])


def _differ(left: Row, right: Row) -> bool:
    if len(left) != len(right):
        return True
    pairs = ((float_of(a), float_of(b)) for a, b in zip(left, right, strict=True))
    return any(abs(a - b) > DIFFERENCE * max(abs(a), abs(b)) for a, b in pairs)


def exercise_sheet(kinds: Sequence[str], seed: int, count: int) -> Iterator[Exercise]:
    """Draw a sheet: the kinds in turn; each round of all kinds takes the next seed.

    Args:
        kinds: names in `KINDS`; none means all.
        seed: of the first round; 0 follows the largest seed.
        count: number of exercises.

    Raises:
        LearnError: a kind does not exist, or the seed or the count is out of range.
    """
    if not 1 <= count <= MAX_COUNT:
        raise LearnError(f"count ({count}) must be from 1 to {MAX_COUNT}: use another")
    names = list(kinds) or list(KINDS)
    for index in range(count):
        turn, place = divmod(index, len(names))
        number = (seed + turn) % (LARGEST_SEED + 1) if turn else seed
        yield exercise(names[place], number)


def exercise_named(name: str) -> Exercise:
    """Draw the exercise of an id such as `score/7`.

    Raises:
        LearnError: the id does not exist.
    """
    kind, slash, seed = name.partition("/")
    if not slash or not (seed.isascii() and seed.isdecimal()) or len(seed) > 10:
        raise LearnError(
            f"exercise ({brief(name, 40)!r}) must be a kind and a seed: write for instance score/7"
        )
    return exercise(kind, int(seed))
