"""Every answer that the worksheet files publish is reproduced, exactly or to the printed digit."""

from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest

from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.interventions import (
    one_wide_head,
    sum_instead_of_concat,
    without_head,
    zero_query,
)
from manyheads.worksheets.library import worksheet
from manyheads.worksheets.numbers import parse_number
from manyheads.worksheets.solution import Solution


def parsed(value: Any) -> Any:
    """Published answers as exact numbers, in nested lists."""
    return [parsed(entry) for entry in value] if isinstance(value, list) else parse_number(value)


def assert_same(got: Any, published: Any, place: str) -> None:
    """Compare nested exact answers one by one."""
    want = parsed(published)
    have = got.tolist() if isinstance(got, np.ndarray) else got
    assert have == want, f"{place}: {have} is not {want}"


def assert_printed(got: Any, published: Any, place: str) -> None:
    """Compare nested figures with printed ones, after rounding to as many decimals as printed."""
    if isinstance(published, list):
        assert len(got) == len(published), place
        for i, (a, b) in enumerate(zip(got, published, strict=True)):
            assert_printed(a, b, f"{place}[{i}]")
        return
    places = Decimal(published).as_tuple().exponent
    assert isinstance(places, int)
    step = Decimal(1).scaleb(max(places, -6) if "." in published else 0)
    step = min(step, Decimal("0.001")) if "." in published else step
    rounded = Decimal(repr(float(float_of(got)))).quantize(step, ROUND_HALF_UP)
    assert rounded == Decimal(published), f"{place}: {got} rounds to {rounded}, not {published}"


@cache
def solved(name: str, sequence: str = "main") -> Solution:
    """One worksheet solved exactly."""
    return worksheet(name).solve(sequence, exact=True)


@pytest.mark.parametrize("name", ["two-routes", "three-heads"])
def test_exact_answers_of_all_rows_are_the_published_ones(name: str) -> None:
    published = worksheet(name).expected["main"]
    for field, values in published.get("all_rows", published).items():
        assert_same(solved(name)[field], values, f"{name}.{field}")


def test_two_routes_answers_of_the_last_receiver_are_the_published_ones() -> None:
    published = worksheet("two-routes").expected["main"]
    last = solved("two-routes").at(published["receiver"])
    fields = ("scores", "attn_weights", "head_outputs", "concat", "output", "head_contributions")
    for field in fields:
        assert_same(last[field], published[field], field)


def test_two_routes_with_zero_query_is_the_published_mixture() -> None:
    published = worksheet("two-routes").expected["main"]["zero_query"]
    last = zero_query(worksheet("two-routes")).solve(exact=True).at(3)
    for field, values in published.items():
        assert_same(last[field], values, field)


def test_two_routes_summed_instead_of_joined_is_the_published_loss() -> None:
    published = worksheet("two-routes").expected["main"]["sum_instead_of_concat"]
    assert_same(sum_instead_of_concat(solved("two-routes").at(3)), published, "last receiver")
    assert_same(sum_instead_of_concat(solved("two-routes"))[2], published, "all receivers")
    floats = sum_instead_of_concat(worksheet("two-routes").solve().at(3))
    np.testing.assert_allclose(floats, [40 / 7, 26 / 7], rtol=1e-15)


@pytest.mark.parametrize("name", ["two-routes", "three-heads"])
def test_a_silenced_head_leaves_the_others_contributions_and_the_bias(name: str) -> None:
    sheet = worksheet(name)
    whole = solved(name)
    bias = np.array(sheet.b_o or [0] * sheet.embed_dim, dtype=object)
    for h in range(sheet.num_heads):
        silenced = without_head(sheet, h).solve(exact=True)
        others = np.delete(whole.head_contributions, h, axis=0).sum(axis=0) + bias
        assert (silenced.output == others).all()
        assert (silenced.output == whole.output - whole.head_contributions[h]).all()
        assert not silenced.head_outputs[h].any()


def printed_figures() -> list[tuple[str, str, Any]]:
    """Every printed figure of both sentences: sequence, field, values."""
    expected = worksheet("river-and-cheque").document["expected"]
    figures = []
    for sequence in ("river", "cheque"):
        for field, values in expected[sequence].items():
            if field not in ("receiver", "source_contribution", "one_wide_head"):
                figures.append((sequence, {"raw_dots": "dots"}.get(field, field), values))
    return figures


@pytest.mark.parametrize(("sequence", "field", "values"), printed_figures())
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "float"])
def test_river_and_cheque_rounds_to_the_printed_figures(
    sequence: str, field: str, values: Any, exact: bool
) -> None:
    sheet = worksheet("river-and-cheque")
    receiver = int(sheet.expected[sequence]["receiver"])
    last = (solved(sheet.name, sequence) if exact else sheet.solve(sequence)).at(receiver)
    numbers = last.numbers[field].tolist() if exact else last[field].tolist()
    assert_printed(_exactly(numbers), values, f"{sequence}.{field}")


def _exactly(numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [_exactly(entry) for entry in numbers]
    return parse_number(numbers) if isinstance(numbers, float) else numbers


def test_printed_figures_cover_both_sentences() -> None:
    found = {(sequence, field) for sequence, field, _ in printed_figures()}
    fields = ("q", "dots", "scores", "exp_sum", "attn_weights", "head_outputs", "output", "updated")
    assert found == {("river", field) for field in fields} | {("cheque", "head_outputs")}


def test_a_source_adds_its_weight_times_its_value_as_printed() -> None:
    sheet = worksheet("river-and-cheque")
    printed = sheet.document["expected"]["river"]["source_contribution"]
    last = sheet.solve("river").at(10)
    river = last.attn_weights[0][5] * last.v[0][5]
    fisherman = last.attn_weights[1][1] * last.v[1][1]
    assert_printed(_exactly(river.tolist()), printed["river_in_head_1"], "river")
    assert_printed(_exactly(fisherman.tolist()), printed["fisherman_in_head_2"], "fisherman")


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "float"])
def test_one_wide_head_is_the_printed_comparison(exact: bool) -> None:
    sheet = worksheet("river-and-cheque")
    printed = sheet.document["expected"]["river"]["one_wide_head"]
    wide = one_wide_head(sheet)
    assert (wide.num_heads, wide.head_dim, wide.scale) == (1, 4, None)
    last = wide.solve("river", exact=exact).at(10)
    places = {"river": 5, "fisherman": 1}
    for field, key in (("dots", "raw"), ("scores", "scores"), ("attn_weights", "attn_weights")):
        for word, s in places.items():
            got = parse_number(float(last[field][0][s]))
            assert_printed(got, printed[key][word], f"{field} {word}")
    others = 1 - sum(float(last.attn_weights[0][s]) for s in places.values())
    assert_printed(parse_number(others), printed["attn_weights"]["others"], "others")


def test_each_sentence_predicts_its_own_word() -> None:
    sheet = worksheet("river-and-cheque")
    for sequence in sheet.sequences:
        last = sheet.solve(sequence.name).at(10)
        best = sheet.vocabulary[int(last.probabilities.argmax())]
        assert best == sequence.target
        ranked = [sheet.vocabulary[i] for i in (-last.probabilities).argsort()[:2]]
        assert set(ranked) <= set(sequence.candidates)


def test_worksheet_files_are_the_shared_ones(shared: Any) -> None:
    import json

    for name in ("two-routes", "three-heads", "river-and-cheque"):
        published = (shared / "worksheets" / f"{name}.json").read_text(encoding="utf-8")
        as_written = {"parse_float": str, "parse_int": str}
        ours = json.loads(worksheet(name).to_json(), **as_written)
        assert ours == json.loads(published, **as_written)


def test_a_wrong_answer_is_seen() -> None:
    output = solved("two-routes").output
    with pytest.raises(AssertionError, match="is not"):
        assert_same(output[2], ["40/7", "6/7", "12/7", "25/7"], "output")
    with pytest.raises(AssertionError, match=r"rounds to 3\.005"):
        assert_printed(parse_number("3.0048"), "3.004", "output")
