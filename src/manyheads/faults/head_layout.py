"""Faults of splitting and merging heads: every shape is right, the contents are not.

A tensor with the axes B, H, T, d is written to memory in one order and read back in another; that
one operation describes every view that should have been a transpose.
"""

from collections.abc import Callable
from itertools import permutations

from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults.catalogue import Variant

_AXES = "BHTd"
_ORDERS = tuple("".join(order) for order in permutations(_AXES))
_MEMORY = {"BTE": "BTHd", "TBE": "TBHd", "BET": "BHdT"}
_LAYOUTS = {"BTE": "(B, T, E)", "TBE": "(T, B, E)", "BET": "(B, E, T)"}


def misread(x: Tensor, memory: str, read: str) -> Tensor:
    """Write (B, H, T, d) to memory in one order of axes and read it back in another.

    Args:
        x: (B, H, T, d).
        memory: order of the axes in memory, such as "BTHd".
        read: order in which the memory is taken, such as "BHTd".
    """
    sizes = dict(zip(_AXES, x.shape, strict=True))
    flat = x.permute([_AXES.index(axis) for axis in memory]).reshape([sizes[axis] for axis in read])
    return flat.permute([read.index(axis) for axis in _AXES])


def _shape(order: str) -> str:
    return f"({', '.join(order)})"


class Relayout(Pipeline):
    """Misreads some of q, k and v when they are split, and head outputs when they are merged."""

    def __init__(
        self, split: tuple[str, str] | None, merge: tuple[str, str] | None, names: str = "qkv"
    ) -> None:
        self.split_orders, self.merge_orders, self.names = split, merge, names

    def split(self, p: Problem, joined: Tensor, num_heads: int, name: str) -> Tensor:
        """Split, misread where the variant does."""
        heads = super().split(p, joined, num_heads, name)
        if self.split_orders is None or name not in self.names:
            return heads
        return misread(heads, *self.split_orders)

    def merge(self, p: Problem, y: Tensor) -> Tensor:
        """Merge, misread where the variant does."""
        return super().merge(p, y if self.merge_orders is None else misread(y, *self.merge_orders))


_EXCHANGES = {("BHdT", "BTHd"), ("BTHd", "BHdT"), ("BHTd", "BHdT"), ("BHdT", "BHTd")}


def _is_exchange(memory: str, read: str) -> bool:
    """Whether just two neighbouring axes (or positions and all channels) change places."""
    swapped = memory.translate(str.maketrans("BT", "TB"))
    return swapped == read or (memory, read) in _EXCHANGES


def _split_id(memory: str, read: str) -> str:
    if memory.replace("Hd", "dH") == read:
        return "head-order"
    if {memory, read} == {"BHTd", "HBTd"}:
        return "folded-axes-misread"
    return "view-used-as-transpose" if _is_exchange(memory, read) else "split-by-view"


def _merge_id(memory: str, read: str) -> str:
    if memory.replace("dH", "Hd") == read or memory.replace("Hd", "dH") == read:
        return "head-order-at-concat"
    if memory.translate(str.maketrans("BH", "HB")) == read and "BH" in memory + read:
        return "folded-axes-misread"
    return "view-used-as-transpose" if _is_exchange(memory, read) else "merge-by-view"


def _only(layout: str) -> Callable[[Problem], bool]:
    return lambda p: p.layout == layout and p.weights is not None


def _relayout(
    layout: str, fault: str, key: str, says: str, pipeline: Relayout, is_legal: bool = False
) -> Variant:
    return Variant(
        fault=fault,
        key=f"{layout}:{key}",
        says=says,
        pipeline=pipeline,
        applies=_only(layout),
        is_legal=is_legal,
    )


def _split_variants(layout: str) -> list[Variant]:
    own, found = _MEMORY[layout], []
    for memory in dict.fromkeys((own, "BHTd", "BHdT")):
        for read in _ORDERS:
            if read == memory:
                continue
            fault = _split_id(memory, read)
            for names in ("qkv", "q", "k", "v", "qk", "kv"):
                says = (
                    f"the output equals that of reading {', '.join(names)}, stored in memory as "
                    f"{_shape(memory)}, as {_shape(read)} when heads are split"
                )
                pipeline = Relayout((memory, read), None, names)
                is_legal = fault == "head-order"
                key = f"split:{names}:{memory}>{read}"
                found.append(_relayout(layout, fault, key, says, pipeline, is_legal))
    return found


def _merge_variants(layout: str) -> list[Variant]:
    found = []
    orders = ("BHTd", _MEMORY[layout], "HBTd", "BTdH", "BHdT", "TBHd", "TBdH")
    for memory in dict.fromkeys(orders):
        for read in _ORDERS:
            if read == memory:
                continue
            fault = _merge_id(memory, read)
            says = (
                "the output equals that of reading head outputs, stored in memory as "
                f"{_shape(memory)}, as {_shape(read)} when they are concatenated"
            )
            is_legal = fault == "head-order-at-concat"
            key, pipeline = f"merge:{memory}>{read}", Relayout(None, (memory, read))
            found.append(_relayout(layout, fault, key, says, pipeline, is_legal))
    return found


def _both_id(memory: str, read: str) -> str:
    if _split_id(memory, read) == "head-order":
        return "head-order"
    is_turned = memory.translate(str.maketrans("BT", "TB")) == read
    return "view-used-as-transpose" if is_turned else "view-on-both-sides"


def _both_variants(layout: str) -> list[Variant]:
    memory, found = _MEMORY[layout], []
    for read in _ORDERS:
        if read == memory:
            continue
        fault = _both_id(memory, read)
        says = (
            f"the output equals that of reading {_LAYOUTS[layout]} memory as {_shape(read)} on the "
            "way in and back on the way out: the two views cancel, but the attention between them "
            "mixes heads"
        )
        pipeline = Relayout((memory, read), (read, memory))
        key = f"both:{memory}>{read}"
        found.append(_relayout(layout, fault, key, says, pipeline, fault == "head-order"))
        if read == "BHTd":
            says = f"the output equals that of viewing as {_shape(read)} on both sides"
            pipeline = Relayout((memory, read), (read, memory))
            found.append(_relayout(layout, "view-on-both-sides", f"views:{read}", says, pipeline))
    return found


class AttendsOverHeads(Pipeline):
    """Attention between the heads of one position."""

    def attend(
        self, p: Problem, q: Tensor, k: Tensor, v: Tensor, start: int
    ) -> tuple[Tensor, Tensor]:
        """Exchange the roles of heads and positions."""
        k, v = self.group(p, k), self.group(p, v)
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))  # (B, T, H, d)
        weights = (q @ k.mT * p.scale).softmax(dim=-1)
        return (weights @ v).transpose(1, 2), weights


class HeadsCombined(Pipeline):
    """Heads averaged (or summed) and repeated instead of concatenated."""

    def __init__(self, is_mean: bool) -> None:
        self.is_mean = is_mean

    def merge(self, p: Problem, y: Tensor) -> Tensor:
        """Every head's place gets the combination of all heads."""
        combined = y.mean(dim=1, keepdim=True) if self.is_mean else y.sum(dim=1, keepdim=True)
        return super().merge(p, combined.expand_as(y))


class HeadsRolled(Pipeline):
    """Head outputs joined in another order of heads."""

    def __init__(self, is_reversed: bool) -> None:
        self.is_reversed = is_reversed

    def merge(self, p: Problem, y: Tensor) -> Tensor:
        """Join reversed, or with the last head first."""
        return super().merge(p, y.flip(1) if self.is_reversed else y.roll(1, dims=1))


class TiledGroups(Pipeline):
    """Query head h reads key/value head h mod G."""

    def group(self, p: Problem, kv: Tensor) -> Tensor:
        """Tile 0, 1, 0, 1 instead of repeating 0, 0, 1, 1."""
        if p.weights is None and kv.shape[1] == p.num_heads:
            return kv
        return kv.repeat(1, p.num_heads // kv.shape[1], 1, 1)


class OneGroup(Pipeline):
    """All query heads read the first key/value head."""

    def group(self, p: Problem, kv: Tensor) -> Tensor:
        """Only head 0 is used."""
        return kv[:, :1].expand(-1, p.num_heads, -1, -1)


def _is_grouped(p: Problem) -> bool:
    return 1 < p.num_kv_heads < p.num_heads


def _same_length(p: Problem) -> bool:
    return not p.chunks and p.x_q.shape[-2] == p.x_k.shape[-2] and not p.masks


def _combined_heads() -> list[Variant]:
    same = "the output equals that of"
    rows: tuple[tuple[str, str, str, Pipeline], ...] = (
        (
            "heads-averaged",
            "mean",
            f"{same} averaging the heads and repeating the mean, instead of concatenating them",
            HeadsCombined(is_mean=True),
        ),
        (
            "heads-averaged",
            "sum",
            f"{same} summing the heads and repeating the sum, instead of concatenating them",
            HeadsCombined(is_mean=False),
        ),
        (
            "head-order-at-concat",
            "reversed",
            f"{same} concatenating the heads in reversed order",
            HeadsRolled(is_reversed=True),
        ),
        (
            "head-order-at-concat",
            "rolled",
            f"{same} concatenating the heads with the last one first",
            HeadsRolled(is_reversed=False),
        ),
    )
    return [
        Variant(fault=fault, key=key, says=says, pipeline=pipeline, is_legal=True)
        for fault, key, says, pipeline in rows
    ]


def _others() -> list[Variant]:
    over_heads = Variant(
        fault="attends-over-heads",
        key="heads",
        says="the output equals that of attention between the heads inside each position",
        pipeline=AttendsOverHeads(),
        applies=_same_length,
    )
    tiled = Variant(
        fault="grouped-order",
        key="tiled",
        says=(
            "the output equals that of query head h reading key/value head h mod G instead of h // "
            "(H / G)"
        ),
        pipeline=TiledGroups(),
        applies=_is_grouped,
        is_legal=True,
    )
    first = Variant(
        fault="grouped-order",
        key="first",
        says="the output equals that of every query head reading the first key/value head",
        pipeline=OneGroup(),
        applies=_is_grouped,
    )
    return [over_heads, *_combined_heads(), tiled, first]


def variants() -> list[Variant]:
    """All variants of this family."""
    found = _others()
    for layout in _MEMORY:
        found += [*_split_variants(layout), *_merge_variants(layout), *_both_variants(layout)]
    return found
