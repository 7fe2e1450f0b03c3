"""The tables of a study report: losses, costs, differences, settings and head measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from manyheads.report.pages import Table
from manyheads.report.reading import ReportData, trace_of

Number = int | float
ABSENT = "-"


def fixed(value: Number | None, digits: int = 4) -> str:
    """A number with this many decimals."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def signed(value: Number | None, digits: int = 4) -> str:
    """A difference, with its sign."""
    return ABSENT if value is None else f"{value:+.{digits}f}"


def whole(value: Number | None) -> str:
    """A count with separators."""
    return ABSENT if value is None else f"{value:,.0f}"


def interval(ends: Sequence[Number] | None, digits: int = 4) -> str:
    """Both ends of an interval of differences."""
    return ABSENT if ends is None else f"{signed(ends[0], digits)} to {signed(ends[1], digits)}"


def mean_sd(mean: Number | None, sd: Number | None, digits: int = 4) -> str:
    """Mean and standard deviation in one cell."""
    if mean is None or sd is None:
        return fixed(mean, digits)
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def listed(items: Sequence[object]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def counted(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Models in order of their number of heads."""

    title: str
    """The quantity that is kept equal."""
    slug: str
    """Name for files."""
    models: tuple[str, ...]
    """Names of the models."""
    counts: tuple[int, ...]
    """Number of heads of each model."""


def arms_of(results: ReportData) -> tuple[Arm, ...]:
    """The arms with at least three head counts, fixed width first; none in other studies."""
    groups: dict[int | None, list[tuple[int, str]]] = {}
    for model in results.models:
        table = results.planned(model)
        heads = table.get("num_heads")
        if isinstance(heads, int) and table.get("pattern", "learned") == "learned":
            groups.setdefault(table.get("head_dim"), []).append((heads, model))
    large = {width: sorted(group) for width, group in groups.items() if len(group) >= 3}
    order = sorted(large, key=lambda width: (width is not None, width or 0))
    return tuple(_arm(results, width, large[width]) for width in order)


def analysed(results: ReportData, model: str) -> list[Mapping[str, Any]]:
    """The runs of a model whose heads were analysed."""
    return [run for run in results.of(model) if run.get("heads")]


def _arm(results: ReportData, width: int | None, group: list[tuple[int, str]]) -> Arm:
    protocol = results.plan.get("protocol")
    full = protocol.get("width", "?") if isinstance(protocol, Mapping) else "?"
    title = f"width {full}, split among the heads"
    return Arm(
        title=title if width is None else f"every head {width} wide",
        slug="width" if width is None else f"head-width-{width}",
        models=tuple(model for _, model in group),
        counts=tuple(heads for heads, _ in group),
    )


def of_runs(results: ReportData, models: Sequence[str] | None = None) -> str:
    """Description of runs: models, seeds, plan and its hash."""
    chosen = results.models if models is None else tuple(models)
    named = listed(chosen) if len(chosen) <= 4 else f"all {len(chosen)} models"
    seeds = dict.fromkeys(run["seed"] for model in chosen for run in results.of(model))
    word = "seed" if len(seeds) == 1 else "seeds"
    return f"Runs: {named}; {word} {listed(list(seeds))}; {results.label}"


def main_table(results: ReportData) -> Table:
    """One row per model: losses, perplexity and cost, mean and standard deviation over seeds."""
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
    """The cost of each model's runs."""
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
    names = (
        "model",
        "runs",
        "seconds per run",
        "CPU",
        "targets seen",
        "selected step",
        "steps",
        "rate",
    )
    return Table(
        title="Cost of a run: wall seconds, mean ± standard deviation; CPU seconds; supervised "
        f"targets seen in training; selected step; learning rate. {of_runs(results)}",
        columns=names,
        rows=tuple(rows),
    )


def runs_table(results: ReportData) -> Table:
    """One row per run."""
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
    names = ("model", "seed", "test loss", "perplexity", "val. loss", "selected step", "seconds")
    return Table(title=f"Every run. {of_runs(results)}", columns=names, rows=tuple(rows), names=2)


def paired_table(results: ReportData) -> Table:
    """One row per planned comparison."""
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
        title="Paired differences in test loss, nats per token, per seed; a negative value "
        f"favours the first model. {_method(results)} {of_runs(results, _compared(results))}",
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
    """Validation loss by step, one column per seed."""
    traces = {run["seed"]: dict(trace_of(run)) for run in results.of(model)}
    steps = sorted({step for trace in traces.values() for step in trace})
    rows = [(whole(step), *(fixed(trace.get(step)) for trace in traces.values())) for step in steps]
    return Table(
        title=f"Validation loss by step, nats per token. {of_runs(results, [model])}",
        columns=("step", *(f"seed {seed}" for seed in traces)),
        rows=tuple(rows),
    )


def settings_table(title: str, values: Mapping[str, Any], label: str) -> Table:
    """Names and values, tables within tables written out."""
    return Table(
        title=f"{title}: {label}", columns=("setting", "value"), rows=tuple(_settings("", values))
    )


def models_table(results: ReportData) -> Table | None:
    """The plan's models; None if the file has none."""
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
    """The method of the intervals."""
    methods = sorted({pair["method"] for pair in results.paired if pair["method"]})
    if not methods:
        return "There are no intervals; see the notes."
    resamples = next(pair["resamples"] for pair in results.paired if pair["method"])
    how = f"Bootstrap: {listed(methods)}, {resamples:,} resamples"
    return f"{how}; t: Student's, exact for normally distributed differences."


def count_table(results: ReportData, arm: Arm, controls: Sequence[tuple[str, str]]) -> Table:
    """Loss by number of heads, with the controls below."""
    first = f"{arm.models[0]}"
    rows = [
        _count_row(results, model, str(heads), first)
        for model, heads in zip(arm.models, arm.counts, strict=True)
    ]
    rows += [_count_row(results, model, _heads_of(results, model), first) for model, _ in controls]
    chosen = [*arm.models, *(model for model, _ in controls)]
    meanings = "".join(f"Control {model}: {meaning}. " for model, meaning in controls)
    return Table(
        title=f"Test loss by number of heads, {arm.title}; nats per token. Where the plan compares "
        f"with {first}: the paired difference and its 95 % bootstrap interval. {meanings}"
        f"{of_runs(results, chosen)}",
        columns=("model", "heads", "parameters", "test loss", "sd", f"minus {first}", "interval"),
        rows=tuple(rows),
        names=2,
    )


def _heads_of(results: ReportData, model: str) -> str:
    return str(results.planned(model).get("num_heads", ABSENT))


def _count_row(results: ReportData, model: str, heads: str, first: str) -> tuple[str, ...]:
    pairs = (p for p in results.paired if (p["model_a"], p["model_b"]) == (model, first))
    pair: Mapping[str, Any] = next(pairs, {})
    return (
        model,
        heads,
        whole(results.parameters(model)),
        fixed(results.mean(model, "test_loss")),
        fixed(results.sd(model, "test_loss")),
        signed(pair.get("mean")),
        interval(pair.get("interval")),
    )


def measures_table(results: ReportData, models: Sequence[str]) -> Table:
    """Measures of the heads of each model, averaged over heads and seeds."""
    names = ("entropy", "mean_distance", "largest_weight", "mass_on_last", "mass_on_bos")
    rows = []
    for model in models:
        heads = [run["heads"] for run in analysed(results, model)]
        cells = (
            fixed(_mean(value for each in heads for value in each.get(n) or ()), 3) for n in names
        )
        diversity = fixed(_mean(d for each in heads if (d := each.get("diversity")) is not None), 3)
        rows.append((model, whole(heads[0]["num_heads"]), diversity, *cells))
    return Table(
        title="Head measures on validation windows, mean over heads and seeds. Diversity: mean "
        "Jensen-Shannon distance between two heads (square root of bits, 0 equal, 1 disjoint); "
        "entropy in nats; distance in tokens; the other columns are fractions of the weight. "
        f"{_of(results, models)}",
        columns=(
            "model",
            "heads",
            "diversity",
            "entropy",
            "distance",
            "largest",
            "on last",
            "on BOS",
        ),
        rows=tuple(rows),
    )


def removal_summary(results: ReportData, models: Sequence[str]) -> Table:
    """The range of the change of the loss when one head is removed."""
    rows = []
    for model in models:
        changes = [change for run in analysed(results, model) for change in removal_changes(run)]
        rows.append(
            (
                model,
                whole(len(changes)),
                signed(min(changes)),
                signed(fmean(changes)),
                signed(max(changes)),
            )
        )
    return Table(
        title="Increase of the validation loss when one head is removed, nats per token, over "
        f"all heads and seeds. {_of(results, models)}",
        columns=("model", "removals", "minimum", "mean", "maximum"),
        rows=tuple(rows),
    )


def removal_table(results: ReportData, model: str) -> Table:
    """The change of the loss when each head is removed, one column per seed."""
    runs = analysed(results, model)
    columns = [removal_changes(run) for run in runs]
    rows = [
        (str(h + 1), *(signed(column[h]) if h < len(column) else ABSENT for column in columns))
        for h in range(max(map(len, columns)))
    ]
    return Table(
        title="Increase of the validation loss when one head is removed, nats per token; head "
        f"numbers of different seeds do not correspond. {_of(results, [model])}",
        columns=("head", *(f"seed {run['seed']}" for run in runs)),
        rows=tuple(rows),
    )


def greedy_table(results: ReportData, models: Sequence[str], title: str) -> Table:
    """Loss by number of heads left, mean over seeds, one column per model."""
    columns = {model: greedy_means(results, model) for model in models}
    most = max(map(len, columns.values()))
    rows = [
        (str(left), *(fixed(dict(column).get(left)) for column in columns.values()))
        for left in range(most)
    ]
    return Table(
        title="Validation loss by number of heads left, nats per token, mean over seeds; the "
        f"head with the smallest increase is removed first; {title}. {_of(results, models)}",
        columns=("left", *models),
        rows=tuple(rows),
    )


def greedy_means(results: ReportData, model: str) -> list[tuple[int, float]]:
    """Heads left, and the loss with them, mean over seeds; fewest heads first."""
    curves = [run["heads"]["greedy"]["losses"] for run in analysed(results, model)]
    length = min(map(len, curves))
    losses = [fmean(curve[::-1][left] for curve in curves) for left in range(length)]
    return list(enumerate(losses))


def diversity_table(results: ReportData, models: Sequence[str]) -> Table:
    """Pattern diversity of the heads of each run."""
    seeds = list(dict.fromkeys(run["seed"] for m in models for run in analysed(results, m)))
    rows = []
    for model in models:
        found = {run["seed"]: run["heads"].get("diversity") for run in analysed(results, model)}
        rows.append((model, *(fixed(found.get(seed), 3) for seed in seeds)))
    return Table(
        title="Mean Jensen-Shannon distance between two heads, 0 to 1; a single head has none. "
        f"{_of(results, models)}",
        columns=("model", *(f"seed {seed}" for seed in seeds)),
        rows=tuple(rows),
    )


def removal_changes(run: Mapping[str, Any]) -> list[float]:
    """Increase of the loss of one run when each head is removed, nats."""
    removal = run["heads"]["removal"]
    return [loss - removal["loss"] for loss in removal["losses"]]


def _mean(values: Any) -> float | None:  # noqa: ANN401 - any iterable of numbers
    found = list(values)
    return fmean(found) if found else None


def _of(results: ReportData, models: Sequence[str]) -> str:
    """Description of the runs, and the number of windows analysed of each."""
    windows = sorted(
        {run["heads"].get("num_windows") or 0 for m in models for run in analysed(results, m)}
    )
    return (
        f"{listed([whole(number) for number in windows])} windows per run. "
        f"{of_runs(results, models)}"
    )
