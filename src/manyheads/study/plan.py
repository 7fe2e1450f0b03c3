"""A study's plan: data, tokeniser, protocol, models and comparisons, fixed before the first step.

The canonical text of a plan is TOML with every value written out. The SHA-256 of that text
identifies the plan, so `sha256sum plan.toml` in a study's folder prints it. The built-in plans are
the files in `plans/`.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from manyheads.core.errors import ConfigError, PlanError
from manyheads.core.files import read_file
from manyheads.core.text import brief, quoted
from manyheads.models.config import ModelConfig

MAX_BYTES = 1_000_000
MAX_COUNT = 1 << 20
"""Largest number of steps of a run, and of targets of a step."""
MAX_PARAMETERS = 1 << 26  # 256 MiB in float32, the limit of a model file
MAX_SEED = 2**12 - 1  # so that seed and step, or epoch, fit the 32 bits of a generator
_LARGEST = 2**53  # largest whole number that a float64 represents exactly, and all below it

T = TypeVar("T")
Source = Literal["stories", "tinystories", "file"]
Name = Annotated[str, Field(strict=True, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
Positive = Annotated[int, Field(strict=True, ge=1, le=_LARGEST)]
Natural = Annotated[int, Field(strict=True, ge=0, le=_LARGEST)]
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)]
Seed = Annotated[int, Field(strict=True, ge=0, le=MAX_SEED)]
Real = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True)]
Digest = Annotated[str, Field(strict=True, pattern="^[0-9a-f]{64}$")]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise PlanError(message)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _part(cls: type[T]) -> type[T]:
    """Make a frozen, keyword-only dataclass that raises a one-line PlanError for wrong values."""
    config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
    made: Any = dataclass(frozen=True, kw_only=True, config=config)(cls)
    checked = made.__init__

    def __init__(self: T, **values: Any) -> None:  # noqa: ANN401, N807 - pydantic checks them
        try:
            checked(self, **values)
        except ValidationError as error:
            raise PlanError(_problem(error, made)) from error

    made.__init__ = __init__
    return cast(type[T], made)


@_part
class DataPlan:
    """Where the stories come from."""

    source: Source
    """"stories" (our own grammar, generated), "tinystories" (the published set) or "file"."""
    count: Positive | None = None
    """Maximum number of stories, the first ones; all stories of a file unless given."""
    seed: Natural = 0
    """Random seed of generated stories."""
    split_by: Literal["normalised-text"] | None = None
    """"normalised-text": the split of a story is a hash of its text without case and spacing, and
    the stories of a split are in the order of that hash. The text as it is unless given."""
    sha256: Digest | None = None
    """Hash of the distinct stories; other stories are refused. A study fills it in when it begins,
    so that the hash of its plan identifies the data."""

    def __post_init__(self) -> None:
        needs_count = self.source == "stories" and self.count is None
        _require(not needs_count, "count is missing: say how many stories to generate")


@_part
class TokenizerPlan:
    """Which words the vocabulary has."""

    vocab_size: Annotated[int, Field(strict=True, ge=5, le=_LARGEST)] = 4000
    """Maximum number of words, the four special ones included."""
    min_count: Positive = 2
    """How often a word must occur in the training split."""
    words: Literal["ascii"] | None = None
    """"ascii": a word is `[a-z]+('[a-z]+)?`, a number is `[0-9]+`. Letters of all alphabets unless
    given."""


@_part
class Protocol:
    """What all models of a study share."""

    steps: Count
    """Optimiser steps of a run."""
    validate_every: Positive
    """Steps between two validations; the last step is always validated."""
    save_every: Positive
    """Steps between two saved states: a killed run loses at most this many."""
    validation_windows: Positive = 20_000
    """Targets of the fixed validation slice; all of them where there are fewer."""
    context: Positive = 64
    """T, number of words that a prediction sees."""
    width: Positive = 64
    """D, width of a word's embedding."""
    hidden: Positive = 256
    """Width of the layer before the vocabulary."""
    batch_targets: Count = 512
    """Targets of one step, over all devices."""
    targets_per_window: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    """n, neighbouring targets that share a window in training; at most the padding, 64."""
    clip: Real = 1.0
    """Maximum norm of a step's gradient; a longer one is scaled down to it."""
    warmup_steps: Natural = 0
    """Steps over which the learning rate rises to its full value."""
    decay: Literal["none", "linear"] = "none"
    """"none", or "linear": after the warm-up the learning rate falls linearly towards 0."""
    eps: Real = 1e-8
    """AdamW's epsilon."""
    embedding_scale: Real = 1.0
    """Factor on the initial embeddings."""
    output_bias: Literal["default", "unigram"] = "default"
    """"default", or "unigram": the output bias starts at the log frequencies of the words."""
    scored_head: Natural | None = None
    """Number of most frequent words that each training step scores; all words unless given."""
    scored_tail: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    """Probability of each other word to be scored in a step; given together with `scored_head`."""
    analysed_windows: Annotated[int, Field(strict=True, ge=2, le=_LARGEST)] | None = None
    """Validation windows on which heads are analysed after training; no analysis unless given."""
    lr_check_steps: Count | None = None
    """Steps of a run that checks a learning rate; all steps unless given."""
    draws: Literal["with-replacement"] | None = None
    """"with-replacement": each step draws its targets from the whole training split. Each target
    once per epoch unless given."""
    initial: Literal["linear"] | None = None
    """"linear": W_Q, W_K and W_V start as `nn.Linear` does. Xavier uniform on the stacked matrix,
    as in `nn.MultiheadAttention`, unless given."""
    validation_slice: Literal["first"] | None = None
    """"first": the validation slice is the first targets of the split. A fixed random sample unless
    given."""
    stop_after: Count | None = None
    """Steps without a lower validation loss after which a run ends; it takes all steps unless
    given."""
    labelled_stories: Annotated[int, Field(strict=True, ge=2, le=_LARGEST)] | None = None
    """New generated stories on which labelled words are measured after training, if the data are
    generated stories; no measurement unless given."""

    def __post_init__(self) -> None:
        batch, window = self.batch_targets, self.targets_per_window
        _require(
            batch % window == 0,
            f"batch_targets ({batch}) must be a multiple of targets_per_window ({window}): "
            "change one of them",
        )
        _require(
            self.warmup_steps < self.steps,
            f"warmup_steps ({self.warmup_steps}) must be below steps ({self.steps}): "
            "shorten the warm-up",
        )
        _require(
            self.draws is None or window == 1,
            f"targets_per_window ({window}) must be 1 if draws is {self.draws}: change one of them",
        )
        _require(
            (self.scored_head is None) == (self.scored_tail is None),
            f"scored_head ({self.scored_head}) and scored_tail ({self.scored_tail}) must be given "
            "together: add or remove one",
        )


@_part
class ModelPlan:
    """One model of a study."""

    name: Name
    """Name in reports and folders."""
    kind: Literal["attention", "fixed-window-mlp"]
    """"attention" or "fixed-window-mlp"."""
    weight_decay: Annotated[float, Field(strict=True, ge=0, lt=1)]
    """AdamW's decoupled weight decay."""
    num_heads: Positive | None = None
    """H, of an attention model."""
    head_dim: Positive | None = None
    """d; width / num_heads unless given."""
    pattern: Literal["learned", "uniform", "shared"] = "learned"
    """"learned", "uniform" (frozen, equal weights) or "shared" (one pattern for all heads)."""
    learning_rate: Real | None = None
    """The learning rate, if it is fixed in the plan."""
    learning_rates: tuple[Real, ...] = ()
    """Candidates; the validation loss of the first seed chooses one."""

    def __post_init__(self) -> None:
        has_heads = self.num_heads is not None
        if self.kind == "attention":
            _require(has_heads, "num_heads is missing: an attention model needs it")
        else:
            given = has_heads or self.head_dim is not None or self.pattern != "learned"
            rule = f"kind ({self.kind}) has no heads: remove num_heads, head_dim and pattern"
            _require(not given, rule)
        _require(
            (self.learning_rate is None) == bool(self.learning_rates),
            "learning_rate or learning_rates must be given, and not both: keep one of them",
        )
        shown = [f"{rate:g}" for rate in self.candidates]  # the names of their folders
        _require(
            len(set(shown)) == len(shown),
            f"learning_rates ({', '.join(shown)}) has equal values, to six digits: remove one",
        )

    @property
    def candidates(self) -> tuple[float, ...]:
        """The learning rates to choose from; one where it is fixed."""
        return self.learning_rates if self.learning_rate is None else (self.learning_rate,)


@_part
class Comparison:
    """Two models whose difference, first minus second, is computed per seed."""

    first: Name
    """Name of a model."""
    second: Name
    """Name of another one."""

    def __post_init__(self) -> None:
        rule = f"second ({self.second}) must be another model than first: name another"
        _require(self.first != self.second, rule)


@_part
class Plan:
    """A whole study, frozen."""

    name: Name
    """Name of the study."""
    description: Text
    """The question, and how the study answers it, in one or two sentences."""
    data: DataPlan
    """Where the stories come from."""
    tokenizer: TokenizerPlan
    """Which words the vocabulary has."""
    protocol: Protocol
    """What all models share."""
    models: tuple[ModelPlan, ...]
    """The models to train."""
    seeds: tuple[Seed, ...]
    """Each model is trained once per seed, which sets initial weights and the order of the data."""
    comparisons: tuple[Comparison, ...] = ()
    """Which differences are computed."""

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        shown = ", ".join(names)
        _require(bool(names), "models must not be empty: add a [[models]] table")
        _require(len(set(names)) == len(names), f"models ({shown}) has a name twice: rename one")
        seeds = ", ".join(map(str, self.seeds))
        distinct = 0 < len(set(self.seeds)) == len(self.seeds)
        _require(distinct, f"seeds ({seeds}) must be one or more, all different: change the list")
        for model in self.models:
            self._check_size(model.name)
        for pair in self.comparisons:
            for name in (pair.first, pair.second):
                known = name in names
                _require(known, f"comparison ({name}) is not a model of the plan: use {shown}")

    def _check_size(self, name: str) -> None:
        try:
            count = self.config(name).num_parameters
        except ConfigError as error:
            raise PlanError(f"model {name}: {error}") from error
        rule = f"model ({name}) has {count} parameters, and the limit is {MAX_PARAMETERS}"
        _require(count <= MAX_PARAMETERS, f"{rule}: use smaller sizes")

    @cached_property
    def text(self) -> str:
        """The canonical text: TOML in a fixed order, every value written out."""
        return _toml(self.to_dict())

    @cached_property
    def sha256(self) -> str:
        """Hash of the canonical text, in hexadecimal digits."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The comparisons as pairs of names."""
        return tuple((pair.first, pair.second) for pair in self.comparisons)

    def model(self, name: str) -> ModelPlan:
        """The model of this name.

        Raises:
            PlanError: the plan has no such model.
        """
        for model in self.models:
            if model.name == name:
                return model
        known = ", ".join(model.name for model in self.models)
        raise PlanError(f"model ({brief(name)}) is not in plan {self.name}: use {known}")

    def config(self, name: str, vocab_size: int | None = None) -> ModelConfig:
        """Kind and sizes of a model.

        Args:
            name: name of a model of the plan.
            vocab_size: V, number of words found; the plan's maximum unless given.
        """
        model, protocol = self.model(name), self.protocol
        sizes = {part: getattr(protocol, part) for part in ("context", "width", "hidden")}
        own = ("kind", "num_heads", "head_dim", "pattern")
        return ModelConfig.from_dict(
            {part: getattr(model, part) for part in own}
            | sizes
            | {"vocab_size": vocab_size or self.tokenizer.vocab_size}
        )

    def with_data(self, source: Source, sha256: str) -> "Plan":
        """The same study on these stories: another plan, with another hash.

        Args:
            source: as in `DataPlan`.
            sha256: hash of the distinct stories, `Corpus.sha256`.
        """
        return replace(self, data=replace(self.data, source=source, sha256=sha256))

    def with_seeds(self, seeds: tuple[int, ...]) -> "Plan":
        """The same study with other seeds: another plan, with another hash."""
        return replace(self, seeds=seeds)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, texts and numbers; absent values are left out."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)
            if field.name != "comparisons" or self.comparisons
        }


def plan_names() -> tuple[str, ...]:
    """Names of the built-in plans, in alphabetical order."""
    found = (Path(entry.name) for entry in (files("manyheads.study") / "plans").iterdir())
    return tuple(sorted(path.stem for path in found if path.suffix == ".toml"))


def plan(name_or_path: str | Path) -> Plan:
    """Read a plan.

    Args:
        name_or_path: a built-in name (see `plan_names`), or the path of a TOML or JSON file.

    Raises:
        PlanError: the plan does not exist or is not valid; the message names file and key.
    """
    text = str(name_or_path)
    if text in plan_names():
        return plan_from_text((files("manyheads.study") / "plans" / f"{text}.toml").read_text())
    path, shown = Path(name_or_path), brief(text, 300)
    if path.suffix not in (".toml", ".json") and not os.path.isfile(path):
        known = ", ".join(plan_names())
        raise PlanError(f"plan ({shown}) is not known: use {known}, or a .toml or .json file")
    content = _content(path, shown)
    try:
        return plan_from_text(content, is_json=path.suffix == ".json")
    except PlanError as error:
        raise PlanError(f"file ({shown}): {error}") from error


def plan_from_text(text: str, *, is_json: bool = False) -> Plan:
    """Read a plan from the text of a TOML or JSON file.

    Raises:
        PlanError: the text is damaged, a key is unknown or missing, or a value breaks a rule.
    """
    form = "JSON" if is_json else "TOML"
    try:
        document = json.loads(text) if is_json else tomllib.loads(text)
    except RecursionError as error:
        raise PlanError(f"plan is not {form} (nested too deeply): see docs/studies.md") from error
    except ValueError as error:
        raise PlanError(f"plan is not {form} ({brief(str(error))}): fix it there") from error
    try:
        return TypeAdapter(Plan).validate_python(document)
    except ValidationError as error:
        raise PlanError(_problem(error, Plan)) from error


def _content(path: Path, shown: str) -> str:
    try:
        data = read_file(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanError(f"file ({shown}) cannot be opened ({reason}): check its name") from error
    if len(data) > MAX_BYTES:
        raise PlanError(f"file ({shown}) has more than {MAX_BYTES:,} bytes: give a plan file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanError(f"file ({shown}) is not UTF-8: save it as UTF-8") from error


_REMEDIES = {
    "missing": "is missing: add it",
    "int_type": "must be a whole number: write one",
    "float_type": "must be a number: write one",
    "finite_number": "must be a finite number: write one",
    "string_type": "must be text: write it in quotes",
    "tuple_type": "must be a list: write [...]",
    "dataclass_type": "must be a table: write its keys and values",
    "literal_error": "is not known: use {expected}",
    "greater_than_equal": "must be at least {ge}: use a larger value",
    "greater_than": "must be above {gt}: use a larger value",
    "less_than_equal": "must be at most {le}: use a smaller value",
    "less_than": "must be below {lt}: use a smaller value",
    "string_pattern_mismatch": "must match {pattern}: change it",
    "string_too_long": "must have at most {max_length} characters: shorten it",
}
"""For each type of pydantic error, what is wrong and what to do."""


def _problem(error: ValidationError, whole: type) -> str:
    """The first error in one line: its place, value, rule and remedy; unknown keys come first."""
    unknown = "unexpected_keyword_argument"
    found = sorted(error.errors(include_url=False), key=lambda each: each["type"] != unknown)[0]
    kind, where = found["type"], _place(found["loc"])
    if kind == unknown:
        return f"{where} is not a key of a plan: use {', '.join(_keys(whole, found['loc']))}"
    if kind == "value_error":  # one of the rules above
        return ": ".join(filter(None, (where, str(found["ctx"]["error"]))))
    rule = _REMEDIES.get(kind, f"breaks a rule ({found['msg']}): change it")
    value = "" if kind == "missing" else f" ({quoted(found['input'])})"
    return f"{where or 'plan'}{value} {rule.format(**found.get('ctx', {}))}"


def _place(loc: tuple[int | str, ...]) -> str:
    """A place such as `models[0].name`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in loc).lstrip(".")


def _keys(whole: type, loc: tuple[int | str, ...]) -> list[str]:
    """The keys of the table in which an unknown key was found."""
    parts = {"data": DataPlan, "tokenizer": TokenizerPlan, "protocol": Protocol}
    parts |= {"models": ModelPlan, "comparisons": Comparison}
    kind = parts[str(loc[0])] if len(loc) > 1 else whole
    return [field.name for field in fields(kind)]


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a plan
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "__dataclass_fields__"):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: _plain(entry) for name, entry in pairs if entry not in (None, ())}
    return value


def _toml(document: Mapping[str, Any]) -> str:
    """The canonical text of a result of `Plan.to_dict`."""
    lines = [f"{key} = {_value(document[key])}" for key in ("name", "description", "seeds")]
    for key in ("data", "tokenizer", "protocol"):
        lines += ["", f"[{key}]", *_entries(document[key])]
    for key in ("models", "comparisons"):
        for table in document.get(key, []):
            lines += ["", f"[[{key}]]", *_entries(table)]
    return "\n".join(lines) + "\n"


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:  # noqa: ANN401 - a text, a number or a list of numbers
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
