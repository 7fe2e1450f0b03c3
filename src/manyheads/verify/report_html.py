"""Reports as HTML: the same content as the text, every word of it escaped, no scripts."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from manyheads.core.errors import ConfigError
from manyheads.core.files import reason_of, write_whole
from manyheads.verify.findings import CheckResult, Finding, ReportFields
from manyheads.verify.report_picture import html_from_picture, picture_from_evidence
from manyheads.verify.report_text import (
    clean,
    evidence_text,
    first_fault,
    heading,
    output_lines,
    summary,
    understood,
)

_STYLE = """
.mh-report{line-height:1.5;max-width:60rem}
.mh-report h2,.mh-report h3{margin:1.2em 0 .3em}
.mh-report table{border-collapse:collapse;margin:.5em 0}
.mh-report caption{text-align:left;font-size:.85em}
.mh-report th,.mh-report td{border:1px solid #8886;padding:.15em .5em}
.mh-report th,.mh-report td{text-align:left;vertical-align:top}
.mh-report .mh-picture td{font-family:monospace;text-align:center}
.mh-report .mh-reached{background:#2b6cb0;color:#fff}
.mh-report .mh-verdict{border-left:.4em solid;padding-left:.6em}
.mh-report .mh-sound{border-color:#2f855a}
.mh-report .mh-faulty{border-color:#c53030}
.mh-report .mh-undetermined{border-color:#b7791f}
.mh-report pre{white-space:pre-wrap}
"""
_PAGE_STYLE = """
:root{color-scheme:light dark}
body{font-family:system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem}
body{background:#fff;color:#1a202c}
.mh-wide{overflow-x:auto}
@media (prefers-color-scheme:dark){body{background:#14181f;color:#e6e9ef}}
"""


def html_from_report(report: ReportFields) -> str:
    """One report as a piece of a page, for Jupyter."""
    return f"<div class='mh-report'><style>{_STYLE}</style>{_section(report)}</div>"


def page_from_reports(reports: Sequence[ReportFields]) -> str:
    """A page that stands alone: a table of all reports where there are several, then each."""
    title = heading(reports[0]) if len(reports) == 1 else summary(reports)
    table = _table(reports) if len(reports) > 1 else ""
    sections = "".join(map(_section, reports))
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>manyheads check: {escape(title)}</title>"
        f"<style>{_PAGE_STYLE}{_STYLE}</style></head><body><main class='mh-report'>"
        f"<h1>manyheads check</h1>{table}{sections}</main></body></html>\n"
    )


def write_page(path: Path, reports: Sequence[ReportFields]) -> None:
    """Write `page_from_reports` to a file, whole or not at all.

    Raises:
        ConfigError: the file cannot be written.
    """
    page = page_from_reports(reports).encode(errors="backslashreplace")
    try:
        write_whole(path, page)
    except OSError as error:
        raise ConfigError(
            f"--html ({path}) cannot be written: {reason_of(error)}: choose another place"
        ) from error


def _section(report: ReportFields) -> str:
    seconds = f"Verdict: {report.verdict}, in {report.seconds:.2f} s."
    said = _understood(report) if report.inferred else ""
    findings = "".join(_finding(i, f) for i, f in enumerate(report.findings, start=1))
    checks = _checks(report.checks) if report.checks else ""
    verdict = f"<h2 class='mh-verdict mh-{escape(report.verdict)}'>{escape(heading(report))}</h2>"
    return f"<section>{verdict}{said}{findings}{checks}<p>{escape(seconds)}</p></section>"


def _understood(report: ReportFields) -> str:
    items = "".join(
        f"<li>{escape(name)}: {escape(words)}</li>" for name, words in understood(report.inferred)
    )
    return f"<p>I understood:</p><ul>{items}</ul>"


def _finding(number: int, finding: Finding) -> str:
    name = clean(f"{number}. {finding.fault or finding.check} ({finding.severity})")
    parts = [f"<h3>{escape(name)}</h3><p>{escape(clean(finding.says))}</p>"]
    numbers = evidence_text(finding.evidence)
    if numbers:
        parts.append(f"<p>Measured: {escape(numbers)}.</p>")
    picture = picture_from_evidence(finding.evidence)
    if picture is not None:
        parts.append(f"<div class='mh-wide'>{html_from_picture(picture)}</div>")
    printed = output_lines(finding.evidence)
    if printed:
        parts.append(f"<p>It printed:</p><pre>{escape(chr(10).join(printed))}</pre>")
    if finding.fix:
        parts.append(f"<p><strong>Fix:</strong> {escape(clean(finding.fix))}</p>")
    return "".join(parts)


def _checks(checks: Sequence[CheckResult]) -> str:
    rows = "".join(
        f"<tr><td>{escape(check.status)}</td><th scope='row'>{escape(clean(check.name))}</th>"
        f"<td>{escape(clean(check.why))}</td>"
        f"<td>{'' if check.figure is None else f'{check.figure:.3g}'}</td></tr>"
        for check in checks
    )
    heads = "".join(f"<th scope='col'>{name}</th>" for name in ("status", "check", "why", "figure"))
    return (
        "<div class='mh-wide'><table>"
        "<caption>What was checked, and what was skipped and why</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _table(reports: Sequence[ReportFields]) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{escape(clean(report.id or report.target))}</th>"
        f"<td>{escape(report.verdict)}</td><td>{report.seconds:.2f}</td>"
        f"<td>{escape(first_fault(report))}</td></tr>"
        for report in reports
    )
    names = ("subject", "verdict", "seconds", "first finding")
    heads = "".join(f"<th scope='col'>{name}</th>" for name in names)
    return (
        f"<div class='mh-wide'><table><caption>{escape(summary(reports))}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
