"""The report on one answer: as text, as HTML for notebooks, and as JSON."""

import json
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any, Literal

from manyheads.core.tables import Table, html_from_table, text_from_table, wrapped
from manyheads.core.text import printable
from manyheads.practice.constraints import Kept
from manyheads.verify.findings import Finding, Step, Where
from manyheads.verify.place import Excerpt, excerpt, shown_path
from manyheads.verify.report import plain

_STATUS = {"equal": "right", "departs": "departs here", "not seen": "not seen"}


@dataclass(frozen=True, kw_only=True)
class PracticeReport:
    """The verdict on one answer; prints itself, and shows itself in Jupyter."""

    task: str
    """Name of the task."""
    title: str
    """Its title."""
    solved: bool
    """Whether the answer is right and keeps the constraints."""
    findings: tuple[Finding, ...] = ()
    """What is wrong; empty if solved."""
    steps: tuple[Step, ...] = ()
    """Steps of the solution, and whether the same numbers were seen."""
    constraints: tuple[Kept, ...] = ()
    """Constraints that were checked."""
    seconds: float = 0.0
    """Wall time."""
    card: str = ""
    """The recall card that explains what is wrong."""
    frame: str = ""
    """The frame of the story that explains it."""
    printed: str = ""
    """What the learner's code printed."""
    seed: int | None = None
    """Of a repair task."""

    @property
    def verdict(self) -> Literal["right", "wrong"]:
        """There are two."""
        return "right" if self.solved else "wrong"

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        constraints = [{"name": k.name, "kept": k.kept, "line": k.line} for k in self.constraints]
        return {
            "task": self.task,
            "solved": self.solved,
            "verdict": self.verdict,
            "findings": plain([asdict(finding) for finding in self.findings]),
            "steps": plain([asdict(step) for step in self.steps]),
            "constraints": constraints,
            "seconds": self.seconds,
        }

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def __str__(self) -> str:
        """The report in 80 columns."""
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> list[str]:
        head = "RIGHT" if self.solved else "NOT YET"
        lines = [f"{head}: {self.task} ({self.title})"]
        for finding in self.findings:
            lines += ["", *wrapped(printable(_sentence(finding)), "  ", "")]
            lines += _place_lines(finding.where)
            if finding.fix:
                lines += wrapped(f"Fix: {finding.fix}", "  ", "")
        if self.steps:
            lines += ["", text_from_table(self._table())]
        lines += _constraint_lines(self.constraints)
        if self.printed:
            lines += ["", "  Your code printed:"]
            lines += [f"    {printable(line)}" for line in self.printed.splitlines()[:10]]
        return [*lines, *self._last_lines()]

    def _last_lines(self) -> list[str]:
        if self.solved:
            return [f"  Judged in {self.seconds:.1f} s."]
        links = [f"recall card {self.card}"] if self.card else []
        links += [f"story frame #story/{self.frame}"] if self.frame else []
        lines = ["", *wrapped(f"Explained by: {', '.join(links)}.", "  ", "")] if links else [""]
        seed = "" if self.seed is None else f" --seed {self.seed}"
        return [*lines, f"  A hint: manyheads practice hint {self.task}{seed}"]

    def _table(self) -> Table:
        rows = tuple(
            (step.step, _STATUS[step.status], str(step.line) if step.line else "")
            for step in self.steps
        )
        return Table(title="Steps", columns=("step", "yours", "line"), rows=rows, names=2)

    def _repr_html_(self) -> str:
        """The report for Jupyter."""
        head = "Right" if self.solved else "Not yet"
        parts = [f"<h3>{head}: {escape(self.title)}</h3>"]
        for finding in self.findings:
            parts.append(f"<p>{escape(_sentence(finding))}</p>")
            shown = excerpt(finding.where) if finding.where is not None else None
            if shown is not None:
                parts.append(_html_excerpt(shown))
            if finding.fix:
                parts.append(f"<p>Fix: {escape(finding.fix)}</p>")
        if self.steps:
            parts.append(html_from_table(self._table()))
        lines = [*_constraint_lines(self.constraints), *self._last_lines()]
        parts += [f"<p>{escape(line.strip())}</p>" for line in lines if line.strip()]
        return f'<div class="mh-practice">{"".join(parts)}</div>'


def _sentence(finding: Finding) -> str:
    says = f"{finding.says[:1].upper()}{finding.says[1:]}."
    call = finding.evidence.get("call")
    return f"{says} The call: {call}." if call else says


def _place_lines(where: Where | None) -> list[str]:
    if where is None or where.line is None:
        return []
    lines = [f"  {shown_path(where.file or '')}:{where.line}"]
    shown = excerpt(where, 2)
    for number, line in enumerate(shown.lines if shown else (), start=shown.first if shown else 1):
        mark = ">" if number == where.line else " "
        lines.append(f"  {mark}{number:4d} | {line}")
    return lines


def _constraint_lines(constraints: tuple[Kept, ...]) -> list[str]:
    return [
        f"  {'Kept' if k.kept else 'Not kept'}: {k.says}"
        + (f" (line {k.line})" if k.line and not k.kept else "")
        for k in constraints
    ]


def _html_excerpt(shown: Excerpt) -> str:
    rows = []
    for number, line in enumerate(shown.lines, start=shown.first):
        text = f"{number:4d}  {escape(line)}"
        rows.append(f"<mark>{text}</mark>" if number == shown.marked else text)
    return f"<pre>{'<br>'.join(rows)}</pre>"


def with_printed(report: PracticeReport, output: bytes, seconds: float) -> PracticeReport:
    """The report with what was printed, and the whole time."""
    printed = output.decode("utf-8", errors="replace").strip()
    return replace(report, printed=printed, seconds=seconds)


def report_from_json(text: bytes) -> PracticeReport:
    """The report that another process wrote with all its fields."""
    row = json.loads(text)
    row["findings"] = tuple(_finding(finding) for finding in row["findings"])
    row["steps"] = tuple(Step(**step) for step in row["steps"])
    row["constraints"] = tuple(Kept(**kept) for kept in row["constraints"])
    return PracticeReport(**row)


def _finding(row: dict[str, Any]) -> Finding:
    where = row.pop("where")
    return Finding(**row, where=None if where is None else Where(**where))
