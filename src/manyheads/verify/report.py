"""A report: as text in 80 columns, as HTML, and as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from manyheads.core.errors import ConfigError
from manyheads.core.files import reason_of, write_whole
from manyheads.core.tables import Table, html_from_table
from manyheads.core.text import brief, printable
from manyheads.verify.findings import CheckResult, Finding, Verdict
from manyheads.verify.subject import Subject

REACHED, NOT_REACHED = "#", "."
_MOST = 16
_LEGEND = (
    f"rows are output positions, columns input positions; {REACHED} = the input reaches the output"
)


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """The report on one subject; it has a text form for terminals and an HTML form for Jupyter."""

    id: str | None
    """As declared."""
    target: str
    """As declared."""
    verdict: Verdict
    """sound, faulty or undetermined."""
    inferred: dict[str, Any]
    """What was inferred because it was not declared."""
    findings: tuple[Finding, ...]
    """The most likely fault first."""
    checks: tuple[CheckResult, ...]
    """In the order of the run."""
    seconds: float
    """Wall time."""

    @property
    def is_sound(self) -> bool:
        """Whether no error was found and the checks could be made."""
        return self.verdict == "sound"

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return asdict(self)

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def __str__(self) -> str:
        """The report in 80 columns."""
        return text_from_report(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The report for Jupyter."""
        return html_from_report(self)


def undetermined(
    subject: Subject | None,
    reason: str,
    *,
    fix: str = "",
    seconds: float = 0.0,
    inferred: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """The report of a subject that could not be checked.

    Args:
        subject: the subject; None where not even that could be read.
        reason: one plain sentence.
        fix: what to do about it.
        seconds: wall time spent on it, in seconds.
        inferred: what was inferred before.
    """
    finding = Finding(fault=None, check="runs", severity="warning", says=reason, fix=fix)
    return VerifyReport(
        id=None if subject is None else subject.id,
        target="" if subject is None else subject.target,
        verdict="undetermined",
        inferred=dict(inferred or {}),
        findings=(finding,),
        checks=(),
        seconds=seconds,
    )


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A table of which inputs reach which outputs."""

    cells: tuple[tuple[bool, ...], ...]
    """One row per output position, one column per input position."""
    rows: tuple[str, ...]
    """Label of each row."""
    columns: tuple[str, ...]
    """Label of each column."""
    note: str = ""
    """Note on rows and columns that were left out."""


def picture_from_evidence(evidence: Mapping[str, Any]) -> Picture | None:
    """The picture in a finding's evidence, or None.

    Args:
        evidence: with `influence`, a list of rows of numbers (one row per output position, one
            column per input position; 0 if the input does not reach the output), and optionally
            their labels `rows` and `columns`.
    """
    values = evidence.get("influence")
    if values is None or not _is_matrix(values):
        return None
    height, width = len(values), len(values[0])
    left_out = []
    if height > _MOST:
        left_out.append(f"outputs {_MOST + 1} to {height}")
    if width > _MOST:
        left_out.append(f"inputs {_MOST + 1} to {width}")
    return Picture(
        cells=tuple(tuple(bool(cell) for cell in row[:_MOST]) for row in values[:_MOST]),
        rows=_labels(evidence.get("rows"), height)[:_MOST],
        columns=_labels(evidence.get("columns"), width)[:_MOST],
        note=f"left out: {', '.join(left_out)}" if left_out else "",
    )


def _is_matrix(values: Any) -> bool:  # noqa: ANN401 - evidence may hold anything
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        return False
    rows = [row for row in values if isinstance(row, Sequence) and not isinstance(row, str)]
    is_even = len(rows) == len(values) and len({len(row) for row in rows}) == 1 and len(rows[0]) > 0
    return is_even and all(isinstance(cell, int | float) for row in rows for cell in row)


def _labels(given: Any, count: int) -> tuple[str, ...]:  # noqa: ANN401 - evidence may hold anything
    is_given = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count
    return (
        tuple(printable(str(label))[:12] for label in given)
        if is_given
        else tuple(str(i + 1) for i in range(count))
    )


def text_from_picture(picture: Picture) -> list[str]:
    """Lines of text: a heading with the input positions, then one line per output position."""
    width = max(map(len, picture.columns))
    left = max(map(len, picture.rows))
    heads = " ".join(label.rjust(width) for label in picture.columns)
    lines = [f"{'input'.rjust(left + 7)}  {heads}"]
    for i, (label, row) in enumerate(zip(picture.rows, picture.cells, strict=True)):
        marks = " ".join((REACHED if cell else NOT_REACHED).rjust(width) for cell in row)
        lines.append(f"{'' if i else 'output':<6} {label.rjust(left)}  {marks}")
    return [*lines, f"({_LEGEND}{'; ' + picture.note if picture.note else ''})"]


def html_from_picture(picture: Picture) -> str:
    """A table whose cells also say in words which inputs reach which outputs."""
    heads = "".join(f"<th scope='col'>{escape(label)}</th>" for label in picture.columns)
    rows = "".join(
        f"<tr><th scope='row'>{escape(label)}</th>{''.join(map(_html_cell, row))}</tr>"
        for label, row in zip(picture.rows, picture.cells, strict=True)
    )
    note = f"; {escape(picture.note)}" if picture.note else ""
    return (
        f"<table class='mh-picture'><caption>{escape(_LEGEND)}{note}</caption>"
        f"<thead><tr><th scope='col'>output \\ input</th>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _html_cell(reached: bool) -> str:
    if reached:
        return f"<td class='mh-reached' title='reaches'>{REACHED}</td>"
    return f"<td title='does not reach'>{NOT_REACHED}</td>"


WIDTH = 80
_OUTPUT_LINES = 4
_NOT_LISTED = {"influence", "rows", "columns", "output"}


def text_from_report(report: VerifyReport) -> str:
    """One report as text, with control characters escaped.

    Args:
        report: the report on one subject.
    """
    lines = [*_wrapped(heading(report), "")]
    lines += understood_lines(report.inferred)
    for number, finding in enumerate(report.findings, start=1):
        lines += ["", *_finding_lines(number, finding)]
    lines += ["", *_check_lines(report.checks)] if report.checks else []
    return "\n".join([*lines, "", f"Verdict: {report.verdict}, in {report.seconds:.2f} s."])


def text_from_reports(reports: Sequence[VerifyReport]) -> str:
    """A manifest's reports: in full if the verdict is not sound, then a table of all."""
    full = [text_from_report(report) for report in reports if report.verdict != "sound"]
    parts = [f"{text}\n{'-' * WIDTH}" for text in full]
    return "\n".join([*parts, *_text_table(reports), "", summary(reports)])


def heading(report: VerifyReport) -> str:
    """The verdict and the subject, in one line."""
    name = f"{report.id}: {report.target}" if report.id else report.target
    return clean(f"{report.verdict.upper()}: {name}".rstrip(": "))


def summary(reports: Sequence[VerifyReport]) -> str:
    """Number of subjects with each verdict, and their total time."""
    verdicts = [report.verdict for report in reports]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("sound", "faulty", "undetermined"))
    noun = "subject" if len(reports) == 1 else "subjects"
    return f"{len(reports)} {noun}: {counts}; {sum(r.seconds for r in reports):.1f} s of work."


def first_fault(report: VerifyReport) -> str:
    """A word or two on the first finding, for a table."""
    if not report.findings:
        return ""
    first = report.findings[0]
    name = first.fault or (first.says if report.verdict == "undetermined" else first.check)
    return clean(name if first.severity != "note" else f"note: {name}")


def understood_lines(inferred: Mapping[str, Any]) -> list[str]:
    """What was inferred because it was not declared."""
    lines = ["", "Inferred:"] if inferred else []
    for name, words in understood(inferred):
        text = f"{name}: {words}"
        lines += wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def understood(inferred: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same as pairs: the field that would declare it, and what was understood."""
    pairs = ((name, item) for name, item in inferred.items() if name != "notes")
    return [(clean(name), clean(_phrase(item))) for name, item in pairs]


def _phrase(item: Any) -> str:  # noqa: ANN401 - whatever was inferred
    is_joined = isinstance(item, Mapping | list | tuple) and len(item) > 0
    return _value(item)[1:-1] if is_joined else _value(item)


def _words(name: str) -> str:
    return str(name).replace("_", " ").replace(".", " ")


def _value(item: Any) -> str:  # noqa: ANN401 - whatever was inferred
    if isinstance(item, Mapping):
        return "(" + ", ".join(f"{key} {_value(part)}" for key, part in item.items()) + ")"
    if isinstance(item, list | tuple):
        return "(" + ", ".join(map(_value, item)) + ")" if item else "none"
    if isinstance(item, float):
        return f"{item:.5g}"
    return {"None": "none", "True": "yes", "False": "no"}.get(str(item), str(item))


def _finding_lines(number: int, finding: Finding) -> list[str]:
    name = finding.fault or finding.check
    lines = [clean(f"{number}. {name} ({finding.severity})")]
    lines += _wrapped(finding.says, "   ")
    numbers = evidence_text(finding.evidence)
    lines += _wrapped(f"Measured: {numbers}.", "   ") if numbers else []
    picture = picture_from_evidence(finding.evidence)
    if picture is not None:
        drawn = text_from_picture(picture)
        lines += ["", *(f"     {line}" for line in drawn[:-1])]
        lines += [*_wrapped(drawn[-1], "     "), ""]
    printed = output_lines(finding.evidence)
    lines += (
        ["   It printed:", *(f"     {line[: WIDTH - 5]}" for line in printed)] if printed else []
    )
    return lines + (_wrapped(f"Fix: {finding.fix}", "   ") if finding.fix else [])


def evidence_text(evidence: Mapping[str, Any]) -> str:
    """The numbers of a finding in one phrase, without those of the picture."""
    items = [(k, v) for k, v in evidence.items() if k not in _NOT_LISTED and _is_short(v)]
    return clean("; ".join(f"{_words(key)} {_value(item)}" for key, item in items))


def _is_short(value: Any) -> bool:  # noqa: ANN401 - evidence may hold anything
    return value not in (None, "", [], {}) and len(str(value)) <= 160


def output_lines(evidence: Mapping[str, Any]) -> list[str]:
    """First and last lines of the subject's output, which may explain a missing verdict."""
    printed = str(evidence.get("output") or "").splitlines()
    lines = [printable(line.expandtabs(4)) for line in printed if line.strip()]
    if len(lines) > 2 * _OUTPUT_LINES:
        lines = [*lines[:_OUTPUT_LINES], "...", *lines[-_OUTPUT_LINES:]]
    return lines


def _check_lines(checks: Sequence[CheckResult]) -> list[str]:
    counts = ", ".join(
        f"{sum(check.status == status for check in checks)} {status}"
        for status in ("passed", "failed", "skipped")
    )
    lines = [f"Checked: {counts}."]
    for check in checks:
        figure = "" if check.figure is None else f" [{check.figure:.3g}]"
        why = f": {check.why}" if check.why and check.status != "failed" else ""
        text = clean(f"{check.status:<7} {check.name}{why}{figure}")
        lines += wrap(text, WIDTH, initial_indent="  ", subsequent_indent=" " * 10) or []
    return lines


def _text_table(reports: Sequence[VerifyReport]) -> list[str]:
    names = [brief(clean(report.id or report.target or "(unreadable)"), 30) for report in reports]
    left = max(len("subject"), *map(len, names)) if names else len("subject")
    room = WIDTH - left - 2 - 12 - 2 - 7 - 2
    lines = [f"{'subject':<{left}}  {'verdict':<12}  {'seconds':>7}  first finding"]
    for name, report in zip(names, reports, strict=True):
        fault = brief(first_fault(report), room)
        line = f"{name:<{left}}  {report.verdict:<12}  {report.seconds:>7.2f}  {fault}"
        lines.append(line.rstrip())
    return lines


def clean(text: str) -> str:
    """The text on one line, with control characters escaped."""
    return printable(" ".join(str(text).split()))


def _wrapped(text: str, indent: str) -> list[str]:
    text = clean(text)
    return wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
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


def html_from_report(report: VerifyReport) -> str:
    """One report as a piece of a page, for Jupyter."""
    return f"<div class='mh-report'><style>{_STYLE}</style>{_html_section(report)}</div>"


def page_from_reports(reports: Sequence[VerifyReport]) -> str:
    """A complete page: a table of all reports if there are several, then each report."""
    title = heading(reports[0]) if len(reports) == 1 else summary(reports)
    table = _html_table(reports) if len(reports) > 1 else ""
    sections = "".join(map(_html_section, reports))
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>manyheads check: {escape(title)}</title>"
        f"<style>{_PAGE_STYLE}{_STYLE}</style></head><body><main class='mh-report'>"
        f"<h1>manyheads check</h1>{table}{sections}</main></body></html>\n"
    )


def write_page(path: Path, reports: Sequence[VerifyReport]) -> None:
    """Write `page_from_reports` to a file, under a temporary name that is then renamed.

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


def _html_section(report: VerifyReport) -> str:
    seconds = f"Verdict: {report.verdict}, in {report.seconds:.2f} s."
    said = _understood(report) if report.inferred else ""
    findings = "".join(_html_finding(i, f) for i, f in enumerate(report.findings, start=1))
    checks = _html_checks(report.checks) if report.checks else ""
    verdict = f"<h2 class='mh-verdict mh-{escape(report.verdict)}'>{escape(heading(report))}</h2>"
    return f"<section>{verdict}{said}{findings}{checks}<p>{escape(seconds)}</p></section>"


def _understood(report: VerifyReport) -> str:
    items = "".join(
        f"<li>{escape(name)}: {escape(words)}</li>" for name, words in understood(report.inferred)
    )
    return f"<p>Inferred:</p><ul>{items}</ul>"


def _html_finding(number: int, finding: Finding) -> str:
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


def _html_checks(checks: Sequence[CheckResult]) -> str:
    table = Table(
        title="What was checked, and what was skipped and why",
        columns=("check", "status", "why", "figure"),
        rows=tuple(
            (clean(c.name), c.status, clean(c.why), "" if c.figure is None else f"{c.figure:.3g}")
            for c in checks
        ),
    )
    return f"<div class='mh-wide'>{html_from_table(table)}</div>"


def _html_table(reports: Sequence[VerifyReport]) -> str:
    table = Table(
        title=summary(reports),
        columns=("subject", "verdict", "seconds", "first finding"),
        rows=tuple(
            (clean(r.id or r.target), r.verdict, f"{r.seconds:.2f}", first_fault(r))
            for r in reports
        ),
    )
    return f"<div class='mh-wide'>{html_from_table(table)}</div>"


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a report holds
    """The value for JSON: numbers that are not finite and objects become text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if value is None or isinstance(value, str | bool | int):
        return value
    as_list = getattr(value, "tolist", None)
    return plain(as_list()) if callable(as_list) else str(value)


def report_from_dict(value: Mapping[str, Any]) -> VerifyReport:
    """A report from the result of `VerifyReport.to_dict`.

    Raises:
        KeyError: a field is missing.
        TypeError: a finding or check has other fields.
    """
    given = {field.name: value[field.name] for field in fields(VerifyReport)}
    given["findings"] = tuple(Finding(**finding) for finding in given["findings"])
    given["checks"] = tuple(CheckResult(**check) for check in given["checks"])
    return VerifyReport(**given)
