"""`manyheads worksheet try`: predict one number, then let the engine change the worksheet."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.learn_options import DATA
from manyheads.cli.worksheet_source import SET, SOURCE, edited_worksheet, say_which

if TYPE_CHECKING:
    from manyheads.cli.asking import Asker
    from manyheads.learn.predictions import Judged
    from manyheads.learn.worksheet_tries import Try
    from manyheads.worksheets.arithmetic import Number
    from manyheads.worksheets.library import Worksheet


@click.command("try")
@SOURCE
@click.argument("name", metavar="[TRY]", required=False)
@SET
@click.option("--sequence", metavar="S", help="Which sentence, by name; the first unless given.")
@click.option(
    "--predict", metavar="TEXT", help="Your prediction: a number, or higher, lower or same."
)
@DATA
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def try_(
    source: str,
    name: str | None,
    changes: tuple[str, ...],
    sequence: str | None,
    predict: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    r"""Predict what a change does to one number, then see what the engine says.

    Without TRY, the experiments that the worksheet allows. Without --predict you are asked. Your
    prediction and the outcome are kept; see `manyheads quiz log`.

    \b
    Examples:
      manyheads worksheet try two-routes
      manyheads worksheet try two-routes zero-query
      manyheads worksheet try two-routes without-head-1 --predict lower
    """
    sheet = edited_worksheet(source, changes)
    if name is None:
        if predict is not None:
            raise click.UsageError("--predict goes with the name of an experiment: give TRY")
        _list(sheet, sequence, as_json)
        return
    say_which(sheet, sequence)
    _run(sheet, name, sequence, predict, data, as_json)


def _list(sheet: "Worksheet", sequence: str | None, as_json: bool) -> None:
    from manyheads.core.tables import wrapped
    from manyheads.learn.worksheet_tries import tries_of

    found = tries_of(sheet, sequence)
    if as_json:
        click.echo(json.dumps([_try_json(one) for one in found], allow_nan=False))
        return
    width = max(len(one.name) for one in found)
    for one in found:
        text = f"{one.name:<{width}}  {one.change} What happens to the {one.label}?"
        click.echo("\n".join(wrapped(text, later=" " * (width + 2))))


def _run(
    sheet: "Worksheet",
    name: str,
    sequence: str | None,
    predict: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    from manyheads.cli.asking import Asker
    from manyheads.learn.attempts import check_file
    from manyheads.learn.own_files import data_folder
    from manyheads.learn.predictions import FILE, Prediction, keep_prediction
    from manyheads.learn.worksheet_tries import try_named

    chosen, asker = try_named(sheet, name, sequence), Asker(as_json=as_json)
    found = None if predict is None else _judged(chosen, predict)
    folder = data_folder(data)
    check_file(folder, FILE)
    asker.say(f"Try {chosen.name} on {sheet.name}", indent="")
    asker.say(chosen.question)
    found = found or _asked(asker, chosen)
    if found is not None:
        text, judged = found
        made = Prediction(
            where=f"worksheet:{sheet.name}",
            try_name=chosen.name,
            prediction=text,
            outcome=f"{chosen.label}: {outcome_text(chosen)}",
            right=judged.right,
        )
        keep_prediction(folder, made)
    if as_json:
        click.echo(json.dumps(_document(chosen, found, folder / FILE), allow_nan=False))
        return
    if found is None:
        asker.say("Nothing was predicted, so nothing was run.")
        return
    asker.say(found[1].says)
    asker.say(chosen.explain(chosen.after))
    asker.say_kept(folder / FILE)


def _judged(chosen: "Try", text: str) -> "tuple[str, Judged]":
    """A prediction as it is kept, and its judgement."""
    from manyheads.learn.attempts import checked_text
    from manyheads.learn.predictions import judge

    return checked_text(text), judge(text, chosen.before, chosen.after)


def _asked(asker: "Asker", chosen: "Try") -> "tuple[str, Judged] | None":
    """A prediction that is asked for; None where nobody predicts anything."""
    from manyheads.cli.asking import EndOfAnswers

    asker.say("A number, or higher, lower or same:")
    try:
        return asker.ask("", partial(_judged, chosen))
    except EndOfAnswers:
        return None


def outcome_text(chosen: "Try") -> str:
    """The number before and after, and which way it went."""
    from manyheads.learn.predictions import direction_of
    from manyheads.learn.quiz.typed import shown

    way = direction_of(chosen.before, chosen.after)
    return f"{shown(chosen.before)} becomes {shown(chosen.after)} ({way})"


def _document(chosen: "Try", found: "tuple[str, Judged] | None", where: Path) -> dict[str, Any]:
    from manyheads.learn.predictions import direction_of

    document = _try_json(chosen) | {"prediction": None, "outcome": None, "right": None}
    if found is None:
        return document
    text, judged = found
    outcome = _number_json(chosen.after)
    outcome["direction"] = direction_of(chosen.before, chosen.after)
    said = {"says": judged.says, "explanation": chosen.explain(chosen.after), "file": str(where)}
    return document | {"prediction": text, "outcome": outcome, "right": judged.right} | said


def _try_json(chosen: "Try") -> dict[str, Any]:
    return {
        "worksheet": chosen.changed.name,
        "try": chosen.name,
        "change": chosen.change,
        "question": chosen.question,
        "quantity": f"{chosen.changed.name}:{chosen.quantity.name}",
        "before": _number_json(chosen.before),
    }


def _number_json(number: "Number") -> dict[str, Any]:
    from manyheads.worksheets.arithmetic import float_of, is_exact
    from manyheads.worksheets.numbers import exact_text

    exact = exact_text(number) if is_exact(number) else None
    return {"value": float_of(number), "exact": exact}
