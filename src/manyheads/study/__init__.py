"""Studies: plans that are frozen before the first step, runs that resume, and honest results."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyheads.study.plan import Plan
    from manyheads.study.plan_files import plan_names
    from manyheads.study.results import StudyResult, read_results, shipped_results
    from manyheads.study.run import run_study
    from manyheads.study.stats import aggregate, paired_differences
    from manyheads.study.stop import Stopped

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
    "Stopped": "stop",
    "StudyResult": "results",
    "aggregate": "stats",
    "paired_differences": "stats",
    "plan_names": "plan_files",
    "read_results": "results",
    "run_study": "run",
    "shipped_results": "results",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is exported
    if name not in _HOMES:
        raise AttributeError(f"module 'manyheads.study' has no attribute {name!r}")
    return getattr(import_module(f"manyheads.study.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
