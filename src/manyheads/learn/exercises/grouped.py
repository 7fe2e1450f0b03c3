"""Kind `grouped-heads`: which key/value head a query head reads, and what a position caches."""

from manyheads.learn.exercises.counting import facts, whole
from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Misconception, Numbers, fault, slip

_SIZES = ((8, 2), (8, 4), (6, 2), (6, 3), (12, 3), (12, 4))
"""H and G."""
_ASKED = 4
"""Query heads asked."""


def group_of(query_head: int, num_heads: int, num_kv_heads: int) -> int:
    """The key/value head that a query head reads; both count from 0."""
    return query_head // (num_heads // num_kv_heads)


def draw(draws: Draws) -> Draft:
    """Draw H and G, the head's width, the first query head asked, and the step to the next."""
    heads, groups = draws.choose(_SIZES)
    width, first, step = draws.choose((5, 7, 10, 16)), draws.below(heads), draws.choose((1, 5))
    asked = tuple(sorted((first + i * step) % heads for i in range(_ASKED)))
    answer = _numbers([group_of(h, heads, groups) + 1 for h in asked], 2 * groups * width)
    names = ", ".join(str(h + 1) for h in asked)
    return Draft(
        prompt=(
            f"Query heads share key/value heads in equal groups of neighbours; all count from 1. "
            f"Which key/value head do query heads {names} read? And how many numbers does one "
            "position add to the cache of one layer?"
        ),
        given=(facts({"query heads": heads, "key/value heads": groups, "head width": width}),),
        asks=(*(f"read by query head {h + 1}" for h in asked), "numbers cached a position"),
        answer=answer,
        misconceptions=tuple(_misread(asked, heads, groups, width)),
        working=(
            f"{heads} / {groups} = {heads // groups} query heads share one key/value head",
            *(f"query head {h + 1} is in group {group_of(h, heads, groups) + 1}" for h in asked),
            f"keys and values: 2 * {groups} * {width} = {2 * groups * width}",
        ),
    )


def _numbers(read: list[int], cached: int) -> Numbers:
    return whole(*read, cached)


def _misread(asked: tuple[int, ...], heads: int, groups: int, width: int) -> list[Misconception]:
    right, cached = [group_of(h, heads, groups) + 1 for h in asked], 2 * groups * width
    share, begins = heads // groups, "That is what you get when "
    tiled, first = [h % groups + 1 for h in asked], [1] * len(asked)
    found = [
        fault(
            "grouped-order:tiled",
            _numbers(tiled, cached),
            f"{begins}the {groups} key/value heads are dealt out in turn, 1, 2, ...; neighbours "
            f"share: the first {share} query heads read the first.",
        ),
        fault(
            "grouped-order:first",
            _numbers(first, cached),
            f"{begins}all query heads read the first; there are {groups}.",
        ),
        slip(
            "counted-from-zero",
            _numbers([g - 1 for g in right], cached),
            f"{begins}key/value heads count from 0; here they count from 1.",
        ),
        slip(
            "own-key-value-head",
            _numbers([h + 1 for h in asked], 2 * heads * width),
            f"{begins}every query head has a key/value head of its own; {share} share one.",
        ),
        *_miscached(right, heads, groups, width),
    ]
    if groups == share:
        return found
    shared = _numbers([h // groups + 1 for h in asked], cached)
    says = f"{begins}{groups} query heads share one; {share} do."
    return [*found, slip("shares-by-groups", shared, says)]


def _miscached(right: list[int], heads: int, groups: int, width: int) -> list[Misconception]:
    return [
        slip(
            "cache-for-every-query-head",
            _numbers(right, 2 * heads * width),
            f"The heads are right; the cache holds {groups} key/value heads, not {heads}.",
        ),
        slip(
            "forgot-values",
            _numbers(right, groups * width),
            "The heads are right; the cache holds keys and values, so twice as much.",
        ),
    ]
