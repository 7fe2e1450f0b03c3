"""Checks attention modules and functions, and compares two: step, line, numbers and fix."""

from typing import TYPE_CHECKING

from manyheads.core.lazy import lazy_names

if TYPE_CHECKING:
    from manyheads.verify.api import assert_sound, check, compare
    from manyheads.verify.comparison_report import Comparison
    from manyheads.verify.findings import CheckResult, Finding
    from manyheads.verify.isolation import Limits, verify_subjects
    from manyheads.verify.report import VerifyReport
    from manyheads.verify.subject import CallSpec, MaskSpec, ParamSpec, Spec, Subject
    from manyheads.verify.subject_files import (
        read_manifest,
        read_subject,
        subject_from_dict,
        subject_schema,
    )

__all__ = [
    "CallSpec",
    "CheckResult",
    "Comparison",
    "Finding",
    "Limits",
    "MaskSpec",
    "ParamSpec",
    "Spec",
    "Subject",
    "VerifyReport",
    "assert_sound",
    "check",
    "compare",
    "read_manifest",
    "read_subject",
    "subject_from_dict",
    "subject_schema",
    "verify_subjects",
]

_HOMES = {
    "CallSpec": "subject",
    "CheckResult": "findings",
    "Comparison": "comparison_report",
    "Finding": "findings",
    "Limits": "isolation",
    "MaskSpec": "subject",
    "ParamSpec": "subject",
    "Spec": "subject",
    "Subject": "subject",
    "VerifyReport": "report",
    "assert_sound": "api",
    "check": "api",
    "compare": "api",
    "read_manifest": "subject_files",
    "read_subject": "subject_files",
    "subject_from_dict": "subject_files",
    "subject_schema": "subject_files",
    "verify_subjects": "isolation",
}

if not TYPE_CHECKING:  # so that a type checker finds a mistyped name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
