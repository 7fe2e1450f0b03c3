"""Kind `mask-rows`: the sources that a mask hides from one query, and the weights of that query.

The queries are the last positions: query t of T among S keys has position t + (S - T).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from manyheads.learn.exercises.drawing import Draws, total
from manyheads.learn.exercises.form import (
    Draft,
    Given,
    Kind,
    Misconception,
    fault,
    labels,
    shown,
    slip,
)
from manyheads.worksheets.arithmetic import (
    NEGATIVE_INFINITY,
    ONE,
    ZERO,
    Number,
    add,
    exponential,
    logarithm,
)
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.exact import softmax
from manyheads.worksheets.sheet import Row

_SIZES = ((2, 5), (3, 5), (4, 6))
"""T and S."""
_FACTORS = (1, 2, 3, 4, 5, 6)


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What decides which sources a query sees; everything counts from 0."""

    form: str
    """cached, window or padding."""
    num_queries: int
    """T."""
    num_keys: int
    """S."""
    receiver: int
    """t."""
    window: int
    """Number of positions that the query sees, its own included; for the form window."""
    padding: tuple[int, ...]
    """Padded sources; for the form padding."""

    @property
    def position(self) -> int:
        """The query's position among the keys."""
        return self.receiver + self.num_keys - self.num_queries


def visible(sight: Sight) -> tuple[bool, ...]:
    """For each source, whether the query sees it."""
    sources = range(sight.num_keys)
    if sight.form == "padding":
        return tuple(s not in sight.padding for s in sources)
    first = sight.position - sight.window + 1 if sight.form == "window" else 0
    return tuple(first <= s <= sight.position for s in sources)


def draw(draws: Draws) -> Draft | None:
    """Draw the sizes, the form, the receiver, the window, two padded sources, then exponentials."""
    num_queries, num_keys = draws.choose(_SIZES)
    form, receiver = draws.choose(("cached", "window", "padding")), draws.below(num_queries)
    window, first = draws.between(2, 3), draws.between(1, num_keys - 2)
    sight = Sight(
        form=form,
        num_queries=num_queries,
        num_keys=num_keys,
        receiver=receiver,
        window=window,
        padding=(first, first + draws.between(1, num_keys - 1 - first)),
    )
    scores = tuple(logarithm(Fraction(n)) for n in draws.row(num_keys, _FACTORS))
    if all(visible(sight)):
        return None
    return Draft(
        prompt=_prompt(sight),
        given=(_scores(sight, scores),),
        asks=labels("weight of source", num_keys),
        answer=_weights(scores, visible(sight)),
        misconceptions=tuple(_misconceptions(sight, scores)),
        working=tuple(_working(sight, scores)),
    )


MASK_ROWS = Kind(
    name="mask-rows",
    title="Weights under a mask",
    summary="the weights of a query that does not see all sources: cached keys, window or padding",
    stream=111,
    draw=draw,
)


def _prompt(sight: Sight) -> str:
    words = {
        "cached": "A query sees its own position and all earlier positions",
        "window": (
            f"A query sees a window of {sight.window} positions, which ends with its own position"
        ),
        "padding": f"Sources {' and '.join(str(s + 1) for s in sight.padding)} are padding; a "
        "query sees all other sources, earlier and later",
    }
    return (
        f"There are {sight.num_keys} sources; the last {sight.num_queries} are also the queries. "
        f"{words[sight.form]}. Compute the weights of query {sight.receiver + 1} of "
        f"{sight.num_queries}; a masked source has weight 0."
    )


def _scores(sight: Sight, scores: Row) -> Given:
    return Given(
        name="scores",
        rows=(scores,),
        row_labels=(f"query {sight.receiver + 1}",),
        column_labels=labels("source", sight.num_keys),
    )


def _weights(scores: Sequence[Number], seen: Sequence[bool]) -> Row:
    pairs = zip(scores, seen, strict=True)
    return softmax(tuple(score if may else NEGATIVE_INFINITY for score, may in pairs))


def _misconceptions(sight: Sight, scores: Row) -> list[Misconception]:
    seen = visible(sight)
    pairs = tuple(zip(scores, seen, strict=True))
    everyone = softmax(scores)
    found = [
        fault(
            "mask-ignored",
            everyone,
            "That is what you get without the mask; masked sources have weight 0.",
        ),
        fault(
            "mask-polarity",
            _weights(scores, [not may for may in seen]),
            "That is what you get when you invert the mask: masked and visible sources are "
            "exchanged.",
        ),
        fault(
            "mask-after-softmax",
            tuple(w if may else ZERO for w, may in zip(everyone, seen, strict=True)),
            "That is what you get when you apply the mask after the softmax: masked sources still "
            "count in the sum, so the weights sum to less than one.",
        ),
        fault(
            "mask-multiplied",
            softmax(tuple(score if may else ZERO for score, may in pairs)),
            "That is what you get when you set a masked score to 0: its exponential is 1, so it "
            "still has weight; set it to minus infinity.",
        ),
        fault(
            "mask-additive-confusion",
            softmax(tuple(add(score, ONE) if may else score for score, may in pairs)),
            "That is what you get when you add a mask of ones and zeros to the scores: this only "
            "divides the weight of a masked source by e, relative to the others.",
        ),
    ]
    return [*found, *_shifted(sight, scores)]


def _shifted(sight: Sight, scores: Row) -> list[Misconception]:
    """Mistakes about the first and the last visible source."""
    if sight.form == "padding":
        return []
    position, sources = sight.position, range(sight.num_keys)
    first = position - sight.window + 1 if sight.form == "window" else 0
    found = [_too_wide(sight, scores, first)] if sight.form == "window" else _moved(sight, scores)
    if position + 1 < sight.num_keys:
        found.append(
            fault(
                "causal-off-by-one:late",
                _weights(scores, [first <= s <= position + 1 for s in sources]),
                f"That is what you get when the query, at position {position + 1}, also sees the "
                "next position.",
            )
        )
    return found


def _too_wide(sight: Sight, scores: Row, first: int) -> Misconception:
    seen = [first - 1 <= s <= sight.position for s in range(sight.num_keys)]
    says = (
        f"That is what you get when the window has {sight.window} positions before the query; its "
        "own position is one of them."
    )
    return slip("window-too-wide", _weights(scores, seen), says)


def _moved(sight: Sight, scores: Row) -> list[Misconception]:
    position, sources = sight.position, range(sight.num_keys)
    return [
        fault(
            "causal-alignment",
            _weights(scores, [s <= sight.receiver for s in sources]),
            f"That is what you get when query {sight.receiver + 1} is at position "
            f"{sight.receiver + 1}; the queries are the last positions, so it is at position "
            f"{position + 1}.",
        ),
        fault(
            "causal-off-by-one:early",
            _weights(scores, [s < position for s in sources]),
            f"That is what you get when the query does not see its own position, {position + 1}; "
            "it does see it.",
        ),
    ]


def _working(sight: Sight, scores: Row) -> list[str]:
    seen = visible(sight)
    names = ", ".join(str(s + 1) for s, may in enumerate(seen) if may)
    weights = _weights(scores, seen)
    open_ = [score for score, may in zip(scores, seen, strict=True) if may]
    powers = tuple(exponential(score) for score in open_)
    return [
        f"query {sight.receiver + 1} is at position {sight.position + 1} and sees sources {names}",
        f"their exponentials: {shown(powers)}, sum {fraction_text(total(powers))}",
        f"weights: {shown(weights)}",
    ]
