"""Faults of projections: whose weights a head uses, how they are unpacked, what is left out."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, permutations

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.core.weights import HeadWeights
from manyheads.faults.catalogue import Variant

WeightChange = Callable[[HeadWeights], HeadWeights]


class OtherWeights(Pipeline):
    """Uses weights that are a rearrangement of the declared ones."""

    def __init__(self, change: WeightChange) -> None:
        self.change = change

    def weights(self, p: Problem, weights: HeadWeights) -> HeadWeights:
        """The rearranged weights."""
        return self.change(weights)

    def project_out(self, p: Problem, concat: Tensor, weights: HeadWeights) -> Tensor:
        """The output projection with the rearranged weights."""
        return super().project_out(p, concat, self.change(weights))


def _without_bias(names: str) -> WeightChange:
    def change(w: HeadWeights) -> HeadWeights:
        return HeadWeights(
            **{n: t for n, t in w.tensors().items() if not (n[0] == "b" and n[2] in names)}
        )

    return change


def _has_biases(names: str) -> Callable[[Problem], bool]:
    return lambda p: (
        p.weights is not None and all(getattr(p.weights, f"b_{n}") is not None for n in names)
    )


def _sliced(w: HeadWeights) -> HeadWeights:
    """Each head's matrices with every row zero but those of its own slice of the input."""
    keep = {}
    for name in ("w_q", "w_k", "w_v"):
        tensor = getattr(w, name)
        heads, rows, _ = tensor.shape
        mask = torch.zeros(heads, rows, 1, dtype=tensor.dtype)
        for h in range(heads):
            mask[h, h * rows // heads : (h + 1) * rows // heads] = 1
        keep[name] = tensor * mask
    return replace(w, **keep)


def _first_head_for_all(w: HeadWeights) -> HeadWeights:
    changed = {n: t[:1].expand_as(t) for n, t in w.tensors().items() if n[2] in "qkv"}
    return replace(w, **changed)


def _biases() -> list[Variant]:
    found = []
    for size in (1, 2, 3, 4):
        for names in map("".join, combinations("qkvo", size)):
            text = ", ".join(f"b_{n.upper()}" for n in names)
            found.append(
                Variant(
                    fault="bias-dropped",
                    key=names,
                    says=f"the output equals the formula without {text}",
                    pipeline=OtherWeights(_without_bias(names)),
                    applies=_has_biases(names),
                    is_legal=True,
                )
            )
    return found


def _whose_weights() -> list[Variant]:
    """All variants of this family."""
    shared = Variant(
        fault="heads-share-parameters",
        key="first",
        says="the output equals that of every head using the projections of the first",
        pipeline=OtherWeights(_first_head_for_all),
        applies=lambda p: p.weights is not None and p.num_heads > 1,
        is_legal=True,
    )
    sliced = Variant(
        fault="heads-read-input-slices",
        key="slices",
        says="the output equals that of each head reading only its slice of the input",
        pipeline=OtherWeights(_sliced),
        applies=lambda p: p.weights is not None and p.weights.w_q.shape[1] % p.num_heads == 0,
        is_legal=True,
    )
    return [shared, sliced, *_biases()]


def _square_self(p: Problem) -> bool:
    return (
        p.weights is not None and p.weights.w_q.shape == p.weights.w_k.shape == p.weights.w_v.shape
    )


def _exchanged(order: str) -> WeightChange:
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


def _repacked(stored: str, read: str) -> WeightChange:
    def change(w: HeadWeights) -> HeadWeights:
        heads, width = w.num_heads, w.head_dim
        mine, theirs = _labels(stored, heads, width), _labels(read, heads, width)
        source = torch.empty_like(mine)
        source[theirs] = mine  # label taken by the reader -> label that is stored there
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


def _repacked_kv(read: str) -> WeightChange:
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
        key=order,
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
                    key=f"{arrangement}:{read}",
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
            key=f"packed_kv:{read}",
            says=f"{opening} {text}",
            pipeline=OtherWeights(_repacked_kv(read)),
            applies=_packs_kv,
            is_legal=True,
        )
        for read, text in _READINGS.items()
        if read != "khi"
    ]


def _unpackings() -> list[Variant]:
    """All variants of this family."""
    return [*_orders(), *_packings(), *_kv_packings()]


class Unprojected(Pipeline):
    """Leaves one projection out."""

    def __init__(self, name: str) -> None:
        self.name = name

    def project(self, p: Problem, x: Tensor, w: Tensor, b: Tensor | None, name: str) -> Tensor:
        """The input itself for the projection that is left out."""
        return x if name == self.name else super().project(p, x, w, b, name)

    def project_out(self, p: Problem, concat: Tensor, weights: HeadWeights) -> Tensor:
        """The joined heads themselves where the output projection is left out."""
        return concat if self.name == "o" else super().project_out(p, concat, weights)


def _fits_unprojected(name: str) -> Callable[[Problem], bool]:
    def applies(p: Problem) -> bool:
        w = p.weights
        if w is None or (name == "o" and not p.has_out):
            return False
        sizes = {
            "q": (w.w_q.shape[1], w.num_heads * w.head_dim),
            "k": (w.w_k.shape[1], w.num_kv_heads * w.head_dim),
            "v": (w.w_v.shape[1], w.num_kv_heads * w.v_head_dim),
            "o": (w.num_heads * w.v_head_dim, w.w_o.shape[2]),
        }
        return sizes[name][0] == sizes[name][1]

    return applies


def _transpose_joined(tensor: Tensor) -> Tensor:
    """(H, D, d) seen as one (D, H*d) matrix, transposed, and cut into heads again."""
    heads = tensor.shape[0]
    joined = tensor.permute(1, 0, 2).flatten(1).T
    split: Tensor = joined.unflatten(1, (heads, -1))
    return split.permute(1, 0, 2)


def _transposed(names: str) -> WeightChange:
    def change(w: HeadWeights) -> HeadWeights:
        changed = {f"w_{n}": _transpose_joined(getattr(w, f"w_{n}")) for n in names if n != "o"}
        if "o" in names:
            changed["w_o"] = w.w_o.flatten(0, 1).T.unflatten(0, (w.num_heads, -1))
        return replace(w, **changed)

    return change


def _can_transpose(names: str) -> Callable[[Problem], bool]:
    return lambda p: all(_fits_unprojected(name)(p) for name in names)


def _unused() -> list[Variant]:
    found = []
    for name, fault in (("v", "value-projection-unused"), ("o", "output-projection-missing")):
        what = (
            "values are the unprojected input"
            if name == "v"
            else "the concatenated heads are returned without the projection"
        )
        found.append(
            Variant(
                fault=fault,
                key=name,
                says=f"the output equals the formula when {what}",
                pipeline=Unprojected(name),
                applies=_fits_unprojected(name),
                is_legal=True,
            )
        )
    for name in "qk":
        found.append(
            Variant(
                fault="wrong-tensor",
                key=f"unprojected:{name}",
                says=f"the output equals the formula when {name} is the unprojected input",
                pipeline=Unprojected(name),
                applies=_fits_unprojected(name),
                is_legal=True,
            )
        )
    return found


def _transposes() -> list[Variant]:
    found = []
    for size in (3, 4, 1, 2):
        for names in map("".join, combinations("qkvo", size)):
            text = ", ".join(f"W_{n.upper()}" for n in names)
            found.append(
                Variant(
                    fault="weight-transposed",
                    key=names,
                    says=f"the output equals the formula with {text} transposed",
                    pipeline=OtherWeights(_transposed(names)),
                    applies=_can_transpose(names),
                    is_legal=True,
                )
            )
    return found


def _left_out() -> list[Variant]:
    """All variants of this family."""
    return [*_unused(), *_transposes()]


def variants() -> list[Variant]:
    """All variants of this family, the likelier first."""
    return [*_whose_weights(), *_unpackings(), *_left_out()]
