"""The dialogue of `manyheads cards review`; each rating is saved at once."""

import click

from manyheads.cli.asking import Asker, EndOfAnswers
from manyheads.core.errors import LearnError
from manyheads.core.text import quoted
from manyheads.learn.cards.deck import Card
from manyheads.learn.cards.reviews import RATINGS
from manyheads.learn.cards.session import Session, in_words
from manyheads.learn.own_files import check_can_be_written

_STOP = "q"
_CHOICES = "   ".join(f"{number} {name}" for number, name in RATINGS.items())
_BY_TEXT = {str(number): number for number in RATINGS} | {
    name: number for number, name in RATINGS.items()
}


def review_cards(session: Session, limit: int | None) -> None:
    """Ask card after card until none is left, the limit is reached, or the learner stops.

    Raises:
        LearnError: the file cannot be written; all ratings before are saved.
        KeyboardInterrupt: Ctrl-C, after a line on what is saved.
    """
    check_can_be_written(session.path)
    try:
        _ask_cards(Asker(), session, limit)
    except EndOfAnswers:
        pass
    except KeyboardInterrupt:
        click.echo(f"\n{_saved(session)}", err=True)
        raise
    click.echo(_saved(session))


def _ask_cards(asker: Asker, session: Session, limit: int | None) -> None:
    count = 0
    while limit is None or count < limit:
        card = session.next()
        if card is None:
            click.echo(_nothing_left(session))
            return
        _ask_card(asker, session, card)
        count += 1


def _ask_card(asker: Asker, session: Session, card: Card) -> None:
    """Show a card and save its rating.

    Raises:
        EndOfAnswers: the learner stops.
    """
    due, new = session.counts()
    asker.say(f"{card.topic} · {due} due, {new} new today", indent="")
    asker.say(f"{card.front}\n\n")
    _line(asker, f"Your answer, or Enter ({_STOP} stops)")
    asker.say(f"{card.back}\n\n")
    rating = _rating(asker)
    state = session.rate(card, rating)
    wait = in_words(state.due - session.now())
    asker.say(f"{RATINGS[rating].capitalize()}: next review {wait}.\n\n", indent="")


def _rating(asker: Asker) -> int:
    while True:
        text = _line(asker, f"{_CHOICES}   ({_STOP} stops)")
        if text in _BY_TEXT:
            return _BY_TEXT[text]
        asker.warn(f"rating ({quoted(text, 20)}) must be 1, 2, 3 or 4: type one of them")


def _line(asker: Asker, what: str) -> str:
    try:
        text = asker.line(what).lower()
    except LearnError:  # longer than any answer
        text = "..."
    if text == _STOP:
        raise EndOfAnswers
    return text


def _saved(session: Session) -> str:
    count = session.num_saved
    what = f"{count} review{'s' if count != 1 else ''}"
    return f"Saved {what} in {session.path}" if count else "No review made."


def _nothing_left(session: Session) -> str:
    due = session.next_due()
    if due is None:
        return "Nothing is due, and you have seen all new cards of today: use --new N to see more."
    return f"Nothing is due now; the next card is due {in_words(due - session.now())}."
