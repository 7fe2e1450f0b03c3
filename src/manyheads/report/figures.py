"""The figures of a study report as SVG: the same bytes each time, in light and dark colours.

matplotlib draws in the light colours. In a page each colour becomes a CSS variable, so that the
figure follows the page; a file keeps the light colours. No global setting is changed.
"""

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyheads.core.tables import shortened
from manyheads.report.pages import INK, LINE, MUTED, SERIES, Details, Figure, Panel
from manyheads.report.reading import ReportData, trace_of
from manyheads.report.tables import (
    Arm,
    analysed,
    curve_table,
    differences_table,
    diversity_table,
    fixed,
    greedy_means,
    greedy_table,
    interval,
    listed,
    of_runs,
    removal_changes,
    removal_table,
    signed,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_POINTS = 72  # an SVG of matplotlib counts in points, 72 to the inch
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "manyheads",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.parse_math": False,
    "axes.labelsize": 10.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
}


class Drawing:
    """A drawing: `with Drawing(440, 260) as drawing: drawing.axes.plot(...)`.

    Args:
        width: in points, as wide as on the page.
        height: in points.
    """

    def __init__(self, width: int, height: int) -> None:
        self._size = (width / _POINTS, height / _POINTS)
        self.svg = ""

    def __enter__(self) -> "Drawing":
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Canvas

        self._context = rc_context(_RC)
        self._context.__enter__()
        self.figure: Canvas = Canvas(figsize=self._size, layout="constrained")
        FigureCanvasSVG(self.figure)
        self.axes: Axes = self.figure.add_subplot()
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401 - as every context manager
        try:
            if error[0] is None:
                self.svg = _svg(self.figure)
        finally:
            self._context.__exit__(*error)

    def legend(self) -> None:
        """Draw the legend above the axes, in as many columns as fit."""
        handles, labels = self.axes.get_legend_handles_labels()
        width = 42 + 6.3 * max(map(len, labels))  # of one entry, in points
        room = self._size[0] * _POINTS
        self.figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=max(1, min(len(labels), 4, int(room / width))),
            alignment="left",
            handlelength=1.4,
            columnspacing=1.2,
        )


def _svg(figure: "Canvas") -> str:
    stream = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(stream, format="svg", metadata=metadata)
    text = stream.getvalue()
    text = text[text.index("<svg") :]  # no XML declaration, no address of a DTD
    return re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)


def series(index: int) -> tuple[str, str]:
    """Colour and marker of the series with this index; they repeat."""
    return SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]


WIDTH = 390
LOSS = "test loss, nats per token"


def slug(text: str) -> str:
    """A text that is safe as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "unnamed"


def short(name: str, width: int = 22) -> str:
    """A name, shortened to fit a figure; the table has the full name."""
    return shortened(name, width)


def loss_figure(results: ReportData) -> Figure | None:
    """Every run's test loss, one row per model; None if the test was not read."""
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
        details=None,
    )


def difference_figure(results: ReportData) -> Figure | None:
    """Paired differences with both intervals; None without comparisons."""
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
        caption="Paired differences in test loss: one mark per seed, the 95 % bootstrap interval "
        "of the mean (thick) and Student's t interval (thin). Left of zero the first "
        "model is better. "
        f"{of_runs(results)}",
        panels=(Panel(name="differences", svg=drawing.svg, alt=f"Mean differences: {said}."),),
        details=Details(summary="The differences per seed", tables=(differences_table(results),)),
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
    """Validation loss by step, one panel per model, on one scale; None without data."""
    models = [m for m in results.models if any(trace_of(run) for run in results.of(m))]
    if not models:
        return None
    limits = _limits(results, models)
    panels = tuple(_curves(results, model, limits) for model in models)
    return Figure(
        caption="Validation loss during training, on one scale; the ring marks the selected step. "
        f"{of_runs(results, models)}",
        panels=panels,
        details=Details(
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


def count_figure(
    results: ReportData, arms: Sequence[Arm], controls: Sequence[tuple[str, str]]
) -> Figure:
    """Test loss by number of heads, one panel per series of models, with the controls as lines."""
    panels = tuple(_count_panel(results, arm, controls) for arm in arms)
    models = [model for arm in arms for model in arm.models] + [model for model, _ in controls]
    return Figure(
        caption="Test loss by number of heads: one mark per run; the line is the mean over seeds; "
        "dashed and dotted lines are the controls. The numbers are in the tables above. "
        f"{of_runs(results, models)}",
        panels=panels,
        details=None,
    )


def _count_panel(results: ReportData, arm: Arm, controls: Sequence[tuple[str, str]]) -> Panel:
    with Drawing(WIDTH, 300) as drawing:
        axes = drawing.axes
        for index, seed in enumerate(results.seeds):
            color, marker = series(index)
            found = [
                (heads, run["test_loss"])
                for model, heads in zip(arm.models, arm.counts, strict=True)
                for run in results.of(model)
                if run["seed"] == seed and run.get("test_loss") is not None
            ]
            if found:
                axes.plot(
                    *zip(*found, strict=True), marker, color=color, ls="", label=f"seed {seed}"
                )
        means = [
            (heads, mean)
            for model, heads in zip(arm.models, arm.counts, strict=True)
            if (mean := results.mean(model, "test_loss")) is not None
        ]
        if means:
            axes.plot(*zip(*means, strict=True), color=INK, lw=1.4, label="mean", zorder=1)
        for (model, _), style in zip(controls, ("--", ":", "-."), strict=False):
            mean = results.mean(model, "test_loss")
            if mean is not None:
                axes.axhline(mean, color=MUTED, ls=style, lw=1.4, label=f"{short(model)} (control)")
        axes.set_xscale("log", base=2)
        axes.set_xticks(arm.counts, [str(count) for count in arm.counts])
        axes.minorticks_off()
        axes.set_title(arm.title, loc="left", fontsize=11)
        axes.set_xlabel("heads")
        axes.set_ylabel(LOSS)
        drawing.legend()
    said = "; ".join(f"{heads} heads {fixed(mean)}" for heads, mean in means)
    return Panel(name=f"heads-{arm.slug}", svg=drawing.svg, alt=f"Mean test loss: {said}.")


def removal_figure(results: ReportData, models: Sequence[str]) -> Figure:
    """Change of the loss when a single head is removed, one row per model."""
    with Drawing(WIDTH, 88 + 26 * len(models)) as drawing:
        axes = drawing.axes
        axes.axvline(0, color=MUTED, lw=1.2)
        for row, model in enumerate(models):
            for run in analysed(results, model):
                color, marker = series(results.seeds.index(run["seed"]))
                changes = removal_changes(run)
                label = f"seed {run['seed']}" if row == 0 else None
                mark: dict[str, Any] = {
                    "color": color,
                    "alpha": 0.6,
                    "ls": "",
                    "label": label,
                    "ms": 4.5,
                }
                axes.plot(changes, [row] * len(changes), marker, **mark)
        axes.set_yticks(range(len(models)), [short(model) for model in models])
        axes.set_ylim(len(models) - 0.5, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("added validation loss, nats per token")
        drawing.legend()
    return Figure(
        caption="Increase of the loss when one head is removed; each mark is one head of one run. "
        f"{of_runs(results, models)}",
        panels=(
            Panel(
                name="removal",
                svg=drawing.svg,
                alt="Added validation loss for each removed head, by model; see the table.",
            ),
        ),
        details=Details(
            summary="Each head of each run",
            tables=tuple(removal_table(results, model) for model in models),
        ),
    )


def greedy_figure(results: ReportData, groups: Sequence[tuple[str, Sequence[str]]]) -> Figure:
    """Loss by number of heads left, one panel per series of models, one line per model."""
    panels = tuple(_greedy_panel(results, title, models) for title, models in groups)
    everyone = [model for _, models in groups for model in models]
    return Figure(
        caption="Validation loss as heads are removed one by one, mean over seeds; the head with "
        "the smallest increase is removed first. Separate windows choose the head and "
        f"measure the loss. {of_runs(results, everyone)}",
        panels=panels,
        details=Details(
            summary="Loss by heads left",
            tables=tuple(greedy_table(results, models, title) for title, models in groups),
        ),
    )


def _greedy_panel(results: ReportData, title: str, models: Sequence[str]) -> Panel:
    with Drawing(WIDTH, 300) as drawing:
        axes = drawing.axes
        ends = []
        for index, model in enumerate(models):
            color, marker = series(index)
            curve = greedy_means(results, model)
            ms = 4 if len(curve) < 20 else 2
            axes.plot(
                *zip(*curve, strict=True), color=color, marker=marker, ms=ms, label=short(model)
            )
            ends.append(
                f"{model} {fixed(curve[-1][1])} with all heads, {fixed(curve[0][1])} without heads"
            )
        most = max(len(greedy_means(results, model)) for model in models) - 1
        axes.set_xscale("symlog", base=2, linthresh=1, linscale=0.6)
        ticks = [0, *(2**k for k in range(most.bit_length()))]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_title(short(title, 46), loc="left", fontsize=11)
        axes.set_xlabel("heads left")
        axes.set_ylabel("validation loss, nats per token")
        drawing.legend()
    name = f"greedy-{results.models.index(models[0]) + 1}-{slug(models[0])}"
    return Panel(name=name, svg=drawing.svg, alt="; ".join(ends) + ".")


def diversity_figure(results: ReportData, models: Sequence[str]) -> Figure:
    """Differences between the attention patterns of each model's heads, one row per model."""
    with Drawing(WIDTH, 88 + 26 * len(models)) as drawing:
        axes = drawing.axes
        for row, model in enumerate(models):
            for run in analysed(results, model):
                color, marker = series(results.seeds.index(run["seed"]))
                label = f"seed {run['seed']}" if row == 0 else None
                axes.plot(run["heads"]["diversity"], row, marker, color=color, ls="", label=label)
        axes.set_xlim(-0.02, 1.02)
        axes.set_yticks(range(len(models)), [short(model) for model in models])
        axes.set_ylim(len(models) - 0.5, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("mean Jensen-Shannon distance between heads")
        drawing.legend()
    return Figure(
        caption="Difference between the attention patterns of a run's heads, mean over pairs: 0 "
        f"identical, 1 disjoint. {of_runs(results, models)}",
        panels=(
            Panel(
                name="diversity",
                svg=drawing.svg,
                alt="Pattern diversity of each run, by model; the table has the numbers.",
            ),
        ),
        details=Details(
            summary="Diversity of each run", tables=(diversity_table(results, models),)
        ),
    )
