"""The rule behind each solved number: which other numbers it is made of, and how.

`evaluated` does the arithmetic of a recipe, so that every explanation can be checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from manyheads.worksheets.arithmetic import (
    NEGATIVE_INFINITY,
    ONE,
    ZERO,
    Number,
    add,
    exponential,
    is_positive,
    multiply,
    reciprocal,
    square_root,
)
from manyheads.worksheets.exact import is_blocked, softmax
from manyheads.worksheets.places import written
from manyheads.worksheets.quantities import Quantity, name_of
from manyheads.worksheets.sheet import Sheet

Kind = Literal["given", "sum", "root", "blocked", "power", "ratio", "rectified", "softmax"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one number is made of others."""

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


def evaluated(recipe: Recipe, value: Callable[[str], Number], head_dim: int) -> Number:
    """Do the arithmetic of a recipe that is not `given`.

    Args:
        recipe: how the number is made.
        value: finds the numbers that are used, by name.
        head_dim: d, of which `root` takes 1/sqrt(d).
    """
    values = [value(name) for name in recipe.uses] if recipe.kind != "sum" else []
    plain: Mapping[str, Callable[[], Number]] = {
        "sum": lambda: _added(recipe.terms, value),
        "root": lambda: reciprocal(square_root(Fraction(head_dim))),
        "blocked": lambda: NEGATIVE_INFINITY,
        "power": lambda: exponential(values[0]),
        "ratio": lambda: multiply(values[0], reciprocal(values[1])),
        "rectified": lambda: values[0] if is_positive(values[0]) else ZERO,
        "softmax": lambda: softmax(values)[0],
    }
    return plain[recipe.kind]()


def _added(terms: tuple[tuple[str, ...], ...], value: Callable[[str], Number]) -> Number:
    total: Number = ZERO
    for names in terms:
        product: Number = ONE
        for name in names:
            product = multiply(product, value(name))
        total = add(total, product)
    return total


def recipe_of(sheet: Sheet, quantity: Quantity) -> Recipe:
    """Say how a solved number is made, before terms that are zero are left out."""
    return _RULES[quantity.field.name](sheet, quantity.sequence, quantity.index)


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


_RULES: Mapping[str, Callable[[Sheet, str, _Index], Recipe]] = {
    "x": _x,
    "q": _projection("Q", "b_q"),
    "k": _projection("K", "b_k"),
    "v": _projection("V", "b_v"),
    "dots": _dots,
    "scores": _scores,
    "masked_scores": _masked,
    "exp_scores": _exp_scores,
    "exp_sum": _exp_sum,
    "attn_weights": _weights,
    "head_outputs": _head_outputs,
    "concat": _concat,
    "output": _output,
    "head_contributions": _contributions,
    "updated": _updated,
    "hidden_pre": _layer("stream", "hidden"),
    "hidden": _hidden,
    "logits": _layer("hidden", "vocab"),
    "probabilities": _probabilities,
}
