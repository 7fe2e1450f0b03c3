"""The limits of a study's numbers, derived from the study itself."""

from collections.abc import Mapping
from typing import Any

from manyheads.report.reading import ReportData, trace_of
from manyheads.report.tables import counted, listed, whole
from manyheads.study.plan import plan
from manyheads.study.stats import FEW_SEEDS

RISE = 0.005  # smallest rise of the validation loss, in nats, that is reported


def cautions(results: ReportData) -> tuple[str, ...]:
    """One paragraph for each limit of the study, the most important first."""
    found = (
        _smoke(results),
        _seeds(results),
        _data(results),
        _budget(results),
        _ends(results),
        _rates(results),
        _sizes(results),
        _comparisons(results),
        _test(results),
        _unknown(results),
        _seconds(results),
        _heads(results),
        _unfinished(results),
    )
    return tuple(text for text in found if text)


def recipe_notice(results: ReportData) -> str:
    """A notice if the models are those of `three-models` but the recipe is not; else empty."""
    frozen = plan("three-models")
    names = {model.name for model in frozen.models}
    shared = [model for model in results.models if model in names]
    if not shared or is_frozen_protocol(results):
        return ""
    return (
        f"The models {listed(shared)} have the names of the plan three-models but were trained "
        "with another recipe (see Settings). Their figures must not be put in one table with "
        "those of three-models."
    )


def is_frozen_protocol(results: ReportData) -> bool:
    """Whether protocol and models are those of the built-in plan three-models."""
    frozen = plan("three-models").to_dict()
    parts = ("protocol", "models", "tokenizer")
    return [results.plan.get(part) for part in parts] == [frozen[part] for part in parts]


def _smoke(results: ReportData) -> str:
    planned = _table(results.plan, "data").get("source")
    if results.facts("data").get("source", planned) != "stories":
        return ""
    return (
        "A small grammar generated the stories. They are not natural language, so a low loss "
        "says nothing about real text."
    )


def _seeds(results: ReportData) -> str:
    number = len(results.seeds)
    text = f"{counted(number, 'seed').capitalize()} per model. "
    if number == 1:
        return text + "One seed cannot show how much of a difference is chance."
    text += (
        "Standard deviations and intervals cover only initial weights and the order of the data. "
        "They do not include the effect of other stories, another split or another vocabulary."
    )
    if number < FEW_SEEDS:
        text += (
            f" With {number} seeds a bootstrap interval is too narrow. Even if all seeds agree in "
            f"sign, chance alone causes that in {100 * 2.0 ** (1 - number):.3g} % of studies."
        )
    return text


def _data(results: ReportData) -> str:
    stories = _table(results.facts("data"), "num_stories")
    targets = _table(results.facts("data"), "num_targets")
    size = ""
    if stories and targets:
        size = (
            f": {whole(stories.get('train'))} training stories with {whole(targets.get('train'))} "
            f"target words, and {whole(targets.get('test'))} target words in the test"
        )
    return (
        f"One data set with one kind of text{size}. More data, larger models or longer contexts "
        "can change the order of the models."
    )


def _budget(results: ReportData) -> str:
    """Whether the loss rose again, because the budget was too long."""
    texts = [_same_steps(results)]
    rises = {model: rises for model in results.models if (rises := _rises(results, model))}
    if rises:
        texts.append(
            f"In {_risen(results, rises)} the validation loss was lowest before the last step and "
            "then rose, because the model overfitted. Which model is best then depends on when "
            "each starts to overfit."
        )
    return " ".join(texts)


def _ends(results: ReportData) -> str:
    """The runs whose selected step is at an end of the validated steps."""
    texts = []
    for place, says in (
        (0, "first validation: a better step may be near it, so validate more often"),
        (-1, "last validation: more steps would probably lower the loss further"),
    ):
        found = {model: _selected_at(results, model, place) for model in results.models}
        parts = [
            f"{number} of {counted(len(results.of(model)), 'run')} of {model}"
            for model, number in found.items()
            if number
        ]
        if len(parts) > 4:
            parts = [f"{sum(found.values())} of {counted(len(results.runs), 'run')}"]
        if parts:
            texts.append(f"In {listed(parts)} the selected step is that of the {says}.")
    return " ".join(texts)


def _selected_at(results: ReportData, model: str, place: int) -> int:
    """Number of a model's runs that were selected at their first (0) or last (-1) validation."""
    return sum(
        bool(trace) and run["selected_step"] == trace[place][0]
        for run in results.of(model)
        for trace in [trace_of(run)]
    )


def _same_steps(results: ReportData) -> str:
    limit = _table(results.plan, "protocol").get("stop_after")
    if limit is None:
        return (
            "Every model trained for the same number of steps. That is neither equal time nor the "
            "best number for each model."
        )
    return (
        f"A run ended {whole(limit)} steps after its lowest validation loss, so the runs differ in "
        "length. A loss that falls again later is not seen."
    )


def _rises(results: ReportData, model: str) -> list[float]:
    """The rise of the validation loss of a model's runs after their best value."""
    traces = [trace for run in results.of(model) if (trace := trace_of(run))]
    rises = [trace[-1][1] - min(loss for _, loss in trace) for trace in traces]
    return [rise for rise in rises if rise >= RISE]


def _risen(results: ReportData, rises: Mapping[str, list[float]]) -> str:
    """The runs in which the loss rose, and by how much."""
    parts = [
        f"{len(found)} of {counted(len(results.of(model)), 'run')} of {model} (by up to "
        f"{max(found):.3f} nats)"
        for model, found in rises.items()
    ]
    if len(parts) <= 4:
        return listed(parts)
    number = sum(map(len, rises.values()))
    most = max(max(found) for found in rises.values())
    return (
        f"{number} of {counted(len(results.runs), 'run')}, of {len(rises)} models (by up to "
        f"{most:.3f} nats),"
    )


def _rates(results: ReportData) -> str:
    checked = results.facts("learning_rates")
    planned = results.planned_models
    fixed = [m["name"] for m in planned if m.get("learning_rate") is not None and "name" in m]
    texts = []
    if fixed:
        texts.append(
            f"The learning rate of {_names(results, fixed)} was fixed by the plan and not tuned. "
            "Another rate could favour another model."
        )
    if checked:
        texts.append(
            "Learning rates were chosen per model by the validation loss of the first seed among "
            "the plan's candidates; weight decay and other settings were not tuned."
        )
        edge = [name for name, entry in checked.items() if _is_at_edge(entry)]
        if edge:
            texts.append(
                f"For {listed(edge)} the chosen rate is the smallest or largest candidate, so a "
                "better one may be outside that range."
            )
    return " ".join(texts)


def _is_at_edge(entry: Mapping[str, Any]) -> bool:
    candidates = entry.get("candidates")
    if not isinstance(candidates, list):
        return False
    rates = [c.get("learning_rate") for c in candidates if isinstance(c, dict)]
    known = [rate for rate in rates if isinstance(rate, int | float)]
    return len(known) > 1 and entry.get("chosen") in (min(known), max(known))


def _sizes(results: ReportData) -> str:
    sizes = {model: results.parameters(model) for model in results.models}
    if len(set(sizes.values())) < 2:
        return ""
    least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    return (
        f"The models differ in size: from {whole(sizes[least])} parameters ({least}) to "
        f"{whole(sizes[most])} ({most}). So they differ in more than architecture."
    )


def _comparisons(results: ReportData) -> str:
    number = len(results.paired)
    if number < 2 or len(results.seeds) < 2:  # one seed has no interval
        return ""
    return (
        f"{number} comparisons were planned, and the intervals are not corrected for that. At "
        "least one excludes zero by chance more often than 1 time in 20."
    )


def _test(results: ReportData) -> str:
    return (
        "The test split was read once, after all choices were frozen. The validation loss also "
        "selected the step, so it is slightly too low; compare models by the test loss."
    )


def _unknown(results: ReportData) -> str:
    rates = _table(results.facts("data"), "unknown_rates")
    if not isinstance(rates.get("test"), int | float):
        return ""
    return (
        f"{100 * rates['test']:.2f} % of the test words are not in the vocabulary and count as one "
        "word, which is easy to predict. Losses are comparable only with the same vocabulary."
    )


def _seconds(results: ReportData) -> str:
    return (
        "Seconds are wall-clock time on a machine that may have run other work; they are not a "
        "benchmark."
    )


def _heads(results: ReportData) -> str:
    if not any(run.get("heads") for run in results.runs):
        return ""
    return (
        "Heads were removed from trained models without retraining. A small change shows that "
        "the other heads can replace a head, not that it learned nothing. Similar attention "
        "weights do not prove that two heads do the same."
    )


def _unfinished(results: ReportData) -> str:
    """Runs of the plan that are missing in the file."""
    have = {(run["model"], run["seed"]) for run in results.runs}
    seeds = results.plan.get("seeds")
    wanted = [
        (model.get("name"), seed)
        for model in results.planned_models
        for seed in (seeds if isinstance(seeds, list) else [])
    ]
    missing = [f"{model} seed {seed}" for model, seed in wanted if (model, seed) not in have]
    if not missing:
        return ""
    shown = listed(missing) if len(missing) <= 12 else f"{len(missing)} runs"
    return f"Some runs of the plan are missing: {shown}."


def _names(results: ReportData, names: list[Any]) -> str:
    is_all = set(map(str, names)) == set(results.models)
    return "every model" if is_all else listed(names)


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}
