"""What a study found, as pages, figures and tables."""

from manyheads.report.pages import Document
from manyheads.report.reading import ReportData, read_study
from manyheads.report.study import StudyReport, report_from_folder

__all__ = ["Document", "ReportData", "StudyReport", "read_study", "report_from_folder"]
