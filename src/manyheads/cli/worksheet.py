"""`manyheads worksheet`: list, show, solve and explain sums that can be done by hand."""

import json

import click

from manyheads.cli.types import INTEGER
from manyheads.cli.worksheet_print import print_
from manyheads.cli.worksheet_source import SET, SOURCE, edited_worksheet, say_which
from manyheads.cli.worksheet_try import try_
from manyheads.core.errors import WorksheetError
from manyheads.worksheets.interventions import one_wide_head, without_head, zero_query
from manyheads.worksheets.library import Worksheet, worksheet_names
from manyheads.worksheets.library import worksheet as opened
from manyheads.worksheets.sheet import schema_text

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(invoke_without_command=True)
@click.pass_context
def worksheet(ctx: click.Context) -> None:
    r"""Solve and explain sums that can be done by hand.

    NAME is one of `manyheads worksheet list`; FILE is a worksheet file of your own.

    \b
    Example:
      manyheads worksheet solve two-routes --receiver 3 --exact
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@worksheet.command("list")
@_JSON
def list_(as_json: bool) -> None:
    r"""List the worksheets that come with the package.

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
    r"""Show the given numbers of a worksheet; with --json, the worksheet file.

    \b
    Example:
      manyheads worksheet show river-and-cheque
    """
    sheet = edited_worksheet(source, changes)
    click.echo(sheet.to_json().rstrip("\n") if as_json else str(sheet))


@worksheet.command()
@SOURCE
@click.option("--sequence", metavar="S", help="Which sentence, by name; the first unless given.")
@click.option("--receiver", type=INTEGER, metavar="N", help="Only one receiver, counted from 1.")
@click.option("--exact", is_flag=True, help="Keep fractions, roots and logarithms.")
@SET
@click.option("--zero-query", "is_zero_query", is_flag=True, help="Make every query zero.")
@click.option("--without-head", type=INTEGER, metavar="N", help="Silence a head, counted from 1.")
@click.option("--one-wide-head", "is_one_head", is_flag=True, help="Join the heads into one.")
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
    r"""Solve a worksheet: every number from the input to the output.

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
    "--depth", type=INTEGER, metavar="N", help="How many layers of reasons; all unless given."
)
@_JSON
def explain(
    source: str, quantity: str, changes: tuple[str, ...], depth: int | None, as_json: bool
) -> None:
    r"""Explain one number: its arithmetic, down to the given numbers.

    QUANTITY is sequence.field[index]..., counted from 0; the sequence may be left out where there
    is only one.

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


worksheet.add_command(print_)
worksheet.add_command(try_)


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
