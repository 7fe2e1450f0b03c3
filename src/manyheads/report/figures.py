"""The figures of every study: losses, differences, validation curves."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyheads.core.tables import shortened
from manyheads.report.document import Figure, Panel, Twin
from manyheads.report.drawing import INK, MUTED, Drawing, series
from manyheads.report.numbers import fixed, interval, listed, signed
from manyheads.report.reading import ReportData, trace_of
from manyheads.report.tables import curve_table, differences_table, of_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 390
LOSS = "test loss, nats per token"


def slug(text: str) -> str:
    """A text as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "unnamed"


def short(name: str, width: int = 22) -> str:
    """A name as a figure has room for; its table has the whole."""
    return shortened(name, width)


def loss_figure(results: ReportData) -> Figure | None:
    """Every run's test loss, a row a model; None where the test was not read."""
    averages = {model: results.mean(model, "test_loss") for model in results.models}
    means = {model: mean for model, mean in averages.items() if mean is not None}
    models = list(means)
    if not models:
        return None
    with Drawing(WIDTH, 88 + 26 * len(models)) as drawing:
        axes = drawing.axes
        for index, seed in enumerate(results.seeds):
            color, marker = series(index)
            found = [
                (run["test_loss"], row)
                for row, model in enumerate(models)
                for run in results.of(model)
                if run["seed"] == seed
            ]
            axes.plot(*zip(*found, strict=True), marker, color=color, label=f"seed {seed}", ls="")
        axes.plot(
            [*means.values()],
            range(len(models)),
            "|",
            color=INK,
            ms=16,
            mew=2,
            label="mean",
            zorder=1,
        )
        _rows(axes, [short(model) for model in models], LOSS)
        drawing.legend()
    said = "; ".join(f"{model} {fixed(mean)}" for model, mean in means.items())
    return Figure(
        caption=f"Test loss of every run; the bar is the mean over seeds. The numbers are in the "
        f"tables above and in Every run. {of_runs(results, models)}",
        panels=(Panel(name="test-loss", svg=drawing.svg, alt=f"Mean test loss: {said}."),),
        twin=None,
    )


def difference_figure(results: ReportData) -> Figure | None:
    """Paired differences with both intervals; None where nothing is compared."""
    pairs = [pair for pair in results.paired if pair["n"]]
    if not pairs:
        return None
    with Drawing(WIDTH, 104 + 34 * len(pairs)) as drawing:
        axes = drawing.axes
        axes.axvline(0, color=MUTED, lw=1.2)
        _intervals(axes, pairs)
        for index, seed in enumerate(results.seeds):
            color, marker = series(index)
            found = [
                (pair["differences"][pair["seeds"].index(seed)], row - 0.24)
                for row, pair in enumerate(pairs)
                if seed in pair["seeds"]
            ]
            if found:
                x, y = zip(*found, strict=True)
                axes.plot(x, y, marker, color=color, label=f"seed {seed}", ls="")
        _rows(
            axes, [_pair_label(pair) for pair in pairs], "difference in test loss, nats per token"
        )
        drawing.legend()
    names = [f"{pair['model_a']} \N{MINUS SIGN} {pair['model_b']}" for pair in pairs]
    said = "; ".join(
        f"{name} {signed(pair['mean'])}, bootstrap {interval(pair['interval'])}"
        for name, pair in zip(names, pairs, strict=True)
    )
    return Figure(
        caption="Paired differences in test loss: a mark a seed, the 95 % bootstrap interval of "
        "the mean (thick) and Student's t interval (thin). Left of zero the first model is better. "
        f"{of_runs(results)}",
        panels=(Panel(name="differences", svg=drawing.svg, alt=f"Mean differences: {said}."),),
        twin=Twin(summary="The differences seed by seed", tables=(differences_table(results),)),
    )


def _intervals(axes: "Axes", pairs: Sequence[Mapping[str, Any]]) -> None:
    """Both intervals of each pair, one legend entry for each kind."""
    kinds = (("t_interval", "95 % t", MUTED, 1.2), ("interval", "95 % bootstrap", INK, 4.0))
    for name, label, color, width in kinds:
        named = False
        for row, pair in enumerate(pairs):
            if pair[name]:
                once = None if named else label
                axes.plot(pair[name], (row, row), color=color, lw=width, alpha=0.8, label=once)
                named = True


def curve_figure(results: ReportData) -> Figure | None:
    """Validation loss by step, a panel a model on one scale; None where no trace has it."""
    models = [m for m in results.models if any(trace_of(run) for run in results.of(m))]
    if not models:
        return None
    limits = _limits(results, models)
    panels = tuple(_curves(results, model, limits) for model in models)
    return Figure(
        caption="Validation loss during training, on one scale; the ring is the kept step. "
        f"{of_runs(results, models)}",
        panels=panels,
        twin=Twin(
            summary="Validation loss by step",
            tables=tuple(curve_table(results, model) for model in models),
        ),
    )


def _limits(results: ReportData, models: Sequence[str]) -> tuple[float, float]:
    """One scale for all panels."""
    losses = [loss for m in models for run in results.of(m) for _, loss in trace_of(run)]
    low, high = min(losses), max(losses)
    margin = 0.06 * (high - low) or 0.1
    return low - margin, high + margin


def _curves(results: ReportData, model: str, limits: tuple[float, float]) -> Panel:
    runs = results.of(model)
    with Drawing(330, 235) as drawing:
        axes = drawing.axes
        for run in runs:
            color, marker = series(results.seeds.index(run["seed"]))
            trace = trace_of(run)
            label = f"seed {run['seed']}"
            axes.plot(
                *zip(*trace, strict=True), color=color, marker=marker, ms=3, lw=1.3, label=label
            )
            best = dict(trace).get(run["selected_step"])
            if best is not None:
                ring: dict[str, Any] = {"mfc": "none", "mec": color, "ms": 9, "mew": 1.0}
                axes.plot(run["selected_step"], best, "o", **ring)
        axes.set_ylim(*limits)
        axes.set_title(short(model, 40), loc="left", fontsize=11)
        axes.set_xlabel("step")
        axes.set_ylabel("nats per token")
        drawing.legend()
    kept = listed([f"{fixed(r.get('validation_loss'))} at step {r['selected_step']}" for r in runs])
    alt = f"Validation loss of {model}; kept: {kept}."
    name = f"validation-{results.models.index(model) + 1}-{slug(model)}"
    return Panel(name=name, svg=drawing.svg, alt=alt)


def _pair_label(pair: Mapping[str, Any]) -> str:
    """First minus second, on two lines where they are long."""
    first, second = short(pair["model_a"]), short(pair["model_b"])
    minus = "\N{MINUS SIGN}"
    between = " " if len(first) + len(second) < 24 else "\n"
    return f"{first}{between}{minus} {second}"


def _rows(axes: "Axes", names: Sequence[str], label: str) -> None:
    """Rows from the top down, named on the left."""
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.5, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label)
