"""Kind `grouped-heads`: which key/value head a query head reads, and what a position caches."""

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Kind, Misconception, facts, fault, slip, whole

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
    read, cached = [group_of(h, heads, groups) + 1 for h in asked], 2 * groups * width
    names = ", ".join(str(h + 1) for h in asked)
    return Draft(
        prompt=(
            "Neighbouring query heads share a key/value head, in groups of equal size; all heads "
            f"count from 1. Which key/value head do query heads {names} read? And how many numbers "
            "does one position add to the cache of one layer?"
        ),
        given=(facts({"query heads": heads, "key/value heads": groups, "head width": width}),),
        asks=(
            *(f"key/value head of query head {h + 1}" for h in asked),
            "numbers cached per position",
        ),
        answer=whole(*read, cached),
        misconceptions=tuple(_misread(asked, heads, groups, width)),
        working=(
            f"{heads} / {groups} = {heads // groups} query heads share one key/value head",
            *(
                f"query head {h + 1} reads key/value head {g}"
                for h, g in zip(asked, read, strict=True)
            ),
            f"keys and values: 2 * {groups} * {width} = {cached}",
        ),
    )


GROUPED_HEADS = Kind(
    name="grouped-heads",
    title="Grouped query heads",
    summary="which key/value head a query head reads, and what one position caches",
    stream=112,
    draw=draw,
)


def _misread(asked: tuple[int, ...], heads: int, groups: int, width: int) -> list[Misconception]:
    right, cached = [group_of(h, heads, groups) + 1 for h in asked], 2 * groups * width
    share, begins = heads // groups, "That is what you get when"
    found = [
        fault(
            "grouped-order:tiled",
            whole(*(h % groups + 1 for h in asked), cached),
            f"{begins} query heads take the {groups} key/value heads in turn; neighbours share: "
            f"the first {share} query heads read the first key/value head.",
        ),
        fault(
            "grouped-order:first",
            whole(*[1] * len(asked), cached),
            f"{begins} all query heads read the first key/value head; there are {groups}.",
        ),
        slip(
            "counted-from-zero",
            whole(*(group - 1 for group in right), cached),
            f"{begins} key/value heads count from 0; here they count from 1.",
        ),
        slip(
            "own-key-value-head",
            whole(*(h + 1 for h in asked), 2 * heads * width),
            f"{begins} every query head has its own key/value head; {share} query heads share one.",
        ),
        *_miscached(right, heads, groups, width),
    ]
    if groups == share:
        return found
    says = f"{begins} {groups} query heads share one key/value head; {share} share one."
    by_groups = whole(*(h // groups + 1 for h in asked), cached)
    return [*found, slip("shares-by-groups", by_groups, says)]


def _miscached(right: list[int], heads: int, groups: int, width: int) -> list[Misconception]:
    begins = "The heads are right; the cache holds"
    return [
        slip(
            "cache-for-every-query-head",
            whole(*right, 2 * heads * width),
            f"{begins} {groups} key/value heads, not {heads}.",
        ),
        slip(
            "forgot-values",
            whole(*right, groups * width),
            f"{begins} keys and values, so twice as many numbers.",
        ),
    ]
