"""The numbers of a solution by name: their axes, what they mean, and the rule that makes them.

Axes: H heads, T receivers, S sources, D features, d and v the widths of queries and values,
C joined width, J hidden units, V words. Every index counts from 0.
"""

from dataclasses import dataclass

from manyheads.worksheets.sheet import Sheet


@dataclass(frozen=True, kw_only=True)
class Field:
    """One named table of numbers in a solution."""

    name: str
    """As in a trace, where a trace has it."""
    axes: str
    """One letter an index, in order."""
    title: str
    """What a reader calls it."""
    rule: str
    """How one of its numbers is made."""


def _field(name: str, axes: str, title: str, rule: str) -> Field:
    return Field(name=name, axes=axes, title=title, rule=rule)


_ATTENTION = (
    _field("x", "TD", "input", "x = token row + position row, or X as given"),
    _field("q", "HTd", "query", "q = x W_Q + b_Q"),
    _field("k", "HSd", "key", "k = x W_K + b_K"),
    _field("v", "HSv", "value", "v = x W_V + b_V"),
    _field("dots", "HTS", "dot product", "dot = sum of q times k"),
    _field("scores", "HTS", "score", "score = dot times scale"),
    _field("masked_scores", "HTS", "masked score", "score, or -infinity for a later source"),
    _field("exp_scores", "HTS", "exponential", "e to the power of the masked score"),
    _field("exp_sum", "HT", "sum of exponentials", "sum of exponentials over the sources"),
    _field("attn_weights", "HTS", "weight", "weight = exponential / sum of exponentials"),
    _field("head_outputs", "HTv", "head output", "sum over the sources of weight times value"),
    _field("concat", "TC", "joined heads", "head outputs side by side, in order"),
    _field("output", "TD", "output", "output = joined heads W_O + b_O"),
    _field("head_contributions", "HTD", "contribution", "head output times the head's rows of W_O"),
)
_UPDATED = (_field("updated", "TD", "updated row", "updated = x + output"),)
_PREDICTION = (
    _field("hidden_pre", "TJ", "hidden sum", "hidden sum = row W_hidden + b_hidden"),
    _field("hidden", "TJ", "hidden unit", "hidden = hidden sum, or 0 where that is negative"),
    _field("logits", "TV", "logit", "logit = hidden W_vocab + b_vocab"),
    _field("probabilities", "TV", "probability", "softmax of the logits over the words"),
)
ALL_FIELDS = (*_ATTENTION, *_UPDATED, *_PREDICTION)
"""Every field that a worksheet can have, in the order of the sum."""


def fields_of(sheet: Sheet) -> tuple[Field, ...]:
    """The fields that this worksheet has, in the order of the sum."""
    updated = _UPDATED if sheet.has_residual else ()
    return (*_ATTENTION, *updated, *(_PREDICTION if sheet.prediction else ()))
