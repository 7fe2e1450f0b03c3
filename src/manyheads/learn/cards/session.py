"""One sitting with the cards: what comes next, and each rating written down at once."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from manyheads.learn.cards.deck import Card, deck
from manyheads.learn.cards.progress import Progress, due_cards, new_cards, next_card, replay
from manyheads.learn.cards.reviews import FILE_NAME, add_review, read_reviews
from manyheads.learn.cards.schedule import NEW_A_DAY, CardState


def utc_now() -> datetime:
    """The present by this computer's clock."""
    return datetime.now(UTC)


class Session:
    """A learner, some cards, and the learner's folder.

    Args:
        folder: the learner's.
        cards: of the deck, in the order in which new ones come.
        new: new cards a day.
        clock: gives the present, in UTC.

    Raises:
        LearnError: the learner's file is damaged; the message names the line.
    """

    def __init__(
        self,
        folder: Path,
        cards: Sequence[Card],
        new: int = NEW_A_DAY,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.path = folder / FILE_NAME
        """Where the reviews lie."""
        self.num_saved = 0
        """Reviews written down in this sitting."""
        self._folder, self._cards, self._new, self._clock = folder, cards, new, clock
        found = read_reviews(folder)
        self._reviews = list(found.reviews)
        self._is_torn = found.is_torn

    def now(self) -> datetime:
        """The present, in UTC."""
        return self._clock()

    def progress(self) -> Progress:
        """Where every card stands now."""
        return replay(self._reviews, self.now())

    def next(self) -> Card | None:
        """The card to look at now; None where there is none."""
        return next_card(self._cards, self.progress(), self.now(), self._new)

    def counts(self) -> tuple[int, int]:
        """How many cards are due now, and how many new ones may come today."""
        progress = self.progress()
        due = due_cards(self._cards, progress, self.now())
        return len(due), len(new_cards(self._cards, progress, self._new))

    def rate(self, card: Card, rating: int) -> CardState:
        """Write a rating down; it is on disk when this returns.

        Raises:
            LearnError: no such rating, or the file cannot be written.
        """
        review = add_review(self._folder, card.id, rating, self.now())
        self._reviews.append(review)
        self.num_saved += 1
        return self.progress().states[card.id]

    def next_due(self) -> datetime | None:
        """When the next of the cards comes again; None where none was begun."""
        states = self.progress().states
        return min((states[c.id].due for c in self._cards if c.id in states), default=None)

    def notes(self) -> list[str]:
        """What is odd about the file, in one line each; nothing of it stops the sitting."""
        progress, total = self.progress(), len(self._reviews)
        known = {card.id for card in deck()}
        foreign = sum(review.card not in known for review in self._reviews)
        found = []
        if self._is_torn:
            found.append(
                f"file ({self.path}) ends in half a line, left by a crash: it is set aside with "
                "the next review; all before it is there"
            )
        if progress.num_future:
            found.append(
                f"clock ({self.now():%Y-%m-%d %H:%M} UTC) stands before {progress.num_future} of "
                f"{total} reviews: set it if it is wrong; they count as made at the last date "
                "before them that can be right, and none is lost"
            )
        if foreign:
            found.append(
                f"{foreign} of {total} reviews belong to cards that this deck lacks: they are kept"
            )
        return found
