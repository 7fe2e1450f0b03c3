"""The end of a study: choices are frozen, then the test split is opened and read, once.

Nothing else in the package opens the test split, and it opens for frozen choices only.
"""

import math
from collections.abc import Mapping
from typing import Any

from manyheads.core.errors import StudyError
from manyheads.data.windows import Split
from manyheads.study.choices import freeze_choices
from manyheads.study.events import Event
from manyheads.study.files import read_json, write_json
from manyheads.study.folder import RunKey
from manyheads.study.losses import mean_loss
from manyheads.study.site import Site, fresh_model
from manyheads.study.state import load_tensors
from manyheads.study.stop import Stopped

_MEASURED = (
    *("model", "num_heads", "seed", "parameters", "steps", "selected_step", "validation_loss"),
    *("test_loss", "test_perplexity", "seconds", "cpu_seconds", "tokens_seen", "learning_rate"),
    "trace",
)


def finish(site: Site) -> dict[str, Any]:
    """Freeze the choices, test every run's best weights, and write `results.json`.

    Args:
        site: of a study all runs of which are done.

    Returns:
        what `results.json` holds.

    Raises:
        StudyError: a run is not done, or a file is not what it was when it was chosen.
        Stopped: somebody asked for a stop; the test is made again from its beginning.
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
        raise StudyError(f"run ({run.name}) is not done: go on with --resume")
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
        raise StudyError(f"run {run.name}: test loss ({loss}) is no finite number: train it anew")
    found = record | {"test_loss": loss, "test_perplexity": math.exp(loss)}
    return {name: found[name] for name in (*_MEASURED, "heads") if name in found}


def _compared(runs: list[dict[str, Any]], pairs: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    from manyheads.study.stats import aggregate, paired_differences

    metrics = ("test_loss", "validation_loss")
    paired = [entry for metric in metrics for entry in paired_differences(runs, pairs, metric)]
    return {"aggregate": aggregate(runs), "paired": paired}
