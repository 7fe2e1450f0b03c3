"""What the page asks is what the terminal asks, and its numbers are computed when it is written."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from manyheads.learn.cards.deck import deck
from manyheads.learn.explain_back import topics
from manyheads.learn.quiz import questions
from manyheads.learn.worksheet_tries import tries_of
from manyheads.worksheets.library import worksheet, worksheet_names
from tests.web.reckoning import expected
from tools.page.learn import changes_of, learn_data

MOST_BYTES = 200_000
"""The page as a whole has 300,000 compressed; text shrinks to a quarter."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """What the page is built with, as it is read back."""
    read: dict[str, Any] = json.loads(json.dumps(learn_data(), allow_nan=False))
    return read


def quoted(node: Any) -> Iterator[dict[str, Any]]:
    """Every number in a sentence of a document."""
    if isinstance(node, dict) and {"quantity", "value", "text"} == node.keys():
        yield node
    for inner in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from quoted(inner)


def test_it_asks_what_the_terminal_asks(document: dict[str, Any]) -> None:
    assert [one["id"] for one in document["questions"]] == [one.id for one in questions()]
    assert [one["id"] for one in document["topics"]] == [one.id for one in topics()]
    assert [one["id"] for one in document["cards"]] == [one.id for one in deck()]
    for one, topic in zip(document["topics"], topics(), strict=True):
        assert len(one["explain"]["points"]) == len(topic.explain_points)
        assert len(one["apply"]["points"]) == len(topic.apply_points)


def test_every_number_in_it_has_a_name_that_is_worked_out_again(document: dict[str, Any]) -> None:
    numbers = list(quoted(document))
    assert len(numbers) > 300
    for number in numbers:
        assert number["value"] == pytest.approx(expected(number["quantity"]), abs=1e-12), number
    for question in document["questions"]:
        for ask in question["numbers"]:
            assert ask["value"] == pytest.approx(expected(ask["quantity"]), abs=1e-12), ask


def test_experiments_switch_what_the_terminal_changes(document: dict[str, Any]) -> None:
    for name in worksheet_names():
        sheet = worksheet(name)
        offered = {one["name"] for one in document["tries"] if one["worksheet"] == name}
        known = {one.name for s in sheet.sequence_names for one in tries_of(sheet, s)}
        assert offered == known & changes_of(sheet).keys()
        assert known - offered <= {"edit-w-o"}
        assert f"without-head-{sheet.num_heads}" in offered


def test_it_is_small(document: dict[str, Any]) -> None:
    assert len(json.dumps(document, separators=(",", ":"))) < MOST_BYTES
