"""Words of generated stories whose source is known: what models predict and what heads find."""

from collections.abc import Mapping, Sequence
from typing import Any

from manyheads.report.pages import Table
from manyheads.report.reading import ReportData
from manyheads.report.tables import ABSENT, Number, of_runs, whole


def labelled_table(results: ReportData, models: Sequence[str]) -> Table | None:
    """For each kind of labelled words: right predictions, and the head that finds most sources."""
    rows: list[tuple[str, ...]] = []
    for model in models:
        for run in results.of(model):
            rows += [_labelled_row(run, kind) for kind in _kinds(run)]
    if not rows:
        return None
    names = ("model", "seed", "words", "stories", "predicted", "most frequent")
    return Table(
        title="Labelled words of new generated stories, one per story, with 95 % intervals "
        "(Wilson). Predicted: the most probable word is right. Source found: how often the "
        "strongest source of the run's best head determines the word. "
        f"{of_runs(results, models)}",
        columns=(*names, "best head", "source found", "labels shuffled"),
        rows=tuple(rows),
    )


def _kinds(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = (run.get("labelled") or {}).get("kinds", [])
    return found


def _labelled_row(run: Mapping[str, Any], kind: Mapping[str, Any]) -> tuple[str, ...]:
    predicted, heads = kind["predicted"], kind["heads"]
    row = (
        *(str(run["model"]), str(run["seed"]), str(kind["kind"]), whole(predicted["stories"])),
        *(_share(predicted), percent(kind["most_frequent"])),
    )
    if not heads:
        return (*row, ABSENT, ABSENT, ABSENT)
    best = max(range(len(heads)), key=lambda index: heads[index]["found"]["hits"])
    null = heads[best]
    shuffled = f"{percent(null['shuffled_mean'])}, at most {percent(null['shuffled_greatest'])}"
    return (*row, str(best + 1), _share(null["found"]), shuffled)


def percent(share: Number) -> str:
    """A fraction as a percentage."""
    return f"{100 * share:.1f} %"


def _share(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    return f"{percent(found['share'])} ({percent(low)} to {percent(high)})"
