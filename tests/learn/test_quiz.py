"""The eight questions: what they say comes from the engine, and what it says is right."""

import json
import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.config import AttentionConfig
from manyheads.core.errors import LearnError
from manyheads.learn.exercises.counting import stored_parts
from manyheads.learn.quiz import question, question_ids, questions, quiz_json
from manyheads.learn.quiz.computed import computed_for
from manyheads.learn.sentences import Sentence
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.library import worksheet
from manyheads.worksheets.numbers import parse_number
from tests.house.sources import ROOT

DATA = ROOT / "src" / "manyheads" / "learn" / "quiz"
ORDER = (
    "full-width",
    "concat-and-w-o",
    "scale",
    "head-count",
    "equal-queries",
    "contribution",
    "causality",
    "no-jobs",
)
# What a person gets with pencil and paper.
BY_HAND = {
    "full-width": ("4", "0"),
    "concat-and-w-o": ("12/7", "-12/7"),
    "scale": ("1/2", "6.9*sqrt(2)/2"),
    "head-count": ("256", "64"),
    "equal-queries": ("1/3", "16/3", "12/7"),
    "contribution": ("-15/7", "293/1575"),
    "causality": ("3", "73/35", "0"),
    "no-jobs": ("6", "-12/7"),
}
# Numerals that may be typed: names of things, counted from 1, and what an experiment is made of.
NAMES = re.compile(
    r"\b(?i:heads?|outputs?|positions?|features?|tokens?|rows?|keys?|columns?)"
    r" [0-9]+(?: and [0-9]+)?"
    r"|mean 0 and variance 1|variance 1\b|with 1 and -1|1/sqrt|-10000"
    r"|from 1 head to 2 and to 4|from 1 head to 4|with 4 heads|1, 2 and 4 heads|up to 1\b"
    r"|power of 0|get 0\.|that power is 0|exactly 0|gets 0|nearly 1\b|ln\(2\)|width divided by 4"
    r"|divided by 4\b"
)


def texts(entry: Any) -> Iterator[str]:
    """Every text that a reader sees, as it is written in the file."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for part in entry:
            yield from texts(part)
    elif isinstance(entry, dict):
        for name, part in entry.items():
            if name not in ("id", "frame", "worksheet", "value", "numbers", "words"):
                yield from texts(part)


def typed_numerals(text: str) -> list[str]:
    """The numerals of a text that neither the engine fills in nor name a thing."""
    flat = re.sub(r"\{\{[^}]*\}\}", "", " ".join(text.split()))
    return re.findall(r"\S*[0-9]\S*", NAMES.sub("", flat))


@pytest.mark.parametrize("name", ["questions.toml", "topics.toml"])
def test_no_result_is_typed_in_by_hand(name: str) -> None:
    document = tomllib.loads((DATA / name).read_text(encoding="utf-8"))
    found = [(text, typed_numerals(text)) for text in texts(document)]
    assert len(found) > 60
    assert [(text, left) for text, left in found if left] == []


def test_a_result_typed_in_by_hand_would_be_found() -> None:
    assert typed_numerals("Output 3 at position 2 is 12/7.") == ["12/7."]
    assert typed_numerals("It has {{two-routes:main.output[2][2]}} of 40 %.") == ["40"]


def test_the_eight_questions_stand_in_their_order() -> None:
    assert question_ids() == ORDER
    assert [one.number for one in questions()] == list(range(1, 9))


@pytest.mark.parametrize("number", range(1, 9))
def test_numbers_are_what_a_person_gets_by_hand(number: int) -> None:
    asked = question(number)
    wanted = [parse_number(text) for text in BY_HAND[asked.id]]
    assert len(asked.numbers) == len(wanted)
    for ask, value in zip(asked.numbers, wanted, strict=True):
        assert float_of(ask.value) == pytest.approx(float_of(value), rel=1e-15, abs=0)


@pytest.mark.parametrize("number", range(1, 9))
def test_a_rubric_is_separate_points_of_one_sentence(number: int) -> None:
    points = [str(point) for point in question(number).rubric]
    assert 4 <= len(points) <= 6
    assert len(set(points)) == len(points)
    for point in points:
        assert point.endswith(".") and not re.search(r"[.?!] [A-Z]", point), point


@pytest.mark.parametrize("number", range(1, 9))
def test_the_frame_of_the_story_is_there(number: int) -> None:
    frames = frames_of(ROOT / "web" / "src" / "story" / "text")
    assert len(frames) > 20
    assert question(number).frame in frames


def frames_of(folder: Path) -> set[str]:
    """The ids of the story's frames."""
    pages = [path.read_text(encoding="utf-8") for path in folder.glob("*.md")]
    return {name for page in pages for name in re.findall(r"^## .*\{#([\w-]+)\}", page, re.M)}


def test_the_worksheet_to_look_at_is_there() -> None:
    assert question(1).worksheet == "two-routes"
    assert {one.worksheet for one in questions()} == {"two-routes", None}


def test_an_unknown_question_is_named() -> None:
    with pytest.raises(LearnError, match=r"question \(9\) must be 1 to 8"):
        question(9)


def test_json_has_every_number_with_its_name_and_full_precision() -> None:
    found = json.loads(quiz_json())["questions"]
    assert [entry["id"] for entry in found] == list(ORDER)
    for entry, asked in zip(found, questions(), strict=True):
        assert said(entry["answer"]) == str(asked.answer)
        assert [said(point) for point in entry["rubric"]] == [str(p) for p in asked.rubric]
        for ask in entry["numbers"]:
            assert float_of(parse_number(ask["exact"])) == ask["value"]
            assert ask["quantity"].partition(":")[0] in ("quiz", "two-routes", "three-heads") or (
                ask["quantity"] == "river-and-cheque:river.scores[0][9][5]"
            )


def said(parts: list[Any]) -> str:
    return "".join(part if isinstance(part, str) else part["text"] for part in parts)


def test_every_computed_number_is_shown_somewhere() -> None:
    shown = {
        part.quantity
        for one in questions()
        for sentence in (one.prompt, one.answer, *one.rubric, *(a.prompt for a in one.numbers))
        for part in _quoted(sentence)
    }
    asked = {ask.quantity for one in questions() for ask in one.numbers}
    computed = {name for one in ORDER for name in computed_for(one)}
    assert computed - shown - asked <= {"quiz:causality.leak-after"}  # a topic shows that one


def _quoted(sentence: Sentence) -> list[Any]:
    return [part for part in sentence.parts if not isinstance(part, str)]


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_counts_against_a_real_layer(num_heads: int) -> None:
    layer = MultiHeadAttention(8, num_heads, bias=False, form="packed")
    numbers = computed_for("head-count")
    real = sum(parameter.numel() for parameter in layer.parameters())
    scores = layer.trace(torch.zeros(1, 4, 8)).scores
    assert numbers[f"quiz:head-count.parameters-{num_heads}"] == real
    assert numbers[f"quiz:head-count.scores-{num_heads}"] == scores.numel()
    assert numbers[f"quiz:head-count.head-width-{num_heads}"] == layer.config.head_dim


@pytest.mark.parametrize(
    "options",
    [
        {"embed_dim": 12, "num_heads": 6, "num_kv_heads": 2},
        {"embed_dim": 8, "num_heads": 2, "head_dim": 3, "v_head_dim": 5, "out_bias": False},
        {"embed_dim": 8, "num_heads": 2, "kdim": 5, "vdim": 7, "bias": False, "out_bias": True},
    ],
)
def test_parameters_of_uneven_layers_against_real_ones(options: dict[str, Any]) -> None:
    real = sum(parameter.numel() for parameter in MultiHeadAttention(**options).parameters())
    assert stored_parts(AttentionConfig.of(**options)).everything == real


def test_a_head_cut_to_a_slice_differs_from_one_that_reads_the_full_width() -> None:
    whole = worksheet("two-routes").solve("main", exact=True)
    cut = computed_for("full-width")["quiz:full-width.sliced-message"]
    assert whole["head_outputs"][0, 2, 0] == Fraction(26, 7) != cut


def test_equal_queries_do_not_give_uniform_weights_and_zero_queries_do() -> None:
    sheet = worksheet("two-routes")
    given = sheet.solve("main", exact=True)
    assert len({tuple(row) for head in given["q"] for row in head}) == 1
    assert list(given["attn_weights"][0, 2]) == [Fraction(n, 7) for n in (1, 2, 4)]
    numbers = computed_for("equal-queries")
    weights = [numbers[f"quiz:equal-queries.weight-{t}"] for t in (1, 2, 3)]
    assert weights == [1, Fraction(1, 2), Fraction(1, 3)]
    assert numbers["quiz:equal-queries.output-2"] == numbers["quiz:equal-queries.output-3"] == 0


def test_only_orders_that_take_w_o_along_keep_the_output() -> None:
    numbers = computed_for("no-jobs")
    assert numbers["quiz:no-jobs.orders"] == numbers["quiz:no-jobs.orders-tried"] == 6
    assert numbers["quiz:no-jobs.orders-left"] == 1
