"""The frozen protocol's training step against the plain recipe: `python -m benchmarks.training`.

First the gradients of one batch are compared in float64, and the losses of both as they train on
the same batches in float32; then their steps are timed by turns. Stories come from --data FILE, or
from the package's own grammar.
"""

import argparse
from itertools import count
from pathlib import Path

import torch

from benchmarks.plain_recipe import PlainRecipe
from benchmarks.timing import Calls, Settings, print_setting, report
from manyheads.data.stories import generate_stories
from manyheads.data.text import read_stories
from manyheads.data.windows import Corpus, TrainingOrder, build_corpus
from manyheads.models.config import ModelConfig
from manyheads.models.training import Trainable
from manyheads.study.optimiser import FlatAdamW

MODELS = {
    "four heads": (ModelConfig(kind="attention", num_heads=4), 0.003, 0.001),
    "one head": (ModelConfig(kind="attention", num_heads=1), 0.003, 0.001),
    "MLP": (ModelConfig(kind="fixed-window-mlp"), 0.001, 0.0001),
}
TOLERANCE = 1e-10  # of gradients in float64, relative to the largest


class OurRecipe:
    """The study's own step on a flat row."""

    def __init__(self, trainable: Trainable, learning_rate: float, weight_decay: float) -> None:
        self.trainable, self.learning_rate = trainable, learning_rate
        self.optimiser = FlatAdamW(trainable.flat, weight_decay=weight_decay)

    def step(self, tokens: torch.Tensor, targets: torch.Tensor) -> float:
        """Train on windows with targets; the mean loss before the step, in nats."""
        self.trainable.grad.zero_()
        loss = self.trainable.accumulate(tokens, targets).item() / len(targets)
        self.optimiser.step(self.trainable.grad.div_(len(targets)), self.learning_rate)
        return float(loss)


def main() -> None:
    """Print the largest difference of losses, then medians and ratios of steps."""
    parser = argparse.ArgumentParser(description="a training step against the plain recipe")
    parser.add_argument("--data", type=Path, help="a file of stories")
    parser.add_argument("--steps", type=int, default=100, help="steps that are compared (100)")
    parser.add_argument("--repeats", type=int, default=25, help="rounds (25)")
    parser.add_argument("--quick", action="store_true", help="few steps, few stories")
    given = parser.parse_args()
    settings = Settings(repeats=3 if given.quick else given.repeats)
    print_setting(settings)
    amount = 300 if given.quick else 2000
    stories = read_stories(given.data) if given.data else generate_stories(amount, seed=1)
    corpus = build_corpus(stories)
    for name in MODELS:
        _compare(name, corpus, 3 if given.quick else given.steps, settings)


def _compare(name: str, corpus: Corpus, steps: int, settings: Settings) -> None:
    config, learning_rate, weight_decay = MODELS[name]
    config = ModelConfig.from_dict(
        config.to_dict() | {"vocab_size": max(corpus.tokenizer.vocab_size, 4000)}
    )
    order = TrainingOrder(corpus.train, batch_targets=512, targets_per_window=1, seed=11)
    gap = _gradient_gap(config, order)
    if gap > TOLERANCE:
        raise SystemExit(f"{name}: gradients differ by {gap:.1e}, allowed {TOLERANCE:.0e}")
    held = Trainable.create(config, seed=11)
    plain = PlainRecipe(held.model, learning_rate=learning_rate, weight_decay=weight_decay)
    ours = OurRecipe(held, learning_rate, weight_decay)
    gaps = []
    for step in range(steps):
        batch = order.batch(step)
        gaps.append(abs(ours.step(*batch) - plain.step(*batch)))
    print(f"\n{name}: gradients in float64 differ by {gap:.1e} of the largest")
    print(f"losses of {steps} steps in float32 differ by at most {max(gaps):.1e} nats")
    report(f"{name}, one step of 512 windows", _calls(ours, plain, order, steps), settings)


def _gradient_gap(config: ModelConfig, order: TrainingOrder) -> float:
    """The largest difference of any gradient, relative to the largest gradient."""
    held = Trainable.create(config, seed=11, dtype=torch.float64)
    plain = PlainRecipe(held.model, learning_rate=0.0, weight_decay=0.0)
    tokens, targets = (part[:64] for part in order.batch(0))
    held.accumulate(tokens, targets)
    plain.model.double()
    loss = torch.nn.functional.cross_entropy(plain.model(tokens), targets[:, 0], reduction="sum")
    loss.backward()
    theirs = torch.cat([part.grad.flatten() for part in plain.model.parameters()])
    return float((held.grad - theirs).abs().max() / theirs.abs().max())


def _calls(ours: OurRecipe, plain: PlainRecipe, order: TrainingOrder, steps: int) -> Calls:
    turns = {"manyheads": count(steps), "plain recipe": count(steps)}
    return {
        "manyheads": lambda: ours.step(*order.batch(next(turns["manyheads"]))),
        "plain recipe": lambda: plain.step(*order.batch(next(turns["plain recipe"]))),
    }


if __name__ == "__main__":
    main()
