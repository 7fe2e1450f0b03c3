"""The lab: the known answers, words and numbers apart, and an assertion behind every number."""

import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from manyheads.core.errors import LabError
from manyheads.learn.lab import TRY_NAMES, LabReport, run_lab
from manyheads.learn.lab.record import Cell, Item, Record, words


@pytest.fixture(scope="module")
def report() -> LabReport:
    return run_lab(parts=(1, 2, 3, 4, 5), tries=TRY_NAMES)


def records(report: LabReport) -> tuple[Record, ...]:
    return (*report.parts, *report.tries)


def items(report: LabReport) -> list[Item]:
    return [item for record in records(report) for item in record.items]


def named(report: LabReport, part: int, label: str) -> list[Item]:
    found = [item for item in report.parts[part - 1].items if label in item.name]
    assert found, f"part {part} prints no {label}"
    return found


def perturbed(item: Item) -> Iterator[Item]:
    """The same item with one of its numbers a little wrong, number by number."""
    for index, cell in enumerate(item.cells):
        wrong: Cell
        if isinstance(cell, tuple):
            wrong = (*cell[:-1], cell[-1] + 1)
        else:
            wrong = cell + 1 if isinstance(cell, int) else cell + 1e-6
        yield replace(item, cells=(*item.cells[:index], wrong, *item.cells[index + 1 :]))


def test_every_assertion_holds(report: LabReport) -> None:
    assert report.failures == []
    assert report.passed


def test_every_printed_number_would_fail_if_it_were_a_little_wrong(report: LabReport) -> None:
    count = 0
    for item in items(report):
        for wrong in perturbed(item):
            columns = tuple(f"column {i}" for i in range(len(wrong.cells)))
            said = [assertion.failure(wrong.cells, columns) for assertion in item.assertions]
            assert any(said), f"{item.name} passes with {wrong.cells}"
            count += 1
    assert count > 300


def test_numbers_stand_in_rows_and_nowhere_else(report: LabReport) -> None:
    rows = {(item.label, item.texts) for item in items(report)}
    for name in TRY_NAMES:
        rows |= {("Try it:", (f"manyheads lab --try {name}",)), ("Try", (name,))}
    printed = {" ".join((label, *texts)) for label, texts in rows}
    for block in str(report).split("\n\n"):
        lines = [" ".join(line.split()) for line in block.splitlines()]
        rest = [line for line in lines if line not in printed]
        assert words(" ".join(rest))


def test_text_fits_80_columns_and_needs_no_terminal(report: LabReport) -> None:
    text = str(report)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert "CHECK PASSED" not in text


@pytest.mark.parametrize(
    ("part", "label", "expected"),
    [
        (1, "scores at position 3: q·k / sqrt(head width), head 2", ["0", "-ln(2)", "-ln(4)"]),
        (1, "softmax of the scores, head 1", ["1/7", "2/7", "4/7"]),
        (1, "weights times values, head 1", ["26/7", "16/7"]),
        (2, "head outputs in order", ["26/7", "16/7", "2", "10/7"]),
        (2, "concat W_O", ["40/7", "6/7", "12/7", "26/7"]),
        (2, "sum of the heads", ["40/7", "26/7"]),
        (2, "contribution of each head at position 3, head 1", ["26/7", "16/7", "26/7", "16/7"]),
        (2, "contribution of each head at position 3, head 2", ["2", "-10/7", "-2", "10/7"]),
        (3, "zero queries, head 1, position 3", ["1/3", "1/3", "1/3"]),
        (3, "zero queries, position 3", ["0", "0"]),
    ],
)
def test_published_answers_are_printed(
    report: LabReport, part: int, label: str, expected: list[str]
) -> None:
    item = named(report, part, label)[0]
    assert item.assertions[0].exact == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("more heads, parameters", (256, 256, 256)),
        ("more heads, score entries", (32, 64, 128)),
        ("more heads, scores", ((2, 1, 4, 4), (2, 2, 4, 4), (2, 4, 4, 4))),
        ("in memory, bytes per entry", (4, 4)),
        ("in memory, scores", ((2, 2, 128, 128), (2, 2, 256, 256))),
    ],
)
def test_counts_of_part_five(report: LabReport, label: str, expected: tuple[Cell, ...]) -> None:
    assert named(report, 5, label)[0].cells == expected


def test_bytes_of_part_five(report: LabReport) -> None:
    assert named(report, 5, "in memory, bytes")[-1].cells == (262_144, 1_048_576)


def test_part_four_compares_every_gradient_three_ways(report: LabReport) -> None:
    for name in ("the input", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_V", "b_O"):
        assert len(named(report, 4, f"loop form, gradient of {name}")[0].cells) == 3
    for name in ("output", "weights of head 1", "weights of head 2", "weights of head 3"):
        assert len(named(report, 4, f"loop form, {name}")[0].cells) == 3


def test_the_unmasked_control_moves_where_the_causal_prefix_does_not(report: LabReport) -> None:
    assert named(report, 3, "positions 1 and 2, causal")[0].cells == (0.0, 0.0, 0.0)
    assert min(named(report, 3, "positions 1 and 2, unmasked")[0].cells) > 3.5


def test_each_part_ends_with_a_prediction_and_its_flag(report: LabReport) -> None:
    assert {"zero-query", "ablate-head-1", "heads-4"} < set(TRY_NAMES)
    for record, name in zip(report.parts, TRY_NAMES, strict=True):
        text = str(LabReport(parts=(record,)))
        assert record.prediction.endswith("?")
        assert text.endswith(f"manyheads lab --try {name}")


def test_an_experiment_asks_before_it_answers(report: LabReport) -> None:
    for record in report.tries:
        text = str(LabReport(parts=(), tries=(record,)))
        assert text.index("Predict first:") < text.index(record.items[0].label)


def test_json_holds_what_is_printed(report: LabReport) -> None:
    document = json.loads(report.to_json())
    assert document["passed"] is True
    assert [part["part"] for part in document["parts"]] == [1, 2, 3, 4, 5]
    assert [each["try"] for each in document["tries"]] == list(TRY_NAMES)
    values = [value for part in document["parts"] for value in part["values"]]
    values += [value for each in document["tries"] for value in each["values"]]
    assert len(values) == len(items(report))
    assert all(value["passed"] and value["sources"] for value in values)
    found = {value["name"]: value for value in values}
    output = found["projected output at position 3, concat W_O"]
    assert output["exact"] == ["40/7", "6/7", "12/7", "26/7"]
    assert output["value"] == pytest.approx([40 / 7, 6 / 7, 12 / 7, 26 / 7], rel=1e-14)
    assert output["expected"] == [40 / 7, 6 / 7, 12 / 7, 26 / 7]


def test_json_of_numbers_that_are_not_finite_is_json(report: LabReport) -> None:
    record = run_lab(parts=(1,)).parts[0]
    record.table("broken")
    record.row("no number", lambda: torch.tensor([torch.nan]), items(report)[0].assertions[0])
    document = json.loads(LabReport(parts=(record,)).to_json(), parse_constant=pytest.fail)
    assert document["passed"] is False
    assert document["parts"][0]["values"][-1]["value"] is None


def test_html_is_balanced_and_shows_the_same_rows(report: LabReport) -> None:
    opened: list[str] = []
    texts: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Reader().feed(report._repr_html_())
    assert opened == []
    shown = set(texts)
    assert all(set(item.texts) <= shown for item in items(report))


def test_parts_and_experiments_are_chosen_by_name() -> None:
    assert [record.part for record in run_lab(parts=(2,)).parts] == [2]
    only = run_lab(tries=("zero-query",))
    assert only.parts == ()
    assert [record.try_name for record in only.tries] == ["zero-query"]


@pytest.mark.parametrize("number", [0, 6, -1])
def test_an_unknown_part_is_refused(number: int) -> None:
    with pytest.raises(LabError, match=rf"part \({number}\) must be 1 to 5"):
        run_lab(parts=(number,))


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(
        LabError, match=r"experiment \(heads-5\) does not exist: use zero-query, .*heads-4"
    ):
        run_lab(tries=("heads-5",))


def test_nothing_at_all_does_not_pass() -> None:
    assert not run_lab(parts=()).passed


def test_the_callers_settings_neither_matter_nor_change() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            report = run_lab(parts=(4, 5))
    finally:
        torch.set_default_dtype(torch.float32)
    assert report.failures == []
    assert torch.equal(torch.get_rng_state(), before)
