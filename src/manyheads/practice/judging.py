"""Judges an answer: over all calls of its task, then its constraints; two verdicts only."""

import ast
import inspect
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from manyheads.core.errors import LearnError, SubjectError
from manyheads.core.files import reason_of
from manyheads.practice.case import Case, cases
from manyheads.practice.constraints import constraints_kept
from manyheads.practice.difference import Difference, difference
from manyheads.practice.explaining import Explained, Explainer, solution_file
from manyheads.practice.links import card_of
from manyheads.practice.records import record_verdict
from manyheads.practice.repairs import any_task
from manyheads.practice.report import PracticeReport, report_from_json, with_printed
from manyheads.practice.running import UnmatchedError, load_code, pair, raised_by, run
from manyheads.practice.task import Task
from manyheads.verify.contained import Limits
from manyheads.verify.findings import Finding, Where, short
from manyheads.verify.isolation import (
    can_isolate,
    judged,
    outcome_of,
    what_happened,
    worker_streams,
)
from manyheads.verify.report import plain

LIMITS = Limits(seconds=10.0, memory=2 << 30, processes=16)
"""Time and memory of one answer."""
_LARGEST_FILE = 1 << 20


def judge(
    name: str,
    answer: Any,  # noqa: ANN401 - a function, or the class of a module
    *,
    seed: int | None = None,
    data: Path | None = None,
    is_recorded: bool = True,
) -> PracticeReport:
    """Judge an answer of this process; it runs in a process of its own where the system can fork.

    Args:
        name: the task.
        answer: the function, or the class that the task asks for.
        seed: of a repair task.
        data: the folder of the learner's files; by default the user's own.
        is_recorded: whether the verdict is added to the learner's records.

    Returns:
        the report; it prints itself, and shows itself in Jupyter.

    Raises:
        LearnError: there is no such task, or the answer cannot be called.
    """
    chosen = any_task(name, seed)
    if not callable(answer):
        raise LearnError(
            f"answer ({type(answer).__name__}) cannot be called: pass the function or class"
        )
    report = _in_own_process(chosen, lambda: judged_here(chosen, answer, _files_of(answer)))
    if is_recorded:
        record_verdict(report, chosen.seed, data)
    return report


def judge_file(
    path: Path, *, name: str | None = None, seed: int | None = None, limits: Limits = LIMITS
) -> PracticeReport:
    """Judge the file of a learner in a process of its own; nothing is recorded.

    Args:
        path: the file.
        name: the task; by default that of the file's own call of `judge`, else the file's name.
        seed: of a repair task; by default that of the file.
        limits: time and memory that it may use.

    Raises:
        LearnError: the file cannot be read, or belongs to no task.
    """
    text = _text_of(path)
    found_name, found_seed = task_of_text(text)
    given = name or found_name or path.stem
    chosen = any_task(given, found_seed if seed is None else seed)
    return _in_own_process(chosen, lambda: _judged_text(chosen, text, path), limits)


def _text_of(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise LearnError(f"FILE ({path}) is larger than 1 MiB: give a Python file")
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise LearnError(
            f"FILE ({path}) cannot be read ({reason_of(error)}): check the path"
        ) from error


def task_of_text(text: str) -> tuple[str | None, int | None]:
    """Task and seed of the call of `judge` in a file; None where there is none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None, None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "judge" and node.args and isinstance(node.args[0], ast.Constant):
            seeds = [k.value for k in node.keywords if k.arg == "seed"]
            seed = seeds[0].value if seeds and isinstance(seeds[0], ast.Constant) else None
            return str(node.args[0].value), seed if isinstance(seed, int) else None
    return None, None


def _judged_text(task: Task, text: str, path: Path) -> PracticeReport:
    """Load a learner's file in this process, and judge what it defines."""
    file = str(path.resolve())
    try:
        answer = load_code(text, task.entry, file)
    except SyntaxError as error:
        where = _line_of(file, error.lineno)
        return _wrong(task, "loads", f"the file is not valid Python: {error.msg}", where)
    except LearnError:
        says = f"the file does not define {task.entry}: give your function or class this name"
        return _wrong(task, "loads", says)
    except (Exception, SystemExit) as error:
        raised = raised_by(error, frozenset({file}))
        return _wrong(task, "loads", f"loading it: {raised.says}", _line_of(file, raised.line))
    return judged_here(task, answer, frozenset({file}))


def _line_of(file: str, line: int | None) -> Where | None:
    if line is None:
        return None
    lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    code = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return Where(step="output", relation="other", file=file, line=line, code=code)


def _files_of(answer: object) -> frozenset[str]:
    named = answer if inspect.isclass(answer) or inspect.isroutine(answer) else type(answer)
    try:
        code = getattr(named, "__code__", None)
        return frozenset({code.co_filename if code is not None else inspect.getfile(named)})
    except (TypeError, OSError):
        found = (getattr(x, "__code__", None) for x in vars(named).values())
        return frozenset(code.co_filename for code in found if code is not None)


def _wrong(task: Task, check: str, says: str, where: Where | None = None) -> PracticeReport:
    finding = Finding(fault=None, check=check, severity="error", says=says, where=where)
    return _report(task, Explained(finding=finding))


def _report(task: Task, explained: Explained | None, **kept: Any) -> PracticeReport:  # noqa: ANN401
    return PracticeReport(
        task=task.name,
        title=task.title,
        solved=explained is None,
        findings=() if explained is None else (explained.finding,),
        steps=() if explained is None else explained.steps,
        card=card_of(task, explained.finding.fault if explained else None),
        frame=task.frame,
        seed=task.seed,
        **kept,
    )


def judged_here(task: Task, answer: Any, files: frozenset[str]) -> PracticeReport:  # noqa: ANN401
    """Judge an answer in this process."""
    text = task.imports + task.solution.code
    reference = load_code(text, task.entry, solution_file(task))
    state = torch.random.get_rng_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _compared(task, reference, answer, files)
    except UnmatchedError as error:
        report = _judged_by_watching(task, answer, str(error))
        return _constrained(task, reference, answer, files) if report.solved else report
    finally:
        torch.random.set_rng_state(state)


def _compared(
    task: Task,
    reference: Any,  # noqa: ANN401 - a function or class
    answer: Any,  # noqa: ANN401 - a function or class
    files: frozenset[str],
) -> PracticeReport:
    """Compare an answer with the solution, then check the constraints.

    Raises:
        UnmatchedError: a module has other parameters than the solution.
    """
    found = _first_difference(task, reference, answer, files)
    if found is not None:
        return _report(task, Explainer(task, reference, answer, files).explain(found))
    return _constrained(task, reference, answer, files)


def _constrained(
    task: Task,
    reference: Any,  # noqa: ANN401 - a function or class
    answer: Any,  # noqa: ANN401 - a function or class
    files: frozenset[str],
) -> PracticeReport:
    """Check the constraints of an answer whose numbers are right."""
    kept = constraints_kept(task, reference, answer, files)
    broken = next((k for k in kept if not k.kept), None)
    if broken is None:
        return _report(task, None, constraints=kept)
    file = next(iter(files), None)
    where = _line_of(file, broken.line) if file and Path(file).is_file() else None
    finding = Finding(
        fault=None,
        check="constraint",
        severity="error",
        says=f"the numbers are right, but the task asks for {broken.says}",
        where=where,
    )
    return _report(task, Explained(finding=finding), constraints=kept)


def _first_difference(
    task: Task,
    reference: Any,  # noqa: ANN401 - a function or class
    answer: Any,  # noqa: ANN401 - a function or class
    files: frozenset[str],
) -> Difference | None:
    """The first call whose results are not those of the solution."""
    for case in cases():
        try:
            ours, theirs = pair(task, reference, answer, case)
        except UnmatchedError:
            raise
        except (Exception, SystemExit) as error:
            return _raised_when_built(error, case, files)
        want = run(task, ours, case, files)
        if want.raised is not None:
            raise LearnError(f"task ({task.name}): its solution raises {want.raised.says}")
        for _ in range(2 if case.number == 0 else 1):
            found = difference(want, run(task, theirs, case, files), case)
            if found is not None:
                return found
    return None


def _raised_when_built(error: BaseException, case: Case, files: frozenset[str]) -> Difference:
    raised = raised_by(error, files)
    says = f"building it: {raised.says}"
    return Difference(kind="raises", says=says, case=case, file=raised.file, line=raised.line)


def _judged_by_watching(task: Task, answer: Any, why: str) -> PracticeReport:  # noqa: ANN401
    """Judge a module with other parameters by the verifier, which finds its weights."""
    if not task.declared:
        return _wrong(task, "parameters", f"{why}: keep the layers of the file")
    from manyheads.verify.subject_files import subject_from_declared

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            declared = dict(task.declared)
            made = answer(*declared.pop("kwargs").values())
            report = judged(made, subject_from_declared("answer", declared, None))
        except (SubjectError, Exception, SystemExit) as error:
            return _wrong(task, "parameters", f"{why}; watching it: {short(error)}")
    if report.is_sound:
        return _report(task, None)
    finding = next(iter(report.findings), None)
    if finding is None or report.verdict == "undetermined":
        return _wrong(task, "parameters", f"{why}: keep the layers of the file")
    return replace(_report(task, Explained(finding=finding)), steps=report.steps)


def _in_own_process(
    task: Task, work: Callable[[], PracticeReport], limits: Limits = LIMITS
) -> PracticeReport:
    """Run the judge in a process with limits; in this one where that is not possible."""
    begun = time.perf_counter()
    if not can_isolate() or torch.cuda.is_available():  # a forked process cannot use its autograd
        return replace(_caught(task, work), seconds=time.perf_counter() - begun)
    outcome = outcome_of(lambda: _packed(task, work), limits)
    if outcome.answer is not None:
        report = report_from_json(outcome.answer)
    else:
        reason, fix = what_happened(outcome, limits)
        report = _wrong(task, "limits", f"{reason}{'; ' if fix else ''}{_own_words(fix)}")
    return with_printed(report, outcome.output, time.perf_counter() - begun)


def _own_words(fix: str) -> str:
    """The remedy, without options that this command does not have."""
    return fix.split(", or raise --time-limit")[0].replace(", declare smaller sizes", "")


def _caught(task: Task, work: Callable[[], PracticeReport]) -> PracticeReport:
    try:
        return work()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return _wrong(task, "runs", f"judging it raises {short(error)}")


def _packed(task: Task, work: Callable[[], PracticeReport]) -> bytes:
    """In the process of the answer: the report as JSON."""
    with worker_streams():
        report = _caught(task, work)
        return json.dumps(plain(asdict(report)), allow_nan=False).encode()
