"""Reviews: one record each in `reviews.jsonl`, written by the terminal and by the page alike.

A record is `{"card": ID, "rating": 1 to 4, "when": "2026-01-31T08:05:00.000Z"}`; other keys are
kept and not read. Due dates are computed from the records each time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.core.errors import LearnError
from manyheads.core.text import quoted
from manyheads.learn.own_files import add_record, merge_records, parse_record, read_records

FILE_NAME = "reviews.jsonl"
"""In the learner's folder."""
RATINGS = {1: "again", 2: "hard", 3: "good", 4: "easy"}
"""How well a card was known; "again" means it was not."""
_LONGEST_ID = 200


@dataclass(frozen=True, kw_only=True)
class Review:
    """A card was looked at."""

    card: str
    """Its id, which the present deck may lack."""
    rating: int
    """1 to 4, as in `RATINGS`."""
    when: datetime
    """By the clock of that moment, in UTC; the clock may have been wrong."""

    @property
    def record(self) -> dict[str, Any]:
        """The record in the file."""
        when = self.when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"card": self.card, "rating": self.rating, "when": when}


class Reviews(NamedTuple):
    """What the file holds."""

    reviews: tuple[Review, ...]
    """In the order of the file, each once."""
    is_torn: bool
    """Whether a crash left an incomplete last line."""


class Merged(NamedTuple):
    """What an import did."""

    added: int
    """Reviews that were new."""
    known: int
    """Reviews that were there already."""


def read_reviews(folder: Path) -> Reviews:
    """Read the reviews of a learner's folder.

    Raises:
        LearnError: a line is damaged; the message names it, and nothing is changed.
    """
    path = folder / FILE_NAME
    records, torn = read_records(path)
    return Reviews(_each_once(_parsed(path, records)), torn.strip() != "")


def new_review(card_id: str, rating: int, now: datetime) -> Review:
    """Make a review, not saved yet; its time is rounded down to milliseconds.

    Raises:
        LearnError: rating is not 1 to 4.
    """
    _check_rating(rating)
    when = now.astimezone(UTC)
    when = when.replace(microsecond=when.microsecond // 1000 * 1000)
    return Review(card=card_id, rating=rating, when=when)


def add_review(folder: Path, review: Review) -> None:
    """Append a review to the file of a learner's folder; it is on disk when this returns.

    Raises:
        LearnError: the file cannot be written.
    """
    add_record(folder / FILE_NAME, review.record)


def import_reviews(folder: Path, path: Path) -> Merged:
    """Put the reviews of another file among those of a learner's folder, each once.

    Both files keep their own order; between them the earlier review comes first.

    Raises:
        LearnError: a damaged line in one of the files, or one cannot be read or written; nothing
            is changed.
    """
    given = _records_of_export(path)
    incoming = tuple(zip(_parsed(path, given), given, strict=True))
    merged = Merged(0, 0)

    def together(records: tuple[dict[str, Any], ...]) -> Sequence[Mapping[str, Any]]:
        nonlocal merged
        own = tuple(zip(_parsed(folder / FILE_NAME, records), records, strict=True))
        known = {review for review, _ in own}
        first: dict[Review, dict[str, Any]] = {}
        for review, record in incoming:
            first.setdefault(review, record)
        new = [(review, record) for review, record in first.items() if review not in known]
        merged = Merged(len(new), len(first) - len(new))
        return [record for _, record in merge(own, new, key=lambda pair: pair[0].when)]

    merge_records(folder / FILE_NAME, together)
    return merged


def _records_of_export(path: Path) -> tuple[dict[str, Any], ...]:
    """The records of an exported file, whose last line may have no newline."""
    if not path.exists():
        raise LearnError(f"file ({path}) does not exist: give the file that the page exported")
    records, last = read_records(path)
    if not last.strip():
        return records
    try:
        record = parse_record(last)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise LearnError(
            f"file ({path}) ends in an incomplete line (line {len(records) + 1}): save the file "
            "again, or delete that line; nothing was imported"
        )
    return (*records, record)


def _each_once(reviews: Iterable[Review]) -> tuple[Review, ...]:
    return tuple(dict.fromkeys(reviews))


def _parsed(path: Path, records: Iterable[Mapping[str, Any]]) -> list[Review]:
    found = []
    for number, record in enumerate(records, start=1):
        try:
            found.append(_review(record))
        except LearnError as error:
            raise LearnError(
                f"file ({path}) is damaged in line {number} ({error}); nothing was changed"
            ) from error
    return found


def _review(record: Mapping[str, Any]) -> Review:
    card = record.get("card")
    if not isinstance(card, str) or not 0 < len(card) <= _LONGEST_ID:
        raise LearnError(f"card ({quoted(card)}) must be the id of a card: fix or delete that line")
    rating = record.get("rating")
    _check_rating(rating)
    assert isinstance(rating, int)
    return Review(card=card, rating=rating, when=_when(record.get("when")))


def _check_rating(rating: object) -> None:
    if type(rating) is not int or rating not in RATINGS:
        raise LearnError(f"rating ({quoted(rating)}) must be 1, 2, 3 or 4: use one of them")


def _when(text: object) -> datetime:
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) else None
        if when is not None and when.tzinfo is not None:
            return when.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise LearnError(
        f"when ({quoted(text)}) must be a time with its zone: use 2026-01-31T08:05:00.000Z"
    )
