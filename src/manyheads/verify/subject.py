"""A subject: an attention module or function, and what its author declares about it.

Each field has its rule for subject files, which `subject_files` reads with pydantic. This module
does not load pydantic.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

from manyheads.core.config import Rotary, RotaryStyle
from manyheads.core.errors import ConfigError, SubjectError
from manyheads.core.variants import RotaryScaling

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from manyheads.attention.problem import RowNorm
    from manyheads.verify.origins import Found

FORMS = ("self", "cross", "qkv", "heads", "cache", "static_cache")
LAYOUTS = ("BTE", "TBE", "BET")
AXES = ("BS", "TS", "BTS", "B1TS", "(BH)TS", "B")
CONVENTIONS: dict[str, Callable[["Tensor", "torch.dtype"], "Tensor"]] = {
    "allowed": lambda allowed, dtype: allowed.clone(),
    "blocked": lambda allowed, dtype: ~allowed,
    "additive": lambda allowed, dtype: allowed.to(dtype).log(),  # 0 and -inf
    "one_zero": lambda allowed, dtype: allowed.to(dtype),
    "lengths": lambda allowed, dtype: allowed.sum(-1),
    "documents": lambda allowed, dtype: allowed.int().argmax(-1),
}
"""How a callee takes a mask: each makes its argument from a mask where True = may attend."""
RETURNS = ("out", "out,weights", "out,cache")
WEIGHTS_AXES = ("BHTS", "BTS")
FULLY_MASKED = ("zero", "unspecified")
ARRANGEMENTS = (
    *("separate", "packed", "packed_per_head", "packed_kv", "per_head_modules"),
    *("per_head_tensors", "in_out", "head_minor", "conv1x1", "slices", "mha", "args", "identity"),
)


class NoSubjectError(SubjectError):
    """The declaration names something that does not exist or is impossible."""


@dataclass(frozen=True, eq=False)
class Rule:
    """How a field is read from a file: the limits of its type, and the message of an error."""

    text: str
    """What the value must be, and what to do."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Limits by the names of pydantic's core schema, such as `ge`."""
    options: tuple[str, ...] = ()
    """The values that are allowed; empty for any."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - pydantic's own
        """The schema of the field, with our message instead of pydantic's."""
        from pydantic_core import core_schema

        schema = {**handler(source), "strict": True, **self.limits}
        if self.options:
            schema = dict(core_schema.literal_schema(list(self.options)))
        return core_schema.custom_error_schema(
            schema,
            custom_error_type="rule",
            custom_error_message=self.text,
        )


def one_of(*options: str) -> Rule:
    """One of some words."""
    return Rule(f"is not known: use one of {', '.join(options)}", options=options)


Count = Annotated[
    int,
    Rule(
        "must be a whole number from 1 to 65536: use a number such as 8",
        {"ge": 1, "le": 1 << 16},
    ),
]
Number = Annotated[
    float,
    Rule(
        "must be a finite number that is not negative: use a number such as 0.5",
        {"ge": 0.0, "allow_inf_nan": False},
    ),
]
Name = Annotated[str, Rule('must be text: write a name such as "mask"', {"min_length": 1})]


@dataclass(frozen=True, kw_only=True)
class MaskSpec:
    """One mask argument of the subject."""

    arg: Name
    """Its keyword."""
    axes: Annotated[str, one_of(*AXES)]
    """BS, TS, BTS, B1TS, (BH)TS (sample-major) or B (with lengths)."""
    convention: Annotated[str, one_of(*CONVENTIONS)]
    """A name in `CONVENTIONS`."""


class _AsScaling:
    """Reads the settings of `RotaryScaling`, whose own checks say what is wrong."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's own
        from pydantic_core import core_schema

        form = core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())
        return core_schema.no_info_after_validator_function(self.read, form)

    def read(self, value: Mapping[str, Any]) -> RotaryScaling:
        """Settings by name, as in a subject file."""
        known = {f.name for f in fields(RotaryScaling)}
        odd = [name for name in value if name not in known]
        if odd or not {"type", "factor"} <= value.keys():
            wrong = f"{odd[0]} is not known" if odd else "type and factor are needed"
            raise ValueError(f"{wrong}: use {', '.join(sorted(known))}")
        try:
            return RotaryScaling(**value)
        except ConfigError as error:
            raise ValueError(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class PositionForm:
    """How a file declares positions."""

    type: Annotated[str, one_of("rope", "alibi")]
    """Rotary positions, or linear bias."""
    style: Annotated[str, one_of(*get_args(RotaryStyle))] = "half"
    """Pairing of channels."""
    base: Number = 10000.0
    """Base of the angles."""
    rotary_dim: Count | None = None
    """Channels of each head that are rotated; None rotates all."""
    dim: Count | None = None
    """The same, as `Rotary` names it."""
    scaling: Annotated[RotaryScaling, _AsScaling()] | None = None
    """How frequencies are changed for longer inputs."""
    magnitude: Number = 1.0
    """Factor of cosine and sine."""
    frequencies: tuple[Number, ...] | None = None
    """Radians per position of each channel pair, in place of those of the base."""
    tables: Any = None
    """How cosines and sines are given as arguments; any value, the check finds it by trial."""

    def read(self) -> Rotary | str:
        """What a `Spec` holds."""
        if self.type == "alibi":
            return "alibi"
        return Rotary(
            style=cast("RotaryStyle", self.style),
            base=self.base,
            dim=self.rotary_dim or self.dim,
            scaling=self.scaling,
            magnitude=self.magnitude,
            frequencies=self.frequencies,
        )


@dataclass(frozen=True, kw_only=True)
class NormForm:
    """How a file declares norms of queries and keys."""

    type: Annotated[str, one_of("rms", "layer")]
    """Root mean square, or with the mean subtracted."""
    over: Annotated[str, one_of("head", "all")] = "head"
    """The channels of each head, or of all heads together."""
    eps: Number | None = None
    """Added to the mean square; that seen at work unless given."""
    offset: Number = 0.0
    """Added to the stored scale: 1 in Gemma 3."""


@dataclass(frozen=True, kw_only=True)
class BiasForm:
    """How a file declares a table of biases by position."""

    type: Annotated[str, one_of("t5", "table")]
    """Buckets of distances as in T5, or one number for each pair of positions."""
    buckets: Count = 32
    """t5: number of buckets."""
    max_distance: Count = 128
    """t5: from this distance on all pairs share a bucket."""
    bidirectional: bool = True
    """t5: whether later keys have buckets of their own."""


class _AsPosition:
    """Reads a `PositionForm`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's own
        from pydantic_core import core_schema

        form = handler.generate_schema(PositionForm)
        return core_schema.no_info_after_validator_function(PositionForm.read, form)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What the subject is declared to compute; None is not declared."""

    embed_dim: Count | None = None
    """D."""
    num_heads: Count | None = None
    """H."""
    num_kv_heads: Count | None = None
    """G."""
    head_dim: Count | None = None
    """d."""
    v_head_dim: Count | None = None
    """Value width."""
    kdim: Count | None = None
    """Width of the key input."""
    vdim: Count | None = None
    """Width of the value input."""
    scale: Number | None = None
    """Factor of each q·k."""
    causal: Annotated[str, one_of("always")] | None = None
    """"always" if the subject is causal on every call."""
    window: Count | None = None
    """Number of keys that a query sees, including its own position."""
    causal_corner: Annotated[str, one_of("bottom_right", "top_left")] | None = None
    """To which key causality is aligned where there are more keys than queries."""
    softcap: Number | None = None
    """c: scores become c tanh(scores / c) before the mask."""
    qk_norm: NormForm | None = None
    """Norm of queries and keys, after the projection and before rotary positions."""
    sinks: bool | None = None
    """Whether one learned score per head takes part in the softmax, without a value."""
    bias: BiasForm | None = None
    """A table by position that is added to the scores."""
    gate: Annotated[str, one_of("sigmoid")] | None = None
    """Whether head outputs are multiplied by the sigmoid of a projection of the query input."""
    mask_replaces_causal: bool | None = None
    """Whether an explicit mask takes the place of causality."""
    position: Annotated[Rotary | str, _AsPosition()] | None = None
    """Rotary settings, "alibi", or None."""
    dropout: Number | None = None
    """Fraction of weights dropped in training."""
    fully_masked: Annotated[str, one_of(*FULLY_MASKED)] | None = None
    """"zero" or "unspecified"."""
    compute_dtype: Annotated[str, one_of("float64", "float32", "float16", "bfloat16")] | None = None
    """The dtype in which the subject computes internally."""

    @property
    def heads(self) -> int:
        """H, declared or inferred."""
        assert self.num_heads is not None
        return self.num_heads

    @property
    def kv_heads(self) -> int:
        """G, H unless given."""
        return self.heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def width(self) -> int:
        """D, H * d where only the head width is known."""
        if self.embed_dim is not None:
            return self.embed_dim
        assert self.head_dim is not None
        return self.heads * self.head_dim

    @property
    def d(self) -> int:
        """Head width, D / H unless given."""
        return self.width // self.heads if self.head_dim is None else self.head_dim

    @property
    def dv(self) -> int:
        """Value width, d unless given."""
        return self.d if self.v_head_dim is None else self.v_head_dim

    @property
    def factor(self) -> float:
        """The scale, 1/sqrt(d) unless given."""
        return float(self.d**-0.5) if self.scale is None else self.scale


Values = Annotated[
    tuple[Any, ...],
    Rule("must be a list of values: use [true, false]", {"min_length": 1, "strict": False}),
]


@dataclass(frozen=True, kw_only=True)
class CallSpec:
    """How the subject is called; None is not declared."""

    form: Annotated[str, one_of(*FORMS)] | None = None
    """self, cross, qkv, heads, cache or static_cache."""
    layout: Annotated[str, one_of(*LAYOUTS)] | None = None
    """BTE, TBE or BET."""
    unbatched: bool = False
    """Whether it also takes (T, E)."""
    masks: tuple[MaskSpec, ...] | None = None
    """Its mask arguments."""
    causal_arg: Name | None = None
    """The keyword that turns causality on."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keywords passed in every call."""
    flags: Mapping[str, Values] = field(default_factory=dict)
    """Keywords that must not change the answer, with their values."""
    returns: Annotated[str, one_of(*RETURNS)] | None = None
    """out, out,weights or out,cache."""
    weights_axes: Annotated[str, one_of(*WEIGHTS_AXES)] = "BHTS"
    """BHTS, or BTS for a mean over heads."""


@dataclass(frozen=True, kw_only=True)
class ParamSpec:
    """Where the weights are."""

    layout: str
    """One of ARRANGEMENTS."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Attribute path of q, k, v, o, qkv, kv or module; {h} is replaced by the head index."""
    biases: Mapping[str, str] = field(default_factory=dict)
    """Attribute path of biases that are tensors of their own."""
    order: str = "qkv"
    """Order of the blocks of a packed matrix."""
    found: "Found | None" = None
    """The weights as they were found by watching, with layout "found" or "args"."""
    is_guessed: bool = False
    """Whether the names were inferred, so that the order of the axes is open."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Extras:
    """Settings of the formula that were seen at work."""

    widths: tuple[int, ...] = ()
    """Widths that inputs may have, by the sizes of the weights."""
    asked_window: int | None = None
    """The window that calls ask for."""
    is_square: bool = False
    """Whether it takes only as many keys as queries."""
    mask_dtype: "torch.dtype | None" = None
    """The type in which masks are to be added, where it is another than that of the input."""
    exclusive: tuple[str, ...] = ()
    """Masks that are not given together with a request for causality."""
    turns_from_first: bool = False
    """Whether rotary positions of queries and of keys both count from zero."""
    ahead: int | None = None
    """Later keys that a window shows."""
    softcap: float | None = None
    """Soft cap of the scores."""
    norms: "Mapping[str, RowNorm]" = field(default_factory=dict)
    """Norms by what they normalise: as in `Problem`."""
    bias: "Tensor | None" = None
    """(H, N, N), added to the scores."""
    sinks: "Tensor | None" = None
    """(H,), a score without a value."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An attention module or function, and what is declared about it."""

    target: str
    """file.py:object or module.path:object."""
    id: str | None = None
    """Free text, copied to the report."""
    kwargs: Mapping[str, Any] | None = None
    """Constructor arguments; None is not declared."""
    spec: Spec = field(default_factory=Spec)
    """What it computes."""
    call: CallSpec = field(default_factory=CallSpec)
    """How it is called."""
    params: ParamSpec | None = None
    """Where the weights are; None is not declared."""
    folder: Path = field(default_factory=Path)
    """Folder that a file target is relative to."""
    submodule: str | None = None
    """Attribute path of the attention inside the built object."""
    extras: Extras = field(default_factory=Extras, compare=False)
    """What was seen at work."""
    unknown: tuple[str, ...] = ()
    """Fields that are not known, for a warning."""

    def with_spec(self, **changes: Any) -> "Subject":  # noqa: ANN401 - any field of Spec
        """The same subject with some of its spec filled in."""
        return replace(self, spec=replace(self.spec, **changes))

    def with_extras(self, **changes: Any) -> "Subject":  # noqa: ANN401 - any field of Extras
        """The same subject with more that was seen at work."""
        return replace(self, extras=replace(self.extras, **changes))

    def with_call(self, **changes: Any) -> "Subject":  # noqa: ANN401 - any field of CallSpec
        """The same subject with some of its call filled in."""
        return replace(self, call=replace(self.call, **changes))
