"""Exercises drawn from a seed, with exact answers, known mistakes and marking."""

from manyheads.learn.exercises.form import Exercise, Given, Misconception
from manyheads.learn.exercises.kinds import KINDS, exercise
from manyheads.learn.exercises.marking import Mark, mark

__all__ = ["KINDS", "Exercise", "Given", "Mark", "Misconception", "exercise", "mark"]
