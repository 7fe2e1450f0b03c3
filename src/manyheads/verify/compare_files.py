"""Compares two declared subjects in a process of its own, with limits."""

import json
import os
import random
from dataclasses import replace
from typing import Any

from manyheads.core.errors import SubjectError
from manyheads.verify.comparison import Source
from manyheads.verify.comparison_report import Comparison
from manyheads.verify.findings import short
from manyheads.verify.isolation import Limits, answer_of, load_once, worker_streams
from manyheads.verify.subject import NoSubjectError, Subject


def compare_subjects(
    subjects: tuple[Subject, Subject],
    limits: Limits | None,
    **setting: Any,  # noqa: ANN401 - of `Setting`
) -> Comparison:
    """Load, build and compare two subjects; this runs their code.

    Args:
        subjects: what is declared of each.
        limits: time and memory of the process in which they run; None runs them in this one.
        **setting: fields of `Setting`.

    Returns:
        the comparison; `undetermined` with the reason where their code raises or does not end.

    Raises:
        NoSubjectError: a declaration names something that does not exist or is impossible.
    """
    if limits is None:
        return _with_given_paths(_compared(subjects, setting), subjects)
    load_once()
    try:
        answer = answer_of(lambda: _answer(subjects, setting), limits)
    except SubjectError as error:
        return _undetermined(subjects, str(error))
    read = json.loads(answer)
    if "refused" in read:
        raise NoSubjectError(str(read["refused"]))
    from pydantic import TypeAdapter

    made = TypeAdapter(Comparison).validate_python(read["comparison"])
    return _with_given_paths(made, subjects)


def _answer(subjects: tuple[Subject, Subject], setting: dict[str, Any]) -> bytes:
    """In the process of the subjects: compare them, and return the answer as JSON."""
    answer: dict[str, Any]
    with worker_streams():
        try:
            answer = {"comparison": _compared(subjects, setting).to_dict()}
        except NoSubjectError as error:
            answer = {"refused": str(error)}
        except BaseException as error:
            said = _undetermined(subjects, f"comparing them raises {short(error)}")
            answer = {"comparison": said.to_dict()}
        return json.dumps(answer, allow_nan=False).encode()


def _compared(subjects: tuple[Subject, Subject], setting: dict[str, Any]) -> Comparison:
    import torch

    from manyheads.verify.comparing import compare_targets
    from manyheads.verify.loading import load_target
    from manyheads.verify.settings import Setting

    random.seed(0)
    torch.manual_seed(0)
    targets = [load_target(s.target, s.folder) for s in subjects]
    return compare_targets((targets[0], targets[1]), subjects, Setting(**setting))


def _undetermined(subjects: tuple[Subject, Subject], says: str) -> Comparison:
    a, b = (s.target for s in subjects)
    return Comparison(a=a, b=b, verdict="undetermined", says=says)


def _with_given_paths(made: Comparison, subjects: tuple[Subject, Subject]) -> Comparison:
    """The lines of a subject's own file, with the path that was given for it."""
    steps = tuple(
        replace(step, a=_given(step.a, subjects[0]), b=_given(step.b, subjects[1]))
        for step in made.steps
    )
    return replace(made, steps=steps)


def _given(source: Source | None, subject: Subject) -> Source | None:
    given = subject.target.rpartition(":")[0]
    if source is None or source.file is None or not given.endswith(".py"):
        return source
    is_own = os.path.realpath(subject.folder / given) == os.path.realpath(source.file)
    is_here = os.path.realpath(given) == os.path.realpath(source.file)
    return replace(source, file=given) if is_own and is_here else source
