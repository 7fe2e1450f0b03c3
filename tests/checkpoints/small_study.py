"""A study's folder with small models of three kinds, written by the study's own writer."""

import json
import math
from pathlib import Path
from typing import Any

import torch

from manyheads.checkpoints.shipping import Batches, mean_loss
from manyheads.data.stories import generate_stories
from manyheads.data.windows import Corpus, build_corpus
from manyheads.models.config import ModelConfig
from manyheads.models.training import Trainable
from manyheads.study.state import save_tensors

SEED, CONTEXT = 11, 9
PLAN_SHA256 = "a1" * 32
KINDS: dict[str, dict[str, Any]] = {
    "mlp": {"kind": "fixed-window-mlp"},
    "one-head": {"kind": "attention", "num_heads": 1},
    "four-heads": {"kind": "attention", "num_heads": 4},
}


def small_corpus() -> Corpus:
    """Sixty stories of the package's own grammar."""
    return build_corpus(generate_stories(60, seed=1), vocab_size=60, context=CONTEXT)


def small_batches(corpus: Corpus) -> Batches:
    """Forty windows of the validation split, in two batches."""
    windows = [
        corpus.validation.windows(part) for part in corpus.validation.positions[:40].split(25)
    ]
    return [(tokens, targets[:, 0]) for tokens, targets in windows]


def small_config(name: str, vocab_size: int) -> ModelConfig:
    return ModelConfig(vocab_size=vocab_size, context=CONTEXT, width=8, hidden=6, **KINDS[name])


def write_study(folder: Path, corpus: Corpus) -> None:
    """Write what shipping reads of a finished study."""
    corpus.tokenizer.save(folder / "tokenizer.json")
    runs = [_write_run(folder, name, corpus) for name in KINDS]
    plan = {
        "name": "small",
        "data": {"source": "tinystories"},
        "protocol": {"steps": 4, "context": CONTEXT},
    }
    data = {
        "source": "file stories.jsonl",
        "vocab_size": corpus.tokenizer.vocab_size,
        "num_stories": dict(corpus.num_stories),
        "num_targets": dict(corpus.num_targets),
        "unknown_rates": dict(corpus.unknown_rates),
    }
    results = {
        "plan": plan,
        "plan_sha256": PLAN_SHA256,
        "data_sha256": corpus.sha256,
        "environment": {"torch": torch.__version__},
        "data": data,
        "runs": runs,
    }
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


def _write_run(folder: Path, name: str, corpus: Corpus) -> dict[str, Any]:
    """Write the weights of a run that was never trained, and return its record."""
    config = small_config(name, corpus.tokenizer.vocab_size)
    model = Trainable.create(config, seed=SEED).model
    place = folder / "runs" / f"{name}-seed{SEED}"
    place.mkdir(parents=True)
    facts = {"run": place.name, "config": config.to_dict(), "seed": SEED, "step": 3}
    facts |= {"plan_sha256": PLAN_SHA256, "data_sha256": corpus.sha256}
    facts |= {"tokenizer_sha256": corpus.tokenizer.sha256}
    save_tensors(place / "best.safetensors", model.state_dict(), facts)
    loss = mean_loss(model, small_batches(corpus))
    return {
        "model": name,
        "num_heads": config.num_heads,
        "seed": SEED,
        "parameters": config.num_parameters,
        "steps": 4,
        "selected_step": 3,
        "validation_loss": loss,
        "test_loss": loss + 0.25,
        "test_perplexity": math.exp(loss + 0.25),
        "seconds": 1.5,
        "tokens_seen": 64,
        "trace": [],
    }
