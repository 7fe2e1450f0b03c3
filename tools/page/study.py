"""The shipped studies for the page: parts of each `results.json`, under the paths they have there.

Nothing is computed here. A number of the page named `three-models:aggregate.mlp.test_loss.mean` is
the value at that path of the study's results; `web/src/study/data.ts` has the format.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import manyheads
from manyheads.core.errors import StudyError
from manyheads.report.cautions import cautions, recipe_notice
from manyheads.report.published import PUBLISHED, compared_settings, is_comparable
from manyheads.report.reading import ReportData, read_study

FORMAT = 1
SHIPPED = Path(manyheads.__file__).parent / "study" / "results"
"""Where the package keeps the results of its studies, a folder per plan and data."""
ORDER = ("three-models", "own-recipe", "own-recipe-stories", "head-count")
"""The studies of the page; each has its own place there and its own numbers."""
_OF_PLAN = ("name", "description", "seeds", "models", "comparisons", "protocol", "data")
_OF_RUN = (
    *("model", "num_heads", "seed", "parameters", "steps", "selected_step", "validation_loss"),
    *("test_loss", "test_perplexity", "seconds", "tokens_seen", "learning_rate", "labelled"),
)
_OF_TRACE = ("step", "validation_loss")
_METRICS = ("test_loss", "test_perplexity", "validation_loss", "seconds")
_OF_PAIR = (
    *("model_a", "model_b", "metric", "n", "seeds", "differences", "mean", "sd", "level"),
    *("interval", "method", "resamples", "t_interval", "left_out", "note"),
)


def shipped_studies(folder: Path | None = None) -> tuple[Path, ...]:
    """The folders of the shipped studies, in the order of the page; none where none is shipped.

    Args:
        folder: where to look; the package's own folder unless given.
    """
    folder = folder or SHIPPED
    return tuple(folder / name for name in ORDER if (folder / name / "results.json").is_file())


def study_part(name: str, results: Mapping[str, Any], limits: Sequence[str]) -> dict[str, Any]:
    """What the page shows of a study.

    Args:
        name: the name of its folder.
        results: what its `results.json` holds.
        limits: what its numbers do not show, a paragraph each.

    Raises:
        StudyError: the results lack a part.
    """
    try:
        aggregate = {
            model: _chosen(metrics, _METRICS) for model, metrics in results["aggregate"].items()
        }
        return {
            "name": name,
            "plan": _chosen(results["plan"], _OF_PLAN),
            "plan_sha256": results["plan_sha256"],
            "data_sha256": results["data_sha256"],
            "data": dict(results["data"]),
            "environment": dict(results["environment"]),
            "runs": [_run(run) for run in results["runs"]],
            "aggregate": aggregate,
            "paired": [_chosen(pair, _OF_PAIR) for pair in results["paired"]],
            "limits": list(limits),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise StudyError(f"results lack {error}: give those of a finished study") from error


def study_data(folder: Path | None = None) -> dict[str, Any]:
    """Return what the page shows of all shipped studies.

    Args:
        folder: where to look; the package's own folder unless given.

    Raises:
        StudyError: the results of a study are damaged or lack a part.
    """
    parts = []
    for place in shipped_studies(folder):
        results = read_study(place)
        limits = [text for text in (recipe_notice(results), *cautions(results)) if text]
        parts.append(study_part(place.name, results.document, limits) | published_part(results))
    return {"format": FORMAT, "studies": parts}


def published_part(results: ReportData) -> dict[str, Any]:
    """The published figures, and the settings there and here; empty for other protocols."""
    if not is_comparable(results):
        return {}
    names = ("setting", "published", "here")
    settings = [dict(zip(names, row, strict=True)) for row in compared_settings(results)]
    return {"published": {"figures": PUBLISHED, "settings": settings}}


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_chosen(run, _OF_RUN),
        "trace": [_chosen(entry, _OF_TRACE) for entry in run["trace"]],
    }


def _chosen(table: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Those of the names that the table has."""
    return {name: table[name] for name in names if name in table}
