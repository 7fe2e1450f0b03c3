"""Figures: every run is drawn, and each picture says what it shows."""

import re

from manyheads.report.figures import Drawing, series
from manyheads.report.pages import DARK_SERIES, SERIES, inline_svg
from manyheads.report.study import StudyReport


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_series_stand_out_from_both_grounds() -> None:
    assert min(contrast(colour, "#ffffff") for colour in SERIES) >= 4.5
    assert min(contrast(colour, "#1c1f25") for colour in DARK_SERIES) >= 4.5


def test_series_come_round_again() -> None:
    assert series(len(SERIES)) == series(0)
    assert len({series(i) for i in range(len(SERIES))}) == len(SERIES)


def test_every_picture_has_words_and_text_that_can_be_read(head_count: StudyReport) -> None:
    for panel in head_count.document.panels:
        assert len(panel.alt) > 20
        assert "<text" in panel.svg
        assert "<metadata" not in panel.svg


def test_every_seed_is_named_in_the_validation_curves(three_models: StudyReport) -> None:
    curves = [p for p in three_models.document.panels if p.name.startswith("validation-")]
    assert [p.name for p in curves] == [
        "validation-1-mlp", "validation-2-one-head", "validation-3-four-heads"
    ]  # fmt: skip
    for panel in curves:
        named = re.findall(r">(seed \d+)</text>", panel.svg)
        assert named == ["seed 11", "seed 29", "seed 47"]


def test_inline_pictures_have_ids_and_words_of_their_own() -> None:
    with Drawing(200, 100) as drawing:
        drawing.axes.plot([1, 2], [3, 4], color=SERIES[0], marker="o")
    one, two = (inline_svg(drawing.svg, key, "a line") for key in ("x1", "x2"))
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert one.startswith('<svg role="img" aria-label="a line" viewBox="0 0 200 100">')
    assert "var(--series-1)" in one


def test_a_failed_drawing_leaves_the_settings_of_matplotlib_alone() -> None:
    import matplotlib
    import pytest

    before = dict(matplotlib.rcParams)
    with pytest.raises(ZeroDivisionError), Drawing(100, 100):
        _ = 1 / 0
    assert dict(matplotlib.rcParams) == before
