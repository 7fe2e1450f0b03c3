"""Grades a folder of students' files: a row for each, and a page for each student."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from manyheads.core.errors import LearnError, ManyHeadsError
from manyheads.core.files import reason_of, write_whole
from manyheads.core.tables import Table, text_from_table
from manyheads.practice.judging import judge_file
from manyheads.practice.report import PracticeReport

COLUMNS = ("student", "file", "task", "solved", "fault", "line", "says", "seconds")
"""Of the table, in order."""


@dataclass(frozen=True, kw_only=True)
class Grade:
    """The verdict on one file."""

    student: str
    """The first folder of its path, or the file's name where it is in none."""
    file: str
    """Its path, relative to the folder that is graded."""
    report: PracticeReport | None
    """The report; None where the file belongs to no task."""
    problem: str = ""
    """Why there is no report."""

    def row(self) -> dict[str, Any]:
        """One row, by the names of `COLUMNS`."""
        report = self.report
        first = report.findings[0] if report is not None and report.findings else None
        return {
            "student": self.student,
            "file": self.file,
            "task": report.task if report is not None else "",
            "solved": report is not None and report.solved,
            "fault": (first.fault or first.check) if first is not None else "",
            "line": first.where.line if first is not None and first.where is not None else None,
            "says": first.says if first is not None else self.problem,
            "seconds": round(report.seconds, 2) if report is not None else 0.0,
        }


def grade_folder(
    folder: Path, *, name: str | None = None, on_done: Callable[[Grade], None] | None = None
) -> tuple[Grade, ...]:
    """Judge every Python file below a folder, each in a process of its own.

    Args:
        folder: a folder for each student, or their files alone.
        name: the task of all files; by default each file names its own.
        on_done: called with each verdict.

    Raises:
        LearnError: there is no Python file.
    """
    files = [p for p in sorted(folder.rglob("*.py")) if p.is_file()]
    if not files:
        raise LearnError(f"FOLDER ({folder}) has no Python file: give the folder of the answers")
    found = []
    for path in files:
        grade = _grade(folder, path, name)
        found.append(grade)
        if on_done is not None:
            on_done(grade)
    return tuple(found)


def _grade(folder: Path, path: Path, name: str | None) -> Grade:
    inside = path.relative_to(folder)
    student = inside.parts[0] if len(inside.parts) > 1 else inside.stem
    try:
        report = judge_file(path, name=name)
    except ManyHeadsError as error:
        return Grade(student=student, file=str(inside), report=None, problem=str(error))
    return Grade(student=student, file=str(inside), report=report)


def csv_from_grades(grades: tuple[Grade, ...]) -> str:
    """The table as CSV; a cell that a spreadsheet would take for a formula gets an apostrophe."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _cell(v) for k, v in grade.row().items()} for grade in grades)
    return out.getvalue()


def _cell(value: object) -> object:
    is_formula = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if is_formula else value


def text_from_grades(grades: tuple[Grade, ...]) -> str:
    """The table for a terminal."""
    rows = tuple(
        (row["student"], row["task"], "solved" if row["solved"] else "not yet", row["fault"])
        for row in (grade.row() for grade in grades)
    )
    columns = ("student", "task", "verdict", "first finding")
    return text_from_table(Table(title="", columns=columns, rows=rows, names=4))


def write_pages(grades: tuple[Grade, ...], folder: Path) -> list[Path]:
    """Write one HTML page for each student.

    Raises:
        LearnError: the folder cannot be written.
    """
    students = dict.fromkeys(grade.student for grade in grades)
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for student in students:
            mine = [grade for grade in grades if grade.student == student]
            path = folder / f"{student}.html"
            write_whole(path, "".join(_page(student, mine)).encode())
            written.append(path)
    except OSError as error:
        raise LearnError(
            f"--html ({folder}) cannot be written ({reason_of(error)}): use another folder"
        ) from error
    return written


def _page(student: str, grades: list[Grade]) -> Iterator[str]:
    title = escape(student)
    solved = sum(grade.report is not None and grade.report.solved for grade in grades)
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    yield "<style>body{font:1rem/1.5 sans-serif;max-width:60rem;margin:2rem auto}"
    yield "pre{overflow-x:auto}td,th{text-align:left;padding:.1em .6em}</style>"
    yield f"<h1>{title}</h1><p>{solved} of {len(grades)} solved.</p>"
    for grade in grades:
        yield f"<h2>{escape(grade.file)}</h2>"
        if grade.report is None:
            yield f"<p>{escape(grade.problem)}</p>"
        else:
            yield grade.report._repr_html_()
    yield "</html>\n"
