"""The numbers of a solution by name: their axes, their meaning, and how each is computed.

Axes: H heads, T receivers, S sources, D features, O outputs, d and v the widths of queries
and values, C joined width, J hidden units, V words. Every index counts from 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from manyheads.worksheets.exact import is_blocked
from manyheads.worksheets.places import written
from manyheads.worksheets.sheet import Sheet

Kind = Literal["given", "sum", "root", "blocked", "power", "ratio", "rectified", "softmax"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one number is computed from others."""

    kind: Kind
    """given: as in the file. sum: products, added up. root: 1/sqrt(d). blocked: -infinity.
    power: e to a number. ratio: the first divided by the second. rectified: 0 where negative.
    softmax: e to the first, divided by the sum of e to each."""
    terms: tuple[tuple[str, ...], ...] = ()
    """The names of the factors of each term; every kind but `sum` has one factor a term."""

    @property
    def uses(self) -> tuple[str, ...]:
        """Every name that is used, once, in order."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term))


GIVEN = Recipe(kind="given")


def _sum(*terms: tuple[str, ...]) -> Recipe:
    return Recipe(kind="sum", terms=terms)


def _single(kind: Kind, *names: str) -> Recipe:
    return Recipe(kind=kind, terms=tuple((name,) for name in names))


@dataclass(frozen=True, kw_only=True)
class Field:
    """One named table of numbers in a solution."""

    name: str
    """The name, as in a trace if a trace has it."""
    axes: str
    """One letter per index, in order."""
    title: str
    """Name for a reader."""
    rule: str
    """Formula of one of its numbers."""
    recipe: Callable[[Sheet, str, tuple[int, ...]], Recipe]
    """Gives the numbers that one number is computed from, by sequence and index."""


def name_of(sequence: str, field: str, *index: int) -> str:
    """Write the name of a solved number."""
    return written((sequence, field, *index))


_Index = tuple[int, ...]


def _x(sheet: Sheet, name: str, index: _Index) -> Recipe:
    t, i = index
    keys = sheet.sequence(name).token_keys
    if keys is None:
        return _sum((f"sequences.{name}.X[{t}][{i}]",))
    token = (written(("token_embedding", keys[t], i)),)
    if sheet.position_embedding is None:
        return _sum(token)
    return _sum(token, (f"position_embedding[{t}][{i}]",))


def _projection(letter: str, bias: str) -> Callable[[Sheet, str, _Index], Recipe]:
    def rule(sheet: Sheet, name: str, index: _Index) -> Recipe:
        h, t, i = index
        place = f"heads[{h}].W_{letter}"
        terms = [(name_of(name, "x", t, j), f"{place}[{j}][{i}]") for j in range(sheet.embed_dim)]
        has_bias = getattr(sheet.heads[h], bias) is not None
        return _sum(*terms, *([(f"heads[{h}].b_{letter}[{i}]",)] if has_bias else []))

    return rule


def _dots(sheet: Sheet, name: str, index: _Index) -> Recipe:
    h, t, s = index
    pairs = [
        (name_of(name, "q", h, t, i), name_of(name, "k", h, s, i)) for i in range(sheet.head_dim)
    ]
    return _sum(*pairs)


def _scores(sheet: Sheet, name: str, index: _Index) -> Recipe:
    return _sum((name_of(name, "dots", *index), "scale"))


def _masked(sheet: Sheet, name: str, index: _Index) -> Recipe:
    if is_blocked(sheet, index[1], index[2]):
        return Recipe(kind="blocked")
    return _sum((name_of(name, "scores", *index),))


def _exp_scores(sheet: Sheet, name: str, index: _Index) -> Recipe:
    return _single("power", name_of(name, "masked_scores", *index))


def _exp_sum(sheet: Sheet, name: str, index: _Index) -> Recipe:
    sources = range(len(sheet.sequence(name).tokens))
    return _sum(*((name_of(name, "exp_scores", *index, s),) for s in sources))


def _weights(sheet: Sheet, name: str, index: _Index) -> Recipe:
    power, total = name_of(name, "exp_scores", *index), name_of(name, "exp_sum", *index[:2])
    return _single("ratio", power, total)


def _head_outputs(sheet: Sheet, name: str, index: _Index) -> Recipe:
    h, t, i = index
    sources = range(len(sheet.sequence(name).tokens))
    return _sum(
        *((name_of(name, "attn_weights", h, t, s), name_of(name, "v", h, s, i)) for s in sources)
    )


def _concat(sheet: Sheet, name: str, index: _Index) -> Recipe:
    h, i = divmod(index[1], sheet.v_head_dim)
    return _sum((name_of(name, "head_outputs", h, index[0], i),))


def _output(sheet: Sheet, name: str, index: _Index) -> Recipe:
    t, i = index
    terms = [(name_of(name, "concat", t, j), f"W_O[{j}][{i}]") for j in range(len(sheet.w_o))]
    return _sum(*terms, *([(f"b_O[{i}]",)] if sheet.b_o is not None else []))


def _contributions(sheet: Sheet, name: str, index: _Index) -> Recipe:
    h, t, i = index
    width = sheet.v_head_dim
    rows = [(j, f"W_O[{h * width + j}][{i}]") for j in range(width)]
    return _sum(*((name_of(name, "head_outputs", h, t, j), place) for j, place in rows))


def _updated(sheet: Sheet, name: str, index: _Index) -> Recipe:
    return _sum((name_of(name, "x", *index),), (name_of(name, "output", *index),))


def _layer(source: str, part: str) -> Callable[[Sheet, str, _Index], Recipe]:
    def rule(sheet: Sheet, name: str, index: _Index) -> Recipe:
        t, i = index
        assert sheet.prediction is not None
        stream = "updated" if sheet.has_residual else "output"
        given = stream if source == "stream" else source
        rows = range(len(getattr(sheet.prediction, f"w_{part}")))
        terms = [(name_of(name, given, t, j), f"prediction.W_{part}[{j}][{i}]") for j in rows]
        has_bias = getattr(sheet.prediction, f"b_{part}") is not None
        return _sum(*terms, *([(f"prediction.b_{part}[{i}]",)] if has_bias else []))

    return rule


def _hidden(sheet: Sheet, name: str, index: _Index) -> Recipe:
    return _single("rectified", name_of(name, "hidden_pre", *index))


def _probabilities(sheet: Sheet, name: str, index: _Index) -> Recipe:
    t, word = index
    others = [w for w in range(len(sheet.vocabulary)) if w != word]
    return _single("softmax", *(name_of(name, "logits", t, w) for w in (word, *others)))


def _field(
    name: str, axes: str, title: str, rule: str, recipe: Callable[[Sheet, str, _Index], Recipe]
) -> Field:
    return Field(name=name, axes=axes, title=title, rule=rule, recipe=recipe)


_ATTENTION = (
    _field("x", "TD", "input", "x = token row + position row, or X as given", _x),
    _field("q", "HTd", "query", "q = x W_Q + b_Q", _projection("Q", "b_q")),
    _field("k", "HSd", "key", "k = x W_K + b_K", _projection("K", "b_k")),
    _field("v", "HSv", "value", "v = x W_V + b_V", _projection("V", "b_v")),
    _field("dots", "HTS", "dot product", "dot = sum of q times k", _dots),
    _field("scores", "HTS", "score", "score = dot times scale", _scores),
    _field(
        "masked_scores", "HTS", "masked score", "score, or -infinity for a later source", _masked
    ),
    _field("exp_scores", "HTS", "exponential", "e to the power of the masked score", _exp_scores),
    _field(
        "exp_sum", "HT", "sum of exponentials", "sum of exponentials over the sources", _exp_sum
    ),
    _field("attn_weights", "HTS", "weight", "weight = exponential / sum of exponentials", _weights),
    _field(
        "head_outputs",
        "HTv",
        "head output",
        "sum over the sources of weight times value",
        _head_outputs,
    ),
    _field(
        "concat", "TC", "concatenated heads", "head outputs, in the order of the heads", _concat
    ),
    _field("output", "TO", "output", "output = concat W_O + b_O", _output),
    _field(
        "head_contributions",
        "HTO",
        "contribution",
        "head output times the head's rows of W_O",
        _contributions,
    ),
)
_UPDATED = (_field("updated", "TD", "updated row", "updated = x + output", _updated),)
_PREDICTION = (
    _field(
        "hidden_pre",
        "TJ",
        "hidden sum",
        "hidden sum = row W_hidden + b_hidden",
        _layer("stream", "hidden"),
    ),
    _field(
        "hidden", "TJ", "hidden unit", "hidden = hidden sum, or 0 where that is negative", _hidden
    ),
    _field("logits", "TV", "logit", "logit = hidden W_vocab + b_vocab", _layer("hidden", "vocab")),
    _field(
        "probabilities", "TV", "probability", "softmax of the logits over the words", _probabilities
    ),
)
ALL_FIELDS = (*_ATTENTION, *_UPDATED, *_PREDICTION)
"""Every field that a worksheet can have, in the order of the calculation."""


def fields_of(sheet: Sheet) -> tuple[Field, ...]:
    """The fields that this worksheet has, in the order of the calculation."""
    updated = _UPDATED if sheet.has_residual else ()
    return (*_ATTENTION, *updated, *(_PREDICTION if sheet.prediction else ()))
