"""The report of a verification, which shows itself in a terminal and in Jupyter."""

from dataclasses import dataclass

from manyheads.verify.findings import ReportFields
from manyheads.verify.report_html import html_from_report
from manyheads.verify.report_text import text_from_report


@dataclass(frozen=True, kw_only=True)
class VerifyReport(ReportFields):
    """What is known of one subject."""

    def __str__(self) -> str:
        """The report in 80 columns."""
        return text_from_report(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The report for Jupyter."""
        return html_from_report(self)
