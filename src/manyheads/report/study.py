"""The report of a study: its sections, its files, and its display in a terminal or notebook."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from manyheads.core.extras import require
from manyheads.core.tables import text_from_table, wrapped
from manyheads.report.cautions import cautions, recipe_notice
from manyheads.report.figures import (
    count_figure,
    curve_figure,
    difference_figure,
    diversity_figure,
    greedy_figure,
    loss_figure,
    removal_figure,
)
from manyheads.report.labelled import labelled_table
from manyheads.report.pages import (
    FIGURES,
    Block,
    Bullets,
    Details,
    Document,
    Paragraph,
    Section,
    html_from_document,
    markdown_from_document,
)
from manyheads.report.published import is_comparable, protocol_table, published_table
from manyheads.report.reading import ReportData, read_study
from manyheads.report.tables import (
    analysed,
    arms_of,
    cost_table,
    count_table,
    listed,
    main_table,
    measures_table,
    models_table,
    paired_table,
    removal_summary,
    runs_table,
    settings_table,
)
from manyheads.study.folder import make_folder, write_bytes


def document_from_results(results: ReportData) -> Document:
    """Assemble a report."""
    made = (
        _results_section(results),
        _paired_section(results),
        _counts_section(results),
        _published_section(results),
        _curves_section(results),
        _heads_section(results),
        _labelled_section(results),
        Section(
            title="What these numbers do not show",
            blocks=(Bullets(items=cautions(results)),),
        ),
        _settings_section(results),
    )
    return Document(
        title=f"Study {results.name}",
        lead=str(results.plan.get("description", "")),
        label=f"{results.label}; data {results.document['data_sha256'][:12]}",
        sections=tuple(section for section in made if section is not None),
    )


def _results_section(results: ReportData) -> Section:
    notice = recipe_notice(results)
    blocks: list[Block] = [Paragraph(text=notice)] if notice else []
    blocks.append(main_table(results))
    figure = loss_figure(results)
    if figure is None:
        blocks.append(Paragraph(text="The test split has not been read, so there is no test loss."))
    else:
        blocks.append(figure)
    blocks += [cost_table(results), Details(summary="Every run", tables=(runs_table(results),))]
    return Section(title="Results", blocks=tuple(blocks))


def _paired_section(results: ReportData) -> Section | None:
    if not results.paired:
        return None
    notes = [f"{pair['model_a']} - {pair['model_b']}: {pair['note']}" for pair in results.paired]
    distinct = dict.fromkeys(pair["note"] for pair in results.paired)
    blocks: list[Block] = [
        Paragraph(
            text="Two models with the same seed saw the same data in the same order, so their "
            "difference per seed varies less than the two means."
        ),
        paired_table(results),
    ]
    figure = difference_figure(results)
    if figure is not None:
        blocks.append(figure)
    if len(distinct) == 1:
        blocks.append(Paragraph(text=f"About these intervals: {next(iter(distinct))}"))
    else:
        blocks.append(Bullets(items=tuple(notes)))
    return Section(title="Paired differences", blocks=tuple(blocks))


def _counts_section(results: ReportData) -> Section | None:
    arms, controls = arms_of(results), controls_of(results)
    if not arms:
        return None
    tables = [count_table(results, arm, controls if arm == arms[0] else ()) for arm in arms]
    blocks: tuple[Block, ...] = (*tables, count_figure(results, arms, controls))
    return Section(title="Loss by number of heads", blocks=blocks)


def _published_section(results: ReportData) -> Section | None:
    if not is_comparable(results):
        return None
    source = results.facts("data").get("num_stories")
    train = source.get("train") if isinstance(source, dict) else None
    here = (
        f"Here {train:,} stories were used for training"
        if isinstance(train, int)
        else "Here others were used"
    )
    text = Paragraph(
        text="The protocol is that of a published experiment (nipunbatra/attention) with 6,000 "
        f"stories. {here}, so split and vocabulary differ too. Compare only the order of the "
        "models and the size of the gaps, not the losses."
    )
    return Section(
        title="Comparison with the published figures",
        blocks=(text, published_table(results), protocol_table(results)),
    )


def _labelled_section(results: ReportData) -> Section | None:
    table = labelled_table(results, results.models)
    if table is None:
        return None
    text = Paragraph(
        text="A generated story says which earlier words determine a word. One word per story and "
        "kind was drawn, from stories after those of the study. As a null, the labels of "
        "different stories were exchanged, by distance. The best head was chosen on the same "
        "stories, so its share is slightly too high; results.json has all heads."
    )
    return Section(title="Which head finds the source of a word", blocks=(text, table))


def _curves_section(results: ReportData) -> Section | None:
    figure = curve_figure(results)
    return None if figure is None else Section(title="Validation curves", blocks=(figure,))


def _heads_section(results: ReportData) -> Section | None:
    models = [model for model in results.models if analysed(results, model)]
    if not models:
        return None
    named = [(arm.title, [m for m in arm.models if m in models]) for arm in arms_of(results)]
    in_arms = {model for _, group in named for model in group}
    others = [model for model in models if model not in in_arms]
    are_controls = {model for model, _ in controls_of(results)} >= set(others)
    named.append(("controls" if are_controls else "other models", others))
    groups = [(title, group) for title, group in named if group]
    if len(groups) == 1:
        groups = [(listed(groups[0][1]), groups[0][1])]
    several = [m for m in models if all(_diversity(run) for run in analysed(results, m))]
    blocks: list[Block] = [
        Paragraph(
            text="After training, the output of one head at a time was set to zero before W_O, "
            "on validation windows, without retraining."
        ),
        measures_table(results, models),
        removal_summary(results, models),
        removal_figure(results, models),
        greedy_figure(results, groups),
    ]
    if several:
        blocks.append(diversity_figure(results, several))
    return Section(title="Heads after training", blocks=tuple(blocks))


def _diversity(run: object) -> bool:
    return isinstance(run, dict) and run["heads"].get("diversity") is not None


def _settings_section(results: ReportData) -> Section:
    plan = results.plan
    blocks: list[Block] = []
    for title, name in (("Protocol", "protocol"), ("Data", "data"), ("Tokeniser", "tokenizer")):
        if isinstance(plan.get(name), dict):
            blocks.append(settings_table(title, plan[name], results.label))
    models = models_table(results)
    rates = results.facts("learning_rates")
    data = results.facts("data")
    hashes = {name: results.document[name] for name in ("plan_sha256", "data_sha256")}
    blocks += [] if models is None else [models]
    if rates:
        blocks.append(settings_table("Learning rates", _rates(rates), results.label))
    if data:
        blocks.append(settings_table("Data as read", data, results.label))
    blocks.append(settings_table("Hashes (SHA-256)", hashes, results.label))
    environment = results.facts("environment")
    blocks.append(settings_table("Environment", environment, results.label))
    return Section(title="Settings", blocks=tuple(blocks), is_dense=True)


def _loss(loss: float | None) -> str:
    return "not finite" if loss is None else f"{loss:.4f}"


def _rates(rates: object) -> dict[str, str]:
    """The chosen rate of each model, and the validation loss of every candidate."""
    assert isinstance(rates, dict)
    found = {}
    for model, entry in rates.items():
        tried = entry.get("candidates") if isinstance(entry, dict) else None
        pairs = [
            f"{candidate['learning_rate']:g}: loss {_loss(candidate['validation_loss'])}"
            for candidate in tried or ()
        ]
        chosen = f"{entry.get('chosen')} chosen from " if isinstance(entry, dict) else ""
        found[str(model)] = chosen + ", ".join(pairs)
    return found


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """The report of one study; shows itself in a terminal and in Jupyter."""

    results: ReportData
    """The results."""

    @cached_property
    def document(self) -> Document:
        """Sections and figures."""
        return document_from_results(self.results)

    def write(self, out: Path) -> tuple[Path, ...]:
        """Write the pages and figures, each under a temporary name that is then renamed.

        Args:
            out: a folder; it is created if it does not exist.

        Returns:
            the written files: `report.html`, `report.md`, and the figures.

        Raises:
            StudyError: the file system refuses.
        """
        html, markdown = html_from_document(self.document), markdown_from_document(self.document)
        texts = {out / FIGURES / f"{p.name}.svg": f"{p.svg}" for p in self.document.panels}
        texts |= {out / "report.md": markdown, out / "report.html": html}
        make_folder(out / FIGURES)
        for path, text in texts.items():
            write_bytes(path, text.encode("utf-8", errors="backslashreplace"))
        return (out / "report.html", out / "report.md", *(p for p in texts if p.suffix == ".svg"))

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the report, for JSON."""
        results = self.results
        return {
            "plan": results.name,
            "plan_sha256": results.plan_sha256,
            "data_sha256": results.document["data_sha256"],
            "seeds": list(results.seeds),
            "aggregate": results.aggregate,
            "paired": results.paired,
            "not_shown": list(cautions(results)),
        }

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        """The main tables in 80 columns."""
        results = self.results
        blocks = [f"Study {results.name}", text_from_table(main_table(results))]
        if results.paired:
            blocks.append(text_from_table(paired_table(results)))
            notes = dict.fromkeys(pair["note"] for pair in results.paired)
            blocks += ["\n".join(wrapped(note)) for note in notes]
        return "\n\n".join(blocks)

    def _repr_html_(self) -> str:
        """The whole page, in an iframe."""
        from html import escape

        page = escape(html_from_document(self.document), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'


def report_from_folder(folder: Path) -> StudyReport:
    """Make the report of a finished study.

    Args:
        folder: the study's folder, with its `results.json`.

    Raises:
        StudyError: the file does not exist, or it is damaged.
        MissingExtraError: the extra `study` is not installed.
    """
    require("study", "matplotlib", "scipy", purpose="a study report")
    return StudyReport(results=read_study(folder))


def controls_of(results: ReportData) -> tuple[tuple[str, str], ...]:
    """Name and meaning of each model whose heads have no separate patterns."""
    meanings = {
        "uniform": "equal weights for all words, not learned",
        "shared": "all heads share one pattern",
    }
    found = []
    for model in results.models:
        pattern = results.planned(model).get("pattern", "learned")
        if pattern in meanings:
            found.append((model, meanings[pattern]))
    return tuple(found)
