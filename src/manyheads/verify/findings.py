"""The results of a verification: checks, findings, and the fields of a report."""

import linecache
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from manyheads.verify.watch import Line

_LONGEST = 400

Severity = Literal["error", "warning", "note"]
Status = Literal["passed", "failed", "skipped"]
Verdict = Literal["sound", "nonstandard", "faulty", "undetermined"]
READING = "reading"
"""The check whose warnings say that a subject is attention under another reading."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
STATUSES: tuple[Status, ...] = get_args(Status)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, kw_only=True)
class Where:
    """The place of a mistake."""

    step: str
    """The step of the formula that is other."""
    relation: str
    """How its numbers differ: factor, arrangement, part, missing or other."""
    file: str | None = None
    """The source file: an absolute path, or the name that Python gives a notebook cell."""
    line: int | None = None
    """The line, counted from 1."""
    code: str = ""
    """The code of the line."""

    @classmethod
    def at(
        cls, step: str, relation: str, line: "Line | None", factor: float | None = None
    ) -> "Where":
        """The place of a line that was seen at work, if there is one, with its code."""
        if line is None:
            return cls(step=step, relation=relation, factor=factor)
        code = linecache.getline(line.file, line.number).strip()
        return cls(
            step=step,
            relation=relation,
            factor=factor,
            file=line.file,
            line=line.number,
            code=code,
        )

    factor: float | None = None
    """The factor, if that is how."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the formula, and whether the subject's numbers are its numbers."""

    step: str
    """Its name."""
    status: Literal["equal", "departs", "not seen"]
    """Whether the same numbers were seen."""
    relation: str | None = None
    """How it departs."""
    line: int | None = None
    """The line that made it."""
    gap: float | None = None
    """Relative difference."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding."""

    fault: str | None
    """Id of a known fault, or None."""
    check: str
    """The check that found it."""
    severity: Severity
    """error: not attention, or contradicts a declaration; warning: another reading, or not
    understood; note: valid but unusual."""
    says: str
    """One plain sentence with the measured numbers."""
    where: Where | None = None
    """The place in the source, if it was found."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """The measured numbers, as JSON values."""
    fix: str = ""
    """The remedy, in one line."""


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of one check, or the reason why it was skipped."""

    name: str
    """Its name."""
    status: Status
    """passed, failed or skipped."""
    why: str = ""
    """Why it was skipped, or what it compared."""
    figure: float | None = None
    """The measured figure: mostly the largest error, in units of the output."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of verifying one subject: what a report shows."""

    id: str | None
    """As declared."""
    target: str
    """As declared."""
    verdict: Verdict
    """sound, nonstandard, faulty or undetermined."""
    inferred: dict[str, Any]
    """What was inferred because it was not declared."""
    findings: tuple[Finding, ...]
    """Errors, then warnings (other readings first), then notes; the most likely fault first."""
    steps: tuple[Step, ...] = ()
    """The steps of the formula, and whether the subject's numbers are theirs."""
    checks: tuple[CheckResult, ...]
    """In the order of the run."""
    limits: tuple[str, ...] = ()
    """Limits of correct code."""
    seconds: float
    """Wall time, in seconds."""
    folder: str | None = None
    """Folder of a file target; None where it is not known. Not part of the JSON."""

    def __post_init__(self) -> None:
        findings = tuple(sorted(self.findings, key=_rank))
        object.__setattr__(self, "findings", findings)
        place = next((f.where for f in findings if f.where is not None), None)
        object.__setattr__(self, "steps", tuple(_departing_at(place, self.steps)))

    @property
    def is_sound(self) -> bool:
        """Whether the output equals the declared operation and no error was found."""
        return self.verdict == "sound"

    @property
    def place(self) -> Where | None:
        """The file and line of the first finding that has one."""
        places = (finding.where for finding in self.findings)
        return next((w for w in places if w is not None and w.file and w.line), None)


def _rank(finding: Finding) -> tuple[int, bool]:
    return SEVERITIES.index(finding.severity), finding.check != READING


def _departing_at(place: Where | None, steps: Iterable[Step]) -> Iterable[Step]:
    """The steps; the one that was located departs, even if its numbers were right before."""
    for step in steps:
        if place is not None and step.step == place.step and step.status != "departs":
            step = replace(
                step, status="departs", relation=place.relation, line=place.line, gap=None
            )
        yield step


def _written(value: object) -> object:
    """A value for JSON: numbers that are not finite become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_written(item) for item in value]
    return value


def found(
    fault: str | None,
    check: str,
    says: str,
    *,
    severity: Severity = "error",
    fix: str = "",
    where: Where | None = None,
    evidence: Mapping[str, object] | None = None,
    **numbers: object,
) -> Finding:
    """A finding; the remedy of a known fault is filled in by the run."""
    joined = {name: _written(value) for name, value in {**(evidence or {}), **numbers}.items()}
    return Finding(
        fault=fault,
        check=check,
        severity=severity,
        says=says,
        evidence=joined,
        fix=fix,
        where=where,
    )


def short(error: BaseException) -> str:
    """Type and first line of an exception."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:_LONGEST]}".removesuffix(": ")
