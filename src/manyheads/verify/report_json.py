"""A report as JSON holds it, and back: how a verdict travels from one process to another."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from manyheads.verify.findings import CheckResult, Finding
from manyheads.verify.report import VerifyReport


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a report holds
    """The value as JSON can hold it: numbers that are not finite and objects become text."""
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
    """The report that `VerifyReport.to_dict` gave.

    Raises:
        KeyError: a field is missing.
        TypeError: a finding or check has other fields.
    """
    given = {field.name: value[field.name] for field in fields(VerifyReport)}
    given["findings"] = tuple(Finding(**finding) for finding in given["findings"])
    given["checks"] = tuple(CheckResult(**check) for check in given["checks"])
    return VerifyReport(**given)
