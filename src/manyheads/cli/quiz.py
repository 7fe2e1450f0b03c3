"""`manyheads quiz`: eight questions, topics to explain, exercises, and the log of predictions."""

import json
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.learn_options import DATA
from manyheads.cli.types import INTEGER
from manyheads.core.errors import LearnError

if TYPE_CHECKING:
    from manyheads.cli.asking import Asker
    from manyheads.learn.attempts import QuizAttempt
    from manyheads.learn.quiz import Ask, NumberMark, Question

_FROM_ELSEWHERE = {
    "explain": ("manyheads.cli.quiz_explain", "explain"),
    "exercises": ("manyheads.cli.quiz_exercises", "exercises"),
    "log": ("manyheads.cli.quiz_log", "log"),
}
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class QuizGroup(click.Group):
    """A group whose larger commands are loaded only when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        found = [name for name, (module, _) in _FROM_ELSEWHERE.items() if find_spec(module)]
        return [*super().list_commands(ctx), *found]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in _FROM_ELSEWHERE or cmd_name not in self.list_commands(ctx):
            return super().get_command(ctx, cmd_name)
        module, name = _FROM_ELSEWHERE[cmd_name]
        loaded = getattr(import_module(module), name)
        assert isinstance(loaded, click.Command)
        loaded.help = (loaded.help or "").replace("\\b", "\b")
        return loaded


@click.group(cls=QuizGroup, invoke_without_command=True)
@click.option(
    "--question",
    "numbers",
    type=INTEGER,
    multiple=True,
    metavar="1..8",
    help="Question to ask; repeat for more.",
)
@click.option(
    "--from", "first", type=INTEGER, metavar="1..8", help="First question; all later ones follow."
)
@DATA
@_JSON
@click.pass_context
def quiz(
    ctx: click.Context,
    numbers: tuple[int, ...],
    first: int | None,
    data: Path | None,
    as_json: bool,
) -> None:
    r"""Answer eight questions about multi-head attention.

    The quiz recomputes your numbers to mark them; you mark your words with a rubric. Type each
    answer on one line; an empty line skips it. Your answers are saved.

    \b
    Examples:
      manyheads quiz
      manyheads quiz --question 5
      manyheads quiz explain mask
    """
    if ctx.invoked_subcommand is not None:
        if numbers or first is not None or as_json:
            name = ctx.invoked_subcommand
            raise click.UsageError(
                f"--question, --from and --json must come after {name}, not before it"
            )
        ctx.obj = data
        return
    _run_quiz(_chosen(numbers, first), data, as_json)


def _chosen(numbers: tuple[int, ...], first: int | None) -> list[int]:
    from manyheads.learn.quiz import question_ids

    count = len(question_ids())
    for name, number in (*(("--question", n) for n in numbers), ("--from", first)):
        if number is not None and not 1 <= number <= count:
            raise LearnError(f"{name} ({number}) must be 1 to {count}: use one of them")
    if numbers and first is not None:
        raise LearnError(f"--from ({first}) cannot be combined with --question: use one of the two")
    return list(numbers) or list(range(first or 1, count + 1))


def _run_quiz(chosen: list[int], data: Path | None, as_json: bool) -> None:
    from manyheads.cli.asking import Asker, EndOfAnswers, kept_text
    from manyheads.learn.attempts import QUIZ_FILE, QuizAttempt, check_file
    from manyheads.learn.own_files import data_folder
    from manyheads.learn.quiz import question

    folder, asker = data_folder(data), Asker(as_json=as_json)
    check_file(folder, QUIZ_FILE)
    done: list[tuple[Question, QuizAttempt]] = []
    is_whole, where = True, folder / QUIZ_FILE
    try:
        for number in chosen:
            asked = question(number)
            if done:
                asker.say()
            done.append((asked, QuizAttempt(folder=folder, question=asked.id)))
            _ask_question(asker, *done[-1])
    except EndOfAnswers:
        is_whole = False
        asker.say("The answers end here.")
    except KeyboardInterrupt:
        if _has_answers(done):
            asker.warn(kept_text(where))
        raise
    if as_json:
        click.echo(json.dumps(_document(done, where, is_whole), allow_nan=False))
        return
    _say_result(asker, done)
    if _has_answers(done):
        asker.say_kept(where)
    else:
        asker.say("No answers, so nothing was saved.")


def _ask_question(asker: "Asker", asked: "Question", attempt: "QuizAttempt") -> None:
    """Ask one question; the answers are saved even if an error follows."""
    from manyheads.learn.quiz import question_ids

    count = len(question_ids())
    try:
        asker.say(f"Question {asked.number} of {count} · {asked.title}", indent="")
        asker.say("─" * 80, indent="")
        asker.say(str(asked.prompt))
        if asked.worksheet:
            asker.say()
            asker.say(f"To see its given numbers: manyheads worksheet show {asked.worksheet}")
        _ask_numbers(asker, asked, attempt)
        asker.say()
        asker.say("Your answer in your own words, on one line (an empty line skips it):")
        attempt.answer = asker.ask("", _text) or ""
        attempt.save()
        _mark_points(asker, asked, attempt)
    finally:
        attempt.save()


def _text(line: str) -> str:
    from manyheads.learn.attempts import checked_text

    return checked_text(line)


def _ask_numbers(asker: "Asker", asked: "Question", attempt: "QuizAttempt") -> None:
    for number, ask in enumerate(asked.numbers, start=1):
        asker.say()
        asker.say(f"Number {number} of {len(asked.numbers)}: {ask.prompt}")
        attempt.typed.append("")
        attempt.right.append(None)
        found = asker.ask("", partial(_marked, ask))
        if found is not None:
            attempt.typed[-1], marked = found
            attempt.right[-1] = marked.is_right
            asker.say(marked.says)


def _marked(ask: "Ask", line: str) -> "tuple[str, NumberMark]":
    from manyheads.learn.quiz import mark_numeric
    from manyheads.learn.typed import is_right

    is_right(line, ask.value)  # too few digits to tell: asked again, before the number is shown
    return _text(line), mark_numeric(line, ask.value)


def _mark_points(asker: "Asker", asked: "Question", attempt: "QuizAttempt") -> None:
    asker.say()
    asker.say("Full answer")
    asker.say(str(asked.answer), indent="    ")
    asker.say()
    asker.say(f"In the story: manyheads serve, then #story/{asked.frame}", indent="    ")
    if not attempt.answer:
        return
    asker.say()
    asker.say("Does your answer contain these points?")
    for number, point in enumerate(asked.rubric, start=1):
        asker.say(f"{number}. {point}", later="   ")
        attempt.covered.append(None)
        attempt.covered[-1] = asker.yes("")


def _has_answers(done: "list[tuple[Question, QuizAttempt]]") -> bool:
    return any(attempt.has_answer for _, attempt in done)


def _say_result(asker: "Asker", done: "list[tuple[Question, QuizAttempt]]") -> None:
    right = [mark for _, attempt in done for mark in attempt.right]
    covered = [mark for _, attempt in done for mark in attempt.covered]
    numbers = sum(len(asked.numbers) for asked, _ in done)
    points = sum(len(asked.rubric) for asked, _ in done)
    asker.say()
    asker.say(
        f"Numbers right: {right.count(True)} of {numbers}. "
        f"Points covered: {covered.count(True)} of {points}."
    )
    for asked, attempt in done:
        for point, mark in zip(asked.rubric, attempt.covered, strict=False):
            if mark is False:
                asker.say(f"Missing in question {asked.number}: {point}", later="  ")


def _document(
    done: "list[tuple[Question, QuizAttempt]]", where: Path, is_whole: bool
) -> dict[str, Any]:
    return {
        "questions": [_attempt_json(asked, attempt) for asked, attempt in done],
        "finished": is_whole,
        "file": str(where),
    }


def _attempt_json(asked: "Question", attempt: "QuizAttempt") -> dict[str, Any]:
    from manyheads.worksheets.arithmetic import float_of

    typed = [*attempt.typed, *("" for _ in asked.numbers)]
    right = [*attempt.right, *(None for _ in asked.numbers)]
    covered = [*attempt.covered, *(None for _ in asked.rubric)]
    numbers = zip(asked.numbers, typed, right, strict=False)
    return {
        "number": asked.number,
        "id": asked.id,
        "title": asked.title,
        "numbers": [
            {
                "prompt": str(ask.prompt),
                "quantity": ask.quantity,
                "value": float_of(ask.value),
                "typed": text,
                "right": mark,
            }
            for ask, text, mark in numbers
        ],
        "answer": attempt.answer,
        "points": [
            {"says": str(point), "covered": mark}
            for point, mark in zip(asked.rubric, covered, strict=False)
        ],
    }


@quiz.command("list")
@DATA
@_JSON
@click.pass_context
def list_(ctx: click.Context, data: Path | None, as_json: bool) -> None:
    r"""List the questions and your latest results.

    \b
    Example:
      manyheads quiz list
    """
    from manyheads.learn.own_files import data_folder
    from manyheads.learn.quiz.question import standings

    found = standings(data_folder(data or ctx.obj))
    if as_json:
        click.echo(json.dumps([standing.to_json() for standing in found]))
        return
    width = max(len(standing.title) for standing in found)
    for standing in found:
        click.echo(f"{standing.number}  {standing.title:<{width}}  {standing.says}")
