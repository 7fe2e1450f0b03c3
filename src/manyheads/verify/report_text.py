"""A report as text for a terminal of 80 columns."""

from collections.abc import Sequence
from textwrap import wrap

from manyheads.core.tables import WIDTH
from manyheads.core.text import brief
from manyheads.verify.findings import STATUSES, CheckResult, Finding, Result, Step, Where
from manyheads.verify.report_picture import ALL_REACHED, Picture, text_from_picture
from manyheads.verify.report_words import (
    MEANINGS,
    check_counts,
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

_IN = "   "
_VERDICT_WIDTH = 12


def text_from_report(result: Result) -> str:
    """One report as text, with control characters escaped.

    Paths are not broken, so that a terminal can open them: a line with a long path may be longer
    than 80 columns.

    Args:
        result: the report on one subject.
    """
    blocks = [[*_wrapped(heading(result), ""), *_wrapped(MEANINGS[result.verdict], "")]]
    parts = zip(result.findings, new_parts(result.findings), strict=True)
    blocks += [_finding(i, f, *new) for i, (f, new) in enumerate(parts, start=1)]
    blocks.append(_steps(result.steps) if not result.is_sound else [])
    blocks.append(_understood(result))
    blocks.append(_checks(result))
    blocks.append(_limits(result.limits))
    blocks.append([last_words(result)])
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def text_from_reports(results: Sequence[Result]) -> str:
    """A manifest's reports: in full if the verdict is not sound, then a table of all."""
    full = [text_from_report(result) for result in results if not result.is_sound]
    parts = [f"{text}\n{'-' * WIDTH}" for text in full]
    return "\n".join([*parts, *_table(results), "", summary(results)])


def _finding(
    number: int, finding: Finding, where: Where | None, picture: Picture | None
) -> list[str]:
    lines = [*_wrapped(finding_title(number, finding), ""), *_wrapped(finding.says, _IN)]
    lines += _place(finding, where) if where is not None else []
    lines += _picture(picture) if picture is not None else []
    printed = output_lines(finding.evidence)
    lines += [f"{_IN}It printed:"] if printed else []
    lines += [f"{_IN}  {line[: WIDTH - 5]}" for line in printed]
    said = (
        ("Fix", finding.fix),
        ("Measured", evidence_words(finding.evidence)),
        ("Seen with", problem_words(finding.evidence)),
    )
    for name, text in said:
        lines += _wrapped(f"{name}: {text}", _IN, "  ") if text else []
    pairs = zip(lines, [*lines[1:], ""], strict=True)
    return [line for line, following in pairs if line or following]  # one empty line at most


def _place(finding: Finding, where: Where) -> list[str]:
    """The step, the line of code, and one entry."""
    lines = ["", *_wrapped(place_words(where), _IN)]
    path = path_and_line(where)
    lines += [f"{_IN}{path}"] if path else []
    if where.code:
        number = f"{where.line} | " if where.line else ""
        lines.append(brief(f"{_IN}  {number}{clean(where.code)}", WIDTH))
    entry = entry_words(finding)
    return [*lines, *(_wrapped(entry, _IN, "  ") if entry else []), ""]


def _picture(picture: Picture) -> list[str]:
    if picture.is_full:
        return [f"{_IN}{ALL_REACHED}"]
    drawn = text_from_picture(picture)
    lines = ["", *(f"{_IN}  {line}" for line in drawn[:-1])]
    return [*lines, *_wrapped(drawn[-1], f"{_IN}  "), ""]


def _steps(steps: Sequence[Step]) -> list[str]:
    """The table of steps; a remark that is too long goes on below itself."""
    rows = step_rows(steps)
    names, lines = (max((len(row[i]) for row in rows), default=0) for i in (0, 2))
    text = ["Steps:"] if steps else []
    for name, status, line, remark in rows:
        start = f"  {name:<{names}}  {status:<7}  {line:<{lines}}  "
        below = wrap(remark, WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
        text += below or [start.rstrip()]
    return text + _wrapped(unseen_words(steps), "  ", "  ")


def _understood(result: Result) -> list[str]:
    pairs = understood(result.inferred)
    lines = ["I understood:"] if pairs else []
    width = min(20, max((len(name) for name, _ in pairs), default=0))
    for name, words in pairs:
        lines += wrap(
            f"{name:<{width}}  {words}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent=" " * (width + 4),
            break_on_hyphens=False,
        )
    return lines


def _checks(result: Result) -> list[str]:
    """What failed, what passed, and what was skipped, by reason."""
    of = {status: [c for c in result.checks if c.status == status] for status in STATUSES}
    lines = [check_counts(result.checks)] if result.checks else []
    for check in of["failed"]:
        why = check_reason(check, result.findings)
        lines += _check("failed", f"{check.name}: {why}", check)
    if result.is_sound:
        for check in of["passed"]:
            why = f": {check.why}" if check.why else ""
            lines += _check("passed", f"{check.name}{why}", check)
    elif of["passed"]:
        lines += _check("passed", ", ".join(check.name for check in of["passed"]))
    reasons: dict[str, list[str]] = {}
    for check in of["skipped"]:
        reasons.setdefault(check_reason(check, result.findings), []).append(check.name)
    for why, names in reasons.items():
        lines += _check("skipped", f"{', '.join(names)}: {why}")
    return lines


def _check(status: str, text: str, check: CheckResult | None = None) -> list[str]:
    figure = "" if check is None or check.figure is None else f" [{check.figure:.3g}]"
    return wrap(
        clean(f"{text}{figure}"),
        WIDTH,
        initial_indent=f"  {status:<7}  ",
        subsequent_indent=" " * 11,
        break_on_hyphens=False,
    )


def _limits(limits: Sequence[str]) -> list[str]:
    lines = [line for text in limits for line in _wrapped(text, "  ", "  ")]
    return ["Limits:", *lines] if lines else []


def _table(results: Sequence[Result]) -> list[str]:
    names = [brief(clean(r.id or r.target or "(unreadable)"), 30) for r in results]
    left = max(len("subject"), *map(len, names)) if names else len("subject")
    room = WIDTH - left - 2 - _VERDICT_WIDTH - 2 - 7 - 2
    head = f"{'subject':<{left}}  {'verdict':<{_VERDICT_WIDTH}}  {'seconds':>7}  first finding"
    lines = [head]
    for name, result in zip(names, results, strict=True):
        fault = brief(first_fault(result), room)
        verdict = f"{result.verdict:<{_VERDICT_WIDTH}}"
        lines.append(f"{name:<{left}}  {verdict}  {result.seconds:>7.2f}  {fault}".rstrip())
    return lines


def _wrapped(text: str, indent: str, later: str = "") -> list[str]:
    return wrap(
        clean(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + later,
        break_on_hyphens=False,
    )
