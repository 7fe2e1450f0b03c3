"""Explaining back: every point has its one question, and the first gap comes first."""

import pytest

from manyheads.core.errors import LearnError
from manyheads.learn.explain_back import (
    HALVES,
    Topic,
    first_gap,
    num_points,
    title_of,
    topic,
    topic_ids,
    topics,
)
from manyheads.worksheets.library import worksheet


@pytest.mark.parametrize("name", topic_ids())
def test_every_point_has_one_question_and_what_to_look_for(name: str) -> None:
    found = topic(name)
    assert (found.id, found.title) == (name, title_of(name))
    for half in HALVES:
        points = found.points(half)
        assert len(points) == num_points(name, half) >= 2
        assert len({str(point.follow_up) for point in points}) == len(points)
        for point in points:
            assert str(point.follow_up).endswith("?")
            assert str(point.look_for).endswith(".")
            assert str(point.says).endswith(".")


def test_there_are_five_to_eight_topics_and_each_applies_to_computed_numbers() -> None:
    assert 5 <= len(topics()) <= 8
    for found in topics():
        said = [point.says for point in found.apply_points]
        quoted = [part for one in said for part in one.parts if not isinstance(part, str)]
        assert len(quoted) >= 3, found.id


def covered(found: Topic, *missing: tuple[str, int]) -> dict[str, list[bool | None]]:
    """Everything covered but these points."""
    return {
        half: [(half, index) not in missing for index in range(len(found.points(half)))]
        for half in HALVES
    }


def test_the_first_gap_is_the_first_missing_point_explanation_first() -> None:
    found = topic("mask")
    assert first_gap(found, covered(found)) is None
    gap = first_gap(found, covered(found, ("apply", 0), ("explain", 2), ("explain", 3)))
    assert gap is not None
    assert (gap.half, gap.index) == ("explain", 2)
    assert gap.point is found.explain_points[2]
    later = first_gap(found, covered(found, ("apply", 1)))
    assert later is not None and (later.half, later.index) == ("apply", 1)


def test_what_is_not_marked_is_no_gap() -> None:
    found = topic("mask")
    assert first_gap(found, {}) is None
    assert first_gap(found, {"explain": [None, None], "apply": [True]}) is None


def test_an_unknown_topic_is_named_and_shown_printably() -> None:
    with pytest.raises(LearnError, match=r"topic \(\\x1b\[2J\) does not exist: use one-head, "):
        topic("\x1b[2J")


def test_json_has_all_topics() -> None:
    found = [one.to_json() for one in topics()]
    assert [entry["id"] for entry in found] == list(topic_ids())
    assert set(found[0]["explain"]["points"][0]) == {*("says", "follow_up", "look_for", "words")}
    assert found[3]["apply"]["prompt"][1]["quantity"] == "two-routes:main.output[0][0]"


def test_most_of_each_first_number_does_come_from_the_word_that_is_named() -> None:
    """What the topic `several-heads` says of river and fisherman."""
    found = worksheet("river-and-cheque").solve("river")
    for head, source in ((0, 5), (1, 1)):
        part = found["attn_weights"][head, 9, source] * found["v"][head, source, 0]
        assert part / found["head_outputs"][head, 9, 0] > 0.5


def test_the_contribution_that_is_called_larger_than_the_output_is_larger() -> None:
    found = worksheet("three-heads").solve("main", exact=True)
    part, whole = found["head_contributions"][2, 3, 3], found["output"][3, 3]
    assert abs(part) > abs(whole) and part < 0 < whole
