"""The teacher's page: every address on it exists, and both lessons fill their time."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest

from manyheads.learn.exercises import KINDS
from manyheads.worksheets.library import worksheet, worksheet_names
from tests.house.sources import ROOT
from tests.web.browsing import VIEWS
from tools.page.exercises import SEEDS

PAGE = ROOT / "docs" / "teach.md"
STORY = ROOT / "web" / "src" / "story" / "text"
LEARN = {"quiz", "cards", "explain", "log", "exercises"}


def addresses(text: str) -> list[str]:
    return re.findall(r"`#([a-z][^`\s]*)`", text)


def frames() -> dict[str, int]:
    """The frames of the story; for each the steps shown by comments and by items with a plus."""
    found = {}
    for path in STORY.rglob("*.md"):
        for part in re.split(r"^---$", path.read_text(encoding="utf-8"), flags=re.M):
            name = re.search(r"^## .* \{#([a-z0-9-]+)\}$", part, re.M)
            if name:
                steps = len(re.findall(r"^<!-- build -->$|^\+ ", part, re.M))
                found[name[1]] = steps + sum(map(int, re.findall(r"builds=(\d)", part)))
    return found


def wrong_with(address: str, known: dict[str, int]) -> str | None:
    """What an address names that does not exist."""
    path, _, query = address.partition("?")
    view, *rest = path.split("/")
    if view not in VIEWS:
        return f"no view {view}"
    if view == "story" and rest and (rest[0] not in known or int(rest[1]) > known[rest[0]]):
        return f"no frame {rest}"
    if view == "worksheet":
        return wrong_sheet(rest, parse_qs(query))
    if view == "learn" and rest[0] not in LEARN:
        return f"no page {rest[0]}"
    if view == "learn" and rest[0] == "exercises":
        kind, seed = rest[1:]
        return None if kind in KINDS and int(seed) < SEEDS else f"no exercise {kind}/{seed}"
    return None


def wrong_sheet(rest: list[str], query: dict[str, list[str]]) -> str | None:
    name, sequence, step = rest
    if name not in worksheet_names() or sequence not in worksheet(name).sequence_names:
        return f"no worksheet {name}/{sequence}"
    sheet = worksheet(name)
    is_there = int(query["receiver"][0]) <= len(sheet.sequence(sequence).tokens)
    known = step in {"weights", "concat"} and int(query.get("head", ["1"])[0]) <= sheet.num_heads
    return None if is_there and known else f"no place {step} {query}"


def lessons(text: str) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Each lesson's minutes, and those of its rows."""
    for part in text.split("\n## ")[1:]:
        title = re.match(r"A lesson of (\d+) minutes", part)
        if title:
            rows = re.findall(r"^\| (\d+) to (\d+) \|", part, re.M)
            yield int(title[1]), [(int(start), int(end)) for start, end in rows]


def test_every_address_of_the_teacher_s_page_exists() -> None:
    found = addresses(PAGE.read_text(encoding="utf-8"))
    assert len(found) > 30
    known = frames()
    assert len(known) > 30
    wrong = {address: wrong_with(address, known) for address in found}
    assert {address: why for address, why in wrong.items() if why} == {}


@pytest.mark.parametrize(
    "address",
    [
        "nowhere",
        "story/nothing/0/stage",
        "story/bank/9/stage",
        "worksheet/two-routes/river/weights?receiver=1",
        "worksheet/two-routes/main/weights?receiver=4",
        "worksheet/two-routes/main/nothing?receiver=3",
        "learn/exams",
        "learn/exercises/nothing/7",
        "learn/exercises/score/200",
    ],
)
def test_an_address_that_leads_nowhere_is_found(address: str) -> None:
    assert wrong_with(address, frames())


def test_the_lessons_fill_their_time_without_a_gap() -> None:
    found = list(lessons(PAGE.read_text(encoding="utf-8")))
    assert [minutes for minutes, _ in found] == [45, 90]
    for minutes, rows in found:
        starts, ends = zip(*rows, strict=True)
        assert (starts[0], ends[-1]) == (0, minutes)
        assert starts[1:] == ends[:-1]
        assert all(start < end for start, end in rows)
