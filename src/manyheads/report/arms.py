"""The arms of a study of head counts: models that differ in their number of heads alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manyheads.report.reading import ReportData


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Models in order of their number of heads."""

    title: str
    """What is kept equal."""
    slug: str
    """For file names."""
    models: tuple[str, ...]
    """Names of the models."""
    counts: tuple[int, ...]
    """Heads of each."""


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


def controls_of(results: ReportData) -> tuple[tuple[str, str], ...]:
    """Name and meaning of each model whose heads have no patterns of their own."""
    meanings = {
        "uniform": "all words weigh alike, never learned",
        "shared": "all heads share one pattern",
    }
    found = []
    for model in results.models:
        pattern = results.planned(model).get("pattern", "learned")
        if pattern in meanings:
            found.append((model, meanings[pattern]))
    return tuple(found)


def analysed(results: ReportData, model: str) -> list[Mapping[str, Any]]:
    """The runs of a model whose heads were looked at."""
    return [run for run in results.of(model) if run.get("heads")]


def _arm(results: ReportData, width: int | None, group: list[tuple[int, str]]) -> Arm:
    protocol = results.plan.get("protocol")
    full = protocol.get("width", "?") if isinstance(protocol, Mapping) else "?"
    title = f"width {full}, shared out among the heads"
    return Arm(
        title=title if width is None else f"every head {width} wide",
        slug="width" if width is None else f"head-width-{width}",
        models=tuple(model for _, model in group),
        counts=tuple(heads for heads, _ in group),
    )
