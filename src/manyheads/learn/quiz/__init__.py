"""Eight questions whose numbers the engine computes, marked by recomputation and by a rubric."""

from manyheads.learn.quiz.question import (
    Ask,
    NumberMark,
    Question,
    mark_numeric,
    question,
    question_ids,
    questions,
    quiz_json,
)

__all__ = [
    "Ask",
    "NumberMark",
    "Question",
    "mark_numeric",
    "question",
    "question_ids",
    "questions",
    "quiz_json",
]
