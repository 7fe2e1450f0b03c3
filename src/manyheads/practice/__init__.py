"""Practice: write attention yourself, and have it judged."""

from typing import TYPE_CHECKING

from manyheads.core.lazy import lazy_names

if TYPE_CHECKING:
    from manyheads.practice.judging import judge
    from manyheads.practice.report import PracticeReport
    from manyheads.practice.task import Task, task, task_names

__all__ = ["PracticeReport", "Task", "judge", "task", "task_names"]

_HOMES = {
    "PracticeReport": "report",
    "Task": "task",
    "judge": "judging",
    "task": "task",
    "task_names": "task",
}

if not TYPE_CHECKING:  # so that a type checker finds a mistyped name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
