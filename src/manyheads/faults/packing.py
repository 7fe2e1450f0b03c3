"""Faults of unpacking: projections exchanged, and packed weights read in another arrangement."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.core.weights import HeadWeights
from manyheads.faults.projections import Change, OtherWeights
from manyheads.faults.variant import Variant


def _square_self(p: Problem) -> bool:
    return (
        p.weights is not None and p.weights.w_q.shape == p.weights.w_k.shape == p.weights.w_v.shape
    )


def _exchanged(order: str) -> Change:
    """Projections exchanged: the one that `order` names at place i serves the i-th of q, k, v."""

    def change(w: HeadWeights) -> HeadWeights:
        pairs = {
            f"w_{n}": getattr(w, f"w_{source}") for n, source in zip("qkv", order, strict=True)
        }
        pairs |= {
            f"b_{n}": getattr(w, f"b_{source}") for n, source in zip("qkv", order, strict=True)
        }
        return replace(w, **pairs)

    return change


def _exchange_fits(order: str) -> Callable[[Problem], bool]:
    def applies(p: Problem) -> bool:
        w = p.weights
        if w is None:
            return False
        return all(
            getattr(w, f"w_{n}").shape == getattr(w, f"w_{source}").shape
            for n, source in zip("qkv", order, strict=True)
        )

    return applies


def _labels(arrangement: str, heads: int, width: int) -> Tensor:
    """For each packed row, which (kind, head, channel) it belongs to, as one number."""
    grid = torch.arange(3 * heads * width).view(3, heads, width)  # kind, head, channel
    return grid.permute(["khi".index(axis) for axis in arrangement]).flatten()


def _repacked(stored: str, read: str) -> Change:
    def change(w: HeadWeights) -> HeadWeights:
        heads, width = w.num_heads, w.head_dim
        mine, theirs = _labels(stored, heads, width), _labels(read, heads, width)
        source = torch.empty_like(mine)
        source[theirs] = mine  # label taken by the reader -> label that lies there
        rows = torch.stack([t.mT for t in (w.w_q, w.w_k, w.w_v)]).flatten(0, 2)  # (3*H*d, D)
        parts = rows[source].unflatten(0, (3, heads, width))
        changed = {f"w_{n}": part.mT for n, part in zip("qkv", parts, strict=True)}
        biases = (w.b_q, w.b_k, w.b_v)
        if all(b is not None for b in biases):
            shuffled = torch.stack([b for b in biases if b is not None]).flatten()[source]
            parts = shuffled.unflatten(0, (3, heads, width))
            changed |= {f"b_{n}": part for n, part in zip("qkv", parts, strict=True)}
        return replace(w, **changed)

    return change


def _repacked_kv(read: str) -> Change:
    """Key and value blocks taken in another arrangement of (kind, head, channel)."""

    def change(w: HeadWeights) -> HeadWeights:
        heads, width = w.num_kv_heads, w.head_dim
        grid = torch.arange(2 * heads * width).view(2, heads, width)
        source = torch.empty(grid.numel(), dtype=torch.int64)
        source[grid.permute(["khi".index(axis) for axis in read]).flatten()] = grid.flatten()
        rows = torch.stack([w.w_k.mT, w.w_v.mT]).flatten(0, 2)
        parts = rows[source].unflatten(0, (2, heads, width))
        changed = {"w_k": parts[0].mT, "w_v": parts[1].mT}
        if w.b_k is not None and w.b_v is not None:
            shuffled = torch.stack([w.b_k, w.b_v]).flatten()[source].unflatten(0, (2, heads, width))
            changed |= {"b_k": shuffled[0], "b_v": shuffled[1]}
        return replace(w, **changed)

    return change


def _packs_kv(p: Problem) -> bool:
    return (
        p.arrangement == "packed_kv"
        and p.weights is not None
        and p.weights.w_k.shape == p.weights.w_v.shape
    )


def _in_words(order: str) -> str:
    pairs = zip("qkv", order, strict=True)
    return ", ".join(f"{n} by W_{source.upper()}" for n, source in pairs if n != source)


def _exchange(fault: str, order: str, says: str) -> Variant:
    return Variant(
        fault=fault,
        says=says,
        pipeline=OtherWeights(_exchanged(order)),
        applies=_exchange_fits(order),
        is_legal=True,
    )


def _orders() -> list[Variant]:
    found = []
    for order in map("".join, permutations("qkv")):
        if order != "qkv":
            says = (
                f"the output equals the formula with the projections exchanged: {_in_words(order)}"
            )
            found.append(_exchange("unpack-order", order, says))
    for order in ("qkk", "qvv", "qkq", "kkv", "qqv", "vkv", "qqq", "kkk"):
        says = (
            f"the output equals the formula with {_in_words(order)}: one projection is used twice, "
            "another not at all"
        )
        found.append(_exchange("wrong-tensor", order, says))
    return found


_READINGS = {
    "khi": "blocks q, k, v",
    "hki": "head by head",
    "hik": "channel by channel within a head",
    "kih": "blocks with heads varying fastest",
    "ihk": "head-minor by channel",
    "ikh": "head-minor by kind",
}
"""Orders of kind, head and channel in a packed matrix, in words."""
_STORED = (("packed", "khi"), ("packed_per_head", "hki"), ("mha", "khi"))


def _is_packed_as(arrangement: str) -> Callable[[Problem], bool]:
    return lambda p: p.arrangement == arrangement and _square_self(p)


def _packings() -> list[Variant]:
    found = []
    for arrangement, stored in _STORED:
        for read, text in _READINGS.items():
            if read == stored:
                continue
            says = (
                f"the output equals that of weights stored as {_READINGS[stored]} being read as "
                f"{text}"
            )
            found.append(
                Variant(
                    fault="packed-layout",
                    says=says,
                    pipeline=OtherWeights(_repacked(stored, read)),
                    applies=_is_packed_as(arrangement),
                    is_legal=True,
                )
            )
    return found


def _kv_packings() -> list[Variant]:
    opening = "the output equals that of key and value weights stored as blocks being read as"
    return [
        Variant(
            fault="packed-layout",
            says=f"{opening} {text}",
            pipeline=OtherWeights(_repacked_kv(read)),
            applies=_packs_kv,
            is_legal=True,
        )
        for read, text in _READINGS.items()
        if read != "khi"
    ]


def variants() -> list[Variant]:
    """All readings of this family."""
    return [*_orders(), *_packings(), *_kv_packings()]
