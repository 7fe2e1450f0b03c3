"""A study's plan: what is trained, on what, how, and what is compared, fixed before the first step.

A plan is frozen data. Its canonical text is TOML with every value written out; the hash of that
text names the plan, so `sha256sum plan.toml` in a study's folder gives it too. Reading and writing
plans is for `plan_files`, `plan_text` and `plan_toml`.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from manyheads.core.errors import ConfigError, PlanError
from manyheads.models.config import ModelConfig
from manyheads.study.plan_parts import (
    Comparison,
    DataPlan,
    ModelPlan,
    Protocol,
    TokenizerPlan,
    check_name,
    require,
)
from manyheads.study.plan_toml import text_from_document

MAX_PARAMETERS = 1 << 26  # 256 MiB in float32, the most that a model file may have
MAX_SEED = 2**12 - 1  # so that seed and step, or epoch, fit the 32 bits of a generator


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A whole study, frozen."""

    name: str
    """What the study is called."""
    description: str
    """One or two sentences: what is asked, and how."""
    data: DataPlan
    """Where the stories come from."""
    tokenizer: TokenizerPlan
    """Which words are kept."""
    protocol: Protocol
    """What all models share."""
    models: tuple[ModelPlan, ...]
    """What is trained."""
    seeds: tuple[int, ...]
    """Each model is trained once a seed; initial weights and the order of the data follow it."""
    comparisons: tuple[Comparison, ...] = ()
    """Which differences are read."""

    def __post_init__(self) -> None:
        check_name("plan", self.name)
        names = [model.name for model in self.models]
        require(names, "models", bool(names), "must not be empty", "add a [[models]] table")
        distinct = len(set(names)) == len(names)
        require(", ".join(names), "models", distinct, "has a name twice", "rename one of them")
        self._check_seeds()
        self._check_sizes()
        for pair in self.comparisons:
            for name in (pair.first, pair.second):
                advice = f"use two of {', '.join(names)}"
                require(name, "comparison", name in names, "is no model of the plan", advice)

    def _check_seeds(self) -> None:
        shown = ", ".join(map(str, self.seeds))
        distinct = 0 < len(set(self.seeds)) == len(self.seeds)
        require(shown, "seeds", distinct, "must be one or more, each once", "name each once")
        for seed in self.seeds:
            within = 0 <= seed <= MAX_SEED
            require(seed, "seed", within, f"must be from 0 to {MAX_SEED}", "use another number")

    def _check_sizes(self) -> None:
        for model in self.models:
            try:
                count = self.config(model.name).num_parameters
            except ConfigError as error:
                raise PlanError(f"model {model.name}: {error}") from error
            rule = f"must have at most {MAX_PARAMETERS} parameters"
            require(f"{model.name}, {count}", "model", count <= MAX_PARAMETERS, rule, "shrink it")

    @cached_property
    def text(self) -> str:
        """The canonical text: TOML in a fixed order, every value written out."""
        return text_from_document(self.to_dict())

    @cached_property
    def sha256(self) -> str:
        """Hash of the canonical text, in hexadecimal digits."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The comparisons as pairs of names."""
        return tuple((pair.first, pair.second) for pair in self.comparisons)

    def model(self, name: str) -> ModelPlan:
        """The model of a name.

        Raises:
            PlanError: there is none.
        """
        for model in self.models:
            if model.name == name:
                return model
        known = ", ".join(model.name for model in self.models)
        raise PlanError(f"model ({name}) is not in plan {self.name}: use one of {known}")

    def config(self, name: str, vocab_size: int | None = None) -> ModelConfig:
        """Kind and sizes of a model.

        Args:
            name: of a model of the plan.
            vocab_size: V, words that were found; the most that the plan keeps unless given.
        """
        model, protocol = self.model(name), self.protocol
        sizes = {part: getattr(protocol, part) for part in ("context", "width", "hidden")}
        own = ("kind", "num_heads", "head_dim", "pattern")
        return ModelConfig.from_dict(
            {part: getattr(model, part) for part in own}
            | sizes
            | {"vocab_size": vocab_size or self.tokenizer.vocab_size}
        )

    def with_seeds(self, seeds: tuple[int, ...]) -> "Plan":
        """The same study on other seeds: another plan, with another hash."""
        return replace(self, seeds=seeds)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, texts and numbers; absent values are left out."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)
            if field.name != "comparisons" or self.comparisons
        }


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a plan
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "__dataclass_fields__"):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: _plain(entry) for name, entry in pairs if entry not in (None, ())}
    return value
