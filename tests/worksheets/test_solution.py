"""Solutions: arrays by name, one receiver, JSON, text and HTML."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.library import worksheet
from tests.worksheets.samples import full_document, sheet_of, small_document

ATTENTION = (
    *("x", "q", "k", "v", "dots", "scores", "masked_scores", "exp_scores", "exp_sum"),
    *("attn_weights", "head_outputs", "concat", "output", "head_contributions"),
)
PREDICTION = ("updated", "hidden_pre", "hidden", "logits", "probabilities")


@pytest.mark.parametrize("exact", [True, False])
def test_fields_have_the_promised_shapes(exact: bool) -> None:
    solution = sheet_of(full_document()).solve(exact=exact)
    shapes = {
        "x": (2, 3), "q": (2, 2, 1), "k": (2, 2, 1), "v": (2, 2, 2), "dots": (2, 2, 2),
        "scores": (2, 2, 2), "masked_scores": (2, 2, 2), "exp_scores": (2, 2, 2),
        "exp_sum": (2, 2), "attn_weights": (2, 2, 2), "head_outputs": (2, 2, 2), "concat": (2, 4),
        "output": (2, 3), "head_contributions": (2, 2, 3), "updated": (2, 3), "hidden_pre": (2, 2),
        "hidden": (2, 2), "logits": (2, 4), "probabilities": (2, 4),
    }  # fmt: skip
    assert solution.fields == ATTENTION + PREDICTION == tuple(shapes)
    for name, shape in shapes.items():
        assert solution[name].shape == shape
        assert solution[name].dtype == (object if exact else np.float64)
        assert (getattr(solution, name) == solution[name]).all()


def test_fields_that_the_worksheet_lacks_are_not_there() -> None:
    solution = worksheet("two-routes").solve(exact=True)
    assert solution.fields == ATTENTION
    with pytest.raises(
        WorksheetError, match=r"field \('logits'\) is not in this solution: use x, q"
    ):
        solution["logits"]
    with pytest.raises(AttributeError, match="logits"):
        _ = solution.logits
    with pytest.raises(AttributeError, match="nothing"):
        _ = solution.nothing


def test_exact_arrays_hold_fractions_symbols_and_floats() -> None:
    solution = worksheet("river-and-cheque").solve("river", exact=True)
    assert isinstance(solution.output[9][0], float)
    assert isinstance(solution.x[0][0], Fraction)
    assert solution.scores[0][9][5] == sympy.Rational(69, 20) * sympy.sqrt(2)
    assert solution.masked_scores[0][0][1] == -np.inf
    exact_json = json.loads(solution.to_json())
    assert exact_json["scores"][0][9][5] == "69*sqrt(2)/20"
    assert exact_json["attn_weights"][0][0][:2] == ["1", "0"]
    assert isinstance(exact_json["attn_weights"][0][9][5], float)


def test_solved_arrays_cannot_be_changed_from_outside() -> None:
    solution = worksheet("two-routes").solve()
    solution.output[0][0] = 99.0
    assert solution.output[0][0] == 4.0


@pytest.mark.parametrize("exact", [True, False])
def test_json_has_the_promised_keys(exact: bool) -> None:
    solution = worksheet("two-routes").solve("main", exact=exact)
    document = json.loads(solution.to_json())
    heading = ["worksheet", "title", "sequence", "tokens", "exact", "receiver", "is_causal"]
    assert list(document) == [*heading, *ATTENTION]
    assert [document[key] for key in heading] == [
        "two-routes", "Two routes over the same values", "main", ["1", "2", "3"], exact, None, True
    ]  # fmt: skip
    assert document["masked_scores"][0][0] == [("0" if exact else 0.0), None, None]
    assert document["output"][2][0] == ("40/7" if exact else pytest.approx(40 / 7))


def test_one_receiver_has_the_form_of_the_published_answers() -> None:
    sheet = worksheet("river-and-cheque")
    last = sheet.solve("cheque").at(10)
    assert last.q.shape == (2, 2) and last.k.shape == (2, 10, 2)
    assert last.scores.shape == (2, 10) and last.exp_sum.shape == (2,)
    assert last.output.shape == (4,) and last.head_contributions.shape == (2, 4)
    assert last.probabilities.shape == (20,)
    assert json.loads(last.to_json())["receiver"] == 10


@pytest.mark.parametrize("receiver", [0, 4, -1])
def test_wrong_receiver_is_named(receiver: int) -> None:
    solution = worksheet("two-routes").solve(exact=True)
    with pytest.raises(WorksheetError, match=rf"receiver \({receiver}\) must be 1 to 3"):
        solution.at(receiver)
    with pytest.raises(WorksheetError, match=r"receiver \(3\) is already selected"):
        solution.at(3).at(3)


def test_wrong_sequence_is_named() -> None:
    with pytest.raises(WorksheetError, match=r"sequence \(lake\) is not in .*: use river, cheque"):
        worksheet("river-and-cheque").solve("lake")


@pytest.mark.parametrize("receiver", [None, 2])
@pytest.mark.parametrize("exact", [True, False])
def test_text_fits_80_columns_and_counts_from_1(exact: bool, receiver: int | None) -> None:
    for sheet in (worksheet("river-and-cheque"), sheet_of(full_document())):
        solution = sheet.solve(exact=exact)
        text = str(solution if receiver is None else solution.at(receiver))
        assert max(map(len, text.splitlines())) <= 80
        assert "Head 1, " in text and "Head 0" not in text
        assert repr(solution) == str(solution)


@pytest.mark.parametrize("name", ["full_sheet", "full_solution", "full_receiver_2"])
def test_tables_of_a_printed_worksheet_and_solution_are_as_kept(name: str) -> None:
    sheet = sheet_of(full_document())
    solution = sheet.solve(exact=True)
    shown = {"full_sheet": sheet, "full_solution": solution, "full_receiver_2": solution.at(2)}
    kept = (Path(__file__).parent / "data" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in str(shown[name]).splitlines() if line[:2] == "  "] == kept


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("two-routes", ("output 1", "output 2", "output 3", "output 4")),
        ("river-and-cheque", ("water", "finance", "person", "glue")),
    ],
)
def test_an_output_has_a_feature_s_name_only_where_it_is_added_to_that_feature(
    name: str, outputs: tuple[str, ...]
) -> None:
    sheet = worksheet(name)
    assert sheet.output_names == outputs
    text = str(sheet.solve(exact=True).at(3)).partition("Output: the heads")[2]
    assert all(output in text for output in outputs)
    assert sheet.has_residual or not any(feature in text for feature in sheet.features)


def test_text_shows_fractions_where_exact_and_decimals_where_not() -> None:
    sheet = worksheet("two-routes")
    assert "40/7" in str(sheet.solve(exact=True).at(3))
    text = str(sheet.solve())
    assert "5.714" in text and "40/7" not in text and "-inf" in text


def test_html_escapes_what_a_file_says() -> None:
    html = sheet_of(full_document()).solve()._repr_html_()
    assert "All &lt;b&gt;parts&lt;/b&gt; &amp; more" in html
    assert "f &lt;1&gt;" in html and "<b>" not in html
    assert html.count("<table>") == html.count("</table>") > 8


def test_exponentials_beyond_float64_are_null_and_weights_are_right() -> None:
    document = small_document()
    document["heads"][0]["W_Q"] = [[100000], [0]]
    document["sequences"]["main"]["X"] = [[1, 2], [1, 3]]
    for exact in (True, False):
        solved = json.loads(sheet_of(document).solve(exact=exact).to_json())
        assert solved["exp_scores"][0][1] == [None, None] and solved["exp_sum"][0][1] is None
        assert [float(w) for w in solved["attn_weights"][0][1]] == [0.0, 1.0]


def test_words_are_ranked_three_for_each_receiver_and_five_for_one() -> None:
    solution = worksheet("river-and-cheque").solve("river")
    order = np.argsort(-solution.probabilities[9], kind="stable")
    words = [solution.sheet.vocabulary[w] for w in order]
    one = str(solution.at(10)).split("Next word: the most probable of 20")[1].splitlines()[3:]
    assert [line.split()[1] for line in one] == words[:5]
    last = str(solution).splitlines()[-1].split()
    assert last[2::2] == words[:3]
    assert last[3::2] == [f"{solution.probabilities[9][w]:.3f}" for w in order[:3]]


def test_tables_show_exact_text_of_at_most_10_characters() -> None:
    document = small_document()
    document["sequences"]["main"]["X"] = [["12345/6788", 0], ["12345/67889", 0]]
    text = str(sheet_of(document).solve(exact=True)).split("\n\n")[1]
    assert "12345/6788" in text and "12345/67889" not in text and "0.182" in text
