"""Every number that the page shows is the engine's number, in every view."""

import re
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.exact import scale_of
from manyheads.worksheets.library import worksheet_names
from manyheads.worksheets.numbers import parse_number
from tests.web.browsing import GO, Visit, all_places, opened

SOLVED = re.compile(r"([\w-]+):(\w+)\.(\w+)((?:\[\d+\])+)")
GIVEN = re.compile(r"([\w-]+):([\w.]+)((?:\[\d+\])*)")
COLLECT = (
    """async ([fragments, numbers]) => {
  const go = """
    + GO
    + """;
  const bare = () => {
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const { data, parentElement } = walker.currentNode;
      if (/\\d[.\\/]\\d/.test(data) && !parentElement.closest("[data-quantity]")) found.push(data);
    }
    return found;
  };
  const found = [];
  for (const fragment of fragments) {
    await go(`#${fragment}&numbers=${numbers}`);
    for (const details of document.querySelectorAll("details")) details.open = true;
    const shown = [...document.querySelectorAll("main [data-quantity]")].map((node) => [
      node.dataset.quantity, node.dataset.value, node.textContent,
    ]);
    found.push([new URLSearchParams(location.hash.slice(1)).get("step"), shown, bare()]);
  }
  return found;
}"""
)


@cache
def answers(name: str, sequence: str) -> dict[str, Any]:
    """The float form's answers: another way to them than the page's exact ones."""
    solution = opened(name).solve(sequence)
    found = {field: solution[field] for field in solution.fields}
    weights, values = found["attn_weights"], found["v"]
    return found | {"weighted_values": np.einsum("hts,hsi->htsi", weights, values)}


def given_number(name: str, path: str, indices: list[int]) -> float:
    """A given number, read from the worksheet file."""
    sheet = opened(name)
    if path == "scale":
        return float_of(scale_of(sheet))
    node: Any = sheet.document
    for key in (*path.split("."), *indices):
        node = node[int(key) if isinstance(node, list) else key]
    return float_of(parse_number(node))


@cache
def expected(quantity: str) -> float:
    """What a quantity must be, by its name."""
    if found := SOLVED.fullmatch(quantity):
        name, sequence, field, tail = found.groups()
        if sequence in opened(name).sequence_names:
            return float(answers(name, sequence)[field][tuple(map(int, re.findall(r"\d+", tail)))])
    found = GIVEN.fullmatch(quantity)
    assert found, quantity
    name, path, tail = found.groups()
    return given_number(name, path, [int(index) for index in re.findall(r"\d+", tail)])


def check_value(quantity: str, value: str) -> None:
    want, got = expected(quantity), float(value)
    assert got == want or abs(got - want) <= 1e-12 * max(1.0, abs(want)), (quantity, got, want)


def check_decimals(quantity: str, value: str, text: str) -> None:
    if value == "-Infinity":
        assert text == "\u2212\u221e", quantity
        return
    found = re.fullmatch(r"(\u2212?)\d+(?:\.(\d{1,3}))?", text)
    assert found, (quantity, text)
    shown = Fraction(text.replace("\u2212", "-"))
    half = Fraction(1, 2 * 10 ** len(found[2] or ""))
    assert abs(shown - Fraction(float(value))) <= half + Fraction(1, 10**12), (quantity, text)
    assert len(found[2] or "") == 3 or abs(shown - Fraction(float(value))) < Fraction(1, 10**9)


def check_fraction(quantity: str, value: str, text: str) -> None:
    written = re.sub(
        "\u221a(\\d+)", r"sqrt(\1)", text.replace("\u2212", "-").replace("\u00b7", "*")
    )
    if "." in text or "\u221e" in text:
        check_decimals(quantity, value, text)
    else:
        assert float_of(parse_number(written)) == float(value), (quantity, text)


def fragments_of(name: str, *receivers: int) -> list[str]:
    """Every place of a worksheet, or those of some receivers; 0 is the last one."""
    places = [place for place in all_places() if place["worksheet"] == name]
    last = max(place["receiver"] for place in places)
    kept = [place for place in places if not receivers or place["receiver"] % last in receivers]
    return ["&".join(f"{key}={value}" for key, value in place.items()) for place in kept]


def walk(visit: Visit, fragments: list[str], numbers: str) -> set[tuple[str, str, str]]:
    """Visit places; returns what they show: quantity, value and text."""
    visit.open()
    seen = set()
    found = visit.page.evaluate(COLLECT, [fragments, numbers])
    for fragment, (step, shown, bare) in zip(fragments, found, strict=True):
        assert f"step={step}" in fragment
        assert len(shown) >= 4, fragment
        assert bare == [], f"{fragment} shows numbers without a name and a value"
        seen |= {tuple(entry) for entry in shown}
    return seen


def check_decimal_walk(visit: Visit, name: str, fragments: list[str]) -> None:
    seen = walk(visit, fragments, "decimals")
    for quantity, value, text in seen:
        check_value(quantity, value)
        check_decimals(quantity, value, text)
    fields = {found[3] for found in (SOLVED.fullmatch(entry[0]) for entry in seen) if found}
    assert {*opened(name).solve(exact=True).fields, "weighted_values"} <= fields


@pytest.mark.parametrize("name", worksheet_names())
def test_every_number_in_every_view_is_the_engines_number(visit: Visit, name: str) -> None:
    check_decimal_walk(visit, name, fragments_of(name, 0, 1, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", worksheet_names())
def test_every_number_at_every_receiver_is_the_engines_number(visit: Visit, name: str) -> None:
    check_decimal_walk(visit, name, fragments_of(name))


@pytest.mark.parametrize("name", worksheet_names())
def test_every_fraction_says_the_same_as_its_value(visit: Visit, name: str) -> None:
    exact = 0
    for quantity, value, text in walk(visit, fragments_of(name, 0), "fractions"):
        check_value(quantity, value)
        check_fraction(quantity, value, text)
        exact += "/" in text
    assert exact > 20


def test_a_number_without_its_name_is_found(visit: Visit) -> None:
    visit.open()
    visit.page.evaluate("document.querySelector('.tokens').append('0.5')")
    with pytest.raises(AssertionError, match="without a name"):
        fragments = fragments_of("two-routes", 0)[:1]
        for _, _, bare in visit.page.evaluate(COLLECT, [fragments, "decimals"]):
            assert bare == [], "shows numbers without a name and a value"


@pytest.mark.parametrize(
    ("value", "text"), [("0.5", "0.4"), ("0.12345", "0.124"), ("0.5", "0.4996"), ("-0.5", "0.5")]
)
def test_a_number_shown_wrong_is_found(value: str, text: str) -> None:
    with pytest.raises(AssertionError):
        check_decimals("w:s.x[0][0]", value, text)


def test_a_value_that_is_not_the_engines_is_found() -> None:
    quantity = "river-and-cheque:river.attn_weights[0][9][5]"
    check_value(quantity, repr(expected(quantity)))
    with pytest.raises(AssertionError):
        check_value(quantity, repr(expected(quantity) + 1e-11))
