"""Studies: plans that are frozen before the first step, runs that resume, and results."""

from typing import TYPE_CHECKING

from manyheads.core.lazy import lazy_names

if TYPE_CHECKING:
    from manyheads.study.plan import Plan, plan_names
    from manyheads.study.results import StudyResult, read_results, shipped_results
    from manyheads.study.run import run_study
    from manyheads.study.site import Stopped
    from manyheads.study.stats import aggregate, paired_differences

__all__ = [
    "Plan",
    "Stopped",
    "StudyResult",
    "aggregate",
    "paired_differences",
    "plan_names",
    "read_results",
    "run_study",
    "shipped_results",
]

_HOMES = {
    "Plan": "plan",
    "Stopped": "site",
    "StudyResult": "results",
    "aggregate": "stats",
    "paired_differences": "stats",
    "plan_names": "plan",
    "read_results": "results",
    "run_study": "run",
    "shipped_results": "results",
}

if not TYPE_CHECKING:  # so that a type checker finds a mistyped name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
