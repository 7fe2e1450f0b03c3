"""The answers and mistakes of all tasks, judged in this process."""

from typing import NamedTuple

from manyheads.practice.judging import judged_here
from manyheads.practice.report import PracticeReport
from manyheads.practice.running import load_code
from manyheads.practice.task import Answer, Mistake, Task, task, task_names

TASKS = [task(name) for name in task_names()]
FILE = "<answer>"


class Wrong(NamedTuple):
    """An answer with one of its mistakes."""

    task: Task
    answer: Answer
    mistake: Mistake

    def __str__(self) -> str:
        return f"{self.task.name}: {self.mistake.fault} in {self.answer.style}"


def judged(one: Task, code: str) -> PracticeReport:
    answer = load_code(one.imports + code, one.entry, FILE)
    return judged_here(one, answer, frozenset({FILE}))


def wrong_answers(one: Task) -> list[Wrong]:
    return [Wrong(one, a, m) for a in one.answers for m in a.mistakes]
