"""`manyheads quiz log`: predictions, outcomes, and how many were right."""

import json
from pathlib import Path

import click

from manyheads.cli.learn_options import DATA

_MARKS = {True: "right", False: "not right", None: "not marked"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@DATA
@click.pass_context
def log(ctx: click.Context, as_json: bool, data: Path | None) -> None:
    r"""Show your predictions and their outcomes, oldest first.

    `manyheads lab --predict` and `manyheads worksheet try` save them.

    \b
    Example:
      manyheads quiz log
    """
    from manyheads.core.tables import wrapped
    from manyheads.core.text import printable
    from manyheads.learn.own_files import data_folder
    from manyheads.learn.predictions import read_predictions, tally_of

    found = read_predictions(data_folder(data or ctx.obj))
    tally = tally_of(found)
    if as_json:
        records = [one.to_json() for one in found]
        click.echo(json.dumps({"predictions": records, **tally._asdict()}))
        return
    for one in found:
        click.echo(printable(f"{one.when[:10]}  {one.where}, {one.try_name}: {_MARKS[one.right]}"))
        for what, text in (("predicted", one.prediction), ("outcome", one.outcome)):
            click.echo("\n".join(wrapped(f"{what}: {printable(text)}", "    ", "  ")))
    if not found:
        click.echo("No predictions yet: run manyheads worksheet try two-routes")
        return
    click.echo(f"Right: {tally.right} of {tally.judged} marked. Predictions: {tally.made}.")
