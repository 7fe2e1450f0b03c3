"""Reports in 80 columns of text: the verdict first, then why, then what was checked."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from manyheads.core.text import printable
from manyheads.verify.findings import CheckResult, Finding, ReportFields
from manyheads.verify.report_picture import picture_from_evidence, text_from_picture

WIDTH = 80
_OUTPUT_LINES = 4
_NOT_LISTED = {"influence", "rows", "columns", "output"}


def text_from_report(report: ReportFields) -> str:
    """One report in text; nothing in it can steer a terminal.

    Args:
        report: what is known of one subject.
    """
    lines = [*_wrapped(heading(report), "")]
    lines += understood_lines(report.inferred)
    for number, finding in enumerate(report.findings, start=1):
        lines += ["", *_finding_lines(number, finding)]
    lines += ["", *_check_lines(report.checks)] if report.checks else []
    return "\n".join([*lines, "", f"Verdict: {report.verdict}, in {report.seconds:.2f} s."])


def text_from_reports(reports: Sequence[ReportFields]) -> str:
    """A manifest's reports: in full where the verdict is not sound, then a table of all."""
    full = [text_from_report(report) for report in reports if report.verdict != "sound"]
    parts = [f"{text}\n{'-' * WIDTH}" for text in full]
    return "\n".join([*parts, *_table(reports), "", summary(reports)])


def heading(report: ReportFields) -> str:
    """The verdict and whose it is, in one line."""
    name = f"{report.id}: {report.target}" if report.id else report.target
    return clean(f"{report.verdict.upper()}: {name}".rstrip(": "))


def summary(reports: Sequence[ReportFields]) -> str:
    """How many subjects have which verdict, and how long they took together."""
    verdicts = [report.verdict for report in reports]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("sound", "faulty", "undetermined"))
    noun = "subject" if len(reports) == 1 else "subjects"
    return f"{len(reports)} {noun}: {counts}; {sum(r.seconds for r in reports):.1f} s of work."


def first_fault(report: ReportFields) -> str:
    """A word or two on the first finding, for a table."""
    if not report.findings:
        return ""
    first = report.findings[0]
    name = first.fault or (first.says if report.verdict == "undetermined" else first.check)
    return clean(name if first.severity != "note" else f"note: {name}")


def understood_lines(inferred: Mapping[str, Any]) -> list[str]:
    """What was not declared and how it was understood."""
    lines = ["", "I understood:"] if inferred else []
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
    """The numbers of a finding in one phrase, without those that are drawn."""
    items = [(k, v) for k, v in evidence.items() if k not in _NOT_LISTED and _is_short(v)]
    return clean("; ".join(f"{_words(key)} {_value(item)}" for key, item in items))


def _is_short(value: Any) -> bool:  # noqa: ANN401 - evidence may hold anything
    return value not in (None, "", [], {}) and len(str(value)) <= 160


def output_lines(evidence: Mapping[str, Any]) -> list[str]:
    """What the subject printed, where that may say why it has no verdict: first and last lines."""
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


def _table(reports: Sequence[ReportFields]) -> list[str]:
    names = [_cut(clean(report.id or report.target or "(unreadable)"), 30) for report in reports]
    left = max(len("subject"), *map(len, names)) if names else len("subject")
    room = WIDTH - left - 2 - 12 - 2 - 7 - 2
    lines = [f"{'subject':<{left}}  {'verdict':<12}  {'seconds':>7}  first finding"]
    for name, report in zip(names, reports, strict=True):
        fault = _cut(first_fault(report), room)
        line = f"{name:<{left}}  {report.verdict:<12}  {report.seconds:>7.2f}  {fault}"
        lines.append(line.rstrip())
    return lines


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def clean(text: str) -> str:
    """The text on one line, with what a terminal would obey shown as an escape."""
    return printable(" ".join(str(text).split()))


def _wrapped(text: str, indent: str) -> list[str]:
    text = clean(text)
    return wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
