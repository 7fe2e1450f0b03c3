"""`manyheads practice`: write attention yourself, and have it judged."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from manyheads.cli.learn_options import DATA, FORCE
from manyheads.cli.practice_grade import grade, notebook
from manyheads.cli.types import FilePath, IntRange

if TYPE_CHECKING:
    from manyheads.practice.records import Progress

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_SEED = click.option(
    "--seed", type=IntRange(min=0), metavar="N", help="Seed of a repair task (default 1)."
)
_TICK = 0.2
"""Seconds between two looks at a watched file."""


@click.group(invoke_without_command=True)
@_JSON
@DATA
@click.pass_context
def practice(ctx: click.Context, as_json: bool, data: Path | None) -> None:
    r"""Write attention yourself, task by task, and have it judged.

    Without a subcommand, this lists the tasks, what is solved, and what comes next.

    \b
    Examples:
      manyheads practice start scores
      manyheads practice judge scores.py --watch
      manyheads practice start repair-multi-head --seed 7
    """
    ctx.obj = data
    if ctx.invoked_subcommand is None:
        _show_ladder(data, as_json)


practice.add_command(grade)
practice.add_command(notebook)


@practice.command()
@click.argument("name")
@click.argument("folder", metavar="[DIR]", type=FilePath(file_okay=False), default=".")
@_SEED
@FORCE
def start(name: str, folder: Path, seed: int | None, force: bool) -> None:
    r"""Write the file of a task: its text, and a function or class to complete.

    A repair task starts with code that has one mistake; each seed gives another.

    \b
    Example:
      manyheads practice start multi-head answers
    """
    from manyheads.practice.repairs import any_task
    from manyheads.practice.starting import write_starter

    path = write_starter(any_task(name, seed), folder, force=force)
    click.echo(f"Wrote {path}")
    click.echo(f"Judge it: manyheads practice judge {path} --watch")


@practice.command("judge")
@click.argument("file", type=FilePath(exists=True, dir_okay=False))
@click.option("--task", "name", metavar="NAME", help="Task (default: named in the file).")
@_SEED
@click.option("--watch", is_flag=True, help="Judge again each time the file is saved.")
@_JSON
@DATA
@click.pass_context
def judge_command(
    ctx: click.Context,
    file: Path,
    name: str | None,
    seed: int | None,
    watch: bool,
    as_json: bool,
    data: Path | None,
) -> None:
    r"""Judge an answer. The exit status is 0 if it is right and 1 if it is not.

    \b
    Example:
      manyheads practice judge scores.py --watch
    """
    from manyheads.practice.judging import judge_file, task_of_text
    from manyheads.practice.records import record_verdict

    if watch and as_json:
        raise click.UsageError("--watch cannot be combined with --json: use one of the two")
    solved = False
    for number, _ in enumerate(_saves(file, watch)):
        report = judge_file(file, name=name, seed=seed)
        found = task_of_text(file.read_text(encoding="utf-8", errors="replace"))[1]
        if number:
            click.echo("\n" + "─" * 80)
        click.echo(report.to_json() if as_json else str(report))
        record_verdict(report, found if seed is None else seed, data or ctx.obj)
        solved = report.solved
        if watch:
            click.echo("\nWaiting for the next save of the file; Ctrl-C stops.")
    ctx.exit(0 if solved else 1)


def _saves(file: Path, watch: bool) -> Iterator[None]:
    """Once now, and when watching once more each time the file has been saved."""
    seen: float | None = None
    while True:
        try:
            saved = file.stat().st_mtime
        except FileNotFoundError:  # an editor is replacing it
            saved = None
        if saved is not None and saved != seen:
            seen = saved
            yield
            if not watch:
                return
        else:
            time.sleep(_TICK)


@practice.command()
@click.argument("name")
@click.option("--level", type=IntRange(1, 3), metavar="1..3", help="Hint to show (default: next).")
@_SEED
@DATA
@click.pass_obj
def hint(
    above: Path | None, name: str, level: int | None, seed: int | None, data: Path | None
) -> None:
    r"""Show the next hint of a task. There are three; the last is a line of code.

    \b
    Example:
      manyheads practice hint scores
    """
    from manyheads.learn.own_files import data_folder
    from manyheads.practice.records import Progress, add_event, progress
    from manyheads.practice.repairs import any_task

    task, folder = any_task(name, seed), data_folder(data or above)
    known = progress(folder).get(name, Progress())
    number = level or min(known.hints, len(task.hints) - 1) + 1
    click.echo(f"Hint {number} of {len(task.hints)}: {task.hints[number - 1]}")
    add_event(folder, "hint", name, level=number)


@practice.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@DATA
@click.pass_obj
def solution(above: Path | None, name: str, yes: bool, data: Path | None) -> None:
    r"""Show the solution of a task, after an attempt.

    \b
    Example:
      manyheads practice solution scores --yes
    """
    from manyheads.learn.own_files import data_folder
    from manyheads.practice.records import Progress, add_event, progress
    from manyheads.practice.repairs import any_task

    task, folder = any_task(name), data_folder(data or above)
    known = progress(folder).get(name, Progress())
    if not yes and not _agrees(name, known):
        return
    click.echo(task.solution.code.strip())
    add_event(folder, "solution", name)


def _agrees(name: str, known: "Progress") -> bool:
    attempts = f"{known.attempts} attempt{'' if known.attempts == 1 else 's'}"
    return click.confirm(f"You have made {attempts} at {name}. Show the solution?", err=True)


@practice.command()
@_JSON
@DATA
@click.pass_obj
def status(above: Path | None, as_json: bool, data: Path | None) -> None:
    r"""List the tasks, what is solved, and what comes next.

    \b
    Example:
      manyheads practice status --json
    """
    _show_ladder(data or above, as_json)


@practice.command()
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@DATA
@click.pass_obj
def reset(above: Path | None, name: str | None, yes: bool, data: Path | None) -> None:
    r"""Begin again with one task, or with all. The records stay; earlier ones no longer count.

    \b
    Example:
      manyheads practice reset scores --yes
    """
    from manyheads.learn.own_files import data_folder
    from manyheads.practice.records import add_event
    from manyheads.practice.repairs import any_task

    if name is not None:
        any_task(name)
    if yes or click.confirm(f"Begin again with {name or 'all tasks'}?", err=True):
        add_event(data_folder(data or above), "reset", name)
        click.echo(f"Reset: {name or 'all tasks'}")


def _show_ladder(data: Path | None, as_json: bool) -> None:
    """The ladder, as a table or as JSON."""
    from manyheads.core.tables import Table, text_from_table
    from manyheads.learn.own_files import data_folder
    from manyheads.practice.records import Progress, next_task, progress
    from manyheads.practice.repairs import any_task
    from manyheads.practice.task import task_names

    known = progress(data_folder(data))
    names = [*task_names(), *(n for n in known if n not in task_names())]
    found = [(any_task(n), known.get(n, Progress())) for n in names]
    if as_json:
        rows = [
            {"name": t.name, "title": t.title, "solved": p.solved, "attempts": p.attempts}
            for t, p in found
        ]
        click.echo(json.dumps({"tasks": rows}))
        return
    rows_of_table = tuple(
        (t.name, t.title, "solved" if p.solved else "", str(p.attempts or "")) for t, p in found
    )
    columns = ("task", "title", "solved", "attempts")
    click.echo(text_from_table(Table(title="", columns=columns, rows=rows_of_table, names=4)))
    following = next_task(task_names(), known)
    if following is None:
        click.echo("\nAll tasks are solved. Next: manyheads practice start repair-multi-head")
    else:
        click.echo(f"\nNext: manyheads practice start {following}")
