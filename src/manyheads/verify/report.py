"""A report on one subject: its text, its HTML and its JSON."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from manyheads.verify.findings import Finding, Result
from manyheads.verify.place import given_path
from manyheads.verify.report_html import html_from_report
from manyheads.verify.report_text import text_from_report
from manyheads.verify.subject import Subject


@dataclass(frozen=True, kw_only=True)
class VerifyReport(Result):
    """The report on one subject; it has a text form for terminals and an HTML form for Jupyter."""

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON; the subject's own file has the path that was given for it."""
        document = asdict(self)
        del document["folder"]
        for finding in document["findings"]:
            where = finding["where"]
            if where is not None and where["factor"] is None:
                del where["factor"]
            if where is not None and where["file"] is not None:
                where["file"] = given_path(self, where["file"])
        return document

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
