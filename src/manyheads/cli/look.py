"""`manyheads look`: what the heads of a model do, with the proof of every number shown."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.look_data import ablate, corpus
from manyheads.cli.look_model import (
    MODEL,
    default_input,
    json_option,
    model_options,
    open_named,
    read_inputs,
    seed_option,
)
from manyheads.cli.types import FilePath, IntRange

if TYPE_CHECKING:
    from manyheads.looking.opening import Opened
    from manyheads.looking.reading import Look

_SHOW = "show"


class LookGroup(click.Group):
    """A group in which `look MODEL` means `look show MODEL`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `show` first where no subcommand is named."""
        if not args:
            raise click.UsageError("Missing argument 'MODEL': give a folder.", ctx)
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


@click.group(cls=LookGroup)
def look() -> None:
    r"""Look at the heads of a model, with a proof of every number.

    MODEL is a folder with config.json and safetensors, or a model of the package. Nothing is
    downloaded and no code of the folder is run. Exit status 1: some layers show patterns only.

    \b
    Examples:
      manyheads look four-heads --text "once upon a time there was a little cat"
      manyheads look FOLDER --text "..." --layer 3 --head 5 --html heads.html
    """


look.add_command(ablate)
look.add_command(corpus)


@look.command(name=_SHOW)
@model_options
@click.option("--text", metavar="TEXT", help="Text to read; a short story unless given.")
@click.option(
    "--inputs",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Inputs of the forward pass by name (safetensors), in place of a text.",
)
@click.option("--layer", type=IntRange(0), metavar="L", help="Layer of the head to show large.")
@click.option("--head", type=IntRange(0), metavar="H", help="Head to show large (default 0).")
@click.option(
    "--logit", metavar="TOKEN", help="Divide the logit of this token at the last position."
)
@click.option("--against", metavar="TOKEN", help="Token whose logit is subtracted.")
@click.option("--no-labels", is_flag=True, help="Leave out the labels.")
@click.option(
    "--html", type=FilePath(dir_okay=False), metavar="FILE", help="Write one HTML file as well."
)
@click.option(
    "--save",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="Write one JSON file with the weights as well, which the view Look of the page opens.",
)
@seed_option
@json_option
def show(
    model: str,
    download: bool,
    text: str | None,
    inputs: Path | None,
    html: Path | None,
    save: Path | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - what `_seen` and `_print` take
) -> None:
    r"""Show what the heads of MODEL do with a text.

    \b
    Examples:
      manyheads look show four-heads --text "once upon a time" --layer 0 --head 1
      manyheads look show four-heads --json
    """
    seen = _seen(open_named(model, download), text, inputs, options)
    heads = [(options["layer"], options["head"] or 0)] if options["layer"] is not None else []
    _write(seen, heads, html, save)
    if as_json:
        click.echo(seen.to_json())
    else:
        _print(seen, options["layer"], options["head"])
    if seen.proof.refused:
        click.get_current_context().exit(1)


def _write(
    seen: "Look", heads: list[tuple[int, int]], html: Path | None, save: Path | None
) -> None:
    """Write the files that were asked for."""
    from manyheads.core.files import write_whole
    from manyheads.looking.pictures import file_html
    from manyheads.looking.saving import saved_json

    if html is not None:
        write_whole(html, file_html(seen, heads).encode())
    if save is not None:
        write_whole(save, saved_json(seen, heads).encode())


def _seen(
    opened: "Opened", text: str | None, inputs: Path | None, options: dict[str, Any]
) -> "Look":
    """The look that the options ask for; wrong options are refused before anything is printed."""
    from manyheads.core.errors import LookError
    from manyheads.looking.reading import look as look_at

    _check(text, inputs, options)
    given: Any = None if inputs is None else read_inputs(inputs)
    if text is None and given is None:
        text, given = default_input(opened, options["seed"])
    seen = look_at(opened.model, text, tokenizer=opened.tokenizer, inputs=given)
    if options["layer"] is not None:
        seen.weights(options["layer"], options["head"] or 0)  # refuses what does not exist
    if options["logit"] is not None:
        against = options["against"]
        parts = seen.logits(
            token_from(options["logit"]), None if against is None else token_from(against)
        )
        seen = replace(seen, found_logits=parts)
    if not options["no_labels"] and seen.call.ids is not None:
        try:
            seen = seen.labelled(draws=0, half=12, samples=1, seed=options["seed"])
        except LookError as error:
            click.echo(f"no labels: {error}", err=True)
    return seen


def _check(text: str | None, inputs: Path | None, options: dict[str, Any]) -> None:
    """Refuse options that contradict each other."""
    if text is not None and inputs is not None:
        raise click.UsageError("--text and --inputs: give one of them")
    if options["head"] is not None and options["layer"] is None:
        raise click.UsageError("--head needs --layer: give both")
    if options["against"] is not None and options["logit"] is None:
        raise click.UsageError("--against needs --logit: give both")


def token_from(text: str) -> int | str:
    """A token by its id, or by its text."""
    return int(text) if text.isascii() and text.isdigit() else text


def _print(seen: "Look", layer: int | None, head: int | None) -> None:
    from manyheads.core.tables import text_from_table
    from manyheads.looking.terminal import head_text, logit_table

    click.echo(str(seen))
    if seen.found_logits is not None:
        click.echo()
        click.echo(text_from_table(logit_table(seen.found_logits)))
    if layer is not None:
        click.echo()
        click.echo(head_text(seen, layer, head or 0, is_colour=sys.stdout.isatty()), color=True)


@look.command()
@model_options
@click.option(
    "--behaviour",
    "behaviours",
    multiple=True,
    metavar="NAME",
    help="Behaviour to test, such as induction; all unless given. May be repeated.",
)
@click.option(
    "--draws",
    type=IntRange(0, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Models with permuted weights in the null; 0 compares with other sources of the same run.",
)
@seed_option
@json_option
def labels(
    model: str, download: bool, behaviours: Sequence[str], draws: int, seed: int, as_json: bool
) -> None:
    r"""Label the heads of MODEL, where they exceed what chance gives.

    \b
    Example:
      manyheads look labels FOLDER --behaviour induction --draws 20
    """
    from dataclasses import asdict

    from manyheads.core.tables import text_from_table
    from manyheads.looking.labels import label_heads
    from manyheads.looking.terminal import label_tables

    opened = open_named(model, download)
    found = label_heads(
        opened.model,
        tokenizer=opened.tokenizer,
        behaviours=behaviours or None,
        draws=draws,
        seed=seed,
    )
    if as_json:
        tested = [asdict(one) for one in found.tested]
        document = {"labels": [asdict(one) for one in found], "tested": tested, "seeds": [seed]}
        click.echo(json.dumps(document))
    else:
        click.echo("\n\n".join(text_from_table(table) for table in label_tables(found)))


@look.command()
@click.argument("first", type=MODEL)
@click.argument("second", type=MODEL)
@click.option("--text", metavar="TEXT", help="Text that both read; a short story unless given.")
@click.option("--download", is_flag=True, help="Allow the network, for models on the hub.")
@json_option
def compare(first: str, second: str, text: str | None, download: bool, as_json: bool) -> None:
    r"""Compare FIRST and SECOND head by head on one text.

    \b
    Example:
      manyheads look compare BEFORE AFTER --text "once upon a time"
    """
    from manyheads.core.tables import text_from_table
    from manyheads.looking.comparing import compare_looks
    from manyheads.looking.reading import look as look_at

    opened = [open_named(name, download) for name in (first, second)]
    words, ids = (text, None) if text is not None else default_input(opened[0], 0)
    tokenizer = opened[0].tokenizer
    seen = [look_at(one.model, words, tokenizer=tokenizer, inputs=ids) for one in opened]
    found = compare_looks(*seen)
    click.echo(json.dumps(found.to_dict()) if as_json else text_from_table(found.table()))
