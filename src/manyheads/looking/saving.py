"""A look as one JSON document with the weights of its heads, which the page opens.

A weight is a whole number of `STEPS`, two bytes with the lower one first; `BLOCKED` marks a pair
that the mask does not allow.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

import torch

from manyheads.looking.axes import axis_names
from manyheads.looking.behaviours import BEHAVIOURS
from manyheads.looking.pictures import blocked_pairs, chosen_heads
from manyheads.looking.reading import Look

STEPS = 65_534
"""Steps from weight 0 to weight 1."""
BLOCKED = 65_535
MOST_NUMBERS = 4_000_000
"""Weights in a file, which makes about 11 MB."""


def saved_json(seen: Look, heads: Sequence[tuple[int, int]] = ()) -> str:
    """The document of `to_json`, with the weights of the first sample.

    Args:
        seen: the look.
        heads: heads that must be in the file; otherwise all, or the labelled ones where all are
            more than `MOST_NUMBERS` weights.
    """
    document = json.loads(seen.to_json())
    every = [(site.index, head) for site in seen.sites for head in range(site.num_heads)]
    order = dict.fromkeys([*heads, *chosen_heads(seen), *every])
    maps: list[dict[str, Any]] = []
    lengths: set[int] = set()
    left = MOST_NUMBERS
    for layer, head in order:
        T, S = seen.sites[layer].shape[1:]
        left -= T * S
        if left < 0 and maps:
            break
        lengths |= {T, S}
        maps.append(
            {
                "layer": layer,
                "head": head,
                "rows": T,
                "columns": S,
                "weights": _coded(seen, layer, head),
            }
        )
    document["maps"] = maps
    document["axes"] = {str(n): axis_names(seen, n) for n in sorted(lengths)}
    document["behaviours"] = dict(BEHAVIOURS)
    return json.dumps(document)


def _coded(seen: Look, layer: int, head: int) -> str:
    """Base64 of a head's weights."""
    steps = (seen.weights(layer, head)[0].detach().double().clamp(0, 1) * STEPS).round().cpu()
    blocked = blocked_pairs(seen.sites[layer])
    if blocked is not None:
        steps = steps.masked_fill(blocked.to(steps.device), BLOCKED)
    return base64.b64encode(steps.to(torch.int32).numpy().astype("<u2").tobytes()).decode()
