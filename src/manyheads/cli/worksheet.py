"""`manyheads worksheet`: list, show, solve, explain and change calculations done by hand."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.learn_options import DATA
from manyheads.cli.types import INTEGER
from manyheads.cli.worksheet_print import print_
from manyheads.cli.worksheet_source import SET, SOURCE, edited_worksheet, say_which
from manyheads.core.errors import WorksheetError
from manyheads.core.tables import wrapped
from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.interventions import one_wide_head, without_head, zero_query
from manyheads.worksheets.library import SOURCES, Worksheet, worksheet_names
from manyheads.worksheets.library import worksheet as opened
from manyheads.worksheets.numbers import exact_text
from manyheads.worksheets.sheet import schema_text

if TYPE_CHECKING:
    from manyheads.cli.asking import Asker
    from manyheads.learn.predictions import Judged
    from manyheads.learn.worksheet_tries import Try

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(invoke_without_command=True)
@click.pass_context
def worksheet(ctx: click.Context) -> None:
    r"""Solve and explain attention calculations that can be done by hand.

    NAME is one of `manyheads worksheet list`. FILE is the path of your own worksheet file.

    \b
    Example:
      manyheads worksheet solve two-routes --receiver 3 --exact
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@worksheet.command("list")
@_JSON
def list_(as_json: bool) -> None:
    r"""List the worksheets in the package.

    \b
    Example:
      manyheads worksheet list
    """
    sheets = [opened(name) for name in worksheet_names()]
    if as_json:
        click.echo(json.dumps([_summary(sheet) for sheet in sheets]))
        return
    width = max(len(sheet.name) for sheet in sheets)
    for sheet in sheets:
        sizes = f"{sheet.num_heads} heads, width {sheet.embed_dim}"
        click.echo(f"{sheet.name:<{width}}  {sheet.title} ({sizes})")


def _summary(sheet: Worksheet) -> dict[str, object]:
    return {
        "name": sheet.name,
        "title": sheet.title,
        "sequences": list(sheet.sequence_names),
        "num_heads": sheet.num_heads,
        "embed_dim": sheet.embed_dim,
    }


@worksheet.command()
@SOURCE
@SET
@_JSON
def show(source: str, changes: tuple[str, ...], as_json: bool) -> None:
    r"""Show the given numbers of a worksheet.

    With --json, print the worksheet file.

    \b
    Example:
      manyheads worksheet show river-and-cheque
    """
    sheet = edited_worksheet(source, changes)
    if as_json:
        click.echo(sheet.to_json().rstrip("\n"))
        return
    click.echo(str(sheet))
    if source in SOURCES:
        click.echo("\n" + "\n".join(wrapped(f"Numbers: {SOURCES[source]}.", later="")))


@worksheet.command()
@SOURCE
@click.option("--sequence", metavar="S", help="Name of the sequence (default: the first).")
@click.option(
    "--receiver", type=INTEGER, metavar="N", help="Show one receiver only, counted from 1."
)
@click.option(
    "--exact",
    is_flag=True,
    help="Keep fractions, roots and logarithms; otherwise compute in float64.",
)
@SET
@click.option("--zero-query", "is_zero_query", is_flag=True, help="Set every query to zero.")
@click.option(
    "--without-head",
    type=INTEGER,
    metavar="N",
    help="Set the values of one head to zero, counted from 1.",
)
@click.option(
    "--one-wide-head", "is_one_head", is_flag=True, help="Merge all heads into one wide head."
)
@_JSON
def solve(  # noqa: PLR0913 - one argument an option
    source: str,
    sequence: str | None,
    receiver: int | None,
    exact: bool,
    changes: tuple[str, ...],
    is_zero_query: bool,
    without_head: int | None,
    is_one_head: bool,
    as_json: bool,
) -> None:
    r"""Compute every number of a worksheet.

    \b
    Examples:
      manyheads worksheet solve two-routes --receiver 3 --exact
      manyheads worksheet solve two-routes --set "heads.0.W_Q[0][0]=1/2" --json
      manyheads worksheet solve river-and-cheque --sequence cheque --one-wide-head
    """
    sheet = _changed(edited_worksheet(source, changes), is_zero_query, without_head, is_one_head)
    say_which(sheet, sequence)
    solution = sheet.solve(sequence, exact=exact)
    if receiver is not None:
        solution = solution.at(receiver)
    click.echo(solution.to_json() if as_json else str(solution))


@worksheet.command()
@SOURCE
@click.argument("quantity")
@SET
@click.option(
    "--depth", type=INTEGER, metavar="N", help="Number of levels to explain (default: all)."
)
@_JSON
def explain(
    source: str, quantity: str, changes: tuple[str, ...], depth: int | None, as_json: bool
) -> None:
    r"""Explain how one number is computed from the given numbers.

    QUANTITY is sequence.field[index]..., counted from 0. You can leave the sequence out if the
    worksheet has only one.

    \b
    Example:
      manyheads worksheet explain river-and-cheque "river.output[9][0]" --depth 3
    """
    explanation = edited_worksheet(source, changes).explain(quantity, depth)
    click.echo(explanation.to_json() if as_json else str(explanation))


@worksheet.command()
def schema() -> None:
    r"""Print the JSON Schema of worksheet files.

    \b
    Example:
      manyheads worksheet schema > worksheet.schema.json
    """
    click.echo(schema_text().rstrip("\n"))


def _changed(sheet: Worksheet, is_zero: bool, silenced: int | None, is_one_head: bool) -> Worksheet:
    if silenced is not None:
        if not 1 <= silenced <= sheet.num_heads:
            count = sheet.num_heads
            raise WorksheetError(
                f"--without-head ({silenced}) must be 1 to {count}: use one of them"
            )
        sheet = without_head(sheet, silenced - 1)
    if is_zero:
        sheet = zero_query(sheet)
    return one_wide_head(sheet) if is_one_head else sheet


@worksheet.command("try")
@SOURCE
@click.argument("name", metavar="[TRY]", required=False)
@SET
@click.option("--sequence", metavar="S", help="Name of the sequence (default: the first).")
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
    r"""Predict the effect of a change on one number.

    Then compare your prediction with the computed result. Without TRY, the command lists the
    experiments of the worksheet. Without --predict, it asks for your prediction. It saves the
    prediction and the outcome; see `manyheads quiz log`.

    \b
    Examples:
      manyheads worksheet try two-routes
      manyheads worksheet try two-routes zero-query
      manyheads worksheet try two-routes without-head-1 --predict lower
    """
    sheet = edited_worksheet(source, changes)
    if name is None:
        if predict is not None:
            raise click.UsageError("--predict needs the name of an experiment: give TRY")
        _list(sheet, sequence, as_json)
        return
    say_which(sheet, sequence)
    _run(sheet, name, sequence, predict, data, as_json)


def _list(sheet: Worksheet, sequence: str | None, as_json: bool) -> None:
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
    sheet: Worksheet,
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
        asker.say("You made no prediction, so the experiment did not run.")
        return
    asker.say(found[1].says)
    asker.say(chosen.explain(chosen.after))
    asker.say_kept(folder / FILE)


def _judged(chosen: "Try", text: str) -> "tuple[str, Judged]":
    """A prediction as it is saved, and whether it was right."""
    from manyheads.learn.attempts import checked_text
    from manyheads.learn.predictions import judge

    return checked_text(text), judge(text, chosen.before, chosen.after)


def _asked(asker: "Asker", chosen: "Try") -> "tuple[str, Judged] | None":
    """Ask for a prediction; None where none is made."""
    from manyheads.cli.asking import EndOfAnswers

    asker.say("A number, or higher, lower or same:")
    try:
        return asker.ask("", partial(_judged, chosen))
    except EndOfAnswers:
        return None


def outcome_text(chosen: "Try") -> str:
    """The number before and after, and the direction of the change."""
    from manyheads.learn.predictions import direction_of
    from manyheads.learn.sentences import value_text

    way = direction_of(chosen.before, chosen.after)
    return f"{value_text(chosen.before)} becomes {value_text(chosen.after)} ({way})"


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


def _number_json(number: Number) -> dict[str, Any]:

    exact = exact_text(number) if is_exact(number) else None
    return {"value": float_of(number), "exact": exact}


worksheet.add_command(print_)
