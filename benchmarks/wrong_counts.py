"""Answers about masks and counts, right and wrong, computed by torch from what an exercise shows.

Masks come from `core/masks.py` and go through the faulty pipelines; parameters are those of real
`nn.Linear` layers, bytes those of real tensors, and places are where a marked weight turns up.
"""

import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

from manyheads.attention.module import MultiHeadAttention
from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import GivenMask, Problem
from manyheads.core.masks import causal_mask, window_mask
from manyheads.core.shapes import repeat_kv
from manyheads.faults.head_layout import OneGroup, TiledGroups
from manyheads.faults.masking import (
    ChangedMasks,
    MaskAfterSoftmax,
    OtherOrder,
    OtherWindow,
    SoftlyHidden,
    _ignored,
    _inverted,
    _multiplied,
    _one_added_to_visible,
)
from manyheads.learn.exercises import Exercise
from manyheads.worksheets.arithmetic import float_of

Wrong = Callable[[Exercise], list[float]]


def _numbers(exercise: Exercise) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", exercise.prompt)]


def _facts(exercise: Exercise) -> dict[str, int]:
    table = exercise.given[0]
    return {label: int(row[0]) for label, row in zip(table.row_labels, table.rows, strict=True)}


def _mask(exercise: Exercise, num_queries: int, num_keys: int) -> Tensor:
    prompt = exercise.prompt
    window = re.search(r"window of (\d+)", prompt)
    if window:
        return window_mask(num_queries, num_keys, int(window[1]))
    padding = re.search(r"Sources (\d+) and (\d+) are padding", prompt)
    if padding is None:
        return causal_mask(num_queries, num_keys)
    allowed = torch.ones(num_queries, num_keys, dtype=torch.bool)
    allowed[:, [int(padding[1]) - 1, int(padding[2]) - 1]] = False
    return allowed


def _row(pipeline: Pipeline, *, is_order: bool = False) -> Wrong:
    """The weights of the query; `is_order` passes causality and window instead of a mask."""

    def answer(exercise: Exercise) -> list[float]:
        num_keys, num_queries = _numbers(exercise)[:2]
        query = _query(exercise)
        row = [float_of(n) for n in exercise.given[0].rows[0]]
        scores = torch.tensor(row, dtype=torch.float64)
        allowed = _mask(exercise, num_queries, num_keys)
        window = re.search(r"window of (\d+)", exercise.prompt)
        given = GivenMask(allowed=allowed[None], axes="TS", convention="allowed")
        p = Problem(
            x_q=torch.ones(1, 1, num_queries, 1).double(), x_k=scores[None, None, :, None],
            x_v=torch.eye(num_keys).double()[None, None], weights=None, num_heads=1,
            num_kv_heads=1, scale=1.0, is_causal=is_order,
            window=int(window[1]) if is_order and window else None,
            masks=() if is_order else (given,),
        )  # fmt: skip
        found: list[float] = pipeline.run(p).output[0, 0, query].tolist()
        return found

    return answer


def _query(exercise: Exercise) -> int:
    found = re.search(r"query (\d+) of", exercise.prompt)
    assert found is not None
    return int(found[1]) - 1


MASK_ROWS: dict[str, Wrong] = {
    "right": _row(Pipeline()),
    "mask-ignored": _row(ChangedMasks(_ignored, None)),
    "mask-polarity": _row(ChangedMasks(_inverted, None)),
    "mask-after-softmax": _row(MaskAfterSoftmax("masks")),
    "mask-multiplied": _row(SoftlyHidden(_multiplied, "masks")),
    "mask-additive-confusion": _row(SoftlyHidden(_one_added_to_visible, "masks")),
    "causal-alignment": _row(OtherOrder("first key"), is_order=True),
    "causal-off-by-one:early": _row(OtherOrder("self hidden"), is_order=True),
    "causal-off-by-one:late": _row(OtherOrder("one later seen"), is_order=True),
    "window-too-wide": _row(OtherWindow(1), is_order=True),
}


def _stored(dim: int, queries: int, groups: int, out: tuple[int, int] | None, bias: bool) -> int:
    """Numbers of four real projections of these widths."""
    with torch.device("meta"):
        layers = [nn.Linear(dim, queries, bias), nn.Linear(dim, groups, bias)]
        layers.append(nn.Linear(dim, groups, bias))
        if out is not None:
            layers.append(nn.Linear(*out, bias))
    return sum(p.numel() for layer in layers for p in layer.parameters())


def _sizes(exercise: Exercise) -> tuple[int, int, int, int]:
    facts = _facts(exercise)
    names = ("model width", "query heads", "key/value heads", "head width")
    dim, heads, groups, width = (facts[name] for name in names)
    return dim, heads, groups, width


def _layer(change: Callable[[int, int, int, int], tuple[int, int, tuple[int, int]]]) -> Wrong:
    """Widths of queries and of keys, and W_O's sides, as somebody takes them to be."""

    def answer(exercise: Exercise) -> list[float]:
        dim, *_ = sizes = _sizes(exercise)
        queries, groups, out = change(*sizes)
        inputs = _stored(dim, queries, groups, None, False)
        return [inputs, _stored(dim, queries, groups, out, True)]

    return answer


def _right_inputs(total: Callable[[int, int, int, int], int]) -> Wrong:
    def answer(exercise: Exercise) -> list[float]:
        dim, heads, groups, width = _sizes(exercise)
        inputs = _stored(dim, heads * width, groups * width, None, False)
        return [inputs, total(dim, heads * width, groups * width, width)]

    return answer


def _parameters(exercise: Exercise) -> list[float]:
    dim, heads, groups, width = _sizes(exercise)
    layer = MultiHeadAttention(dim, heads, num_kv_heads=groups, head_dim=width)
    return [layer.in_proj_weight.numel(), sum(p.numel() for p in layer.parameters())]


def _queries_only(exercise: Exercise) -> list[float]:
    dim, heads, _, width = _sizes(exercise)
    joined = heads * width
    first = sum(p.numel() for p in nn.Linear(dim, joined).parameters())
    last = sum(p.numel() for p in nn.Linear(joined, dim).parameters())
    return [dim * joined, first + last]


PARAMETERS: dict[str, Wrong] = {
    "right": _parameters,
    "counted-one-head": _layer(lambda dim, h, g, d: (d, d, (h * d, dim))),
    "full-key-value-heads": _layer(lambda dim, h, g, d: (h * d, h * d, (h * d, dim))),
    "counted-queries-only": _queries_only,
    "forgot-biases": _right_inputs(lambda dim, q, kv, d: _stored(dim, q, kv, (q, dim), False)),
    "forgot-output": _right_inputs(lambda dim, q, kv, d: _stored(dim, q, kv, None, True)),
    "square-output": _right_inputs(lambda dim, q, kv, d: _stored(dim, q, kv, (dim, dim), True)),
    "model-wide-heads": _layer(lambda dim, h, g, d: (h * dim, g * dim, (h * dim, dim))),
    "divided-width": _layer(lambda dim, h, g, d: (dim, g * (dim // h), (dim, dim))),
}


def _taken(**changes: int) -> Wrong:
    """Bytes of real tensors, of sizes that somebody takes them to have."""

    def answer(exercise: Exercise) -> list[float]:
        facts = _facts(exercise) | {
            name.replace("_", " ").replace("kv", "key/value"): value
            for name, value in changes.items()
        }
        sizes = [facts[name] for name in ("batch", "query heads", "positions")]
        batch, heads, length = sizes
        kind = {1: torch.int8, 2: torch.float16, 4: torch.float32}[facts["bytes per number"]]
        rows = facts.get("rows", length)
        scores = torch.empty(batch, heads, rows, length, dtype=kind, device="meta")
        groups = heads if "caches all" in facts else facts["key/value heads"]
        shape = (facts.get("parts", 2), facts.get("cached layers", facts["layers"]), batch)
        cache = torch.empty(*shape, groups, length, facts["head width"], dtype=kind, device="meta")
        return [scores.nbytes, cache.nbytes]

    return answer


BYTES: dict[str, Wrong] = {
    "right": _taken(),
    "counted-one-head": _taken(query_heads=1, kv_heads=1),
    "forgot-batch": _taken(batch=1),
    "counted-numbers": _taken(bytes_per_number=1),
    "cache-for-every-query-head": _taken(caches_all=1),
    "forgot-values": _taken(parts=1),
    "one-layer-cached": _taken(cached_layers=1),
    "row-for-table": _taken(rows=1),
}


def _reads(
    pipeline: Pipeline | None, shift: int, parts: int = 2, caches_all: bool = False
) -> Wrong:
    """Which key/value head each query head gets when their numbers go through a grouping."""

    def answer(exercise: Exercise) -> list[float]:
        facts = _facts(exercise)
        heads, groups = facts["query heads"], facts["key/value heads"]
        asked = [int(n) - 1 for n in re.findall(r"query head (\d+)", " ".join(exercise.asks))]
        kv = torch.arange(groups).double()[None, :, None, None]
        p = Problem(
            x_q=kv, x_k=kv, x_v=kv, weights=None, num_heads=heads, num_kv_heads=groups, scale=1.0
        )
        read = repeat_kv(kv, heads) if pipeline is None else pipeline.group(p, kv)
        cached = torch.empty(parts, heads if caches_all else groups, facts["head width"])
        return [*(float(read[0, h, 0, 0]) + shift for h in asked), cached.numel()]

    return answer


def _own(exercise: Exercise) -> list[float]:
    facts = _facts(exercise)
    asked = [float(n) for n in re.findall(r"query head (\d+)", " ".join(exercise.asks))]
    return [*asked, torch.empty(2, facts["query heads"], facts["head width"]).numel()]


def _shares_by_groups(exercise: Exercise) -> list[float]:
    facts = _facts(exercise)
    asked = [int(n) for n in re.findall(r"query head (\d+)", " ".join(exercise.asks))]
    runs = torch.arange(facts["query heads"]).repeat_interleave(facts["key/value heads"])
    cached = torch.empty(2, facts["key/value heads"], facts["head width"]).numel()
    return [*(float(runs[h - 1]) + 1 for h in asked), cached]


GROUPED: dict[str, Wrong] = {
    "right": _reads(None, 1),
    "grouped-order:tiled": _reads(TiledGroups(), 1),
    "grouped-order:first": _reads(OneGroup(), 1),
    "counted-from-zero": _reads(None, 0),
    "own-key-value-head": _own,
    "cache-for-every-query-head": _reads(None, 1, caches_all=True),
    "forgot-values": _reads(None, 1, parts=1),
    "shares-by-groups": _shares_by_groups,
}

COUNTED: dict[str, dict[str, Wrong]] = {
    "parameter-count": PARAMETERS,
    "byte-count": BYTES,
    "mask-rows": MASK_ROWS,
    "grouped-heads": GROUPED,
}
"""By kind and misconception; "right" is the right answer."""
