"""Results of a study as pages, figures and tables; printed sheets."""

from manyheads.report.pages import Document
from manyheads.report.reading import ReportData, read_study
from manyheads.report.study import StudyReport, report_from_folder

__all__ = ["Document", "ReportData", "StudyReport", "read_study", "report_from_folder"]
