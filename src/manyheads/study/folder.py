"""Files and folders of a study. A file is complete or absent, and its writer locks the folder.

`plan.toml` and `study.json` are written before the first step; `runs/` and `checks/` hold one
folder per run; `tokenizer.json`, `choices.json` and `results.json` complete a study.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from manyheads.core.errors import PlanError, StudyError
from manyheads.core.files import clear_parts, lock_folder, reason_of, write_whole
from manyheads.study.plan import Plan

_MAX_DIGITS = 40


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it; a killed process leaves the earlier file.

    Args:
        path: the file; its folder exists.
        data: its content.

    Raises:
        StudyError: the file system refuses, for instance because it is full.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise StudyError(
            f"file ({path}) cannot be written ({reason_of(error)}): files saved before "
            "are intact; free some space and try again, with --resume for a run"
        ) from error


def write_json(path: Path, document: object) -> None:
    """Write a JSON document; the numbers in it are finite.

    Raises:
        StudyError: as for `write_bytes`.
    """
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    write_bytes(path, f"{text}\n".encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON document that `write_json` wrote.

    Raises:
        StudyError: the file does not exist or is damaged.
    """
    try:
        document = json.loads(path.read_bytes(), parse_constant=_refuse, parse_int=_whole)
    except (OSError, ValueError, RecursionError) as error:
        raise StudyError(f"file ({path}) is missing or damaged ({error}): restore it") from error
    if not isinstance(document, dict):
        raise StudyError(f"file ({path}) is damaged: it must be one JSON object; restore it")
    return document


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:  # a number beyond the range of float would fail later
        raise ValueError(f"{digits[:_MAX_DIGITS]}... is too large")
    return int(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def file_sha256(path: Path) -> str:
    """Hash of a file, in hexadecimal digits.

    Raises:
        StudyError: it cannot be read.
    """
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        reason = reason_of(error)
        raise StudyError(f"file ({path}) cannot be read ({reason}): restore it") from error


def make_folder(path: Path) -> None:
    """Create a folder and its parents.

    Raises:
        StudyError: the file system refuses.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = reason_of(error)
        raise StudyError(f"folder ({path}) cannot be created ({reason}): choose another") from error


class BusyError(StudyError):
    """Another process works in the same folder."""


@contextmanager
def lock(folder: Path, patience: float = 5.0) -> Iterator[None]:
    """Lock a folder for this process; the system releases the lock when the process ends.

    Args:
        folder: created if it does not exist.
        patience: seconds to wait for another process, which may be about to end.

    Raises:
        BusyError: another process holds it.
    """
    make_folder(folder)
    with ExitStack() as held:
        try:
            held.enter_context(lock_folder(folder, patience))
        except BlockingIOError as error:
            raise BusyError(
                f"folder ({folder}) is in use by process {error.strerror}: wait until it ends"
            ) from error
        except OSError as error:
            raise StudyError(
                f"file ({folder / '.lock'}) cannot be opened ({reason_of(error)}): check the folder"
            ) from error
        yield


_NUMBERS = (
    *("parameters", "steps", "selected_step", "validation_loss", "learning_rate"),
    *("seconds", "cpu_seconds", "tokens_seen"),
)


@dataclass(frozen=True, kw_only=True)
class RunKey:
    """One training run: a model and a seed, for the results or to check a learning rate."""

    model: str
    """Name of a model of the plan."""
    seed: int
    """Random seed of the initial weights and of the order of the data."""
    check_rate: float | None = None
    """The candidate learning rate; None unless the run only checks one."""

    @property
    def name(self) -> str:
        """Name of its folder."""
        if self.check_rate is None:
            return f"{self.model}-seed{self.seed}"
        return f"{self.model}-lr{self.check_rate:g}"


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The folder of one study."""

    path: Path
    """Path of the folder."""
    plan: Plan
    """The frozen plan."""
    data_sha256: str | None = None
    """Hash of its stories, in hexadecimal digits; None if unknown."""

    def runs(self) -> tuple[RunKey, ...]:
        """All runs of the plan: seed by seed, so that pairs are complete early."""
        models, seeds = self.plan.models, self.plan.seeds
        return tuple(RunKey(model=model.name, seed=seed) for seed in seeds for model in models)

    def checks(self) -> tuple[RunKey, ...]:
        """The runs that check learning rates, with the first seed."""
        return tuple(
            RunKey(model=model.name, seed=self.plan.seeds[0], check_rate=rate)
            for model in self.plan.models
            if len(model.candidates) > 1
            for rate in model.candidates
        )

    def place(self, run: RunKey) -> Path:
        """The folder of a run."""
        return self.path / ("runs" if run.check_rate is None else "checks") / run.name

    def state(self, run: RunKey) -> Path:
        """The file from which a run resumes."""
        return self.place(run) / "state.safetensors"

    def best(self, run: RunKey) -> Path:
        """The weights of a run's best validation loss."""
        return self.place(run) / "best.safetensors"

    def record(self, run: RunKey) -> dict[str, Any] | None:
        """The record of a run, or None if it is not done.

        Raises:
            StudyError: the record is damaged, or of another plan, of other data or of another run.
        """
        path = self.place(run) / "run.json"
        if not path.exists():
            return None
        record = read_json(path)
        if record.get("plan_sha256") != self.plan.sha256:
            raise StudyError(f"file ({path}) belongs to another plan: use another folder")
        wrong = _wrong(record, run, self.data_sha256)
        if wrong is not None:
            raise StudyError(
                f"file ({path}) {wrong}: restore it, or delete it to train that run again"
            )
        return record

    def write_record(self, run: RunKey, record: Mapping[str, Any]) -> None:
        """Write the record of a finished run and delete its saved state."""
        write_json(self.place(run) / "run.json", record)
        self.state(run).unlink(missing_ok=True)

    def learning_rates(self) -> dict[str, dict[str, Any]]:
        """For each model whose learning rate was checked: candidates, their losses, the choice."""
        found: dict[str, dict[str, Any]] = {}
        for model in self.plan.models:
            if len(model.candidates) > 1:
                losses = self._check_losses(model.name)
                rate = self._chosen(losses)["learning_rate"]
                found[model.name] = {"chosen": rate, "candidates": losses}
        return found

    def learning_rate(self, run: RunKey) -> float:
        """The learning rate of a run.

        Raises:
            StudyError: the runs that choose it are not done.
        """
        candidates = self.plan.model(run.model).candidates
        if run.check_rate is not None:
            return run.check_rate
        if len(candidates) == 1:
            return candidates[0]
        return float(self._chosen(self._check_losses(run.model))["learning_rate"])

    @staticmethod
    def _chosen(losses: list[dict[str, Any]]) -> dict[str, Any]:
        """The candidate with the lowest validation loss; the first of equal ones."""
        finite = [entry for entry in losses if entry["validation_loss"] is not None]
        if not finite:
            rates = ", ".join(f"{entry['learning_rate']:g}" for entry in losses)
            raise StudyError(
                f"learning rates ({rates}) all led to a loss that is not a finite number: "
                "start again in another folder with lower ones"
            )
        return min(finite, key=lambda entry: entry["validation_loss"])

    def _check_losses(self, model: str) -> list[dict[str, Any]]:
        losses = []
        for run in self.checks():
            if run.model == model:
                record = self.record(run)
                if record is None:
                    raise StudyError(f"check ({run.name}) is not done: continue with --resume")
                rate, loss = record["learning_rate"], record["validation_loss"]
                losses.append({"learning_rate": rate, "validation_loss": loss})
        return losses


def _numbers_of(record: Mapping[str, Any], run: RunKey) -> tuple[str, ...]:
    """The fields that must be numbers: a check that diverged has no validation loss."""
    if run.check_rate is not None and record.get("has_diverged") is True:
        return tuple(name for name in _NUMBERS if name != "validation_loss")
    return _NUMBERS


def _wrong(record: Mapping[str, Any], run: RunKey, data_sha256: str | None) -> str | None:
    """What is wrong with a run's record, or None."""
    expected: dict[str, Any] = {"model": run.model, "seed": run.seed}
    if data_sha256 is not None:
        expected["data_sha256"] = data_sha256
    if run.check_rate is not None:
        expected["learning_rate"] = run.check_rate
    for name, value in expected.items():
        if record.get(name) != value:
            return f"has another {name} ({str(record.get(name))[:12]}, expected {str(value)[:12]})"
    for name in _numbers_of(record, run):
        value = record.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return f"is damaged, since {name} must be a number"
    if not isinstance(record.get("sha256"), str) or not isinstance(record.get("trace"), list):
        return "is damaged, since it must have the weights' sha256 and a trace"
    return None


def create_folder(path: Path, plan: Plan, tokenizer: str, facts: Mapping[str, Any]) -> Folder:
    """Start a study: write its plan, the plan's hash, and a description of data and machine.

    Args:
        path: a folder that is empty or does not exist.
        plan: the plan.
        tokenizer: its JSON text.
        facts: content of `study.json` in addition to the plan.

    Raises:
        StudyError: the folder is not empty, or cannot be written.
    """
    make_folder(path)
    clear_parts(path)
    held = [entry.name for entry in path.iterdir() if entry.name != ".lock"]
    if "study.json" in held:
        raise StudyError(
            f"out ({path}) already contains a study: give --resume to continue it, or another "
            "folder"
        )
    if set(held) - {"plan.toml", "tokenizer.json"}:  # files that an interrupted start can leave
        raise StudyError(f"out ({path}) contains other files: give a folder that is empty or new")
    write_bytes(path / "plan.toml", plan.text.encode())
    write_bytes(path / "tokenizer.json", tokenizer.encode())
    document = {"plan": plan.to_dict(), "plan_sha256": plan.sha256, **facts}
    write_json(path / "study.json", document)
    return Folder(path=path, plan=plan)


def open_folder(path: Path, plan: Plan, data_sha256: str) -> Folder:
    """Open an existing study.

    Raises:
        PlanError: it was started with another plan.
        StudyError: it was started with other data, there is no study, or one of the files written
            before the first step was changed.
    """
    document = read_json(path / "study.json")
    if document.get("data_sha256") != data_sha256:
        raise StudyError(
            f"data ({data_sha256[:12]}) are not those that {path} was started with "
            f"({str(document.get('data_sha256'))[:12]}): give the same data, or another folder"
        )
    frozen = document.get("plan_sha256")
    if frozen != plan.sha256:
        raise PlanError(
            f"plan {plan.name} ({plan.sha256[:12]}) is not the one that was frozen in {path} "
            f"({str(frozen)[:12]}): use {path / 'plan.toml'} and the same seeds, or another folder"
        )
    facts = document.get("data")
    if not isinstance(facts, dict) or not isinstance(document.get("environment"), dict):
        raise StudyError(f"file ({path / 'study.json'}) lacks data or environment: restore it")
    for name, digest in (("plan.toml", frozen), ("tokenizer.json", facts.get("tokenizer_sha256"))):
        if file_sha256(path / name) != digest:
            raise StudyError(
                f"file ({path / name}) was changed after the study began: restore it, or start in "
                "another folder"
            )
    return Folder(path=path, plan=plan, data_sha256=data_sha256)
