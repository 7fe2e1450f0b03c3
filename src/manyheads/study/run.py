"""Run a study from plan to results: learning-rate checks, then every model with every seed.

A finished run is never trained again, and a run that another process has locked is skipped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyheads.core.errors import StudyError
from manyheads.core.extras import require
from manyheads.core.files import clear_parts
from manyheads.data.windows import Corpus
from manyheads.study.corpus import corpus_for, facts_of
from manyheads.study.folder import (
    BusyError,
    Folder,
    RunKey,
    create_folder,
    lock,
    make_folder,
    open_folder,
)
from manyheads.study.machine import Crew, Machine, environment, join_crew
from manyheads.study.plan import Plan, Source
from manyheads.study.plan import plan as plan_named
from manyheads.study.results import StudyResult, read_results
from manyheads.study.seal import finish
from manyheads.study.site import Event, Report, Site, StopSign, listening, nothing
from manyheads.study.train import Training

TINYSTORIES = "tinystories"
"""The value of `data` that stands for the published set."""
Trainer = Callable[[Sequence[RunKey]], None]


@dataclass(frozen=True, kw_only=True)
class Order:
    """The runs to train, and the settings to train them with."""

    site: Site
    """Folder, data, processes and event receivers."""
    machine: Machine
    """Number of runs at a time."""
    only: tuple[str, ...]
    """Names of models or runs; empty for all."""
    data: Path | None
    """The file of stories, for worker processes, which read it themselves."""
    sign: StopSign
    """Requests a stop."""


def runs_wanted(folder: Folder, only: Sequence[str]) -> tuple[RunKey, ...]:
    """The runs of the plan, or those named by model or by run.

    Raises:
        StudyError: a name is neither a model nor a run.
    """
    runs = folder.runs()
    for name in only:
        if not any(name in (run.model, run.name) for run in runs):
            known = ", ".join(dict.fromkeys(run.model for run in runs))
            raise StudyError(f"only ({name}) is not a model or run of the plan: use one of {known}")
    return tuple(run for run in runs if not only or {run.model, run.name} & set(only))


def train_all(order: Order) -> tuple[RunKey, ...]:
    """Train the requested runs that are not done.

    Returns:
        the runs of the whole plan that are still not done: not requested, or locked by another
        process.

    Raises:
        Stopped: a stop was requested; every state is saved.
        StudyError: a run cannot continue.
    """
    folder = order.site.folder
    wanted = runs_wanted(folder, order.only)
    models = {run.model for run in wanted}
    checks = [run for run in folder.checks() if run.model in models]
    for phase in (checks, wanted):
        todo = order.site.crew.agreed([run for run in phase if folder.record(run) is None])
        if order.machine.needs_workers and todo:
            from manyheads.study.pool import train_in_workers

            train_in_workers(todo, order.machine, order.site, order.sign, order.data)
        else:
            for run in todo:
                train_here(run, order.site)
    left = [run for run in (*folder.checks(), *folder.runs()) if folder.record(run) is None]
    return tuple(order.site.crew.agreed(left))


def train_here(run: RunKey, site: Site) -> None:
    """Train one run in this process, unless another process has locked or finished it.

    Raises:
        Stopped: a stop was requested.
        StudyError: the run cannot continue.
    """
    if not site.crew.is_first:
        if site.crew.agreed(None):
            Training(run, site).go()
        return
    try:
        with lock(site.folder.place(run)):
            clear_parts(site.folder.place(run))
            is_free = site.folder.record(run) is None
            site.crew.agreed(is_free)
            if is_free:
                Training(run, site).go()
            else:
                site.report(Event(run=run.name, kind="done"))
    except BusyError as error:
        site.crew.agreed(False)
        site.report(Event(run=run.name, kind="note", says=str(error)))


def run_study(
    plan: Plan | str | Path,
    *,
    out: str | Path,
    data: str | Path | None = None,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    resume: bool = False,
    report: Report = nothing,
    **machine: Any,  # noqa: ANN401 - fields of Machine, which checks them
) -> StudyResult | None:
    """Run a study, or continue one.

    The plan is written and hashed before the first step. The test split stays sealed until every
    run of the plan is done and all choices are frozen. Ctrl-C finishes the step and saves.

    Args:
        plan: a plan, its name or its path.
        out: the study's folder; empty or new, unless `resume`.
        data: a file of stories that replaces the plan's source, or "tinystories" for the published
            set.
        seeds: random seeds instead of the plan's; this makes another plan.
        only: models or runs to train; the others stay for another call or process.
        resume: continue the study in `out`.
        report: called with every event.
        machine: `device`, `devices`, `precision`, `jobs`, `threads`, as in `Machine`.

    Returns:
        the results, or None if runs of the plan are left.

    Raises:
        MissingExtraError: the extra `study` is not installed.
        PlanError: the plan does not exist, or is not the one that `out` was started with.
        DataError: the stories cannot be read.
        StudyError: the study cannot start or continue; earlier results are intact.
        Stopped: Ctrl-C; everything is saved.
    """
    require("study", "scipy", purpose="a study")
    chosen, file = _with_source(_planned(plan, seeds), data)
    wanted, folder = Machine(**machine), Path(out)
    runs_wanted(Folder(path=folder, plan=chosen), only)
    crew = _crew(wanted)
    report = report if crew.is_first else nothing
    corpus = corpus_for(chosen, file, tell=lambda line: report(_note(line)))
    chosen = _with_hash(chosen, corpus)
    made_by = environment(wanted, crew)
    facts = {"environment": made_by, "data": facts_of(corpus, chosen, file)}
    with listening() as sign:
        site = Site(
            folder=_entered(folder, chosen, corpus, crew, resume, facts),
            corpus=corpus,
            crew=crew,
            report=report,
            is_stopping=lambda: sign.is_asked,
            environment=made_by,
        )
        order = Order(site=site, machine=wanted, only=tuple(only), data=file, sign=sign)
        return _completed(order)


def _planned(plan: Plan | str | Path, seeds: Sequence[int] | None) -> Plan:
    """The plan itself, with other random seeds if they are given."""
    found = plan if isinstance(plan, Plan) else plan_named(plan)
    return found if seeds is None else found.with_seeds(tuple(seeds))


def _crew(machine: Machine) -> Crew:
    """The processes that share a run; this one alone if workers train the runs."""
    if not machine.is_plain:
        require("study", "lightning-fabric", purpose=f"a study on {machine.device} devices")
    return join_crew(replace(machine, devices=1) if machine.needs_workers else machine)


def _note(says: str) -> Event:
    """An event of no run in particular."""
    return Event(run="", kind="note", says=says)


def _with_source(plan: Plan, data: str | Path | None) -> tuple[Plan, Path | None]:
    """The plan with the source that is used, and the file of stories, if it is one."""
    if data is None:
        return plan, None
    source: Source = "tinystories" if str(data) == TINYSTORIES else "file"
    held = plan.data
    digest = held.sha256 if held.source == source else None
    file = Path(data) if source == "file" else None
    return replace(plan, data=replace(held, source=source, sha256=digest)), file


def _with_hash(plan: Plan, corpus: Corpus) -> Plan:
    """The plan with the hash of its stories.

    Raises:
        StudyError: the plan already has another hash.
    """
    expected = plan.data.sha256
    if expected not in (None, corpus.sha256):
        raise StudyError(
            f"data ({corpus.sha256[:12]}) are not those of plan {plan.name} "
            f"({str(expected)[:12]}): give the same data, or remove sha256 from the plan"
        )
    return plan.with_data(plan.data.source, corpus.sha256)


def _entered(
    path: Path,
    plan: Plan,
    corpus: Corpus,
    crew: Crew,
    resume: bool,
    facts: dict[str, Any],
) -> Folder:
    """The study's folder, created or opened; only the first process creates it."""
    problem: Exception | None = None
    if crew.is_first:
        try:
            _begin(path, plan, corpus, resume, facts)
        except (StudyError, ValueError) as error:
            problem = error
    problem = crew.agreed(problem)
    if problem is not None:
        raise problem
    return open_folder(path, plan, corpus.sha256)


def _begin(path: Path, plan: Plan, corpus: Corpus, resume: bool, facts: dict[str, Any]) -> None:
    if resume and (path / "study.json").exists():
        return
    make_folder(path)
    with lock(path):
        if resume and (path / "study.json").exists():
            return  # another process has created it in the meantime
        facts = {"data_sha256": corpus.sha256, **facts}
        create_folder(path, plan, corpus.tokenizer.to_json(), facts)


def _completed(order: Order) -> StudyResult | None:
    folder, crew = order.site.folder, order.site.crew
    if not crew.agreed((folder.path / "results.json").exists()):
        left = train_all(order)
        if left:
            names = ", ".join(run.name for run in left)
            order.site.report(_note(f"not done yet: {names}"))
            return None
        _finish(order)
    crew.wait()
    result = read_results(folder.path)
    for name, digest in (("plan", folder.plan.sha256), ("data", folder.data_sha256)):
        if result.content[f"{name}_sha256"] != digest:
            file = folder.path / "results.json"
            raise StudyError(
                f"file ({file}) does not fit the study's {name}: restore it, or use another folder"
            )
    return result


def _finish(order: Order) -> None:
    """Test once, in the first process only."""
    site = order.site
    if not site.crew.is_first:
        return
    alone = replace(site, crew=replace(site.crew, rank=0, size=1))
    with lock(site.folder.path):
        clear_parts(site.folder.path)
        if not (site.folder.path / "results.json").exists():
            finish(alone)
