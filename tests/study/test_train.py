"""One run: its steps are the plain recipe's, written out with torch's own optimiser."""

import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from manyheads.data.windows import DrawnOrder, TrainingOrder, fixed_slice
from manyheads.models.training import Trainable
from manyheads.study.corpus import corpus_for, unigram_bias
from manyheads.study.optimiser import FlatAdamW, learning_rate_at
from manyheads.study.run import run_study
from manyheads.study.state import load_tensors
from manyheads.study.train import VALIDATION_SEED
from tests.study.tiny import tiny

CORPUS = corpus_for(tiny())


def plainly_trained(name: str) -> tuple[list[dict[str, torch.Tensor]], list[float]]:
    """Train as a textbook would: weights and loss at each validation."""
    held = tiny()
    protocol, model_plan = held.protocol, held.model(name)
    trainable = Trainable.create(
        held.config(name, CORPUS.tokenizer.vocab_size),
        seed=3,
        output_bias=unigram_bias(CORPUS),
        dtype=torch.float64,
    )
    model = trainable.model
    model.token_embedding.padding_idx = 0  # so that torch does not train it
    adamw = torch.optim.AdamW(model.parameters(), weight_decay=model_plan.weight_decay)
    order = TrainingOrder(CORPUS.train, batch_targets=24, targets_per_window=3, seed=3)
    where = fixed_slice(CORPUS.validation, 40, seed=VALIDATION_SEED)
    tokens, targets = CORPUS.validation.windows(where)
    weights, losses = [], []
    for step in range(10):
        batch, wanted = order.batch(step)
        adamw.zero_grad()
        windows = batch.unfold(1, 12, 1)  # (B, S) to (B, n, T)
        logits = model(windows.flatten(0, 1))
        F.cross_entropy(logits, wanted.flatten(), ignore_index=0).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), protocol.clip)
        adamw.param_groups[0]["lr"] = learning_rate_at(step, 10, protocol, model_plan.candidates[0])
        adamw.step()
        if step in (3, 7, 9):
            weights.append({key: value.clone() for key, value in model.state_dict().items()})
            with torch.no_grad():
                losses.append(F.cross_entropy(model(tokens), targets[:, 0]).item())
    return weights, losses


@pytest.mark.parametrize("name", ["mlp", "two-heads"])
def test_against_a_textbook_loop_in_float64(name: str, tmp_path: Path) -> None:
    run_study(tiny(), out=tmp_path, only=(f"{name}-seed3",), precision="64-true")
    folder = tmp_path / "runs" / f"{name}-seed3"
    weights, losses = plainly_trained(name)
    trace = json.loads((folder / "run.json").read_text())["trace"]
    assert [entry["validation_loss"] for entry in trace] == pytest.approx(losses, abs=1e-9)
    tensors, facts = load_tensors(folder / "best.safetensors")
    best = losses.index(min(losses))
    assert facts["step"] == (4, 8, 10)[best]
    for key, value in weights[best].items():
        torch.testing.assert_close(tensors[key], value, atol=1e-7, rtol=0)


def test_the_rate_rises_then_falls_towards_0() -> None:
    protocol = tiny().protocol
    rates = [learning_rate_at(step, 10, protocol, 0.8) for step in range(10)]
    assert rates == pytest.approx([0.4, 0.8, *(0.8 * k / 8 for k in range(8, 0, -1))])


def test_the_rate_stays_without_decay() -> None:
    protocol = tiny(('"linear"', '"none"')).protocol
    assert [learning_rate_at(step, 5, protocol, 0.8) for step in range(5)] == [0.4, *[0.8] * 4]


def test_unigram_bias_is_the_log_share_of_each_word() -> None:
    bias = unigram_bias(CORPUS)
    assert bias.exp().sum().item() == pytest.approx(1.0)
    counts: dict[int, int] = {}
    for place in CORPUS.train.positions.tolist():
        word = int(CORPUS.train.windows(torch.tensor([place]))[1])
        counts[word] = counts.get(word, 0) + 1
    often = max(counts, key=lambda word: counts[word])
    total = CORPUS.num_targets["train"] + CORPUS.tokenizer.vocab_size
    assert bias[often].exp().item() == pytest.approx((counts[often] + 1) / total)
    assert bias[0].exp().item() == pytest.approx(1 / total)


PUBLISHED = (
    ("targets_per_window = 3", 'targets_per_window = 1\ndraws = "with-replacement"'),
    ("warmup_steps = 2", 'warmup_steps = 2\ninitial = "linear"\nvalidation_slice = "first"'),
)
"""The tiny plan with the switches of the published protocol."""


def test_the_published_switches_reach_the_run(tmp_path: Path) -> None:
    held = tiny(*PUBLISHED)
    run_study(held, out=tmp_path, only=("two-heads-seed3",))
    record = json.loads((tmp_path / "runs/two-heads-seed3/run.json").read_text())
    corpus, protocol = corpus_for(held), held.protocol
    trainable = Trainable.create(
        held.config("two-heads", corpus.tokenizer.vocab_size),
        seed=3,
        output_bias=unigram_bias(corpus).float(),
        is_linear=True,
    )
    order = DrawnOrder(corpus.train, batch_targets=24, seed=3)
    optimiser = FlatAdamW(trainable.flat, weight_decay=0.01, clip=protocol.clip)
    for step in range(4):
        trainable.grad.zero_()
        trainable.accumulate(*order.batch(step))
        optimiser.step(trainable.grad.div_(24), learning_rate_at(step, 10, protocol, 0.02))
    tokens, targets = corpus.validation.windows(corpus.validation.positions[:40])
    expected = trainable.losses(tokens, targets[:, 0]).double().mean().item()
    assert record["trace"][0]["step"] == 4
    assert record["trace"][0]["validation_loss"] == pytest.approx(expected, abs=1e-6)


def test_a_run_ends_when_its_validation_loss_stays_above_its_best(tmp_path: Path) -> None:
    changes = (
        ("steps = 10", "steps = 60\nstop_after = 8"),
        ('"linear"', '"none"'),
        ("_rate = 0.02", "_rate = 3.0"),
    )
    run_study(tiny(*changes), out=tmp_path, only=("two-heads-seed3",))
    record = json.loads((tmp_path / "runs/two-heads-seed3/run.json").read_text())
    assert record["steps"] == record["selected_step"] + 8 < 60
    assert [entry["step"] for entry in record["trace"]] == list(range(4, record["steps"] + 1, 4))
