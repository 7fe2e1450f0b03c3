"""Reviews on disk: nothing is lost, and what is damaged is named."""

import errno
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from manyheads.core.errors import LearnError
from manyheads.core.files import lock_folder
from manyheads.learn.cards.reviews import (
    FILE_NAME,
    add_review,
    import_reviews,
    new_review,
    read_reviews,
)

NOW = datetime(2026, 1, 31, 8, 5, 0, 123456, tzinfo=UTC)


def line(card: str = "a", rating: object = 3, when: object = "2026-01-31T08:05:00.123Z") -> str:
    return json.dumps({"card": card, "rating": rating, "when": when}) + "\n"


def day(number: int) -> str:
    return f"2026-01-{number:02}T08:00:00.000Z"


def test_a_review_is_one_line_that_comes_back(tmp_path: Path) -> None:
    written = new_review("shapes-split", 3, NOW)
    add_review(tmp_path, written)
    assert (tmp_path / FILE_NAME).read_text() == line("shapes-split")
    assert read_reviews(tmp_path) == ((written,), False)


def test_a_review_is_written_in_utc_whatever_the_zone(tmp_path: Path) -> None:
    from datetime import timezone

    add_review(
        tmp_path, new_review("a", 3, NOW.astimezone(timezone(timedelta(hours=5, minutes=30))))
    )
    assert (tmp_path / FILE_NAME).read_text() == line()


def test_the_same_line_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(line() + line("b") + line())
    assert [review.card for review in read_reviews(tmp_path).reviews] == ["a", "b"]


def test_other_keys_are_no_damage(tmp_path: Path) -> None:
    record = json.loads(line()) | {"from": "page", "seconds": 3.5}
    (tmp_path / FILE_NAME).write_text(json.dumps(record) + "\n")
    assert len(read_reviews(tmp_path).reviews) == 1


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (line(rating=5), r"rating \(5\) must be 1, 2, 3 or 4"),
        (line(rating=True), r"rating \(True\)"),
        (line(rating="3"), r"rating \('3'\)"),
        (line(rating=3.0), r"rating \(3.0\)"),
        (line(when="yesterday"), r"when \('yesterday'\) must be a time with its zone"),
        (line(when="2026-01-31T08:05:00"), r"when \('2026-01-31T08:05:00'\)"),
        (line(when="0001-01-01T00:00:00+14:00"), r"when \('0001-01-01"),
        (line(when=1769846700), r"when \(1769846700\)"),
        (line(card=""), r"card \(''\) must be the id of a card"),
        (line(card="x" * 500), r"card \('xxxx.*\.\.\.\)"),
        ("{}\n", r"card \(None\)"),
        ("nonsense\n", r"Expecting value"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_changed(
    damaged: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(line() + damaged + line("b"))
    content = path.read_bytes()
    with pytest.raises(LearnError, match=rf"is damaged in line 2 \({why}.*nothing was changed"):
        read_reviews(tmp_path)
    with pytest.raises(LearnError, match=r"line 2"):
        import_reviews(tmp_path / "new", path)
    assert path.read_bytes() == content


def test_half_a_line_at_the_end_is_told_and_set_aside_with_the_next_review(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(line() + '{"card": "b", "ra')
    assert read_reviews(tmp_path).is_torn
    assert len(read_reviews(tmp_path).reviews) == 1
    add_review(tmp_path, new_review("c", 4, NOW))
    assert [review.card for review in read_reviews(tmp_path).reviews] == ["a", "c"]
    assert path.with_name(f"{FILE_NAME}.torn").read_text() == '{"card": "b", "ra\n'


@pytest.mark.parametrize("rating", [0, 5, -1])
def test_a_rating_that_is_none_is_refused_before_anything_is_written(
    rating: int, tmp_path: Path
) -> None:
    with pytest.raises(LearnError, match=r"rating \("):
        add_review(tmp_path, new_review("a", rating, NOW))
    assert list(tmp_path.iterdir()) == []


def test_an_import_adds_what_is_new_each_once_and_in_order_of_time(tmp_path: Path) -> None:
    own, page = tmp_path / "own", tmp_path / "page.jsonl"
    own.mkdir()
    (own / FILE_NAME).write_text(line("a", when=day(1)) + line("b", when=day(4)))
    extra = '{"card": "c", "rating": 2, "when": "%s", "from": "page"}\n' % day(2)
    page.write_text(extra + line("b", when=day(4)) + line("d", when=day(9)) + extra)
    assert import_reviews(own, page) == (2, 1)
    assert [review.card for review in read_reviews(own).reviews] == ["a", "c", "b", "d"]
    assert '"from": "page"' in (own / FILE_NAME).read_text()
    before = (own / FILE_NAME).stat().st_mtime_ns
    assert import_reviews(own, page) == (0, 3)
    assert (own / FILE_NAME).stat().st_mtime_ns == before


def test_an_import_keeps_the_order_of_each_file_even_where_a_clock_was_set_back(
    tmp_path: Path,
) -> None:
    own, page = tmp_path / "own", tmp_path / "page.jsonl"
    own.mkdir()
    (own / FILE_NAME).write_text(line("a", when=day(8)) + line("b", when=day(2)))
    page.write_text(line("c", when=day(5)))
    import_reviews(own, page)
    cards = [review.card for review in read_reviews(own).reviews]
    assert cards.index("a") < cards.index("b")


def test_an_import_takes_a_last_line_without_its_end(tmp_path: Path) -> None:
    page = tmp_path / "page.jsonl"
    page.write_text(line("a") + line("b").strip())
    assert import_reviews(tmp_path, page) == (2, 0)
    page.write_text(line("a") + '{"card": "b", "rat')
    with pytest.raises(LearnError, match=r"ends in an incomplete line \(line 2\)"):
        import_reviews(tmp_path, page)


def test_an_import_sets_a_torn_line_of_the_own_file_aside(tmp_path: Path) -> None:
    own, page = tmp_path / "own", tmp_path / "page.jsonl"
    own.mkdir()
    (own / FILE_NAME).write_text(line("a") + '{"torn')
    page.write_text(line("b"))
    assert import_reviews(own, page) == (1, 0)
    assert [review.card for review in read_reviews(own).reviews] == ["a", "b"]
    assert (own / f"{FILE_NAME}.torn").read_text() == '{"torn\n'


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(LearnError, match=r"nothing.jsonl\) does not exist"):
        import_reviews(tmp_path, tmp_path / "nothing.jsonl")
    with pytest.raises(LearnError, match=r"cannot be read"):
        import_reviews(tmp_path, tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(LearnError, match=r"bytes\) is damaged in line 1"):
        import_reviews(tmp_path, tmp_path / "bytes")
    assert not (tmp_path / FILE_NAME).exists()


def test_a_full_disk_loses_nothing_that_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = new_review("a", 3, NOW)
    add_review(tmp_path, saved)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LearnError, match=r"cannot be written \(No space left on device\)"):
            add_review(tmp_path, new_review("b", 3, NOW))
    assert read_reviews(tmp_path).reviews[0] == saved
    page = tmp_path / "page.jsonl"
    page.write_text(line("c"))
    content = (tmp_path / FILE_NAME).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LearnError, match=r"No space left on device"):
            import_reviews(tmp_path, page)
    assert (tmp_path / FILE_NAME).read_bytes() == content


FILL = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
from manyheads.core.errors import LearnError
from manyheads.learn.cards.reviews import add_review, new_review
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    for number in range(100):
        add_review(Path(sys.argv[1]), new_review(f"card-{number}", 3, datetime.now(UTC)))
        print(number, flush=True)
except LearnError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of file sizes are POSIX: run there")
def test_a_write_that_the_system_cuts_short_leaves_every_earlier_review(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    *numbers, message = done.stdout.splitlines()
    assert "cannot be written (File too large)" in message
    found = read_reviews(tmp_path)
    assert [review.card for review in found.reviews] == [f"card-{number}" for number in numbers]
    add_review(tmp_path, new_review("after", 3, NOW))
    assert read_reviews(tmp_path).reviews[-1].card == "after"


ADD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from manyheads.learn.cards.reviews import add_review, new_review
for number in range(25):
    add_review(Path(sys.argv[1]), new_review(f"{sys.argv[2]}-{number}", 3, datetime.now(UTC)))
"""


def test_two_processes_at_once_lose_no_review(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", ADD, str(tmp_path), name]) for name in ("x", "y")
    ]
    assert [process.wait(60) for process in started] == [0, 0]
    cards = [review.card for review in read_reviews(tmp_path).reviews]
    for name in ("x", "y"):
        own = [card for card in cards if card.startswith(name)]
        assert own == [f"{name}-{number}" for number in range(25)]


def test_a_folder_that_another_process_holds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", iter([0.0, *range(10, 9999)]).__next__)
    with lock_folder(tmp_path), pytest.raises(LearnError, match=r"is in use by process \d+"):
        add_review(tmp_path, new_review("a", 3, NOW))
