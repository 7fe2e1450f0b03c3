"""The results of a study, as `results.json` holds them, shown in a terminal or a notebook."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.core.errors import StudyError
from manyheads.core.tables import Table, html_from_table
from manyheads.core.text import brief
from manyheads.study.folder import read_json

_COLUMNS = (
    ("validation_loss", "validation nats", ".4f"),
    ("test_loss", "test nats", ".4f"),
    ("test_perplexity", "perplexity", ".2f"),
    ("cpu_seconds", "CPU seconds", ".1f"),
)
_NEEDED = ("plan", "plan_sha256", "data_sha256", "environment", "runs", "aggregate", "paired")


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """The results of a finished study."""

    path: Path
    """The study's folder."""
    content: Mapping[str, Any]
    """The content of `results.json`."""

    @property
    def runs(self) -> list[dict[str, Any]]:
        """One record per model and seed."""
        return list(self.content["runs"])

    @property
    def aggregate(self) -> Mapping[str, Any]:
        """Mean and standard deviation over seeds: {model: {metric: {"mean", "sd"}}}."""
        return dict(self.content["aggregate"])

    @property
    def paired(self) -> list[dict[str, Any]]:
        """Differences between models, per seed."""
        return list(self.content["paired"])

    def to_json(self) -> str:
        """The document as JSON text."""
        return json.dumps(self.content, allow_nan=False, ensure_ascii=False)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of a table, one row per model: means and standard deviations."""
        heads = ["model", "parameters", "seeds", *(title for _, title, _ in _COLUMNS)]
        return heads, [self._row(model) for model in self.aggregate]

    def _row(self, model: str) -> list[str]:
        own = [run for run in self.runs if run["model"] == model]
        cells = [_mean_and_sd(self.aggregate[model].get(key), form) for key, _, form in _COLUMNS]
        return [model, f"{own[0]['parameters']:,}", str(len(own)), *cells]

    def __str__(self) -> str:
        heads, rows = self.table()
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        rule = ["-" * width for width in widths]
        lines = [self._title(), "", *(_line(row, widths) for row in (heads, rule, *rows))]
        tested = [entry for entry in self.paired if entry["metric"] == "test_loss"]
        differences = [_difference(entry) for entry in tested]
        if differences:
            lines += ["", "Test loss, paired by seed (below 0: the first is better)", *differences]
        return "\n".join(lines)

    def _title(self) -> str:
        name, digest = self.content["plan"]["name"], self.content["plan_sha256"][:12]
        return f"Study {name}, plan {digest}, data {self.content['data_sha256'][:12]}"

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        heads, rows = self.table()
        rows_of_cells = tuple(tuple(row) for row in rows)
        return html_from_table(Table(title=self._title(), columns=tuple(heads), rows=rows_of_cells))


def read_results(path: Path) -> StudyResult:
    """Read the results of a finished study.

    Args:
        path: its folder.

    Raises:
        StudyError: the study is not finished, or the file is damaged.
    """
    file = path / "results.json"
    if not file.exists():
        raise StudyError(f"folder ({path}) has no results: finish the study with --resume")
    content = read_json(file)
    missing = [name for name in _NEEDED if name not in content]
    if missing:
        raise StudyError(f"file ({file}) lacks {', '.join(missing)}: give a study's results")
    result = StudyResult(path=path, content=content)
    try:
        str(result), result.to_json()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        raise StudyError(
            f"file ({file}) is damaged, since it cannot be shown ({said}): restore it, or delete "
            "it and finish the study with --resume"
        ) from error
    return result


def shipped_results(plan: str) -> StudyResult:
    """Read the results of a study that comes with the package.

    Args:
        plan: its name, such as "three-models".

    Raises:
        StudyError: no study of that name comes with the package.
    """
    shipped = Path(__file__).parent / "results"
    known = sorted(folder.parent.name for folder in shipped.glob("*/results.json"))
    if plan not in known:
        raise StudyError(f"plan ({brief(plan)}) has no shipped results: use {', '.join(known)}")
    return read_results(shipped / plan)


def _mean_and_sd(entry: Mapping[str, Any] | None, form: str) -> str:
    if entry is None or entry["mean"] is None:
        return "-"
    mean = format(entry["mean"], form)
    return mean if entry["sd"] is None else f"{mean} +- {format(entry['sd'], form)}"


def _line(cells: list[str], widths: list[int]) -> str:
    first, *others = (
        cell.ljust(width) if index == 0 else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()


def _difference(entry: Mapping[str, Any]) -> str:
    pair = f"{entry['model_a']} minus {entry['model_b']}"
    if entry["mean"] is None:
        return f"{pair}: {entry['note']}"
    interval = entry["t_interval"]
    spread = f", 95 % t interval {interval[0]:+.4f} to {interval[1]:+.4f}" if interval else ""
    seeds = "1 seed" if entry["n"] == 1 else f"{entry['n']} seeds"
    return f"{pair}: {entry['mean']:+.4f} nats over {seeds}{spread}"
