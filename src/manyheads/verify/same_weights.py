"""Gives two implementations the same weights, matched by what each does with them.

Each implementation's parameters are numbered entry by entry. Its weights per head, read with these
numbers in place of values, say which entry of which parameter is W_Q[h][i][j]. The same weight of
two implementations is a pair of entries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from manyheads.core.errors import ManyHeadsError
from manyheads.verify.calling import Callee
from manyheads.verify.found_weights import found_weights
from manyheads.verify.origins import Parameters, flat
from manyheads.verify.parameters import all_tensors
from manyheads.verify.reading import Reader, Reading
from manyheads.verify.subject import ParamSpec, Subject
from manyheads.verify.understanding import Understanding

ROLES = ("w_q", "b_q", "w_k", "b_k", "w_v", "b_v", "w_o", "b_o")
"""Fields of `HeadWeights`, in the order in which they are shown."""
_GROUPED = ("w_k", "b_k", "w_v", "b_v")


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """Where the numbers of one weight are."""

    entries: Tensor
    """Number of each entry in all parameters, one after the other."""
    offset: float = 0.0
    """What the implementation adds to the numbers: 1 where a norm multiplies by 1 + weight."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Held:
    """The parameters of one implementation, and which weights they hold."""

    parameters: Parameters
    """All tensors by name; they share their memory with the implementation."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """By field of `HeadWeights`, "sinks", or "q norm", "k norm", "input norm"."""

    @property
    def used(self) -> frozenset[str]:
        """Names of the tensors that hold a weight."""
        return frozenset(
            name for place in self.places.values() for name in self.parameters.owners(place.entries)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Match:
    """Which entries of two implementations are the same weight."""

    pairs: Mapping[str, tuple[Place, Place]]
    """By weight: the entries of the first and of the second, in one order."""
    by: str
    """"use", or "name" where the use of a weight could not be read."""


def with_located_weights(known: Understanding, callee: Callee, subject: Subject) -> Subject:
    """The subject with its weights found, also where only the projections could be read.

    Args:
        known: what was seen of it at work, with the weights of the callee.
        callee: in which the weights were seen.
        subject: the declaration, completed.
    """
    reading, seen = known.reading, known.seen
    if _is_located(subject) or reading is None or seen is None:
        return subject
    named = {n: x for n, x in all_tensors(callee.made).items() if n in known.names}
    try:
        whole = _whole(known, reading, Parameters(callee.arguments or named))
        if not whole.is_whole:
            return subject
        made = found_weights(callee.arguments or named, whole, subject.spec.heads)
    except (ManyHeadsError, RuntimeError):
        return subject
    values = made.known.values
    return replace(subject, params=ParamSpec(layout="found", found=made.known)).with_spec(
        num_kv_heads=values.num_kv_heads, head_dim=values.head_dim, v_head_dim=values.v_head_dim
    )


def _is_located(subject: Subject) -> bool:
    """Whether the projections are declared, or all found among the parameters."""
    params = subject.params
    found = None if params is None else params.found
    return params is not None and (found is None or {"w_q", "w_k", "w_v"} <= set(found.origins))


def _whole(known: Understanding, reading: Reading, parameters: Parameters) -> Reading:
    """The reading, with the projection alone where rows were changed in a way that is not known."""
    seen, subject = known.seen, known.subject
    assert seen is not None and seen.outcome.output is not None
    problem = seen.problem
    inputs = [x.double() for x in (problem.x_q, problem.x_k, problem.x_v)]
    reader = Reader(
        seen.structure,
        inputs[: len(seen.outcome.inputs)],
        seen.outcome.output.detach().double(),
        form=subject.call.form or "self",
        heads=subject.spec.num_heads,
        head_dim=subject.spec.d,
        tolerance=known.tolerance,
    )
    found = replace(reading, departures=list(reading.departures))
    for role in "qkv":
        is_unsure = any(d.step == role for d in reading.departures)
        if getattr(found, role) is None or is_unsure:
            every = [rows for _, rows in reader.natural(role)]
            rows = [r for r in every if parameters.origin(r.weight) is not None] or every
            partner = {"k": found.v, "v": found.k}.get(role)
            heads = subject.spec.heads if partner is None else len(partner.weight)
            fitting = [r for r in rows if len(r.weight) == heads]
            setattr(found, role, next(iter(fitting or rows), None))
    return found


def held(callee: Callee, subject: Subject, names: frozenset[str]) -> Held:
    """The weights of an implementation by the entries of its parameters.

    Args:
        callee: with its weights.
        subject: its declaration, with weights located where they could be.
        names: the tensors that it held before it was called.
    """
    tensors = callee.arguments or {n: x for n, x in all_tensors(callee.made).items() if n in names}
    parameters = Parameters({n: x.detach() for n, x in tensors.items()})
    places = _head_places(callee, subject, parameters)
    for name, norm in subject.extras.norms.items():
        places |= _gain_place(f"{name} norm", norm.gain, parameters)
    if subject.extras.sinks is not None:
        places |= _gain_place("sinks", subject.extras.sinks, parameters)
    return Held(parameters=parameters, places=places)


def _gain_place(name: str, values: Tensor, parameters: Parameters) -> dict[str, Place]:
    """Where the gain of a norm or the scores of sinks are, as they are or with 1 added."""
    if bool((values == values.flatten()[0]).all()):
        return {}
    for offset in (0.0, 1.0):
        origin = parameters.bias_origin(values - offset, 1.0)
        if origin is not None:
            return {name: Place(entries=origin.entries, offset=offset)}
    return {}


def _head_places(callee: Callee, subject: Subject, parameters: Parameters) -> dict[str, Place]:
    """Read the weights per head with numbers of entries in place of values."""
    numbered = callee.fresh()
    numbered.subject = subject
    named = numbered.arguments or all_tensors(numbered.made)
    with torch.no_grad():
        for name, start in parameters.starts.items():
            x = named[name]
            x.copy_(torch.arange(start + 1, start + 1 + x.numel()).view(x.shape))
    located = numbered.located()
    if located is None or located.heads is None:
        return {}
    found = {}
    for role, x in located.heads.tensors().items():
        entries = x.detach().double().round().long() - 1
        is_entry = bool((x.detach().double() == entries + 1).all()) and int(entries.min()) >= 0
        if is_entry and (role not in ("w_o", "b_o") or located.has_out):
            found[role] = Place(entries=entries)
    return found


def matched(a: Held, b: Held) -> Match | None:
    """Which entries of the first are which of the second; None where that cannot be told."""
    if not a.parameters.named and not b.parameters.named:
        return Match(pairs={}, by="use")
    shapes_a, shapes_b = ({n: x.shape for n, x in h.parameters.named.items()} for h in (a, b))
    if shapes_a == shapes_b and (_has_ties(a) or _has_ties(b)):
        return _by_name(a, b)
    projections = {"w_q", "w_k", "w_v"}
    if projections <= set(a.places) and projections <= set(b.places):
        pairs = {}
        for role in (*ROLES, *(n for n in a.places if n not in ROLES)):
            if role in a.places and role in b.places:
                pair = _paired(role, a.places[role], b.places[role])
                if pair is None:
                    return None
                pairs[role] = pair
        return Match(pairs=pairs, by="use")
    return _by_name(a, b) if shapes_a == shapes_b else None


def _has_ties(x: Held) -> bool:
    """Whether two weights are the same entries."""
    every = torch.cat([p.entries.flatten() for p in x.places.values()] or [torch.zeros(0)])
    return len(every.unique()) < len(every)


def _paired(role: str, a: Place, b: Place) -> tuple[Place, Place] | None:
    """One weight of both; key and value heads are repeated where one has fewer."""
    if role in _GROUPED and len(a.entries) != len(b.entries):
        most = max(len(a.entries), len(b.entries))
        if most % len(a.entries) or most % len(b.entries):
            return None
        a, b = (
            replace(x, entries=x.entries.repeat_interleave(most // len(x.entries), 0))
            for x in (a, b)
        )
    return (a, b) if a.entries.shape == b.entries.shape else None


def _by_name(a: Held, b: Held) -> Match:
    pairs = {}
    for name, x in a.parameters.named.items():
        count = torch.arange(x.numel()).view(x.shape)
        starts = a.parameters.starts[name], b.parameters.starts[name]
        pairs[name] = Place(entries=count + starts[0]), Place(entries=count + starts[1])
    return Match(pairs=pairs, by="name")


def copy_weights(
    source: Held, target: Held, pairs: Mapping[str, tuple[Place, Place]]
) -> tuple[str, ...]:
    """Write the weights of one implementation into the parameters of the other.

    Args:
        source: gives the numbers.
        target: receives them.
        pairs: by weight, its entries in the source and in the target.

    Returns:
        weights that the target cannot hold, because it uses the same entries for an earlier one.
    """
    numbers = flat(source.parameters.named).double()
    row = flat(target.parameters.named).double()
    is_written = torch.zeros(len(row), dtype=torch.bool)
    refused = []
    for name, (given, taken) in pairs.items():
        values = numbers[given.entries] + (given.offset - taken.offset)
        after = row.clone()
        after[taken.entries] = values
        is_held = torch.equal(after[taken.entries], values)
        if not is_held or not torch.equal(after[is_written], row[is_written]):
            refused.append(name)
            continue
        row = after
        is_written[taken.entries] = True
    for name, start in target.parameters.starts.items():
        x = target.parameters.named[name]
        x.copy_(row[start : start + x.numel()].view(x.shape))
    return tuple(refused)
