"""A report as HTML: a piece for Jupyter, or a page without scripts and without a network."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from manyheads.core.errors import ConfigError
from manyheads.core.files import reason_of, write_whole
from manyheads.core.tables import Table, html_from_table
from manyheads.verify.findings import Finding, Result, Where
from manyheads.verify.place import AROUND, Excerpt, excerpt
from manyheads.verify.report_picture import ALL_REACHED, Picture, html_from_picture
from manyheads.verify.report_words import (
    MEANINGS,
    check_reason,
    clean,
    entry_words,
    evidence_words,
    finding_title,
    first_fault,
    heading,
    last_words,
    new_parts,
    output_lines,
    path_and_line,
    place_words,
    problem_words,
    step_rows,
    summary,
    understood,
    unseen_words,
)

STYLE = """
.mh-report{line-height:1.5;max-width:60rem}
.mh-report h2,.mh-report h3{margin:1.2em 0 .3em}
.mh-report p,.mh-report ul{margin:.3em 0}
.mh-report table{border-collapse:collapse;margin:.5em 0}
.mh-report caption{text-align:left;font-weight:600}
.mh-report .mh-picture caption{font-size:.85em;font-weight:400}
.mh-report th,.mh-report td{border:1px solid #8886;padding:.15em .5em}
.mh-report th,.mh-report td{text-align:left;vertical-align:top}
.mh-report .mh-picture td{font-family:monospace;text-align:center}
.mh-report .mh-reached{background:#2b6cb0;color:#fff}
.mh-report .mh-verdict{border-left:.4em solid;padding-left:.6em;overflow-wrap:anywhere}
.mh-report .mh-sound,.mh-report .mh-equal{border-color:#2f855a}
.mh-report .mh-nonstandard{border-color:#6b46c1}
.mh-report .mh-faulty,.mh-report .mh-different{border-color:#c53030}
.mh-report .mh-undetermined{border-color:#b7791f}
.mh-report pre{white-space:pre-wrap}
.mh-report figure{margin:.6em 0}
.mh-report figcaption{font-family:monospace;overflow-wrap:anywhere}
.mh-report .mh-source{white-space:pre;overflow-x:auto;margin:0;padding:.4em 0;line-height:1.35}
.mh-report .mh-source{border:1px solid #8886}
.mh-report .mh-source>*{display:block;padding:0 .6em}
.mh-report .mh-source>*{width:max-content;min-width:100%;box-sizing:border-box}
.mh-report .mh-pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1rem}
.mh-report .mh-pair>*{min-width:0}
.mh-report .mh-source mark{background:#e5393526;box-shadow:inset .3em 0 #e53935;color:inherit}
"""
_PAGE_STYLE = """
:root{color-scheme:light dark}
body{font-family:system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem}
body{background:#fff;color:#1a202c}
.mh-wide{overflow-x:auto}
@media (prefers-color-scheme:dark){body{background:#14181f;color:#e6e9ef}}
"""


def html_from_report(result: Result) -> str:
    """One report as a piece of a page, for Jupyter."""
    return f"<div class='mh-report'><style>{STYLE}</style>{_section(result)}</div>"


def page_from_reports(results: Sequence[Result]) -> str:
    """A complete page: a table of all reports if there are several, then each report."""
    title = heading(results[0]) if len(results) == 1 else summary(results)
    table = _overview(results) if len(results) > 1 else ""
    sections = "".join(map(_section, results))
    return page_of("manyheads check", title, f"{table}{sections}")


def page_of(command: str, title: str, body: str) -> str:
    """A complete page.

    Args:
        command: the command that writes it.
        title: of the window.
        body: HTML below the heading.
    """
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{command}: {escape(title)}</title>"
        f"<style>{_PAGE_STYLE}{STYLE}</style></head><body><main class='mh-report'>"
        f"<h1>{command}</h1>{body}</main></body></html>\n"
    )


def write_page(path: Path, page: str) -> None:
    """Write a page to a file, under a temporary name that is then renamed.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        write_whole(path, page.encode(errors="backslashreplace"))
    except OSError as error:
        raise ConfigError(
            f"--html ({path}) cannot be written: {reason_of(error)}: choose another place"
        ) from error


def _section(result: Result) -> str:
    title = f"<h2 class='mh-verdict mh-{escape(result.verdict)}'>{escape(heading(result))}</h2>"
    pairs = zip(result.findings, new_parts(result.findings), strict=True)
    parts = [title, paragraph(MEANINGS[result.verdict])]
    parts += [_finding(i, f, *new) for i, (f, new) in enumerate(pairs, start=1)]
    parts.append(_steps(result) if not result.is_sound else "")
    parts += [_understood(result), _checks(result), _limits(result.limits)]
    return f"<section>{''.join(parts)}{paragraph(last_words(result))}</section>"


def paragraph(text: str, name: str = "") -> str:
    """One paragraph, with a name in bold in front."""
    label = f"<strong>{escape(name)}:</strong> " if name else ""
    return f"<p>{label}{escape(clean(text))}</p>" if text else ""


def _finding(number: int, finding: Finding, where: Where | None, picture: Picture | None) -> str:
    parts = [f"<h3>{escape(finding_title(number, finding))}</h3>", paragraph(finding.says)]
    if where is not None:
        parts += [paragraph(place_words(where)), source_figure(where)]
        parts.append(paragraph(entry_words(finding)))
    if picture is not None:
        drawn = paragraph(ALL_REACHED) if picture.is_full else html_from_picture(picture)
        parts.append(f"<div class='mh-wide'>{drawn}</div>")
    printed = output_lines(finding.evidence)
    if printed:
        parts.append(f"<p>It printed:</p><pre>{escape(chr(10).join(printed))}</pre>")
    parts.append(paragraph(finding.fix, "Fix"))
    parts.append(paragraph(evidence_words(finding.evidence), "Measured"))
    parts.append(paragraph(problem_words(finding.evidence), "Seen with"))
    return "".join(parts)


def source_figure(where: Where, around: int = AROUND) -> str:
    """The file and the lines around a place; its code alone where the file cannot be read."""
    seen = excerpt(where, around)
    if seen is None and where.code:
        seen = Excerpt(first=where.line or 1, lines=(clean(where.code),), marked=where.line or 1)
    if seen is None:
        return paragraph(path_and_line(where))
    last = seen.first + len(seen.lines) - 1
    rows = []
    for number, line in enumerate(seen.lines, start=seen.first):
        is_marked = number == seen.marked
        text = escape(f"{'>' if is_marked else ' '} {number:>{len(str(last))}}  {line}")
        rows.append(f"<mark>{text}</mark>" if is_marked else f"<code>{text}</code>")
    caption = f"<figcaption>{escape(path_and_line(where))}</figcaption>"
    return f"<figure>{caption}<pre class='mh-source'>{''.join(rows)}</pre></figure>"


def _steps(result: Result) -> str:
    rows = tuple(step_rows(result.steps))
    table = html_table("Steps", ("step", "status", "line", "how"), rows) if rows else ""
    return table + paragraph(unseen_words(result.steps))


def _understood(result: Result) -> str:
    pairs = understood(result.inferred)
    items = "".join(f"<li>{escape(name)}: {escape(words)}</li>" for name, words in pairs)
    return f"<p><strong>I understood:</strong></p><ul>{items}</ul>" if items else ""


def _checks(result: Result) -> str:
    rows = tuple(
        (
            clean(check.name),
            check.status,
            check_reason(check, result.findings),
            "" if check.figure is None else f"{check.figure:.3g}",
        )
        for check in result.checks
    )
    title = "What was checked, and what was skipped and why"
    return html_table(title, ("check", "status", "why", "figure"), rows) if rows else ""


def _limits(limits: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(clean(text))}</li>" for text in limits)
    return f"<p><strong>Limits:</strong></p><ul>{items}</ul>" if items else ""


def _overview(results: Sequence[Result]) -> str:
    rows = tuple(
        (clean(r.id or r.target), r.verdict, f"{r.seconds:.2f}", first_fault(r)) for r in results
    )
    return html_table(summary(results), ("subject", "verdict", "seconds", "first finding"), rows)


def html_table(title: str, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    """One table, which scrolls where it is too wide."""
    table = html_from_table(Table(title=title, columns=columns, rows=rows))
    return f"<div class='mh-wide'>{table}</div>"
