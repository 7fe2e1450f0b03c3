"""Eight questions whose numbers the engine computes, marked by recomputation and by a rubric."""

from manyheads.learn.quiz.question import (
    Ask,
    Question,
    question,
    question_ids,
    questions,
    quiz_json,
)
from manyheads.learn.quiz.typed import Marked, mark_numeric

__all__ = [
    "Ask",
    "Marked",
    "Question",
    "mark_numeric",
    "question",
    "question_ids",
    "questions",
    "quiz_json",
]
