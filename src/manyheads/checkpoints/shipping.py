"""From a finished study to the models that the package carries: float16, measured, with their card.

The study is read from its files: `results.json`, `tokenizer.json` and each run's best weights.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.checkpoints.files import (
    ModelFile,
    read_model,
    read_whole,
    write_model,
    write_model_file,
)
from manyheads.checkpoints.model_card import CARD, card_from_index
from manyheads.checkpoints.shipped import (
    INDEX,
    INDEX_FORMAT,
    MAX_JSON_BYTES,
    TOKENIZER,
    tokenizer_sha256,
)
from manyheads.core.errors import CheckpointError

MAX_SIZES = {"attention": 3_000_000, "fixed-window-mlp": 5_000_000}
"""The most bytes that a shipped model of each kind may have."""
ALLOWED_GAP = 1e-3
"""How far a loss measured anew may be from the study's own, in nats; rounding gives about 1e-6."""
Batches = Sequence[tuple[Tensor, Tensor]]
"""Windows and their targets, int64; batches may differ in length."""
_COPIED = ("num_heads", "parameters", "seed", "steps", "selected_step", "tokens_seen", "seconds")


def ship(study: Path, out: Path, *, seed: int, batches: Batches) -> dict[str, Any]:
    """Write every model of one seed as float16, the tokeniser, the list of models and their card.

    Args:
        study: folder of a finished study.
        out: the folder to write into; files of the same names are replaced once all are made.
        seed: whose runs are taken.
        batches: windows (B, T) and targets (B,) of the study's validation slice.

    Returns:
        what `models.json` holds.

    Raises:
        CheckpointError: a file is missing, damaged or of another study, the losses measured are not
            those of the study, or a model is too large.
    """
    results = _results(study)
    runs = [run for run in results["runs"] if run["seed"] == seed]
    if not runs:
        seeds = ", ".join(str(s) for s in sorted({run["seed"] for run in results["runs"]}))
        raise CheckpointError(f"seed ({seed}) has no runs in {study}: use one of {seeds}")
    words = read_whole(study / TOKENIZER, MAX_JSON_BYTES)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".ship.") as name:
        draft = Path(name)
        models = {}
        for run in runs:
            original = _original(study, run, tokenizer_sha256(words.decode("utf-8")))
            models[run["model"]] = _model(run, original, draft, batches)
        index = _index(results, seed, words, models)
        write_model_file(draft / TOKENIZER, words)
        write_model_file(draft / CARD, card_from_index(index).encode())
        text = json.dumps(index, indent=1, allow_nan=False, ensure_ascii=False)
        write_model_file(draft / INDEX, f"{text}\n".encode())
        order = sorted(draft.iterdir(), key=lambda path: path.name == INDEX)  # the list comes last
        for path in order:
            path.replace(out / path.name)
    return index


@torch.no_grad()
def mean_loss(model: nn.Module, batches: Batches) -> float:
    """The mean cross-entropy of a model, in nats a target.

    Args:
        model: called with windows (B, T) for logits (B, V).
        batches: windows (B, T) and targets (B,).
    """
    total, count = 0.0, 0
    for tokens, targets in batches:
        total += float(F.cross_entropy(model(tokens), targets, reduction="sum"))
        count += len(targets)
    return total / count


def _original(study: Path, run: Mapping[str, Any], words_sha256: str) -> ModelFile:
    """The weights of a run's best validation loss, as the study keeps them."""
    path = study / "runs" / f"{run['model']}-seed{run['seed']}" / "best.safetensors"
    original = read_model(path)
    if original.facts.get("tokenizer_sha256") != words_sha256:
        raise CheckpointError(
            f"file ({study / TOKENIZER}) is not the tokenizer that {path} was trained with: "
            "restore it"
        )
    return original


def _model(
    run: Mapping[str, Any], original: ModelFile, draft: Path, batches: Batches
) -> dict[str, Any]:
    """Write one model as float16, measure both, and say what is known of it."""
    exact = mean_loss(original.model, batches)
    if not abs(exact - run["validation_loss"]) <= ALLOWED_GAP:
        raise CheckpointError(
            f"{run['model']}: validation loss ({exact:.4f}) must be the study's "
            f"{run['validation_loss']:.4f}: give the data and the folder of that study"
        )
    name = f"{run['model']}.safetensors"
    known = ("plan_sha256", "data_sha256", "tokenizer_sha256")
    facts = {key: original.facts.get(key) for key in known}
    facts |= {"run": f"{run['model']}-seed{run['seed']}", "seed": run["seed"]}
    write_model(draft / name, original.model, facts=facts, dtype=torch.float16)
    halved = read_model(draft / name)
    limit = MAX_SIZES[original.config.kind]
    if halved.size >= limit:
        raise CheckpointError(
            f"{name} ({halved.size:,} bytes) must be smaller than {limit:,}: ship a smaller model"
        )
    return {
        "file": name,
        "sha256": halved.sha256,
        "size": halved.size,
        "dtype": "float16",
        "config": original.config.to_dict(),
        **{key: run[key] for key in _COPIED},
        "validation_loss": exact,
        "validation_loss_float16": mean_loss(halved.model, batches),
        "test_loss": run["test_loss"],
        "test_perplexity": math.exp(run["test_loss"]),
    }


def _index(
    results: Mapping[str, Any], seed: int, words: bytes, models: Mapping[str, Any]
) -> dict[str, Any]:
    plan = results["plan"]
    study = {
        "plan": plan["name"],
        "plan_sha256": results["plan_sha256"],
        "data_sha256": results["data_sha256"],
        "seed": seed,
        "protocol": plan["protocol"],
        "data": {**results["data"], "kind": plan["data"]["source"]},
        "environment": results["environment"],
    }
    tokenizer = {
        "file": TOKENIZER,
        "sha256": hashlib.sha256(words).hexdigest(),
        "size": len(words),
        "vocab_size": results["data"]["vocab_size"],
    }
    return {"format": INDEX_FORMAT, "study": study, "tokenizer": tokenizer, "models": dict(models)}


def _results(study: Path) -> dict[str, Any]:
    """A study's results, with everything in them that is used here."""
    path = study / "results.json"
    needed = {"plan", "plan_sha256", "data_sha256", "environment", "data", "runs"}
    needed_of_run = {*_COPIED, "model", "validation_loss", "test_loss"}
    try:
        results = json.loads(read_whole(path, MAX_JSON_BYTES))
        missing = needed - set(results)
        for run in results.get("runs", []):
            missing |= needed_of_run - set(run)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"file ({path}) is damaged ({error}): restore it") from error
    if missing:
        raise CheckpointError(
            f"file ({path}) lacks {', '.join(sorted(missing))}: give the folder of a finished study"
        )
    assert isinstance(results, dict)
    return results
