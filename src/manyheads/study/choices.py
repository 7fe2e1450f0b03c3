"""The choices of a study, frozen on disk: the receipt without which test data stays sealed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from manyheads.core.errors import StudyError
from manyheads.study.files import file_sha256, read_json, write_json
from manyheads.study.folder import Folder, RunKey

_FILE = "choices.json"


@dataclass(frozen=True, kw_only=True)
class FrozenChoices:
    """What validation data chose: for every run of the plan its step and its weights file.

    Made by `freeze_choices` alone; `require_frozen` asks the disk again each time.
    """

    folder: Folder
    """The study's folder, in which `choices.json` and all weights files lie."""
    digest: str
    """Hash of the choices as they were frozen, in hexadecimal digits."""

    @property
    def content(self) -> Mapping[str, Any]:
        """The choices as they stand on disk."""
        return read_json(self.folder.path / _FILE)

    def require_frozen(self, data_sha256: str) -> None:
        """Raise unless all runs are done and every choice lies on disk, unchanged.

        Args:
            data_sha256: hash of the stories whose test split is asked for.

        Raises:
            StudyError: a run of the plan is missing, a file is not the one that was chosen, or the
                choices were made with other stories.
        """
        begun_with = read_json(self.folder.path / "study.json").get("data_sha256")
        if begun_with != data_sha256:
            raise StudyError(
                f"choices ({self.folder.path / _FILE}) are of other data "
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
    """Write down, once, what was chosen in every run of the plan.

    Args:
        folder: of a study all runs of which are done.

    Raises:
        StudyError: a run is not done, or other choices were frozen before.
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
        raise StudyError(f"choices ({path}) were frozen with other runs: begin in another folder")
    return FrozenChoices(folder=folder, digest=_digest(chosen))


def _choice(folder: Folder, run: RunKey) -> dict[str, Any]:
    record = folder.record(run)
    if record is None:
        raise StudyError(f"run ({run.name}) is not done: go on with --resume")
    return {
        "learning_rate": record["learning_rate"],
        "selected_step": record["selected_step"],
        "validation_loss": record["validation_loss"],
        "sha256": record["sha256"],
    }


def _digest(choices: Mapping[str, Any]) -> str:
    return sha256(json.dumps(choices, sort_keys=True).encode()).hexdigest()
