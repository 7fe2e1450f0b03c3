"""ReportData: `results.json` as a report reads it, checked once, and damaged files refused."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from manyheads.core.errors import StudyError
from manyheads.study.folder import read_json
from manyheads.study.stats import aggregate, paired_differences

FILE = "results.json"
_RUN_NUMBERS = ("parameters", "steps", "selected_step", "seconds", "tokens_seen")
_LOSSES = ("validation_loss", "test_loss", "test_perplexity")


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """The results of a study.

    Raises:
        StudyError: a part is missing or of another type, or means contradict the runs.
    """

    document: Mapping[str, Any]
    """The JSON document as it was read."""
    source: str
    """Path of the file, for messages."""

    def __post_init__(self) -> None:
        _check_document(self.document, self.source)
        _check_means(self)

    @property
    def plan(self) -> Mapping[str, Any]:
        """The frozen plan; empty where the file has none."""
        plan: Mapping[str, Any] = self.document["plan"]
        return plan

    @property
    def plan_sha256(self) -> str:
        """Hash of the plan, in hexadecimal digits."""
        return str(self.document["plan_sha256"])

    @property
    def name(self) -> str:
        """Name of the study."""
        return str(self.plan.get("name", "unnamed"))

    @property
    def label(self) -> str:
        """The end of every caption: the plan's name and the beginning of its hash."""
        return f"plan {self.name} {self.plan_sha256[:12]}"

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        """Every run."""
        runs: Sequence[Mapping[str, Any]] = self.document["runs"]
        return runs

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names of the models that have runs, in the order of the plan."""
        ran = dict.fromkeys(run["model"] for run in self.runs)
        planned = [str(model.get("name")) for model in self.planned_models]
        return tuple(name for name in dict.fromkeys([*planned, *ran]) if name in ran)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, in the order in which they come."""
        return tuple(dict.fromkeys(run["seed"] for run in self.runs))

    @property
    def planned_models(self) -> Sequence[Mapping[str, Any]]:
        """The plan's models; empty if the file has no plan."""
        return [model for model in self.plan.get("models", ()) if isinstance(model, Mapping)]

    def planned(self, model: str) -> Mapping[str, Any]:
        """The plan's table of a model; empty if it has none."""
        found = (table for table in self.planned_models if table.get("name") == model)
        return next(found, {})

    def of(self, model: str) -> list[Mapping[str, Any]]:
        """The runs of a model."""
        return [run for run in self.runs if run["model"] == model]

    @cached_property
    def aggregate(self) -> Mapping[str, Mapping[str, Mapping[str, float | None]]]:
        """Mean and standard deviation over seeds, of each model and metric."""
        return aggregate(self.runs)

    def mean(self, model: str, metric: str) -> float | None:
        """The mean of a metric over seeds; None if a run lacks it."""
        return self.aggregate[model].get(metric, {}).get("mean")

    def sd(self, model: str, metric: str) -> float | None:
        """The standard deviation of a metric over seeds; None if there is none."""
        return self.aggregate[model].get(metric, {}).get("sd")

    def parameters(self, model: str) -> int:
        """Number of parameters of a model."""
        return int(self.of(model)[0]["parameters"])

    @cached_property
    def paired(self) -> Sequence[Mapping[str, Any]]:
        """The planned differences, computed from the runs; the bootstrap has a fixed seed."""
        planned = self.plan.get("comparisons", ())
        pairs = [(pair["first"], pair["second"]) for pair in planned]
        return paired_differences(self.runs, [p for p in pairs if set(p) <= set(self.models)])

    def facts(self, name: str) -> Mapping[str, Any]:
        """A table of the document by its name; empty if it does not exist."""
        found = self.document.get(name)
        return found if isinstance(found, Mapping) else {}


def read_study(folder: Path) -> ReportData:
    """Read a study's `results.json`.

    Args:
        folder: the study's folder.

    Raises:
        StudyError: the folder has no such file, or it is damaged.
    """
    path = folder / FILE
    if not folder.is_dir():
        raise StudyError(f"folder ({folder}) does not exist: name the folder of a study")
    if not path.is_file():
        raise StudyError(
            f"folder ({folder}) has no {FILE}: finish the study there with "
            "`manyheads study run PLAN --out DIR --resume`"
        )
    return ReportData(document=read_json(path), source=str(path))


def trace_of(run: Mapping[str, Any], field: str = "validation_loss") -> list[tuple[int, float]]:
    """Step and value of one field, at every step of a run's trace that has it."""
    return [
        (entry["step"], float(entry[field]))
        for entry in run.get("trace", ())
        if _is_finite(entry.get(field))
    ]


def _damaged(source: str, what: str) -> StudyError:
    return StudyError(f"file ({source}) is damaged: {what}; restore it, or run the study again")


def _is_finite(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(float(value))
    )


def _check_document(document: Mapping[str, Any], source: str) -> None:
    wanted = {"plan": dict, "plan_sha256": str, "data_sha256": str, "environment": dict}
    for name, kind in (wanted | {"runs": list}).items():
        if not isinstance(document.get(name), kind):
            raise _damaged(source, f"{name} must be a {kind.__name__}")
    wrong = [*_wrong_plan(document["plan"])]
    for index, run in enumerate(document["runs"]):
        model = run.get("model") if isinstance(run, dict) else None
        if isinstance(model, str) and not model.isprintable():  # an SVG cannot contain it
            wrong.append(f"runs[{index}].model has control characters ({model!r})")
    if not document["runs"]:
        wrong.append("runs must not be empty")
    for index, run in enumerate(document["runs"]):
        wrong += [f"runs[{index}]{part}" for part in _wrong_run(run)]
    if wrong:
        raise _damaged(source, wrong[0])


def _wrong_plan(plan: Mapping[str, Any]) -> Iterator[str]:
    """Errors in the parts of the plan that a report reads."""
    for table in ("models", "comparisons"):
        entries = plan.get(table, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            yield f"plan.{table} must be a list of tables"
            return
    for name in (plan.get("name"), *(model.get("name") for model in plan.get("models", []))):
        if isinstance(name, str) and not name.isprintable():
            yield f"plan has a name with control characters ({name!r})"
    for pair in plan.get("comparisons", []):
        if not all(isinstance(pair.get(name), str) for name in ("first", "second")):
            yield "plan.comparisons must name first and second"


def _wrong_run(run: object) -> Iterator[str]:
    """Errors in a run."""
    if not isinstance(run, dict):
        yield " must be an object"
        return
    for name, kind in (("model", str), ("seed", int), ("trace", list)):
        if not isinstance(run.get(name), kind):
            yield f".{name} must be a {kind.__name__}"
    for name in (*_RUN_NUMBERS, *_LOSSES):
        is_open = name in _LOSSES and run.get(name) is None
        if not is_open and not _is_finite(run.get(name)):
            yield f".{name} must be a finite number"
    if not all(isinstance(entry, dict) for entry in run.get("trace") or ()):
        yield ".trace must be a list of objects"
    elif not all(isinstance(entry.get("step"), int) for entry in run.get("trace") or ()):
        yield ".trace must have a step in every entry"
    yield from _wrong_heads(run.get("heads"))


def _wrong_heads(heads: object) -> Iterator[str]:
    """Errors in the analysis of a run's heads, if there is one."""
    if heads is None:
        return
    if not isinstance(heads, dict):
        yield ".heads must be an object"
        return
    for table, name in (("removal", "losses"), ("greedy", "losses")):
        part = heads.get(table)
        values = part.get(name) if isinstance(part, dict) else None
        if not isinstance(values, list) or not all(map(_is_finite, values)):
            yield f".heads.{table}.{name} must be a list of finite numbers"
    if not _is_finite(heads.get("num_heads")):
        yield ".heads.num_heads must be a whole number"


def _check_means(results: ReportData) -> None:
    """The means in the file must be those of its runs."""
    written = results.document.get("aggregate") or {}
    for model, metrics in results.aggregate.items():
        for metric in _LOSSES:
            said = (written.get(model) or {}).get(metric)
            mean = metrics.get(metric, {}).get("mean")
            if said is None or mean is None:
                continue
            if not _is_finite(said.get("mean")) or not math.isclose(
                said["mean"], mean, rel_tol=1e-9
            ):
                raise _damaged(
                    results.source,
                    f"aggregate has mean {metric} {said.get('mean')} for {model}, "
                    f"its runs have {mean}",
                )
