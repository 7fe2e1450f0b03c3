"""The results of a verification: checks, findings, and the fields of a report."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_LONGEST = 400

Severity = Literal["error", "warning", "note"]
Status = Literal["passed", "failed", "skipped"]
Verdict = Literal["sound", "faulty", "undetermined"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding."""

    fault: str | None
    """Id of a known fault, or None."""
    check: str
    """The check that found it."""
    severity: Severity
    """"error": contradicts a declaration or is not attention; "note": valid but unusual."""
    says: str
    """One plain sentence with the measured numbers."""
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
    evidence: Mapping[str, object] | None = None,
    **numbers: object,
) -> Finding:
    """A finding; the remedy of a known fault is filled in by the run."""
    joined = {name: _written(value) for name, value in {**(evidence or {}), **numbers}.items()}
    return Finding(fault=fault, check=check, severity=severity, says=says, evidence=joined, fix=fix)


def short(error: BaseException) -> str:
    """Type and first line of an exception."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:_LONGEST]}".removesuffix(": ")
