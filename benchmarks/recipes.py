"""The own recipe against the plain one, from scratch: `python -m benchmarks.recipes --data FILE`.

The plain recipe trains four heads for 1,500 steps of 512 targets. Then the own recipe is timed to
the same validation loss, and trained on as many targets. CPU seconds of training alone are counted.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.plain_recipe import PlainRecipe
from benchmarks.timing import Settings, print_setting
from manyheads.data.stories import generate_stories
from manyheads.data.text import read_stories
from manyheads.data.windows import Corpus, TrainingOrder, build_corpus, fixed_slice
from manyheads.models.training import Trainable
from manyheads.models.training_step import CandidateSampler
from manyheads.study.corpus import target_counts, unigram_bias
from manyheads.study.optimiser import FlatAdamW, learning_rate_at
from manyheads.study.plan import Plan, plan

SEED = 11
SOONER = {"steps": 400, "warmup_steps": 30}  # a schedule that ends where the plain recipe ends
SOONER_RATE = 0.02


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The cost and the result of a recipe."""

    seconds: float
    """CPU seconds of all training steps, batches included."""
    loss: float
    """Validation loss, nats."""


def main() -> None:
    """Print three lines: the plain recipe, the own one to the same loss, and on as many targets."""
    parser = argparse.ArgumentParser(description="the own recipe against the plain one")
    parser.add_argument("--data", type=Path, help="a file of stories")
    parser.add_argument("--quick", action="store_true", help="few steps: does it work at all?")
    given = parser.parse_args()
    print_setting(Settings(repeats=1))
    stories = read_stories(given.data) if given.data else generate_stories(2000, seed=1)
    corpus = build_corpus(stories)
    steps, sooner = (6, 4) if given.quick else (1500, SOONER["steps"])
    plain = _plain(corpus, steps)
    print(f"plain recipe, {steps} steps: {plain.seconds:.1f} s, {plain.loss:.4f} nats")
    own = plan("own-recipe")
    quick = replace(
        own.protocol, steps=sooner, warmup_steps=min(SOONER["warmup_steps"], sooner - 1)
    )
    soon = _own(corpus, replace(own, protocol=quick), SOONER_RATE)
    print(
        f"own recipe, {sooner} steps: {soon.seconds:.1f} s, {soon.loss:.4f} nats; "
        f"{plain.seconds / soon.seconds:.1f} times less CPU time, "
        f"{plain.loss - soon.loss:+.4f} nats lower"
    )
    full = replace(
        own.protocol, steps=steps, warmup_steps=min(own.protocol.warmup_steps, steps - 1)
    )
    rate = own.model("four-heads").learning_rate
    long = _own(corpus, replace(own, protocol=full), rate or SOONER_RATE)
    print(
        f"own recipe, {steps} steps: {long.seconds:.1f} s, {long.loss:.4f} nats; "
        f"{plain.loss - long.loss:+.4f} nats lower"
    )


def _plain(corpus: Corpus, steps: int) -> Outcome:
    begun = plan("three-models")
    model = begun.model("four-heads")
    held = Trainable.create(begun.config("four-heads", corpus.tokenizer.vocab_size), seed=SEED)
    rate, decay = model.learning_rate or 0.0, model.weight_decay
    recipe = PlainRecipe(held.model, learning_rate=rate, weight_decay=decay)
    order = TrainingOrder(corpus.train, batch_targets=512, targets_per_window=1, seed=SEED)
    seconds = _timed(steps, lambda step: recipe.step(*order.batch(step)))
    recipe.model.eval()
    return Outcome(seconds=seconds, loss=_validation(corpus, recipe.model))


def _own(corpus: Corpus, chosen: Plan, peak: float) -> Outcome:
    begun = time.process_time()
    protocol, model = chosen.protocol, chosen.model("four-heads")
    held = Trainable.create(
        chosen.config("four-heads", corpus.tokenizer.vocab_size),
        seed=SEED,
        embedding_scale=protocol.embedding_scale,
        output_bias=unigram_bias(corpus).float(),
    )
    optimiser = FlatAdamW(held.flat, weight_decay=model.weight_decay, eps=protocol.eps)
    sampler = CandidateSampler(
        counts=target_counts(corpus),
        head=protocol.scored_head or 0,
        tail=protocol.scored_tail or 0.0,
        seed=SEED,
    )
    order = TrainingOrder(
        corpus.train,
        batch_targets=protocol.batch_targets,
        targets_per_window=protocol.targets_per_window,
        seed=SEED,
    )

    def step(number: int) -> None:
        tokens, targets = order.batch(number)
        held.grad.zero_()
        held.accumulate(tokens, targets, sampler.choose(number, targets))
        held.grad.div_(int((targets != 0).sum()))
        optimiser.step(held.grad, learning_rate_at(number, protocol.steps, protocol, peak))

    prepared = time.process_time() - begun
    seconds = prepared + _timed(protocol.steps, step)
    return Outcome(seconds=seconds, loss=_validation(corpus, held.model))


def _timed(steps: int, step: Callable[[int], object]) -> float:
    begun = time.process_time()
    for number in range(steps):
        step(number)
    return time.process_time() - begun


def _validation(corpus: Corpus, model: Callable[[Tensor], Tensor]) -> float:
    total, places = 0.0, fixed_slice(corpus.validation, 20_000, seed=0)
    with torch.no_grad():
        for part in places.split(512):
            tokens, targets = corpus.validation.windows(part)
            total += float(
                torch.nn.functional.cross_entropy(model(tokens), targets[:, 0], reduction="sum")
            )
    return total / len(places)


if __name__ == "__main__":
    main()
