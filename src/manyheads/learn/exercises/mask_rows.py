"""Kind `mask-rows`: which sources one receiver may see, and the weights that it then gives.

Queries stand at the end of the keys: query t of T among S keys has position t + (S - T).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Misconception, Numbers, Table, fault, shown, slip
from manyheads.learn.exercises.sheets import labels
from manyheads.learn.exercises.sums import total
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

_SIZES = ((2, 5), (3, 5), (4, 6))
"""T and S."""
_FACTORS = (1, 2, 3, 4, 5, 6)


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What decides which sources a receiver sees; everything counts from 0."""

    form: str
    """cached, window or padding."""
    num_queries: int
    """T."""
    num_keys: int
    """S."""
    receiver: int
    """t."""
    window: int
    """Keys seen, the own one included; for the form window."""
    padding: tuple[int, ...]
    """Padded sources; for the form padding."""

    @property
    def position(self) -> int:
        """Where the receiver stands among the keys."""
        return self.receiver + self.num_keys - self.num_queries


def visible(sight: Sight) -> tuple[bool, ...]:
    """For each source, whether the receiver may see it."""
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


def _prompt(sight: Sight) -> str:
    words = {
        "cached": "A query sees its own position and everything before it",
        "window": (
            f"A query sees a window of {sight.window} positions: its own and those just before it"
        ),
        "padding": f"Sources {' and '.join(str(s + 1) for s in sight.padding)} are padding; a "
        "query sees all others, earlier or later",
    }
    return (
        f"{sight.num_keys} sources, of which the last {sight.num_queries} are also the queries. "
        f"{words[sight.form]}. Work out the weights of query {sight.receiver + 1} of "
        f"{sight.num_queries}; a hidden source has weight 0."
    )


def _scores(sight: Sight, scores: Numbers) -> Table:
    return Table(
        name="scores",
        rows=(scores,),
        row_labels=(f"query {sight.receiver + 1}",),
        column_labels=labels("source", sight.num_keys),
    )


def _weights(scores: Sequence[Number], seen: Sequence[bool]) -> Numbers:
    pairs = zip(scores, seen, strict=True)
    return softmax(tuple(score if may else NEGATIVE_INFINITY for score, may in pairs))


def _misconceptions(sight: Sight, scores: Numbers) -> list[Misconception]:
    seen = visible(sight)
    pairs = tuple(zip(scores, seen, strict=True))
    everyone = softmax(scores)
    found = [
        fault(
            "mask-ignored",
            everyone,
            "That is what you get when nothing is hidden: the hidden sources take weight too.",
        ),
        fault(
            "mask-polarity",
            _weights(scores, [not may for may in seen]),
            "That is what you get with the mask the wrong way round: hidden and visible sources "
            "have changed places.",
        ),
        fault(
            "mask-after-softmax",
            tuple(w if may else ZERO for w, may in zip(everyone, seen, strict=True)),
            "That is what you get when the mask comes after the softmax: hidden sources still "
            "count in the sum, so the row adds up to less than one.",
        ),
        fault(
            "mask-multiplied",
            softmax(tuple(score if may else ZERO for score, may in pairs)),
            "That is what you get when a hidden score becomes 0: e to the power of 0 is 1, so it "
            "still takes weight; hidden means minus infinity.",
        ),
        fault(
            "mask-additive-confusion",
            softmax(tuple(add(score, ONE) if may else score for score, may in pairs)),
            "That is what you get when the mask's ones and zeros are added to the scores: hidden "
            "sources are only a factor e weaker.",
        ),
    ]
    return [*found, *_shifted(sight, scores)]


def _shifted(sight: Sight, scores: Numbers) -> list[Misconception]:
    """Wrong ends of the visible stretch."""
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
                f"That is what you get when the query, which stands at {position + 1}, sees one "
                "source too many.",
            )
        )
    return found


def _too_wide(sight: Sight, scores: Numbers, first: int) -> Misconception:
    seen = [first - 1 <= s <= sight.position for s in range(sight.num_keys)]
    says = (
        f"That is what you get with a window of {sight.window} besides the query itself; its own "
        "position counts."
    )
    return slip("window-too-wide", _weights(scores, seen), says)


def _moved(sight: Sight, scores: Numbers) -> list[Misconception]:
    position, sources = sight.position, range(sight.num_keys)
    return [
        fault(
            "causal-alignment",
            _weights(scores, [s <= sight.receiver for s in sources]),
            f"That is what you get when query {sight.receiver + 1} is put at source "
            f"{sight.receiver + 1}; the queries are the last sources, so it stands at "
            f"{position + 1}.",
        ),
        fault(
            "causal-off-by-one:early",
            _weights(scores, [s < position for s in sources]),
            f"That is what you get when the query does not see its own position, {position + 1}; "
            "it does.",
        ),
    ]


def _working(sight: Sight, scores: Numbers) -> list[str]:
    seen = visible(sight)
    names = ", ".join(str(s + 1) for s, may in enumerate(seen) if may)
    weights = _weights(scores, seen)
    open_ = [score for score, may in zip(scores, seen, strict=True) if may]
    powers = tuple(exponential(score) for score in open_)
    return [
        f"query {sight.receiver + 1} stands at source {sight.position + 1} and sees {names}",
        f"their exponentials: {shown(powers)}, sum {fraction_text(total(powers))}",
        f"weights: {shown(weights)}",
    ]
