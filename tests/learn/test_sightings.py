"""What rules find of a point in a free text, here and on the page."""

import json
from pathlib import Path
from typing import Any

import pytest

from manyheads.learn.explain_back import HALVES, Point, topics
from manyheads.learn.sentences import Quoted, Sentence
from manyheads.learn.sightings import sightings

CASES = json.loads((Path(__file__).parent / "data" / "sightings.json").read_text("utf-8"))
"""Also read by `web/tests/learn/sightings.test.ts`."""


def point_of(case: dict[str, Any]) -> Point:
    """The point of a case."""
    parts = tuple(part if isinstance(part, str) else Quoted(**part) for part in case["says"])
    empty = Sentence(())
    words = tuple((label, tuple(stems)) for label, stems in case["words"])
    return Point(says=Sentence(parts), follow_up=empty, look_for=empty, words=words)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:30] or "empty")
def test_rules_see_these_words_and_numbers(case: dict[str, Any]) -> None:
    seen = sightings(point_of(case), case["text"])
    assert [[one.label, one.saw] for one in seen] == case["seen"]


def test_every_point_of_an_explanation_has_rules_that_its_own_sentence_meets() -> None:
    for topic in topics():
        for point in topic.explain_points:
            assert point.words, f"{topic.id}: {point.says}"
        for half in HALVES:
            for point in topic.points(half):
                missed = [one for one in sightings(point, str(point.says)) if one.saw is None]
                assert not missed, f"{topic.id}: {point.says}: {[str(one) for one in missed]}"


def test_nothing_is_found_in_a_text_about_something_else() -> None:
    text = "The fisherman went home in the evening."
    found = [one for topic in topics() for p in topic.explain_points for one in sightings(p, text)]
    assert len(found) > 40
    assert not [one for one in found if one.saw is not None]
