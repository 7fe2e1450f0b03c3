"""Tables of a study: what stands in which cell."""

from copy import deepcopy

from manyheads.report.reading import ReportData
from manyheads.report.study import StudyReport, controls_of
from manyheads.report.tables import (
    arms_of,
    cost_table,
    count_table,
    curve_table,
    differences_table,
    greedy_table,
    main_table,
    measures_table,
    of_runs,
    paired_table,
    removal_summary,
    removal_table,
    runs_table,
    settings_table,
)


def test_main_table_has_a_row_a_model(three_models: StudyReport) -> None:
    table = main_table(three_models.results)
    assert [row[0] for row in table.rows] == ["mlp", "one-head", "four-heads"]
    assert table.rows[0][1:4] == ("2,332,832", "4.4300", "0.0200")
    assert three_models.results.plan_sha256[:12] in table.title


def test_runs_table_has_a_row_a_run(three_models: StudyReport) -> None:
    rows = runs_table(three_models.results).rows
    assert [row[:2] for row in rows[:4]] == [
        ("mlp", "11"), ("mlp", "29"), ("mlp", "47"), ("one-head", "11")
    ]  # fmt: skip
    run = three_models.results.of("mlp")[1]
    assert rows[1][2] == f"{run['test_loss']:.4f}"


def test_paired_table_agrees_with_the_differences(three_models: StudyReport) -> None:
    pair = three_models.results.paired[1]
    row = paired_table(three_models.results).rows[1]
    assert row[:3] == ("four-heads - one-head", "3", f"{pair['mean']:+.4f}")
    assert row[4] == f"{pair['interval'][0]:+.4f} to {pair['interval'][1]:+.4f}"
    cells = differences_table(three_models.results).rows[1][1:]
    assert [float(cell) for cell in cells] == [round(d, 4) for d in pair["differences"]]


def test_curve_table_has_a_column_a_seed_and_dashes_for_gaps(three_models: StudyReport) -> None:
    document = deepcopy(dict(three_models.results.document))
    del document["runs"][0]["trace"][1]
    table = curve_table(ReportData(document=document, source=""), "mlp")
    assert table.columns == ("step", "seed 11", "seed 29", "seed 47")
    assert table.rows[1][:2] == ("1,500", "-")
    assert [row[0] for row in table.rows][-1] == "6,000"


def test_cost_table_has_the_rate_and_what_was_seen(three_models: StudyReport) -> None:
    row = cost_table(three_models.results).rows[0]
    assert row == ("mlp", "3", "329.0 ± 18.0", "319.0", "3,072,000", "4,500", "6,000", "0.012")


def test_settings_are_written_out_in_full() -> None:
    table = settings_table("S", {"a_b": {"c": 0.00001, "d": True}, "e": [1, 2], "f": None}, "l")
    assert table.rows == (("a b.c", "1e-05"), ("a b.d", "True"), ("e", "1, 2"), ("f", "-"))


def test_many_models_are_counted_in_captions(head_count: StudyReport) -> None:
    assert of_runs(head_count.results).startswith("Runs: all 13 models; seeds 11, 29, 47, 71")
    assert of_runs(head_count.results, ["shared"]).startswith("Runs: shared; seeds")


def test_arms_are_sorted_by_heads_and_controls_stand_apart(head_count: StudyReport) -> None:
    width, narrow = arms_of(head_count.results)
    assert width.counts == (1, 2, 4, 8, 16, 32, 64)
    assert narrow.models == ("width16-1", "width16-2", "width16-4", "width16-8")
    assert [name for name, _ in controls_of(head_count.results)] == ["uniform", "shared"]


def test_three_models_have_no_arm(three_models: StudyReport) -> None:
    assert arms_of(three_models.results) == ()


def test_count_table_has_the_planned_difference_to_the_first(head_count: StudyReport) -> None:
    data = head_count.results
    arm = arms_of(data)[0]
    rows = count_table(data, arm, controls_of(data)).rows
    assert [row[1] for row in rows] == ["1", "2", "4", "8", "16", "32", "64", "4", "4"]
    pair = next(p for p in data.paired if (p["model_a"], p["model_b"]) == ("heads-8", "heads-1"))
    assert rows[3][5] == f"{pair['mean']:+.4f}"
    assert rows[0][5] == rows[7][5] == "-"


def test_head_tables_agree_with_the_analysis(head_count: StudyReport) -> None:
    data = head_count.results
    heads = data.of("heads-4")[0]["heads"]
    assert removal_table(data, "heads-4").rows[2][1] == f"{heads['removal']['changes'][2]:+.4f}"
    assert removal_summary(data, ["heads-4"]).rows[0][1] == "20"
    measured = measures_table(data, ["heads-1", "heads-4"]).rows
    assert measured[0][2] == "-"
    assert measured[1][2] == f"{heads['diversity']:.3f}"
    greedy = greedy_table(data, ["heads-1", "heads-4"], "t").rows
    losses = [run["heads"]["greedy"]["losses"][-1] for run in data.of("heads-4")]
    assert greedy[0][2] == f"{sum(losses) / len(losses):.4f}"
    assert [row[1] == "-" for row in greedy] == [False, False, True, True, True]
