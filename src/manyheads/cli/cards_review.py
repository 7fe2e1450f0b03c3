"""The dialogue of `manyheads cards review`; ratings are saved one by one."""

import sys

import click

from manyheads.learn.cards.deck import Card
from manyheads.learn.cards.overview import in_words
from manyheads.learn.cards.reviews import RATINGS
from manyheads.learn.cards.session import Session
from manyheads.learn.own_files import check_can_be_written

_WIDTH = 78
_STOP = "q"
_CHOICES = "   ".join(f"{number} {name}" for number, name in RATINGS.items())


def review_cards(session: Session, limit: int | None) -> None:
    """Ask card after card until none is left, the limit is reached, or the learner stops.

    Raises:
        LearnError: the file cannot be written; all ratings before are saved.
        KeyboardInterrupt: as it came, after what is saved was said.
    """
    check_can_be_written(session.path)
    _make_readable()
    try:
        _ask_cards(session, limit)
    except KeyboardInterrupt:
        click.echo(f"\n{_saved(session)}", err=True)
        raise
    click.echo(_saved(session))


def _ask_cards(session: Session, limit: int | None) -> None:
    while limit is None or session.num_saved < limit:
        card = session.next()
        if card is None:
            click.echo(_nothing_left(session))
            return
        if not _asked(session, card):
            return


def _asked(session: Session, card: Card) -> bool:
    """Show a card and take its rating; False where the learner stops."""
    due, new = session.counts()
    click.echo(f"{card.topic} · {due} due, {new} new today")
    _say(str(card.front))
    guess = _line(f"\nYour answer, or Enter ({_STOP} stops): ")
    if guess is None or guess == _STOP:
        return False
    _say(str(card.back))
    rating = _rating()
    if rating is None:
        return False
    state = session.rate(card, rating)
    click.echo(
        f"{RATINGS[rating].capitalize()}: comes again {in_words(state.due - session.now())}.\n"
    )
    return True


def _rating() -> int | None:
    while True:
        text = _line(f"\n{_CHOICES}   ({_STOP} stops): ")
        if text is None or text == _STOP:
            return None
        names = {name: number for number, name in RATINGS.items()}
        if text in names:
            return names[text]
        if text in {str(number) for number in RATINGS}:
            return int(text)
        click.echo(f"{_short(text)} is no rating: type 1, 2, 3 or 4.")


def _line(prompt: str) -> str | None:
    """A line of input, None at its end."""
    click.echo(prompt, nl=False)
    line = sys.stdin.readline() if sys.stdin is not None else ""
    if line == "" or not sys.stdin.isatty():
        click.echo()
    return line.strip().lower() if line else None


def _say(text: str) -> None:
    click.echo(click.wrap_text(text, width=_WIDTH, initial_indent="  ", subsequent_indent="  "))


def _saved(session: Session) -> str:
    count = session.num_saved
    what = f"{count} review{'s' if count != 1 else ''}"
    return f"Saved {what} in {session.path}" if count else "No review made."


def _nothing_left(session: Session) -> str:
    due = session.next_due()
    if due is None:
        return "Nothing is due, and no new card may come today: ask for more with --new."
    return f"Nothing more now; the next card comes {in_words(due - session.now())}."


def _short(text: str) -> str:
    return repr(text if len(text) <= 20 else f"{text[:17]}...")


def _make_readable() -> None:
    """Let bytes that are no text be a wrong answer instead of a failure."""
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
