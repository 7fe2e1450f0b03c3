"""A comparison as text for a terminal of 80 columns."""

from collections.abc import Sequence

from manyheads.core.tables import WIDTH, wrapped
from manyheads.core.text import brief
from manyheads.verify.comparison import Compared, Source
from manyheads.verify.comparison_words import (
    entry_words,
    heading,
    last_words,
    left_out_words,
    map_rows,
    place_words,
    problem_rows,
    rounding_words,
    step_rows,
    summary,
    weights_words,
)
from manyheads.verify.report_words import clean, understood

_IN = "   "


def text_from_comparison(c: Compared, *, with_map: bool = False) -> str:
    """A comparison as text, with control characters escaped.

    Args:
        c: the comparison.
        with_map: whether to show which parameter corresponds to which.
    """
    blocks = [
        [*_wrapped(heading(c)), *_wrapped(summary(c))],
        _departure(c),
        _table("Steps:", ("step", "status", "gap", "line of a", "line of b"), step_rows(c)),
        _wrapped(weights_words(c)),
        _table("Map:", ("weight", "a", "b", ""), map_rows(c)) if with_map else [],
        _table("Problems:", ("given to both", "gap"), problem_rows(c)),
        _wrapped(left_out_words(c)),
        _wrapped(rounding_words(c)),
        *(_understood(c, side) for side in ("a", "b") if c.verdict == "undetermined"),
        [last_words(c)],
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _wrapped(text: str) -> list[str]:
    return wrapped(text, later="")


def _departure(c: Compared) -> list[str]:
    """Both lines, and one number of both."""
    step = c.departure
    if step is None:
        return []
    entry = entry_words(step)
    return [
        *_source("a", step.a),
        *_source("b", step.b),
        *(wrapped(entry, _IN) if entry else []),
    ]


def _source(side: str, source: Source | None) -> list[str]:
    if source is None:
        return [f"{_IN}{side}: the line was not seen"]
    code = brief(f"{_IN}     {source.line} | {clean(source.code)}", WIDTH)
    return [f"{_IN}{side}: {place_words(source)}", code]


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    every = [columns, *rows] if len(columns) > 2 else rows
    widths = [max(len(row[i]) for row in every) for i in range(len(columns))]
    lines = ["  ".join(f"{x:<{n}}" for x, n in zip(row, widths, strict=True)) for row in every]
    return [title, *(f"  {line}".rstrip() for line in lines)]


def _understood(c: Compared, side: str) -> list[str]:
    pairs = understood(c.inferred.get(side, {}))
    lines = [line for name, words in pairs for line in wrapped(f"{name}: {words}", "  ")]
    return [f"I understood of {side}:", *lines] if lines else []
