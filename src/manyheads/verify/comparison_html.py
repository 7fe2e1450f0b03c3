"""A comparison as HTML: a piece for Jupyter, or a page with both sources next to each other."""

from collections.abc import Sequence
from html import escape

from manyheads.verify.comparison import Compared, Source
from manyheads.verify.comparison_words import (
    entry_words,
    heading,
    last_words,
    left_out_words,
    map_rows,
    problem_rows,
    rounding_words,
    step_rows,
    summary,
    weights_words,
)
from manyheads.verify.findings import Where
from manyheads.verify.report_html import STYLE, html_table, page_of, paragraph, source_figure
from manyheads.verify.report_words import understood

_MOST_AROUND = 60
_MARGIN = 3


def html_from_comparison(c: Compared) -> str:
    """A comparison as a piece of a page, for Jupyter."""
    return f"<div class='mh-report'><style>{STYLE}</style>{_section(c)}</div>"


def page_from_comparison(c: Compared) -> str:
    """A complete page."""
    return page_of("manyheads compare", heading(c), _section(c))


def _section(c: Compared) -> str:
    title = f"<h2 class='mh-verdict mh-{escape(c.verdict)}'>{escape(heading(c))}</h2>"
    parts = [title, paragraph(summary(c)), _sources(c)]
    if c.departure is not None:
        parts.append(paragraph(entry_words(c.departure)))
    columns = ("step", "status", "gap", "line of a", "line of b")
    parts += [
        _rows("Steps", columns, step_rows(c)),
        paragraph(weights_words(c)),
        _rows("Which parameter is which", ("weight", "a", "b", ""), map_rows(c)),
        _rows("What was given to both", ("problem", "gap"), problem_rows(c)),
        paragraph(left_out_words(c)),
        paragraph(rounding_words(c)),
        *(_understood(c, side) for side in ("a", "b")),
    ]
    return f"<section>{''.join(parts)}{paragraph(last_words(c))}</section>"


def _rows(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return html_table(title, columns, tuple(rows)) if rows else ""


def _sources(c: Compared) -> str:
    """Both sources, with the lines at which they depart, else those of the scores."""
    step = c.departure or next((s for s in c.steps if s.a and s.b), None)
    if step is None:
        return ""
    figures = (_figure(c, side, source) for side, source in (("a", step.a), ("b", step.b)))
    return f"<div class='mh-pair'>{''.join(figures)}</div>"


def _figure(c: Compared, side: str, source: Source | None) -> str:
    if source is None or source.line is None:
        return f"<div>{paragraph(f'{side}: the line was not seen')}</div>"
    every = [getattr(step, side) for step in c.steps]
    lines = [s.line for s in every if s is not None and s.line and s.file == source.file]
    around = max(abs(line - source.line) for line in lines) + _MARGIN if lines else _MARGIN
    where = Where(step="", relation="", file=source.file, line=source.line, code=source.code)
    figure = source_figure(where, min(around, _MOST_AROUND))
    return f"<div><strong>{side}</strong>{figure}</div>"


def _understood(c: Compared, side: str) -> str:
    pairs = understood(c.inferred.get(side, {}))
    items = "".join(f"<li>{escape(name)}: {escape(words)}</li>" for name, words in pairs)
    title = f"<p><strong>I understood of {side}:</strong></p>"
    return f"{title}<ul>{items}</ul>" if items else ""
