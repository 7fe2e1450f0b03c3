"""One subject from its declaration to its verdict, in this process; whatever happens, a verdict."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from manyheads.core.errors import ManyHeadsError
from manyheads.verify.findings import Finding
from manyheads.verify.report import VerifyReport
from manyheads.verify.subject import Subject

_LONGEST = 400
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Examined:
    """A verdict, and whether there was a subject at all."""

    report: VerifyReport
    """The verdict."""
    refused: str | None = None
    """Why nothing could be examined, where the declaration itself is wrong (no such file, say)."""


def undetermined(
    subject: Subject | None,
    reason: str,
    *,
    fix: str = "",
    seconds: float = 0.0,
    evidence: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """The report of a subject that could not be judged.

    Args:
        subject: the subject; None where not even that could be read.
        reason: one plain sentence.
        fix: what to do about it.
        seconds: wall time spent on it, in seconds.
        evidence: what is known of it, as JSON can hold it.
    """
    finding = Finding(
        fault=None,
        check="runs",
        severity="warning",
        says=reason,
        evidence=dict(evidence or {}),
        fix=fix,
    )
    return VerifyReport(
        id=None if subject is None else subject.id,
        target="" if subject is None else subject.target,
        verdict="undetermined",
        inferred={},
        findings=(finding,),
        checks=(),
        seconds=seconds,
    )


def examine(subject: Subject) -> Examined:
    """Load, build and verify a subject; this runs its code.

    Args:
        subject: what was declared.

    Returns:
        its report; `undetermined` with the reason where its code raises or it cannot be judged.
    """
    begun = time.perf_counter()
    try:
        report = _loaded_and_judged(subject)
    except ManyHeadsError as error:
        reason, refused = str(error), str(error) if _names_nothing(error) else None
    except (Exception, SystemExit) as error:
        reason, refused = f"verifying it raises {short(error)}", None
    else:
        return Examined(report=replace(report, seconds=time.perf_counter() - begun))
    seconds = time.perf_counter() - begun
    return Examined(report=undetermined(subject, reason, seconds=seconds), refused=refused)


def judged(target: Any, subject: Subject) -> VerifyReport:  # noqa: ANN401 - a stranger's object
    """Build a loaded target, infer what is not declared, and verify it.

    Args:
        target: a class, module or function.
        subject: what is declared of it.

    Raises:
        SubjectError: it cannot be built or called, or its declaration does not fit.
    """
    from manyheads.verify.infer import infer
    from manyheads.verify.run import verify

    known = infer(target, subject)
    return verify(known.made, known.subject, known.inferred)


def _loaded_and_judged(subject: Subject) -> VerifyReport:
    import torch

    from manyheads.verify.loading import load_target

    random.seed(_SEED)
    torch.manual_seed(_SEED)
    return judged(load_target(subject.target, subject.folder), subject)


def _names_nothing(error: ManyHeadsError) -> bool:
    """Whether the declaration names what is not there or cannot be, and no code raised."""
    text, cause = str(error), error.__cause__
    if isinstance(cause, ModuleNotFoundError):
        # `importing a.b raises ...`: where a or a.b is what was not found, and not what it needs
        return cause.name is not None and f"importing {cause.name}" in text
    is_absent = text.startswith("target (") and cause is None and "cannot be called" not in text
    is_impossible = text.startswith("spec.num_heads (") and "must divide" in text
    return is_absent or is_impossible or text.startswith("submodule (")


def short(error: BaseException) -> str:
    """Type and first line of an exception."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:_LONGEST]}".removesuffix(": ")
