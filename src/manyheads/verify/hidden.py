"""Reads which keys are hidden off the operations that hide them, where no softmax tells it.

A mask is seen even if it has no effect: filled with zeros, or followed by another function than the
softmax over keys.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from manyheads.verify.fitting import Scores
from manyheads.verify.structure import RAW, Structure
from manyheads.verify.watch import Event, storage_of

_LOW = -1e4
"""Scores below this are hidden."""
_HIDES = {"masked_fill", "where", "add", "sub", "copy", "fill", "index_put"}
"""Operations that can hide scores."""


def scores_as_masked(structure: Structure) -> Scores | None:
    """Scores with the keys that some operation hides, the same in each sample and head."""
    queries, keys = structure.lengths
    allowed = torch.ones(queries, keys, dtype=torch.bool)
    for event, hidden in _hiding(structure):
        row, column = (layer.of(event.out[0]) for layer in (structure.pos, structure.key))
        if row is None or column is None or bool((row < 0).any()) or bool((column < 0).any()):
            continue
        place = (row % queries) * keys + column % keys
        counts = [torch.zeros(queries * keys, dtype=torch.int64) for _ in range(2)]
        for count, which in zip(counts, (hidden, ~hidden), strict=True):
            count.index_add_(0, place[which], torch.ones_like(place[which]))
        if bool(((counts[0] > 0) & (counts[1] > 0)).any()):
            return None
        allowed &= counts[0].view(queries, keys) == 0
    is_order = not bool(allowed.all()) and bool(allowed.any())
    return Scores(factor=1.0, allowed=allowed) if is_order else None


def _hiding(structure: Structure) -> Iterator[tuple[Event, Tensor]]:
    """Operations on scores that hide some, and which."""
    for event in structure.events:
        hidden = hidden_by(event, structure) if event.writes else None
        if hidden is not None and bool(hidden.any()):
            yield event, hidden.expand(event.out[0].shape)


def hidden_by(event: Event, structure: Structure) -> Tensor | None:
    """Which scores an operation hides; None if it is none that hides scores."""
    op = event.op.rstrip("_")
    if not event.out or op not in _HIDES:
        return None
    source = structure.src.of(event.out[0])
    if source is None or not bool((source == RAW).any()):
        return None
    if op == "masked_fill":
        return event.given[1]
    if op == "where":
        condition, chosen = event.given[0], event.args[1]
        is_data = isinstance(chosen, Tensor) and storage_of(chosen) in structure.data
        return ~condition if is_data else condition
    return event.values[0] < _LOW
