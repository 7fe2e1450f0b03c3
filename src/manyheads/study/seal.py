"""The end of a study: choices are frozen, then the test split is opened and read, once.

Only this module opens the test split, and only for frozen choices.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from manyheads.core.errors import StudyError
from manyheads.data.windows import Split
from manyheads.study.corpus import mean_loss
from manyheads.study.folder import Folder, RunKey, file_sha256, read_json, write_json
from manyheads.study.site import Event, Site, Stopped, fresh_model
from manyheads.study.state import load_tensors

_FILE = "choices.json"


@dataclass(frozen=True, kw_only=True)
class FrozenChoices:
    """The choices made with validation data: step and weights file of every run of the plan.

    Only `freeze_choices` makes it; `require_frozen` reads the disk again each time.
    """

    folder: Folder
    """The study's folder, with `choices.json` and all weights files."""
    digest: str
    """Hash of the frozen choices, in hexadecimal digits."""

    @property
    def content(self) -> Mapping[str, Any]:
        """The choices on disk."""
        return read_json(self.folder.path / _FILE)

    def require_frozen(self, data_sha256: str) -> None:
        """Raise unless all runs are done and every choice is on disk, unchanged.

        Args:
            data_sha256: hash of the stories whose test split is requested.

        Raises:
            StudyError: a run of the plan is missing, a file was changed after the choice, or the
                choices were made with other stories.
        """
        begun_with = read_json(self.folder.path / "study.json").get("data_sha256")
        if begun_with != data_sha256:
            raise StudyError(
                f"choices ({self.folder.path / _FILE}) belong to other data "
                f"({str(begun_with)[:12]}, expected {data_sha256[:12]}): finish a study on these"
            )
        content = self.content
        if _digest(content) != self.digest:
            path = self.folder.path / _FILE
            raise StudyError(f"choices ({path}) were changed after they were frozen: restore them")
        for run in self.folder.runs():
            chosen = content["runs"].get(run.name)
            if chosen is None:
                raise StudyError(f"run ({run.name}) has no frozen choice: train it first")
            path = self.folder.best(run)
            if file_sha256(path) != chosen["sha256"]:
                raise StudyError(
                    f"weights ({path}) are not the ones that were chosen: restore them"
                )


def freeze_choices(folder: Folder) -> FrozenChoices:
    """Write the choices of every run of the plan, once.

    Args:
        folder: of a study whose runs are all done.

    Raises:
        StudyError: a run is not done, or other choices are already frozen.
    """
    chosen = {
        "plan_sha256": folder.plan.sha256,
        "learning_rates": folder.learning_rates(),
        "runs": {run.name: _choice(folder, run) for run in folder.runs()},
    }
    path = folder.path / _FILE
    if not path.exists():
        write_json(path, chosen)
    elif read_json(path) != chosen:
        raise StudyError(
            f"choices ({path}) were frozen with other runs: start again in another folder"
        )
    return FrozenChoices(folder=folder, digest=_digest(chosen))


def _choice(folder: Folder, run: RunKey) -> dict[str, Any]:
    record = folder.record(run)
    if record is None:
        raise StudyError(f"run ({run.name}) is not done: continue with --resume")
    return {
        "learning_rate": record["learning_rate"],
        "selected_step": record["selected_step"],
        "validation_loss": record["validation_loss"],
        "sha256": record["sha256"],
    }


def _digest(choices: Mapping[str, Any]) -> str:
    return sha256(json.dumps(choices, sort_keys=True).encode()).hexdigest()


_MEASURED = (
    *("model", "num_heads", "seed", "parameters", "steps", "selected_step", "validation_loss"),
    *("test_loss", "test_perplexity", "seconds", "cpu_seconds", "tokens_seen", "learning_rate"),
    "trace",
)


def finish(site: Site) -> dict[str, Any]:
    """Freeze the choices, test every run's best weights, and write `results.json`.

    Args:
        site: of a study whose runs are all done.

    Returns:
        the content of `results.json`.

    Raises:
        StudyError: a run is not done, or a file was changed after the choice.
        Stopped: a stop was requested; the test starts again from its beginning.
    """
    folder = site.folder
    choices = freeze_choices(folder)
    split = site.corpus.test.open(choices)
    runs = [_tested(run, site, split) for run in folder.runs()]
    study = read_json(folder.path / "study.json")
    results = {
        "plan": folder.plan.to_dict(),
        "plan_sha256": folder.plan.sha256,
        "data_sha256": site.corpus.sha256,
        "environment": study["environment"],
        "data": study["data"],
        "learning_rates": folder.learning_rates(),
        "runs": runs,
        **_compared(runs, folder.plan.pairs),
    }
    write_json(folder.path / "results.json", results)
    return results


def _tested(run: RunKey, site: Site, split: Split) -> dict[str, Any]:
    """A run's record with its test loss."""
    if site.is_stopping():
        raise Stopped("all runs are trained; the test is not done")
    record = site.folder.record(run)
    if record is None:
        raise StudyError(f"run ({run.name}) is not done: continue with --resume")
    path = site.folder.best(run)
    tensors, _ = load_tensors(path)
    trainable = fresh_model(site, run)
    try:
        trainable.model.load_state_dict(tensors)
    except RuntimeError as error:
        raise StudyError(f"file ({path}) does not fit its model: restore it") from error
    loss = mean_loss(trainable, split, split.positions, site.crew)
    site.report(Event(run=run.name, kind="test", step=record["steps"], steps=record["steps"]))
    if not math.isfinite(loss):
        raise StudyError(f"run {run.name}: test loss ({loss}) is not finite: train it again")
    found = record | {"test_loss": loss, "test_perplexity": math.exp(loss)}
    return {name: found[name] for name in (*_MEASURED, "heads", "labelled") if name in found}


def _compared(runs: list[dict[str, Any]], pairs: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    from manyheads.study.stats import aggregate, paired_differences

    metrics = ("test_loss", "validation_loss")
    paired = [entry for metric in metrics for entry in paired_differences(runs, pairs, metric)]
    return {"aggregate": aggregate(runs), "paired": paired}
