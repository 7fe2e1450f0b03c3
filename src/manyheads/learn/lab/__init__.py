"""The executable lab: five parts on one worksheet, in which every printed number is asserted."""

from manyheads.learn.lab.plan import TRY_NAMES, run_lab
from manyheads.learn.lab.report import LabReport

__all__ = ["TRY_NAMES", "LabReport", "run_lab"]
