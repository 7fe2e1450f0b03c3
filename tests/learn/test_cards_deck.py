"""The deck: every number in it is the engine's, and none is typed."""

import re

import pytest
import torch

from manyheads.attention.cache import KVCache
from manyheads.attention.module import MultiHeadAttention
from manyheads.checkpoints.shipped import load_shipped
from manyheads.core.errors import LearnError, ManyHeadsError
from manyheads.faults.catalogue import FAULT_KINDS
from manyheads.learn.cards import cards_of, deck, deck_json, topics
from manyheads.learn.cards.card_numbers import CardNumbers, numbers_of_layer
from manyheads.learn.cards.deck import rows_of
from manyheads.learn.sentences import Quoted
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.library import worksheet

ROWS = [row for topic in topics() for row in rows_of(topic)]
NAMES_WITH_DIGITS = {
    "float16": "the name of a type",
    "GPT-2": "the name of a model",
    "Conv1D": "the name of a class",
    "head 1": "which head, as a reader counts",
    "head 2": "which head, as a reader counts",
    "source 1": "which source, as a reader counts",
    "source 3": "which source, as a reader counts",
    "receiver 1": "which receiver, as a reader counts",
    "receiver 3": "which receiver, as a reader counts",
    "output 1": "which output, as a reader counts",
    "output 2": "which output, as a reader counts",
    "column 2": "which column, as a reader counts",
    "counted from 1": "how readers count",
}


def plain(text: str) -> str:
    """What is typed by hand: without computed numbers, texts of the catalogue and names."""
    text = re.sub(r"\{\{.*?\}\}|<<.*?>>", "", text)
    for name in NAMES_WITH_DIGITS:
        text = re.sub(rf"\b{re.escape(name)}\b", "", text, flags=re.IGNORECASE)
    return text


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_no_number_is_typed_by_hand(row: dict[str, str]) -> None:
    for side in ("front", "back"):
        assert re.findall(r"\d+", plain(row[side])) == []


def test_every_name_with_a_digit_is_used() -> None:
    texts = " ".join(row["front"] + row["back"] for row in ROWS).lower()
    assert [name for name in NAMES_WITH_DIGITS if name.lower() not in texts] == []


def test_the_deck_has_stable_distinct_ids_and_questions() -> None:
    ids = [card.id for card in deck()]
    assert len(set(ids)) == len(ids)
    assert 40 <= len(ids) <= 80
    assert all(card.id.startswith(f"{card.topic}-") for card in deck())
    assert len({str(card.front) for card in deck()}) == len(ids)
    assert all("?" in str(card.front) or "Name " in str(card.front) for card in deck())


def test_no_marks_of_the_writing_are_left_in_the_texts() -> None:
    for card in deck():
        assert not re.search(r"\{\{|\}\}|<<|>>|\.\.|\bnan\b", f"{card.front} {card.back}"), card.id


def test_every_number_of_a_worksheet_is_what_the_worksheet_solves_to() -> None:
    quoted = [
        part
        for card in deck()
        for said in (card.front, card.back)
        for part in said.parts
        if isinstance(part, Quoted) and ":main." in part.quantity
    ]
    solved = {name: worksheet(name).solve("main") for name in ("two-routes", "three-heads")}
    checked = 0
    for part in quoted:
        name, _, place = part.quantity.partition(":")
        if name not in solved:
            continue  # a changed worksheet, which has a test of its own
        field, *index = re.findall(r"\w+", place.removeprefix("main."))
        found = solved[name][field][tuple(int(i) for i in index)]
        assert part.value == pytest.approx(float(found), rel=1e-12)
        checked += 1
    assert checked > 30


def card_text(card_id: str) -> str:
    card = next(card for card in deck() if card.id == card_id)
    return f"{card.front} {card.back}"


@pytest.mark.parametrize(
    ("card_id", "expected"),
    [
        ("shapes-head-width", "64 = 512 / 8"),
        ("heads-equal-queries", "1/3 each"),
        ("heads-equal-queries", "16/3"),
        ("heads-wide", "1/3, 1/3, 1/3"),
        ("output-block", "Rows 10 to 12"),
        ("output-summed-heads", "(40/7, 26/7)"),
        ("output-without-head", "16/7: the contribution of head 1"),
        ("output-bias-once", "b_O, which is 1"),
        ("scale-which-width", "1/8, one over the square root of the head width 64"),
        ("scale-model-width", "0.189, 0.308, 0.503"),
        ("weights-rows-not-columns", "31/21"),
        ("weights-ratio", "2: e to the power"),
        ("causality-alignment", "3 and 5"),
        ("causality-window", "15 pairs. Without the window there would be 21"),
        ("layouts-in-proj", "Rows 13 to 24"),
        ("cost-parameters", "16640 with 1 head, and 16640 with 8"),
        ("cost-length", "1048576: 2 times the positions, 4 times"),
        ("positions-slopes", "1/2 and 1/256"),
        ("shapes-divide", "num_heads (3) must divide embed_dim (8)"),
    ],
)
def test_by_hand(card_id: str, expected: str) -> None:
    assert expected in card_text(card_id)


def test_the_weights_of_a_wrong_scale_are_those_of_a_softmax_by_hand() -> None:
    raw = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64).log() * 2**0.5  # q.k before the scale
    for scale, card_id in ((0.5, "scale-model-width"), (1.0, "scale-forgotten")):
        weights = (raw * scale).softmax(0)
        assert f"{weights[2]:.3f}" in card_text(card_id)


def test_the_study_models_are_those_that_are_shipped() -> None:
    for name in ("one-head", "four-heads"):
        model = load_shipped(name).model
        count = sum(parameter.numel() for parameter in model.parameters())
        assert f"both have {count}." in card_text("cost-study-models")


def test_layer_numbers_against_a_real_call() -> None:
    row = {"embed_dim": 12, "num_heads": 6, "num_kv_heads": 3, "v_head_dim": 5, "kdim": 7}
    call = {"batch": 2, "queries": 3, "keys": 4, "entry": "float64"}
    numbers = numbers_of_layer(row | call)
    layer = MultiHeadAttention(**row, vdim=7, dtype=torch.float64)
    context = torch.randn(2, 4, 7, dtype=torch.float64)
    trace = layer.trace(torch.randn(2, 3, 12, dtype=torch.float64), context, is_causal=True)
    cache = KVCache().appended(trace.k, trace.v)
    assert cache.k is not None and cache.v is not None
    same = numbers_of_layer(row | call | {"vdim": 7})
    assert same["parameters"] == sum(parameter.numel() for parameter in layer.parameters())
    assert numbers["entries"] == trace.scores.numel()
    assert numbers["score_bytes"] == trace.scores.nbytes
    assert numbers["cache_bytes"] == cache.k.nbytes + cache.v.nbytes
    assert numbers["joined"] == trace.concat.shape[-1]
    assert float_of(numbers["scale"]) == pytest.approx(layer.config.scale, rel=1e-15)
    seen = (trace.attn_weights[0, 0] > 0).sum(-1).tolist()
    assert [numbers["first_sees"], numbers["last_sees"]] == [seen[0], seen[-1]]
    assert numbers["pairs_seen"] == sum(seen)


def test_row_numbers_cut_the_keys_of_torch_out_of_its_stacked_matrix() -> None:
    numbers = numbers_of_layer({"embed_dim": 12, "num_heads": 3})
    theirs = torch.nn.MultiheadAttention(12, 3)
    assert tuple(theirs.in_proj_weight.shape) == (numbers["input_rows"], numbers["D"])
    rows = theirs.in_proj_weight[int(numbers["first_key_row"]) - 1 : int(numbers["last_key_row"])]
    assert torch.equal(rows, theirs.in_proj_weight.chunk(3)[1])


def test_every_fault_on_a_card_is_in_the_catalogue() -> None:
    named = {
        name
        for row in ROWS
        for name in re.findall(r"<<([a-z-]+)\.(?:what|fix)>>", row["front"] + row["back"])
    }
    assert len(named) >= 10
    assert named <= set(FAULT_KINDS)


def test_the_page_gets_texts_and_named_numbers() -> None:
    rows = deck_json()
    assert [row["id"] for row in rows] == [card.id for card in deck()]
    assert all(set(row) == {"id", "topic", "front", "back"} for row in rows)
    front = rows[0]["front"]
    assert front[1] == {
        "quantity": "cards:shapes-head-width.layer.D",
        "value": 512.0,
        "text": "512",
    }
    assert "".join(p if isinstance(p, str) else p["text"] for p in front) == str(deck()[0].front)


def test_cards_of_a_topic_and_an_unknown_one() -> None:
    assert {card.topic for card in cards_of("masks")} == {"masks"}
    assert cards_of(None) == deck()
    with pytest.raises(
        LearnError, match=r"topic \(nope\) does not exist: use one of shapes, heads"
    ):
        cards_of("nope")


@pytest.mark.parametrize(
    ("row", "text", "why"),
    [
        ({}, "{{layer.D}}", r"number \(layer.D\) is not known"),
        ({"layers": {"a": {"embed_dim": 8, "num_heads": 2}}}, "{{a.width}}", "is not known"),
        ({"refused": {"embed_dim": 8, "num_heads": 2}}, "<<refused>>", "is a layer that works"),
        ({"layers": {"a": {"embed_dim": 8, "num_heads": 3}}}, "", r"num_heads \(3\) must divide"),
        ({}, "<<no-such-fault.what>>", "no-such-fault"),
    ],
)
def test_a_card_that_names_what_is_not_there_is_refused(
    row: dict[str, object], text: str, why: str
) -> None:
    with pytest.raises(ManyHeadsError, match=why):
        CardNumbers({"id": "x"} | row).fill(text)
