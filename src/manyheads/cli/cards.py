"""`manyheads cards`: review recall cards, list them, and export the deck."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from manyheads.cli.learn_options import DATA
from manyheads.cli.types import FilePath, InputPath, IntRange

_Command = Callable[..., Any]


def _topic(command: _Command) -> _Command:
    return click.option("--topic", metavar="NAME", help="Topic of the cards (default: all).")(
        command
    )


def _json(command: _Command) -> _Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


@click.group(invoke_without_command=True)
@DATA
@click.pass_context
def cards(ctx: click.Context, data: Path | None) -> None:
    r"""Review recall cards when they are due.

    Without a subcommand, this runs `manyheads cards review`.

    \b
    Example:
      manyheads cards
    """
    ctx.obj = data
    if ctx.invoked_subcommand is None:
        ctx.invoke(review)


@cards.command()
@click.option(
    "--limit",
    type=IntRange(min=1),
    metavar="N",
    help="Maximum number of reviews (default: no limit).",
)
@click.option(
    "--new",
    type=IntRange(min=0),
    metavar="N",
    help="Maximum number of new cards per day, in UTC (default 10).",
)
@_topic
@DATA
@click.pass_obj
def review(
    above: Path | None,
    data: Path | None = None,
    topic: str | None = None,
    limit: int | None = None,
    new: int | None = None,
) -> None:
    r"""Review the cards that are due, then new ones.

    Think of the answer or type it, then press Enter to see the answer of the card. Then rate how
    well you knew it, from 1 to 4. Each rating is saved at once; q stops.

    \b
    Example:
      manyheads cards review --topic masks --limit 5
    """
    from manyheads.cli.cards_review import review_cards
    from manyheads.learn.cards.schedule import NEW_A_DAY

    session = _session(data or above, topic, NEW_A_DAY if new is None else new)
    review_cards(session, limit)


@cards.command("list")
@_topic
@_json
@DATA
@click.pass_obj
def list_cards(above: Path | None, data: Path | None, as_json: bool, topic: str | None) -> None:
    r"""List the cards with their state and due date.

    \b
    Example:
      manyheads cards list --topic scale
    """
    from manyheads.learn.cards.deck import cards_of
    from manyheads.learn.cards.session import list_json, list_text, utc_now

    progress = _session(data or above, topic).progress()
    if as_json:
        _print_json({"cards": list_json(cards_of(topic), progress, utc_now())})
    else:
        click.echo(list_text(cards_of(topic), progress, utc_now()))


@cards.command()
@_json
@DATA
@click.pass_obj
def stats(above: Path | None, data: Path | None, as_json: bool) -> None:
    r"""Count the cards that are new, being learned, learned and due.

    \b
    Example:
      manyheads cards stats
    """
    from manyheads.learn.cards.deck import cards_of, topics
    from manyheads.learn.cards.session import stats_json, stats_text, utc_now

    progress, now = _session(data or above, None).progress(), utc_now()
    by_topic = [(topic, stats_json(cards_of(topic), progress, now)) for topic in topics()]
    total = stats_json(cards_of(None), progress, now)
    if as_json:
        _print_json(total | {"topics": dict(by_topic)})
    else:
        click.echo(stats_text(by_topic, total))


@cards.command("export")
@click.argument("out", type=FilePath())
@click.option("--force", is_flag=True, help="Replace an existing file.")
@_topic
def export_cards(out: Path, topic: str | None, force: bool) -> None:
    r"""Export the cards for Anki, or as text.

    OUT must end in .apkg (an Anki package), or in .txt or .tsv (tab-separated text, which Anki can
    import). If you import the deck into Anki again, it updates the cards and keeps their schedule.

    \b
    Example:
      manyheads cards export manyheads.apkg
    """
    from manyheads.learn.cards.deck import cards_of
    from manyheads.learn.cards.export import write_deck

    chosen = cards_of(topic)
    write_deck(chosen, out, force)
    click.echo(f"Wrote {len(chosen)} cards to {out}")


@cards.command("import")
@click.argument("file", type=InputPath())
@_json
@DATA
@click.pass_obj
def import_cards(above: Path | None, file: Path, as_json: bool, data: Path | None) -> None:
    r"""Import reviews that were exported from the page.

    Each review counts once, even if you import its file again.

    \b
    Example:
      manyheads cards import reviews.jsonl
    """
    from manyheads.learn.cards.reviews import import_reviews
    from manyheads.learn.own_files import data_folder

    merged = import_reviews(data_folder(data or above), file)
    _session(data or above, None)
    if as_json:
        _print_json(merged._asdict())
    else:
        click.echo(f"Added {merged.added} reviews; {merged.known} were already there.")


def _session(data: Path | None, topic: str | None, new: int = 0) -> Any:  # noqa: ANN401 - loaded late
    from manyheads.learn.cards.deck import cards_of
    from manyheads.learn.cards.session import Session
    from manyheads.learn.own_files import data_folder

    session = Session(data_folder(data), cards_of(topic), new)
    for note in session.notes():
        click.echo(f"manyheads: {note}", err=True)
    return session


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))
