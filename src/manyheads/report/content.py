"""What a study's report says, section by section."""

from manyheads.report.arms import analysed, arms_of, controls_of
from manyheads.report.cautions import cautions, is_frozen_protocol, recipe_notice
from manyheads.report.document import Block, Bullets, Document, Paragraph, Section, Twin
from manyheads.report.figures import curve_figure, difference_figure, loss_figure
from manyheads.report.head_figures import (
    count_figure,
    diversity_figure,
    greedy_figure,
    removal_figure,
)
from manyheads.report.head_tables import count_table, measures_table, removal_summary
from manyheads.report.numbers import listed
from manyheads.report.reading import ReportData
from manyheads.report.tables import (
    cost_table,
    main_table,
    models_table,
    paired_table,
    published_table,
    runs_table,
    settings_table,
)


def document_from_results(results: ReportData) -> Document:
    """Put a report together."""
    made = (
        _results_section(results),
        _paired_section(results),
        _counts_section(results),
        _published_section(results),
        _curves_section(results),
        _heads_section(results),
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
        blocks.append(Paragraph(text="The test split has not been read: there is no test loss."))
    else:
        blocks.append(figure)
    blocks += [cost_table(results), Twin(summary="Every run", tables=(runs_table(results),))]
    return Section(title="Results", blocks=tuple(blocks))


def _paired_section(results: ReportData) -> Section | None:
    if not results.paired:
        return None
    notes = [f"{pair['model_a']} - {pair['model_b']}: {pair['note']}" for pair in results.paired]
    distinct = dict.fromkeys(pair["note"] for pair in results.paired)
    blocks: list[Block] = [
        Paragraph(
            text="Two models of one seed saw the same data in the same order. Their difference, "
            "seed by seed, has less chance in it than the two means."
        ),
        paired_table(results),
    ]
    figure = difference_figure(results)
    if figure is not None:
        blocks.append(figure)
    if len(distinct) == 1:
        blocks.append(Paragraph(text=f"What these intervals are worth. {next(iter(distinct))}"))
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
    if not is_frozen_protocol(results):
        return None
    source = results.facts("data").get("num_stories")
    train = source.get("train") if isinstance(source, dict) else None
    here = f"here {train:,} stories train" if isinstance(train, int) else "here others were used"
    text = Paragraph(
        text=f"The protocol is that of a published experiment with 6,000 stories; {here}, and "
        "split and vocabulary differ as well. Only the order of the models and the size of the "
        "gaps can be compared, not one loss with the other."
    )
    return Section(title="Beside the published figures", blocks=(text, published_table(results)))


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
            text="After training, each head's output was set to zero before W_O, on validation "
            "windows. Nothing was trained again."
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
        blocks.append(settings_table("Data as they were read", data, results.label))
    blocks.append(settings_table("Hashes (SHA-256)", hashes, results.label))
    environment = results.facts("environment")
    blocks.append(settings_table("Environment", environment, results.label))
    return Section(title="Settings", blocks=tuple(blocks), is_dense=True)


def _loss(loss: float | None) -> str:
    return "no finite number" if loss is None else f"{loss:.4f}"


def _rates(rates: object) -> dict[str, str]:
    """The chosen rate of each model, and the validation loss of every candidate."""
    assert isinstance(rates, dict)
    found = {}
    for model, entry in rates.items():
        tried = entry.get("candidates") if isinstance(entry, dict) else None
        pairs = [
            f"{candidate['learning_rate']:g} gives {_loss(candidate['validation_loss'])}"
            for candidate in tried or ()
        ]
        chosen = f"{entry.get('chosen')} chosen; " if isinstance(entry, dict) else ""
        found[str(model)] = chosen + ", ".join(pairs)
    return found
