"""Finds the weights that were read from a call among the parameters of a subject."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from manyheads.core.weights import HeadWeights
from manyheads.verify.fitting import Rows
from manyheads.verify.origins import Found, Origin, Parameters, compressed
from manyheads.verify.reading import Reading

_DIGITS = re.compile(r"\d+")
_ROLES = (
    *(("q", "w_q", "b_q"), ("k", "w_k", "b_k"), ("v", "w_v", "b_v"), ("o", "w_o", "b_o")),
    ("gate", "w_g", "b_g"),
)
"""For each step its fields of `HeadWeights`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FoundWeights:
    """Weights, and how the subject uses them."""

    known: Found
    """The weights, by the entries of the parameters that hold them."""
    factors: Mapping[str, float]
    """What the result of each step is multiplied by."""
    words: Mapping[str, str]
    """For each step the names of its parameters."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parts:
    """What is known of weights while steps are added one by one."""

    parameters: Parameters
    """Where to look for numbers."""
    origins: dict[str, Origin] = field(default_factory=dict)
    """By field of `HeadWeights`, without factors."""
    fields: dict[str, Tensor] = field(default_factory=dict)
    """Numbers by field of `HeadWeights`."""
    factors: dict[str, float] = field(default_factory=dict)
    """By step."""


def found_weights(named: Mapping[str, Tensor], reading: Reading, heads: int) -> FoundWeights:
    """The weights of a reading that is whole.

    Args:
        named: the tensors of the subject, by name.
        reading: with weights for all steps.
        heads: number of query heads.

    Raises:
        ManyHeadsError: the weights of different steps do not fit together.
    """
    parameters = Parameters(named)
    parts = _Parts(parameters=parameters)
    for role, weight, bias in _ROLES:
        rows: Rows | None = getattr(reading, role)
        if rows is not None:
            _add_role(parts, reading, rows, role, weight, bias)
    if reading.o is None:
        w_q, w_v = parts.fields["w_q"], parts.fields["w_v"]
        parts.fields["w_o"] = w_q.new_zeros(heads, w_v.shape[2], w_q.shape[1])
    values = HeadWeights(**parts.fields)
    words = {
        role: parameters.words(parts.origins[weight])
        for role, weight, _ in _ROLES
        if weight in parts.origins
    }
    origins, names = compressed(parts.origins, parameters)
    known = Found(origins=origins, values=values, names=names, has_out=reading.has_out)
    return FoundWeights(known=known, factors=parts.factors, words=words)


def _add_role(
    parts: _Parts, reading: Reading, rows: Rows, role: str, weight: str, bias: str
) -> None:
    """Add the weight and bias of one step."""
    origin = _origin_of(parts.parameters, role, rows)
    if role == "o":
        values = parts.origins.get("w_v")
        rows, origin = _output_rows(parts.parameters, values, reading, rows, origin)
    factor = 1.0 if origin is None else origin.factor
    parts.factors[role] = rows.factor * factor
    parts.fields[weight] = rows.weight
    if origin is not None:
        parts.origins[weight] = replace(origin, factor=1.0)
        parts.fields[weight] = rows.weight / factor
    _add_bias(parts, bias, rows, factor)


def _origin_of(parameters: Parameters, role: str, rows: Rows) -> Origin | None:
    """Where the weights of a step come from; None if from no parameter."""
    if role == "o":  # (H, v, D): each row of D numbers is a row or column of a parameter
        origin = parameters.origin(rows.weight.flatten(0, 1).T[None])
        if origin is None:
            return None
        return replace(origin, entries=origin.entries[0].T.unflatten(0, rows.weight.shape[:2]))
    return parameters.origin(rows.weight)


def _output_rows(
    parameters: Parameters,
    values: Origin | None,
    reading: Reading,
    rows: Rows,
    origin: Origin | None,
) -> tuple[Rows, Origin | None]:
    """The output weights with heads joined in the order of the values' channels.

    Another order is attention for permuted weights, but also what people get by mistake. So the
    usual order is taken, and the comparison of outputs shows the other.
    """
    if origin is None:
        natural = reading.natural_o
        found = None if natural is None else _origin_of(parameters, "o", natural)
        return (rows, None) if natural is None or found is None else (natural, found)
    if len(origin.names) > 1:
        return rows, origin
    order = _ranks(origin.entries[..., 0])
    usual = torch.arange(order.numel())
    if values is not None and values.entries[:, 0].numel() == order.numel():
        if len({_DIGITS.sub("", name) for name in values.names}) > 1:
            return rows, origin
        usual = _ranks(values.entries[:, 0])
    if torch.equal(order, usual):
        return rows, origin
    place = order.argsort()[usual]  # which joined channel has the usual place
    flat, entries = rows.weight.flatten(0, 1)[place], origin.entries.flatten(0, 1)[place]
    shape = rows.weight.shape[:2]
    return (
        replace(rows, weight=flat.unflatten(0, shape)),
        replace(origin, entries=entries.unflatten(0, shape)),
    )


def _ranks(entries: Tensor) -> Tensor:
    """The place of each entry in the order of all."""
    return entries.flatten().argsort().argsort()


def _add_bias(parts: _Parts, name: str, rows: Rows, factor: float) -> None:
    """Add a bias unless it is zero."""
    bias = rows.bias[0] if name == "b_o" else rows.bias
    if float(bias.abs().max()) <= 1e-7 * max(float(rows.weight.abs().max()), 1e-30):
        return
    parts.fields[name] = bias / factor
    origin = parts.parameters.bias_origin(bias, factor)
    if origin is not None:
        parts.origins[name] = replace(origin, factor=1.0)
