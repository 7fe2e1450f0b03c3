"""Looks at single operations of a call: what is added, multiplied or capped, and on which line."""

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.verify.fitting import solved
from manyheads.verify.structure import Structure
from manyheads.verify.watch import Event, Line, storage_of, tensors_in

RESIDUAL = "the input is added to the output (a residual connection inside)"
MULTIPLIED = "what the heads give is multiplied by numbers that differ"


def has_residual(x: Tensor, joined: Tensor, output: Tensor, tolerance: float) -> bool:
    """Whether an output without the input is a linear function of the joined heads."""
    if x.shape[:2] != joined.shape[:2] or x.shape != output.shape:
        return False
    rest = output - x
    return solved(joined.flatten(0, 1), rest.flatten(0, 1), tolerance) is not None


def multiplied_after(structure: Structure, number: int) -> Line | None:
    """The line where something is multiplied by numbers that differ, after an operation."""
    for event in structure.events[number + 1 :]:
        if event.op.rstrip("_") != "mul" or len(event.given) != 2:
            continue
        factors = zip(tensors_in(*event.args), event.given, strict=True)
        numbers = [x for place, x in factors if storage_of(place) not in structure.data]
        if len(numbers) == 1 and numbers[0].numel() > 1 and bool(numbers[0].std() > 1e-6):
            return event.line
    return None


def line_after(structure: Structure, name: str, last: int) -> Line | None:
    """The line of the next operation on queries, keys or values after a given one.

    Args:
        structure: after `run`.
        name: q, k or v.
        last: number of the operation.
    """
    factor = structure.factor_of(name)
    for number, which in [] if factor is None else structure.ancestors(*factor):
        event = structure.events[number]
        is_data = storage_of(event.out[which]) in structure.data
        if number > last and event.writes and is_data and event.line is not None:
            return event.line
    return None


def bias_after(structure: Structure, event: Event, width: int) -> Tensor:
    """What is added to the result of a product."""
    candidates = list(event.given)
    for later in structure.events[event.number + 1 :]:
        if later.op in ("add", "add_"):
            candidates += later.given
    for x in candidates:
        if x.shape == (width,):
            return x.double()
    return torch.zeros(width, dtype=torch.float64)


def caps_of(events: Sequence[Event]) -> list[float]:
    """Numbers that a tanh may be scaled with."""
    caps: list[float] = []
    for event in events:
        if event.op in ("div", "mul") and len(event.args) == 2:
            value = event.args[1]
            if isinstance(value, Tensor) and value.numel() == 1:
                value = float(value)
            if isinstance(value, int | float) and value:
                caps += [float(value), 1.0 / float(value)]
    is_capped = any(event.op == "tanh" for event in events)
    return list(dict.fromkeys(caps)) if is_capped else []
