"""The tables of a study: what was measured, what differs, how it was done."""

from collections.abc import Mapping, Sequence
from typing import Any

from manyheads.report.document import Table
from manyheads.report.numbers import ABSENT, fixed, interval, listed, mean_sd, signed, whole
from manyheads.report.reading import ReportData, trace_of

# Test cross-entropy (mean, sd) in nats and perplexity of the published experiment, 6,000 stories.
PUBLISHED = {
    "mlp": (3.9433, 0.0077, 51.59),
    "one-head": (3.4450, 0.0105, 31.34),
    "four-heads": (3.3597, 0.0212, 28.78),
}


def of_runs(results: ReportData, models: Sequence[str] | None = None) -> str:
    """Which runs something is about: models, seeds, plan and its hash."""
    chosen = results.models if models is None else tuple(models)
    named = listed(chosen) if len(chosen) <= 4 else f"all {len(chosen)} models"
    seeds = dict.fromkeys(run["seed"] for model in chosen for run in results.of(model))
    word = "seed" if len(seeds) == 1 else "seeds"
    return f"Runs: {named}; {word} {listed(list(seeds))}; {results.label}"


def main_table(results: ReportData) -> Table:
    """One row a model: losses, perplexity and cost, mean and standard deviation over seeds."""
    rows = [
        (
            model,
            whole(results.parameters(model)),
            fixed(results.mean(model, "test_loss")),
            fixed(results.sd(model, "test_loss")),
            fixed(results.mean(model, "test_perplexity"), 2),
            fixed(results.sd(model, "test_perplexity"), 2),
            fixed(results.mean(model, "validation_loss")),
            fixed(results.sd(model, "validation_loss")),
        )
        for model in results.models
    ]
    names = ("model", "parameters", "test loss", "sd", "perplexity", "sd", "val. loss", "sd")
    return Table(
        title=f"Means over seeds, losses in nats per token; sd: standard deviation over seeds "
        f"(n - 1). {of_runs(results)}",
        columns=names,
        rows=tuple(rows),
    )


def cost_table(results: ReportData) -> Table:
    """What each model's runs took."""
    rows = [
        (
            model,
            whole(len(results.of(model))),
            mean_sd(results.mean(model, "seconds"), results.sd(model, "seconds"), 1),
            fixed(results.mean(model, "cpu_seconds"), 1),
            whole(results.mean(model, "tokens_seen")),
            _range([run["selected_step"] for run in results.of(model)]),
            _range([run["steps"] for run in results.of(model)]),
            listed(sorted({f"{run['learning_rate']:g}" for run in _with_rate(results, model)}))
            or ABSENT,
        )
        for model in results.models
    ]
    names = ("model", "runs", "seconds a run", "CPU", "targets seen", "kept step", "steps", "rate")
    return Table(
        title="Cost of a run: wall seconds, mean ± standard deviation; CPU seconds; supervised "
        f"targets seen in training; kept step; learning rate. {of_runs(results)}",
        columns=names,
        rows=tuple(rows),
    )


def runs_table(results: ReportData) -> Table:
    """One row a run."""
    rows = [
        (
            model,
            str(run["seed"]),
            fixed(run.get("test_loss")),
            fixed(run.get("test_perplexity"), 2),
            fixed(run.get("validation_loss")),
            whole(run["selected_step"]),
            fixed(run["seconds"], 1),
        )
        for model in results.models
        for run in results.of(model)
    ]
    names = ("model", "seed", "test loss", "perplexity", "val. loss", "kept step", "seconds")
    return Table(title=f"Every run. {of_runs(results)}", columns=names, rows=tuple(rows), names=2)


def paired_table(results: ReportData) -> Table:
    """One row a planned comparison."""
    rows = [
        (
            f"{pair['model_a']} - {pair['model_b']}",
            str(pair["n"]),
            signed(pair["mean"]),
            fixed(pair["sd"]),
            interval(pair["interval"]),
            interval(pair["t_interval"]),
        )
        for pair in results.paired
    ]
    names = ("first - second", "seeds", "mean", "sd", "95 % bootstrap", "95 % t")
    return Table(
        title="Paired differences in test loss, nats per token, seed by seed; below zero the first "
        f"model is better. {_method(results)} {of_runs(results, _compared(results))}",
        columns=names,
        rows=tuple(rows),
    )


def differences_table(results: ReportData) -> Table:
    """The difference of each comparison and seed."""
    seeds = list(dict.fromkeys(seed for pair in results.paired for seed in pair["seeds"]))
    rows = []
    for pair in results.paired:
        found = dict(zip(pair["seeds"], pair["differences"], strict=True))
        cells = (signed(found.get(seed)) for seed in seeds)
        rows.append((f"{pair['model_a']} - {pair['model_b']}", *cells))
    return Table(
        title=f"Difference in test loss of each seed, nats per token. "
        f"{of_runs(results, _compared(results))}",
        columns=("first - second", *(f"seed {seed}" for seed in seeds)),
        rows=tuple(rows),
    )


def curve_table(results: ReportData, model: str) -> Table:
    """Validation loss by step, one column a seed."""
    traces = {run["seed"]: dict(trace_of(run)) for run in results.of(model)}
    steps = sorted({step for trace in traces.values() for step in trace})
    rows = [(whole(step), *(fixed(trace.get(step)) for trace in traces.values())) for step in steps]
    return Table(
        title=f"Validation loss by step, nats per token. {of_runs(results, [model])}",
        columns=("step", *(f"seed {seed}" for seed in traces)),
        rows=tuple(rows),
    )


def published_table(results: ReportData) -> Table:
    """The published experiment's figures beside ours."""
    rows = [
        (
            model,
            mean_sd(PUBLISHED[model][0], PUBLISHED[model][1]),
            mean_sd(results.mean(model, "test_loss"), results.sd(model, "test_loss")),
            fixed(PUBLISHED[model][2], 2),
            fixed(results.mean(model, "test_perplexity"), 2),
        )
        for model in results.models
        if model in PUBLISHED
    ]
    names = ("model", "published loss", "loss here", "published ppl.", "ppl. here")
    return Table(
        title="Test cross-entropy in nats per token, mean ± standard deviation, and perplexity: "
        f"published with 6,000 stories, and here with other data. {of_runs(results)}",
        columns=names,
        rows=tuple(rows),
    )


def settings_table(title: str, values: Mapping[str, Any], label: str) -> Table:
    """Names and values, tables within tables written out."""
    return Table(
        title=f"{title}: {label}", columns=("setting", "value"), rows=tuple(_settings("", values))
    )


def models_table(results: ReportData) -> Table | None:
    """The plan's models; None where the file has none."""
    planned = results.planned_models
    names = list(dict.fromkeys(name for model in planned for name in model if name != "name"))
    if not planned:
        return None
    rows = [
        (str(model.get("name")), *(_shown(model.get(name)) for name in names)) for model in planned
    ]
    return Table(
        title=f"Models: {results.label}",
        columns=("model", *(name.replace("_", " ") for name in names)),
        rows=tuple(rows),
    )


def _settings(prefix: str, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows += _settings(f"{prefix}{name}.", value)
        else:
            rows.append((f"{prefix}{name}".replace("_", " "), _shown(value)))
    return rows


def _shown(value: object) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return whole(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return whole(low) if low == high else f"{whole(low)} to {whole(high)}"


def _with_rate(results: ReportData, model: str) -> list[Mapping[str, Any]]:
    return [run for run in results.of(model) if isinstance(run.get("learning_rate"), int | float)]


def _compared(results: ReportData) -> list[str]:
    named = {pair[side] for pair in results.paired for side in ("model_a", "model_b")}
    return [model for model in results.models if model in named]


def _method(results: ReportData) -> str:
    """How the intervals were made."""
    methods = sorted({pair["method"] for pair in results.paired if pair["method"]})
    if not methods:
        return "There are no intervals, see the notes."
    resamples = next(pair["resamples"] for pair in results.paired if pair["method"])
    how = f"Bootstrap: {listed(methods)}, {resamples:,} resamples"
    return f"{how}; t: Student's, exact for normally distributed differences."
