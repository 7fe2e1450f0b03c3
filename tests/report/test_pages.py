"""The pages: complete, escaped, without scripts, and the same bytes each time."""

import re
from copy import deepcopy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from manyheads.core.tables import markdown_from_table
from manyheads.report.pages import html_from_document, markdown_from_document
from manyheads.report.published import protocol_table
from manyheads.report.reading import ReportData
from manyheads.report.study import StudyReport
from manyheads.study.plan import Plan, plan
from tests.report.conftest import report_of
from tests.report.made_up import made_up_results

VOID = {"meta", "path", "use", "rect", "img", "br"}


class Reader(HTMLParser):
    """Collects tags, ids and references, and sees that every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            self.references += re.findall(r"url\(#([^)]+)\)", value or "")
            if name.endswith("href") and (value or "").startswith("#"):
                self.references.append((value or "")[1:])

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def page(three_models: StudyReport) -> str:
    return html_from_document(three_models.document)


def test_the_page_is_whole_and_every_reference_has_its_one_target(head_count: StudyReport) -> None:
    reader = read(html_from_document(head_count.document))
    assert len(set(reader.ids)) == len(reader.ids)
    assert set(reader.references) <= set(reader.ids)
    assert len(reader.references) > 100


def test_the_page_has_no_script_and_asks_for_nothing(page: str) -> None:
    reader = read(page)
    assert not {"script", "iframe", "link", "object", "img"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name == "src"]
    assert not [value for _, value in reader.attributes if "//" in value]
    assert "default-src 'none'" in page


def test_no_colour_of_a_figure_is_fixed(page: str) -> None:
    svgs = re.findall(r"<svg .*?</svg>", page, flags=re.S)
    assert len(svgs) == 5
    assert not [found for svg in svgs for found in re.findall(r"(?:fill|stroke): #\w+", svg)]


def test_every_number_of_the_main_table_is_on_both_pages(three_models: StudyReport) -> None:
    html = html_from_document(three_models.document)
    markdown = markdown_from_document(three_models.document)
    data = three_models.results
    for model in data.models:
        mean, sd = data.mean(model, "test_loss"), data.sd(model, "test_loss")
        assert f'{mean:.4f}</td><td class="num">{sd:.4f}' in html.replace("\n", "")
        assert f"| {mean:.4f} | {sd:.4f} |" in markdown
    for pair in data.paired:
        assert f"−{abs(pair['mean']):.4f}" in html
        assert f"{pair['mean']:+.4f}" in markdown


def test_every_caption_names_its_plan(head_count: StudyReport) -> None:
    html = html_from_document(head_count.document)
    captions = re.findall(r"<(?:p class='caption'|figcaption)>(.*?)</", html)
    assert len(captions) > 20
    assert not [caption for caption in captions if head_count.results.label not in caption]


def test_the_published_figures_stand_beside_three_models_only(
    three_models: StudyReport, head_count: StudyReport, own_recipe: StudyReport
) -> None:
    with_published = markdown_from_document(three_models.document)
    assert "| four-heads | 3.3597 ± 0.0212 |" in with_published
    assert "Here 1,540 stories were used for training" in with_published
    generated = report_of(made_up_results(on_stories(plan("three-models"))))
    for other in (head_count, own_recipe, generated):
        assert "3.3597" not in html_from_document(other.document)
    assert "must not be put in one table" in html_from_document(own_recipe.document)


def test_settings_that_are_not_the_published_ones_are_named() -> None:
    held = plan("three-models")
    own = {"draws": None, "initial": None, "stop_after": None, "validation_slice": None}
    switched = {
        **{"draws": "with-replacement", "initial": "linear", "stop_after": 900},
        "validation_slice": "first",
    }
    for values, batches, end in (
        (own, "each target once per epoch |", "| after 6,000 steps | the same |"),
        (switched, "drawn with replacement | the same |", "900 steps after the lowest loss, at"),
    ):
        document = made_up_results(replace(held, protocol=replace(held.protocol, **values)))
        markdown = markdown_from_table(
            protocol_table(ReportData(document=document, source="made up"))
        )
        assert batches in markdown
        assert end in markdown


def on_stories(held: Plan) -> Plan:
    """The plan with generated stories."""
    return replace(held, data=replace(held.data, source="stories"))


def test_labelled_words_have_a_row_per_run_and_kind() -> None:
    document = made_up_results(plan("own-recipe"))
    share = {"hits": 87, "stories": 100, "share": 0.87, "interval": [0.79, 0.92]}
    less = share | {"hits": 5, "share": 0.05, "interval": [0.02, 0.11]}
    null = {"shuffled_mean": 0.1, "shuffled_greatest": 0.2}
    for run in document["runs"]:
        heads = [{"found": part, **null} for part in (less, share)] if run["num_heads"] else []
        kind = {"kind": "name", "predicted": share, "most_frequent": 0.03, "heads": heads}
        run["labelled"] = {"kinds": [kind]}
    markdown = markdown_from_document(report_of(document).document)
    found = "87.0 % (79.0 % to 92.0 %)"
    assert f"| mlp | 11 | name | 100 | {found} | 3.0 % | - | - | - |" in markdown
    assert (
        f"| four-heads | 29 | name | 100 | {found} | 3.0 % | 2 | {found} | 10.0 %, at" in markdown
    )
    assert "Which head finds" not in markdown_from_document(
        report_of(made_up_results(plan("own-recipe"))).document
    )


def test_head_count_has_curves_controls_removal_and_diversity(head_count: StudyReport) -> None:
    markdown = markdown_from_document(head_count.document)
    titles = [section.title for section in head_count.document.sections]
    assert "Loss by number of heads" in titles
    assert "Heads after training" in titles
    names = {panel.name for panel in head_count.document.panels}
    assert {"heads-width", "heads-head-width-16", "removal", "diversity"} <= names
    assert {"greedy-1-heads-1", "greedy-8-width16-1", "greedy-12-uniform"} <= names
    assert "Control uniform: equal weights for all words" in markdown
    assert len(names) == len(head_count.document.panels)


def test_texts_of_the_file_are_neither_markup_nor_paths(tmp_path: Path) -> None:
    evil = "../../<script>alert(1)</script> & $x_1$ | `code` [a](b)"
    document = made_up_results(plan("own-recipe").with_seeds((11, 29)), with_heads=True)
    document["environment"] = {evil: evil}
    for run in document["runs"]:
        run["model"] = f"{evil} {run['model']}"
    del document["aggregate"]
    pair = {"first": f"{evil} mlp", "second": f"{evil} one-head"}
    document["plan"] = {"name": evil, "description": evil, "comparisons": [pair]}
    files = report_of(document).write(tmp_path / "out")
    html, markdown = (path.read_text("utf-8") for path in files[:2])
    assert "script" not in read(html).tags
    assert "alert(1)" in html
    assert "<script" not in html
    assert "<script" not in markdown
    assert "](b)" not in markdown.replace("\\](b)", "")
    assert {path.parent for path in files} == {tmp_path / "out", tmp_path / "out" / "figures"}
    assert len(list(tmp_path.rglob("*.svg"))) == len(files) - 2


def test_a_report_without_test_losses_says_so() -> None:
    document = made_up_results(plan("three-models").with_seeds((11,)))
    for run in document["runs"]:
        run["test_loss"] = run["test_perplexity"] = None
    del document["aggregate"]
    text = markdown_from_document(report_of(document).document)
    assert "The test split has not been read" in text


def test_the_same_results_give_the_same_bytes(three_models: StudyReport, written: Path) -> None:
    again = report_of(deepcopy(dict(three_models.results.document)))
    assert html_from_document(again.document) == (written / "report.html").read_text("utf-8")
    svgs = {panel.name: panel.svg for panel in again.document.panels}
    assert svgs == {path.stem: path.read_text("utf-8") for path in written.glob("figures/*.svg")}


def test_markdown_points_at_files_that_are_there(written: Path) -> None:
    text = (written / "report.md").read_text("utf-8")
    named = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert sorted(named) == sorted(f"figures/{p.name}" for p in written.glob("figures/*.svg"))
