"""`manyheads quiz exercises`: drawn from a seed, answered by the engine, wrong answers named."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

import click

from manyheads.cli.asking import Asker, EndOfAnswers
from manyheads.cli.learn_options import DATA, FORCE, PAPER
from manyheads.cli.quiz_exercises_pdf import print_exercises
from manyheads.cli.types import INTEGER, FilePath
from manyheads.core.errors import LearnError
from manyheads.core.tables import wrapped
from manyheads.learn.exercises.answers import answers_from_file, exercise_named, exercise_sheet
from manyheads.learn.exercises.form import Exercise
from manyheads.learn.exercises.kinds import KINDS
from manyheads.learn.exercises.marking import Mark, answer_text, mark
from manyheads.learn.exercises.results import FILE, Marked, keep, marked
from manyheads.learn.exercises.sheet_text import exercise_text, working_text
from manyheads.learn.own_files import data_folder

_SEEDS = 10_000


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--seed", type=INTEGER, metavar="N", help="The same seed gives the same sheet.")
@click.option("--count", type=INTEGER, metavar="N", help="How many; one of each kind unless given.")
@click.option(
    "--answers",
    type=FilePath(),
    metavar="FILE",
    help='Mark a file: {"score/7": "1/2, 0, 3"} or lines such as score/7: 1/2, 0, 3.',
)
@click.option("--with-answers", is_flag=True, help="Show answers, misconceptions and working.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; asks nothing.")
@click.option(
    "--pdf",
    type=FilePath(),
    metavar="OUT.pdf",
    help="Write the sheet on paper; with --with-answers its key.",
)
@PAPER
@FORCE
@DATA
def exercises(  # noqa: PLR0913 - one argument an option
    kinds: tuple[str, ...],
    seed: int | None,
    count: int | None,
    answers: Path | None,
    with_answers: bool,
    as_json: bool,
    pdf: Path | None,
    paper: str,
    force: bool,
    data: Path | None,
) -> None:
    r"""Do exercises that are drawn from a seed and marked by the engine.

    KIND is score, weight-row, message, concat, projected-output, contribution, zero-query,
    ablation, parameter-count, byte-count, mask-rows, grouped-heads or layout-conversion; all in
    turn unless given. A wrong answer is compared with known mistakes, and the mistake is named.

    With --answers the file is marked, and with a KIND, --seed or --count also what it leaves out
    of that sheet. The exit status is 1 when any answer is wrong.

    \b
    Examples:
      manyheads quiz exercises score weight-row --seed 7 --count 4
      manyheads quiz exercises --seed 7 --json > sheet.json
      manyheads quiz exercises --answers answers.txt
      manyheads quiz exercises score --seed 7 --count 3 --pdf key.pdf --with-answers
    """
    is_sheet = bool(kinds) or seed is not None or count is not None
    first = secrets.randbelow(_SEEDS) if seed is None else seed
    wanted = len(kinds or KINDS) if count is None else count
    if pdf is not None and (as_json or answers is not None):
        raise click.UsageError("--pdf goes with neither --json nor --answers: leave one out")
    if pdf is not None:
        again = " ".join(["manyheads quiz exercises", *kinds, f"--seed {first} --count {wanted}"])
        sheet = list(exercise_sheet(kinds, first, wanted))
        print_exercises(sheet, pdf, again, is_key=with_answers, paper=paper, force=force)
    elif answers is not None:
        sheet = list(exercise_sheet(kinds, first, wanted)) if is_sheet and seed is not None else []
        if is_sheet and seed is None:
            raise click.UsageError("--answers with a KIND or --count needs the sheet's --seed")
        _mark_file(answers, sheet, as_json, data)
    elif as_json or with_answers:
        _list(list(exercise_sheet(kinds, first, wanted)), with_answers, as_json)
    else:
        _ask_all(list(exercise_sheet(kinds, first, wanted)), data_folder(data))


def _list(sheet: Sequence[Exercise], with_answers: bool, as_json: bool) -> None:
    if as_json:
        items = [exercise.to_json(with_answer=with_answers) for exercise in sheet]
        click.echo(json.dumps({"exercises": items}, ensure_ascii=False))
        return
    for exercise in sheet:
        click.echo(f"{exercise_text(exercise)}\n\nWorking:\n{working_text(exercise)}")
        click.echo("\n".join(wrapped(f"Answer: {answer_text(exercise)}.")))
        click.echo("Known mistakes:")
        for item in exercise.misconceptions:
            click.echo("\n".join(wrapped(f"{item.name}: {item.says}", indent="  ")))
        click.echo()


def _mark_file(path: Path, sheet: Sequence[Exercise], as_json: bool, data: Path | None) -> None:
    given = answers_from_file(path)
    found = {exercise.id: marked(exercise, given.get(exercise.id)) for exercise in sheet}
    for name, typed in given.items():
        exercise = exercise_named(name)
        found.setdefault(exercise.id, marked(exercise, typed))
    results = list(found.values())
    keep(data_folder(data), results)
    right = sum(result.mark.is_right for result in results)
    if as_json:
        marks = [result.to_json() for result in results]
        document = {"marked": marks, "right": right, "count": len(results)}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        for result in results:
            click.echo("\n".join(wrapped(f"{result.exercise.id}: {result.mark.says}")))
        click.echo(f"{right} of {len(results)} right.")
    if right < len(results):
        raise click.exceptions.Exit(1)


def _ask_all(sheet: Sequence[Exercise], folder: Path) -> None:
    asker = Asker()
    click.echo("Type the numbers, then Enter; an empty line passes on, Ctrl-D ends.\n")
    results: list[Marked] = []
    try:
        for exercise in sheet:
            _ask_one(asker, exercise, folder, results)
    except EndOfAnswers:
        click.echo()
    except KeyboardInterrupt:
        click.echo(f"\n{_summary(results, folder)}", err=True)
        raise
    click.echo(_summary(results, folder))


def _ask_one(asker: Asker, exercise: Exercise, folder: Path, results: list[Marked]) -> None:
    click.echo(exercise_text(exercise))
    answered = asker.ask("", lambda line: _judged(exercise, line))
    if answered is not None:
        keep(folder, [answered])
        results.append(answered)
        click.echo("\n".join(wrapped(answered.mark.says, later="")))
    if answered is None or not answered.mark.is_right:
        click.echo("\n".join(wrapped(f"Answer: {answer_text(exercise)}.")))
    click.echo(f"Working:\n{working_text(exercise)}\n")


def _judged(exercise: Exercise, line: str) -> Marked:
    found: Mark = mark(exercise, line)
    if not found.is_judged:
        raise LearnError(found.says)
    return Marked(exercise, line, found)


def _summary(results: Sequence[Marked], folder: Path) -> str:
    if not results:
        return "No answers."
    right = sum(result.mark.is_right for result in results)
    count = len(results)
    return f"{right} of {count} right. Kept in {folder / FILE}."
