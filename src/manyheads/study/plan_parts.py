"""The parts of a plan: data, tokeniser, protocol, models, comparisons, each checked by itself."""

import math
from dataclasses import dataclass

from manyheads.core.errors import PlanError

SOURCES = ("stories", "tinystories")
KINDS = ("attention", "fixed-window-mlp")
PATTERNS = ("learned", "uniform", "shared")
DECAYS = ("none", "linear")
OUTPUT_BIASES = ("default", "unigram")
MAX_NAME = 40
MAX_COUNT = 1 << 20
"""The most steps of a run, and the most targets of a step."""


def require(value: object, name: str, holds: bool, rule: str, advice: str) -> None:
    """Raise a PlanError in the house's form unless a rule holds."""
    if not holds:
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        raise PlanError(f"{name} ({shown}) {rule}: {advice}")


def _at_least(owner: object, least: int, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if value is not None:
            require(value, name, value >= least, f"must be at least {least}", "use a larger one")


def _at_most(owner: object, most: int, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if value is not None:
            require(value, name, value <= most, f"must be at most {most}", "use fewer")


def _one_of(owner: object, name: str, allowed: tuple[str, ...]) -> None:
    value = getattr(owner, name)
    require(value, name, value in allowed, "is not known", f"use one of {', '.join(allowed)}")


def _positive(name: str, value: float) -> None:
    require(value, name, 0 < value < math.inf, "must be above 0 and finite", "use such a number")


def is_plain_name(name: str) -> bool:
    """Whether a name is fit for file names: small letters, digits and inner hyphens."""
    return name.isascii() and name.replace("-", "a").isalnum() and name == name.lower().strip("-")


def check_name(kind: str, name: str) -> None:
    """Raise a PlanError unless a name is fit for folders."""
    ok = is_plain_name(name) and 0 < len(name) <= MAX_NAME
    rule = f"must be small letters, digits and hyphens, at most {MAX_NAME}"
    require(name, f"{kind} name", ok, rule, "for instance four-heads")


@dataclass(frozen=True, kw_only=True)
class DataPlan:
    """Where the stories come from."""

    source: str
    """"stories" (our own grammar, generated) or "tinystories" (a file, or the published set)."""
    count: int | None = None
    """The most stories that are used, the first ones; all of a file where it is absent."""
    seed: int = 0
    """What generated stories are drawn from."""

    def __post_init__(self) -> None:
        _one_of(self, "source", SOURCES)
        _at_least(self, 1, "count")
        _at_least(self, 0, "seed")
        needs_count = self.source == "stories" and self.count is None
        require("absent", "count", not needs_count, "is needed for stories", "say how many")


@dataclass(frozen=True, kw_only=True)
class TokenizerPlan:
    """Which words are kept."""

    vocab_size: int = 4000
    """The most words, the four special ones included."""
    min_count: int = 2
    """How often a word must occur in the training split."""

    def __post_init__(self) -> None:
        _at_least(self, 5, "vocab_size")
        _at_least(self, 1, "min_count")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What all models of a study share."""

    steps: int
    """Optimiser steps of a run."""
    validate_every: int
    """Steps between two readings of the validation slice; the last step is always read."""
    save_every: int
    """Steps between two saved states: at most so many are lost when a run is killed."""
    validation_windows: int = 20_000
    """Targets of the fixed validation slice; all of them where there are fewer."""
    context: int = 64
    """T, words that a prediction sees."""
    width: int = 64
    """D, width of a word's row."""
    hidden: int = 256
    """Width of the layer before the vocabulary."""
    batch_targets: int = 512
    """Targets of one step, over all devices."""
    targets_per_window: int = 1
    """n, neighbouring targets that share a window in training."""
    clip: float = 1.0
    """Largest norm of a step's gradient; a longer one is shortened to it."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises to its full value."""
    decay: str = "none"
    """"none", or "linear": after the warm-up the learning rate falls in a line towards 0."""
    eps: float = 1e-8
    """AdamW's epsilon."""
    embedding_scale: float = 1.0
    """Factor on the initial embedding rows."""
    output_bias: str = "default"
    """"default", or "unigram": the output bias begins at the log frequencies of the words."""
    scored_head: int | None = None
    """The most frequent words that each training step scores; absent, each step scores all."""
    scored_tail: float | None = None
    """Chance of each other word to be scored in a training step; given with `scored_head`."""
    analysed_windows: int | None = None
    """Validation windows on which heads are looked at after training; absent, they are not."""
    lr_check_steps: int | None = None
    """Steps of a run that checks a learning rate; all steps where it is absent."""

    def __post_init__(self) -> None:
        _at_least(self, 1, "steps", "validate_every", "save_every", "validation_windows")
        _at_least(self, 1, "context", "width", "hidden", "batch_targets", "targets_per_window")
        _at_least(self, 0, "warmup_steps")
        _at_least(self, 1, "lr_check_steps")
        _at_least(self, 2, "analysed_windows")
        _at_most(self, 64, "targets_per_window")  # the padding between stories is so long
        _at_most(self, MAX_COUNT, "steps", "lr_check_steps", "batch_targets")
        self._check_scored()
        _one_of(self, "decay", DECAYS)
        _one_of(self, "output_bias", OUTPUT_BIASES)
        for name in ("clip", "eps", "embedding_scale"):
            _positive(name, getattr(self, name))
        whole = self.batch_targets % self.targets_per_window == 0
        rule = f"must be a multiple of targets_per_window ({self.targets_per_window})"
        require(self.batch_targets, "batch_targets", whole, rule, "change one of them")
        short = self.warmup_steps < self.steps
        rule = f"must be below steps ({self.steps})"
        require(self.warmup_steps, "warmup_steps", short, rule, "shorten the warm-up")

    def _check_scored(self) -> None:
        head, tail = self.scored_head, self.scored_tail
        both = (head is None) == (tail is None)
        require(f"{head}, {tail}", "scored_head, scored_tail", both, "go together", "give both")
        _at_least(self, 0, "scored_head")
        within = tail is None or 0 <= tail <= 1
        require(tail, "scored_tail", within, "must be from 0 to 1", "it is a chance")


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """One model of a study, or one arm."""

    name: str
    """What reports and folders call it."""
    kind: str
    """"attention" or "fixed-window-mlp"."""
    weight_decay: float
    """AdamW's decoupled weight decay."""
    num_heads: int | None = None
    """H, of an attention model."""
    head_dim: int | None = None
    """d; width / num_heads where it is absent."""
    pattern: str = "learned"
    """"learned", "uniform" (frozen, equal weights) or "shared" (one pattern for all heads)."""
    learning_rate: float | None = None
    """The learning rate, where it is fixed beforehand."""
    learning_rates: tuple[float, ...] = ()
    """Candidates, from which the validation loss of the first seed chooses."""

    def __post_init__(self) -> None:
        check_name("model", self.name)
        _one_of(self, "kind", KINDS)
        _one_of(self, "pattern", PATTERNS)
        _at_least(self, 1, "num_heads", "head_dim")
        self._check_heads()
        decay = self.weight_decay
        require(decay, "weight_decay", 0 <= decay < 1, "must be from 0 to below 1", "lower it")
        given = (self.learning_rate is not None) + bool(self.learning_rates)
        rule = "must be given once, as learning_rate or as learning_rates"
        require(f"{given} times", "learning rate", given == 1, rule, "keep one of them")
        for rate in self.candidates:
            _positive("learning rate", rate)
        shown = [f"{rate:g}" for rate in self.candidates]  # as their folders are named
        distinct = len(set(shown)) == len(shown)
        rule = "names one twice, to six digits"
        require(", ".join(shown), "learning_rates", distinct, rule, "name each once")

    def _check_heads(self) -> None:
        given = self.num_heads is not None
        if self.kind == "attention":
            require("absent", "num_heads", given, "is needed for attention", "say how many")
            return
        extra = given or self.head_dim is not None or self.pattern != "learned"
        rule = "has no heads, so num_heads, head_dim and pattern mean nothing"
        require(self.kind, "kind", not extra, rule, "leave them out")

    @property
    def candidates(self) -> tuple[float, ...]:
        """The learning rates to choose from; one where it is fixed."""
        return self.learning_rates if self.learning_rate is None else (self.learning_rate,)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two models whose difference, first minus second, is read seed by seed."""

    first: str
    """Name of a model."""
    second: str
    """Name of another one."""

    def __post_init__(self) -> None:
        distinct = self.first != self.second
        require(self.first, "second", distinct, "must be another model than first", "name another")
