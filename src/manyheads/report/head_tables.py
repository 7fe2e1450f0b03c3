"""Tables about heads: loss by head count, what is lost without a head, how heads differ."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from manyheads.report.arms import Arm, analysed
from manyheads.report.document import Table
from manyheads.report.numbers import ABSENT, fixed, interval, listed, signed, whole
from manyheads.report.reading import ReportData
from manyheads.report.tables import of_runs


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
    """What the heads of each model do, averaged over heads and seeds."""
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
        title="What heads do, on validation windows, mean over heads and seeds. Diversity: mean "
        "Jensen-Shannon distance between two heads (square root of bits, 0 equal to 1 disjoint); "
        "entropy in nats; distance in tokens; the rest are shares of the weight. "
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
    """The range of what one head's removal changes."""
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
        title="What removing one head adds to the validation loss, nats per token, over all heads "
        f"and seeds. {_of(results, models)}",
        columns=("model", "removals", "least", "mean", "most"),
        rows=tuple(rows),
    )


def removal_table(results: ReportData, model: str) -> Table:
    """What each head's removal changes, one column a seed."""
    runs = analysed(results, model)
    columns = [removal_changes(run) for run in runs]
    rows = [
        (str(h + 1), *(signed(column[h]) if h < len(column) else ABSENT for column in columns))
        for h in range(max(map(len, columns)))
    ]
    return Table(
        title="What removing one head adds to the validation loss, nats per token; heads of "
        f"different seeds have nothing in common. {_of(results, [model])}",
        columns=("head", *(f"seed {run['seed']}" for run in runs)),
        rows=tuple(rows),
    )


def greedy_table(results: ReportData, models: Sequence[str], title: str) -> Table:
    """Loss by heads left, mean over seeds, one column a model."""
    columns = {model: greedy_means(results, model) for model in models}
    most = max(map(len, columns.values()))
    rows = [
        (str(left), *(fixed(dict(column).get(left)) for column in columns.values()))
        for left in range(most)
    ]
    return Table(
        title="Validation loss with so many heads left, the cheapest removed first, mean over "
        f"seeds, nats per token; {title}. {_of(results, models)}",
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
    """How differently the heads of each run look."""
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
    """What each head's removal adds to the loss of one run, nats."""
    removal = run["heads"]["removal"]
    return [loss - removal["loss"] for loss in removal["losses"]]


def _mean(values: Any) -> float | None:  # noqa: ANN401 - any iterable of numbers
    found = list(values)
    return fmean(found) if found else None


def _of(results: ReportData, models: Sequence[str]) -> str:
    """Which runs, and how many windows of each were looked at."""
    windows = sorted(
        {run["heads"].get("num_windows") or 0 for m in models for run in analysed(results, m)}
    )
    return (
        f"{listed([whole(number) for number in windows])} windows a run. {of_runs(results, models)}"
    )
