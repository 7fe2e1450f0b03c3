"""What a number on the page must be, by its name, worked out in Python; how it may be written."""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from manyheads.learn.cards.deck import deck
from manyheads.learn.exercises import Exercise, exercise
from manyheads.learn.quiz import question_ids
from manyheads.learn.quiz.computed import computed_for
from manyheads.report.published import PUBLISHED
from manyheads.study import shipped_results
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.exact import scale_of
from manyheads.worksheets.interventions import one_wide_head, without_head, zero_query
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.numbers import parse_number
from tests.web.browsing import Shown, opened
from tools.page.study import ORDER

SOLVED = re.compile(r"([\w-]+):([\w-]+)(?:\?([\w-]+))?\.(\w+)((?:\[\d+\])+)")
EXERCISE = re.compile(
    r"exercise:([\w-]+)/(\d+):(answer|given|misconception)(?:\.([\w:. -]+?))?((?:\[\d+\])+)"
)
GIVEN = re.compile(r"([\w-]+):([\w.]+)((?:\[\d+\])*)")
Edits = tuple[tuple[str, str], ...]
"""Places and what was typed there."""


def indices_of(text: str) -> tuple[int, ...]:
    """[0][9][5] as numbers."""
    return tuple(int(index) for index in re.findall(r"\d+", text))


@cache
def edited(name: str, edits: Edits = (), variant: str = "") -> Worksheet:
    """A worksheet with edits, and then with one thing about it changed."""
    sheet = opened(name).edit(dict(edits)) if edits else opened(name)
    if variant == "wide":
        return one_wide_head(sheet)
    if variant == "zero-query":
        return zero_query(sheet)
    if variant == "last-changed":
        return sheet.edit({"position_embedding[9][0]": "3"})
    if variant == "not-causal":
        return Worksheet.from_document(sheet.document | {"is_causal": False})
    for head in re.findall(r"without-head-(\d)", variant):
        sheet = without_head(sheet, int(head) - 1)
    return sheet


@cache
def answers(name: str, sequence: str, edits: Edits = (), variant: str = "") -> dict[str, Any]:
    """The float form's answers: another way to them than the page's exact ones."""
    solution = edited(name, edits, variant).solve(sequence)
    found = {field: solution[field] for field in solution.fields}
    weights, values = found["attn_weights"], found["v"]
    return found | {"weighted_values": np.einsum("hts,hsi->htsi", weights, values)}


@cache
def document_of(name: str, edits: Edits = (), variant: str = "") -> Any:
    """The file of a worksheet, with edits; to be read only."""
    return edited(name, edits, variant).document


def given_number(path: str, indices: tuple[int, ...], *which: Any) -> float:
    """A given number, read from the worksheet file."""
    if path == "scale":
        return float_of(scale_of(edited(*which)))
    node = document_of(*which)
    for key in (*path.split("."), *indices):
        node = node[int(key) if isinstance(node, list) else key]
    return float_of(parse_number(node))


@cache
def results(plan: str) -> Mapping[str, Any]:
    """What `results.json` of a shipped study holds."""
    found: Mapping[str, Any] = shipped_results(plan).content
    return found


def measured(quantity: str) -> bool:
    """Whether a study gave the number: it is named by the plan, or by the published experiment."""
    return quantity.partition(":")[0] in (*ORDER, "published")


def measured_number(quantity: str) -> float:
    """A number of a study, found by its path in `results.json`."""
    plan, _, path = quantity.partition(":")
    node: Any = PUBLISHED if plan == "published" else results(plan)
    if found := re.fullmatch(r"runs\?model=([\w-]+)\.length", path):
        return float(sum(run["model"] == found[1] for run in node["runs"]))
    if path.endswith(".length"):
        return float(len(node[path.removesuffix(".length")]))
    for name, index in re.findall(r"([\w-]+)|\[(\d+)\]", path):
        node = node[name] if name else node[int(index)]
    return float(node)


@cache
def learned(room: str) -> Mapping[str, float]:
    """The further numbers of the quiz, or of the cards, by name."""
    if room == "quiz":
        found = [computed_for(name) for name in question_ids()]
        return {name: float_of(value) for numbers in found for name, value in numbers.items()}
    sides = [side for card in deck() for side in (card.front, card.back)]
    quoted = [part for side in sides for part in side.parts if not isinstance(part, str)]
    return {part.quantity: part.value for part in quoted}


@cache
def drawn(kind: str, seed: int) -> Exercise:
    """An exercise, drawn once."""
    return exercise(kind, seed)


def exercise_number(quantity: str) -> float:
    """A number that an exercise gives, asks for, or has from a known mistake."""
    found = EXERCISE.fullmatch(quantity)
    assert found, quantity
    kind, seed, part, name, tail = found.groups()
    one, (index, *column) = drawn(kind, int(seed)), indices_of(tail)
    if part == "given":
        (table,) = (table for table in one.given if table.name == name)
        return float_of(table.rows[index][column[0]])
    named = {item.name: item.values for item in one.misconceptions}
    return float_of((one.answer if part == "answer" else named[name])[index])


@cache
def expected(quantity: str, edits: Edits = (), variant: str = "") -> float:
    """What a number of a worksheet must be.

    A number of a variant says so in its name (`river?wide`), or is on a page with that variant.
    """
    if quantity.startswith(("quiz:", "cards:")):
        return learned(quantity.partition(":")[0])[quantity]
    if quantity.startswith("exercise:"):
        return exercise_number(quantity)
    if found := SOLVED.fullmatch(quantity):
        name, sequence, own, field, tail = found.groups()
        if sequence in opened(name).sequence_names:
            table = answers(name, sequence, edits, own or variant)[field]
            return float(table[indices_of(tail)])
    found = GIVEN.fullmatch(quantity)
    assert found, quantity
    name, path, tail = found.groups()
    return given_number(path, indices_of(tail), name, edits, variant)


def check_close(quantity: str, value: str, want: float) -> None:
    """The page's value is ours, to the last digits of a float64."""
    got = float(value)
    assert got == want or abs(got - want) <= 1e-12 * max(1.0, abs(want)), (quantity, got, want)


def check_decimals(quantity: str, value: str, text: str) -> None:
    """A text is its value rounded, with no digit wrong; thousands may be set apart by commas."""
    text = re.sub(r"(?<=\d),(?=\d{3})|\s(?=%)", "", text)
    if value == "-Infinity":
        assert text == "\u2212\u221e", quantity
        return
    found = re.fullmatch(r"([\u2212+]?)\d+(?:\.(\d{1,6}))?(%?)", text)
    assert found, (quantity, text)
    sign, decimals, percent = found.groups()
    shown = Fraction(text.strip("%+").replace("\u2212", "-"))
    exact = Fraction(float(value)) * (100 if percent else 1)
    half = Fraction(1, 2 * 10 ** len(decimals or ""))
    assert abs(shown - exact) <= half + Fraction(1, 10**12), (quantity, value, text)
    assert sign != "+" or exact > 0, (quantity, value, text)


def check_exact(quantity: str, value: str, text: str) -> None:
    """A fraction, or a form with roots and logarithms, says the same as its value."""
    if re.search("[.,%\u221e]", text):
        check_decimals(quantity, value, text)
        return
    written = re.sub(
        "\u221a(\\d+)", r"sqrt(\1)", text.replace("\u2212", "-").replace("\u00b7", "*")
    )
    got, want = float_of(parse_number(written)), float(value)
    assert abs(got - want) <= 1e-14 * max(1.0, abs(want)), (quantity, value, text)


def check_shown(
    numbers: set[Shown], edits: Mapping[str, str] | None = None, variant: str = ""
) -> None:
    """All numbers of a worksheet's view, as decimals; former ones are those of the given sheet."""
    given = tuple((edits or {}).items())
    for quantity, value, text, is_former in numbers:
        want = expected(quantity) if is_former else expected(quantity, given, variant)
        check_close(quantity, value, want)
        check_decimals(quantity, value, text)
