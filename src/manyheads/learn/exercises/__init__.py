"""Exercises without end: drawn from a seed, answered by the engine, wrong answers matched."""

from manyheads.learn.exercises.form import Exercise, Misconception, Table
from manyheads.learn.exercises.kinds import KINDS, exercise
from manyheads.learn.exercises.marking import Mark, mark

__all__ = ["KINDS", "Exercise", "Mark", "Misconception", "Table", "exercise", "mark"]
