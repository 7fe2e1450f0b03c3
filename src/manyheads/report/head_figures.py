"""Figures about heads: loss by head count, removal one by one and in greedy order, diversity."""

from collections.abc import Sequence
from typing import Any

from manyheads.report.arms import Arm, analysed
from manyheads.report.document import Figure, Panel, Twin
from manyheads.report.drawing import INK, MUTED, Drawing, series
from manyheads.report.figures import LOSS, WIDTH, short, slug
from manyheads.report.head_tables import (
    diversity_table,
    greedy_means,
    greedy_table,
    removal_changes,
    removal_table,
)
from manyheads.report.numbers import fixed
from manyheads.report.reading import ReportData
from manyheads.report.tables import of_runs


def count_figure(
    results: ReportData, arms: Sequence[Arm], controls: Sequence[tuple[str, str]]
) -> Figure:
    """Test loss by number of heads, a panel an arm, with the controls as lines."""
    panels = tuple(_count_panel(results, arm, controls) for arm in arms)
    models = [model for arm in arms for model in arm.models] + [model for model, _ in controls]
    return Figure(
        caption="Test loss by number of heads: a mark a run, the line is the mean over seeds; "
        "dashed and dotted lines are the controls. The tables above have the numbers. "
        f"{of_runs(results, models)}",
        panels=panels,
        twin=None,
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
    """What the removal of each single head changes, a row a model."""
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
        caption="What the loss gains when one head is removed: a mark is a head of one run. "
        f"{of_runs(results, models)}",
        panels=(
            Panel(
                name="removal",
                svg=drawing.svg,
                alt="Added validation loss for each removed head, by model; see the table.",
            ),
        ),
        twin=Twin(
            summary="Each head of each run",
            tables=tuple(removal_table(results, model) for model in models),
        ),
    )


def greedy_figure(results: ReportData, groups: Sequence[tuple[str, Sequence[str]]]) -> Figure:
    """Loss by heads left, a panel an arm, a line a model."""
    panels = tuple(_greedy_panel(results, title, models) for title, models in groups)
    everyone = [model for _, models in groups for model in models]
    return Figure(
        caption="Validation loss as heads are removed one by one, the one whose absence costs "
        "least first; mean over seeds. Which head goes is chosen on other windows than the loss "
        f"is measured on. {of_runs(results, everyone)}",
        panels=panels,
        twin=Twin(
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
            ends.append(f"{model} {fixed(curve[-1][1])} whole, {fixed(curve[0][1])} without heads")
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
    """How differently the heads of each model look, a row a model."""
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
        caption="How differently the heads of a run look, mean over pairs of heads: 0 all alike, 1 "
        f"no word in common. {of_runs(results, models)}",
        panels=(
            Panel(
                name="diversity",
                svg=drawing.svg,
                alt="Pattern diversity of each run, by model; the table has the numbers.",
            ),
        ),
        twin=Twin(summary="Diversity of each run", tables=(diversity_table(results, models),)),
    )
