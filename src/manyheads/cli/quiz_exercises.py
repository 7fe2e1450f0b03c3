"""`manyheads quiz exercises`: draw exercises from a seed, mark answers, name known mistakes."""

import json
import secrets
import textwrap
from collections.abc import Sequence
from pathlib import Path

import click

from manyheads.cli.asking import Asker, EndOfAnswers
from manyheads.cli.learn_options import DATA, FORCE, PAPER
from manyheads.cli.types import INTEGER, FilePath, InputPath
from manyheads.core.errors import LearnError
from manyheads.core.tables import wrapped
from manyheads.learn.attempts import check_file
from manyheads.learn.exercises.answers import answers_from_file
from manyheads.learn.exercises.form import Exercise
from manyheads.learn.exercises.kinds import KINDS, exercise_named, exercise_sheet
from manyheads.learn.exercises.marking import FILE, Marked, keep, mark, marked
from manyheads.learn.own_files import data_folder

_SEEDS = 10_000
_NAME = max(map(len, KINDS)) + 2


def _kind_lines() -> str:
    """Every kind with what it asks, in 76 columns."""
    return "\n".join(
        textwrap.fill(
            kind.summary,
            width=76,
            initial_indent=f"  {kind.name:<{_NAME}}",
            subsequent_indent=" " * (_NAME + 2),
        )
        for kind in KINDS.values()
    )


_HELP = f"""Do exercises with numbers from a random seed.

Type the numbers that are asked for. If a known mistake gives exactly your numbers, the command
names the mistake. Without a KIND, it uses all kinds in turn.

\b
Kinds:
{_kind_lines()}

--answers marks the answers in a file. With a KIND, --seed or --count, exercises of that sheet
without an answer count as wrong. The exit status is 1 if any answer is wrong.

\b
Examples:
  manyheads quiz exercises score weight-row --seed 7 --count 4
  manyheads quiz exercises --seed 7 --json > sheet.json
  manyheads quiz exercises --answers answers.txt
  manyheads quiz exercises score --seed 7 --pdf key.pdf --with-answers
"""


@click.command(help=_HELP)
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option(
    "--seed",
    type=INTEGER,
    metavar="N",
    help="Random seed of the sheet (default: a new one each time).",
)
@click.option(
    "--count", type=INTEGER, metavar="N", help="Number of exercises (default: one of each kind)."
)
@click.option(
    "--answers",
    type=InputPath(),
    metavar="FILE",
    help='File of answers to mark: {"score/7": "1/2, 0, 3"}, or lines such as score/7: 1/2, 0, 3. '
    "A dash reads standard input.",
)
@click.option("--with-answers", is_flag=True, help="Show answers, known mistakes and working.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; ask nothing.")
@click.option(
    "--pdf",
    type=FilePath(),
    metavar="OUT.pdf",
    help="File to print the sheet to; with --with-answers, the answer key.",
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
    """Do exercises; the help text is `_HELP`."""
    is_sheet = bool(kinds) or seed is not None or count is not None
    first = secrets.randbelow(_SEEDS) if seed is None else seed
    wanted = len(kinds or KINDS) if count is None else count
    if pdf is not None and (as_json or answers is not None):
        raise click.UsageError("--pdf cannot be combined with --json or --answers: leave one out")
    if answers is not None and is_sheet and seed is None:
        raise click.UsageError("--answers with a KIND or --count needs the seed: add --seed")
    sheet = [] if answers and not is_sheet else list(exercise_sheet(kinds, first, wanted))
    if pdf is not None:
        again = " ".join(["manyheads quiz exercises", *kinds, f"--seed {first} --count {wanted}"])
        _print(sheet, pdf, again, is_key=with_answers, paper=paper, force=force)
    elif answers is not None:
        _mark_file(answers, sheet, as_json, data)
    elif as_json:
        items = [exercise.to_json(with_answer=with_answers) for exercise in sheet]
        click.echo(json.dumps({"exercises": items}, ensure_ascii=False))
    elif with_answers:
        _show_answers(sheet)
    else:
        _ask_all(sheet, data_folder(data))


def _print(
    sheet: Sequence[Exercise], out: Path, again: str, *, is_key: bool, paper: str, force: bool
) -> None:
    """Write exercises as a PDF; `again` is the command that draws the same ones."""
    from manyheads.report.paper import check_target, pdf_from_sheets, write_pdf
    from manyheads.report.paper_exercises import sheets_from_exercises

    check_target(out, force)
    sheets = sheets_from_exercises(sheet, again)
    write_pdf(out, pdf_from_sheets(sheets, is_key=is_key, size=paper), force)
    click.echo(f"{'The key' if is_key else 'The sheet'} is in {out} ({again})")


def _show_answers(sheet: Sequence[Exercise]) -> None:
    for exercise in sheet:
        click.echo(f"{exercise.question_text()}\n\nWorking:\n{exercise.working_text()}")
        click.echo("\n".join(wrapped(f"Answer: {exercise.answer_text()}.")))
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
    check_file(folder, FILE)
    click.echo("Type the numbers, then Enter. An empty line skips an exercise; Ctrl-D ends.\n")
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
    click.echo(exercise.question_text())
    answered = asker.ask("", lambda line: _judged(exercise, line))
    if answered is not None:
        keep(folder, [answered])
        results.append(answered)
        click.echo("\n".join(wrapped(answered.mark.says, later="")))
    if answered is None or not answered.mark.is_right:
        click.echo("\n".join(wrapped(f"Answer: {exercise.answer_text()}.")))
    click.echo(f"Working:\n{exercise.working_text()}\n")


def _judged(exercise: Exercise, line: str) -> Marked:
    found = mark(exercise, line)
    if not found.is_judged:
        raise LearnError(found.says)
    return Marked(exercise, line, found)


def _summary(results: Sequence[Marked], folder: Path) -> str:
    if not results:
        return "No answers."
    right = sum(result.mark.is_right for result in results)
    return f"{right} of {len(results)} right. Saved in {folder / FILE}."
