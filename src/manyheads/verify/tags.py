"""Follows numbers through operations that only move them: where did each number come from?

Every number of an input has a tag: its position, its place in the row. Views, copies, concatenation
and indexing move tags as they move numbers; operations on single numbers keep them; sums lose them.
So the tags of the rows that are multiplied say which position and which head each one belongs to,
whatever the axes are called and however loops cut them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyheads.verify.watch import Event, storage_of, tensors_in

NONE, MIXED = -1, -2
"""Tags of a number that comes from no input, and of one that comes from several places."""

_ROW_WISE = {"native_layer_norm", "_fused_rms_norm", "_softmax", "_safe_softmax", "_log_softmax"}
_ROW_WISE |= {"rms_norm", "native_dropout"}
_MOVES = {"clone", "copy_", "cat", "stack", "index", "index_select", "repeat", "roll", "flip"}
_MOVES |= {"constant_pad_nd", "_to_copy", "index_put_", "index_put", "slice_scatter", "gather"}
_MOVES |= {"select_scatter", "_unsafe_index", "repeat_interleave", "index_copy_", "index_copy"}
_MOVES |= {"_reshape_copy", "_reshape_alias_copy", "unfold_copy", "as_strided_copy", "narrow_copy"}
_WRITES = {"copy_": 1, "index_put_": 2, "index_put": 2}
"""Operations that write one argument, given by its place, into the first."""
_LOSE = {"sum", "mean", "amax", "amin", "max", "min", "norm", "linalg_vector_norm", "var", "std"}
_LOSE |= {"bmm", "mm", "addmm", "baddbmm", "mv", "dot", "convolution", "var_mean", "prod"}
_LOSE |= {"cumsum", "native_group_norm", "native_batch_norm"}
_LOSE |= {"zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"}
_LOSE |= {"new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided"}
_LOSE |= {"argmax", "topk", "sort", "logsumexp", "any", "all"}


def is_move(event: Event) -> bool:
    """Whether an operation only moves numbers."""
    return event.op in _MOVES


class Tags:
    """The tags of one kind of all tensors that a call has used so far."""

    def __init__(self) -> None:
        self._flat: dict[int, Tensor] = {}

    def of(self, x: Tensor) -> Tensor | None:
        """Tags in the shape of a tensor; None where it has none."""
        flat = self._flat.get(storage_of(x))
        if flat is None:
            return None
        if x.is_complex():
            sizes, strides, start = (
                (*x.shape, 2),
                (*(2 * s for s in x.stride()), 1),
                2 * x.storage_offset(),
            )
            pairs = flat.as_strided(sizes, strides, start)
            return combined(pairs[..., 0], pairs[..., 1])
        return flat.as_strided(x.shape, x.stride(), x.storage_offset())

    def put(self, x: Tensor, tags: Tensor) -> None:
        """Give a tensor tags, which every view of it shares."""
        where = storage_of(x)
        if where not in self._flat:
            size = x.untyped_storage().nbytes() // x.element_size() * (2 if x.is_complex() else 1)
            self._flat[where] = torch.full((size,), NONE, dtype=torch.int64)
        if x.is_complex():
            tags = tags[..., None].expand(*tags.shape, 2)
            x = torch.view_as_real(x)
        self._flat[where].as_strided(x.shape, x.stride(), x.storage_offset()).copy_(
            tags.expand(x.shape)
        )

    def follow(self, event: Event) -> None:
        """Move tags as an operation moves numbers."""
        if not event.writes or not event.out:
            return
        given = list(tensors_in(*event.args, *event.keywords.values()))
        if all(self.of(x) is None for x in given):
            if any(storage_of(x) in self._flat for x in event.out):  # memory that is used again
                self._lose(event)
        elif event.op in _LOSE or event.op.startswith("_scaled_dot_product"):
            self._lose(event)
        elif event.op in _MOVES:
            self._move(event)
        elif event.op in _ROW_WISE:
            self._keep(event, given[0])
        else:
            self._single_numbers(event, given)

    def _lose(self, event: Event) -> None:
        """Remove the tags of the results."""
        for x in event.out:
            self.put(x, torch.tensor(NONE))

    def _keep(self, event: Event, first: Tensor) -> None:
        """Give the first result the tags of the first argument if both have the same shape."""
        tags = self.of(first)
        if tags is not None and event.out[0].shape == first.shape:
            self.put(event.out[0], tags)

    def _move(self, event: Event) -> None:
        """Do the operation on tags instead of numbers; writing one constant changes none."""
        written = event.args[_WRITES[event.op]] if event.op in _WRITES else None
        if isinstance(written, Tensor) and written.dim() == 0 and self.of(written) is None:
            self._keep(event, event.args[0])
            return
        args = [self._as_tags(a) for a in event.args]
        keywords = {
            n: self._as_tags(a)
            for n, a in event.keywords.items()
            if n not in ("dtype", "device", "layout", "memory_format", "non_blocking", "pin_memory")
        }
        out = event.out[0]
        if event.op == "_to_copy":
            self.put(out, args[0])
        elif event.op == "constant_pad_nd":
            self.put(out, event.func(args[0], args[1], NONE))
        elif event.func._schema.is_mutable:  # type: ignore[attr-defined]
            changed = args[0].clone()
            event.func(changed, *args[1:], **keywords)
            self.put(out, changed)
        else:
            self.put(out, event.func(*args, **keywords))

    def _as_tags(self, value: Any) -> Any:  # noqa: ANN401 - any argument
        if isinstance(value, Tensor):
            found = self.of(value)
            if found is not None:
                return found
            is_data = value.is_floating_point() or value.is_complex()
            return torch.full(value.shape, NONE, dtype=torch.int64) if is_data else value
        if isinstance(value, list | tuple):
            return type(value)(self._as_tags(item) for item in value)
        return value

    def _single_numbers(self, event: Event, given: list[Tensor]) -> None:
        """An operation on single numbers: the result has the tags of what it is made of."""
        out = event.out[0]
        found: Tensor | None = None
        for x in given:
            tags = self.of(x)
            if tags is None or tags.dim() > out.dim():
                continue
            try:
                tags = tags.expand(out.shape)
            except RuntimeError:
                continue
            found = tags if found is None else combined(found, tags)
        self.put(out, torch.tensor(NONE) if found is None else found)


def combined(first: Tensor, second: Tensor) -> Tensor:
    """The tags of a number made of two: either one's where the other has none."""
    either = torch.where(first == NONE, second, first)
    differ = (first != NONE) & (second != NONE) & (first != second)
    return either.masked_fill(differ, MIXED)


def of_rows(tags: Tensor) -> Tensor:
    """The tag of each row (..., K) if it is one, else MIXED."""
    first = tags[..., :1]
    same = (tags == first).all(dim=-1)
    return torch.where(same, first[..., 0], torch.tensor(MIXED))


def varies(tags: Tensor) -> bool:
    """Whether tags differ along rows."""
    return bool((tags != tags[..., :1]).any())


@dataclass(frozen=True, kw_only=True, eq=False)
class Product:
    """A product of two matrices.

    out[n, m, p] is the sum over k of left[n, m, k] * right[n, p, k].
    """

    event: Event
    """The operation; for a product written as `(a * b).sum()`, the sum."""
    left: Tensor
    """(N, M, K) numbers."""
    right: Tensor
    """(N, P, K) numbers."""
    left_of: Callable[[Tags], Tensor | None]
    """Tags of the left factor in that form."""
    right_of: Callable[[Tags], Tensor | None]
    """Tags of the right factor in that form."""
    shaped: Callable[[Tensor], Tensor]
    """(N, M, P) in the shape of the result."""
    left_place: Tensor
    """The tensor from which the left factor was read."""
    right_place: Tensor
    """The tensor from which the right factor was read."""


Turn = Callable[[Tensor], Tensor]


def _product(event: Event, a: int, b: int, left: Turn, right: Turn, shaped: Turn) -> Product:
    tensors = list(tensors_in(*event.args))

    def of(index: int, turn: Turn) -> Callable[[Tags], Tensor | None]:
        def read(tags: Tags) -> Tensor | None:
            found = tags.of(tensors[index])
            return None if found is None else turn(found)

        return read

    return Product(
        event=event,
        left=left(event.given[a]),
        right=right(event.given[b]),
        left_of=of(a, left),
        right_of=of(b, right),
        shaped=shaped,
        left_place=tensors[a],
        right_place=tensors[b],
    )


def product_of(event: Event, makers: dict[int, Event]) -> Product | None:
    """The product that an operation is, or None.

    Args:
        event: the operation.
        makers: for each storage the operation that made it, for sums of products.
    """
    op = event.op
    if op in ("bmm", "baddbmm"):
        a = 1 if op == "baddbmm" else 0
        return _product(event, a, a + 1, _same, lambda x: x.mT, _same)
    if op in ("mm", "addmm"):
        a = 1 if op == "addmm" else 0
        return _product(event, a, a + 1, lambda x: x[None], lambda x: x.mT[None], lambda x: x[0])
    if op == "mv":
        return _product(
            event, 0, 1, lambda x: x[None], lambda x: x[None, None], lambda x: x[0, :, 0]
        )
    if op == "dot":
        return _product(
            event, 0, 1, lambda x: x[None, None], lambda x: x[None, None], lambda x: x[0, 0, 0]
        )
    if op == "convolution":
        return _convolution(event)
    if op == "sum":
        return _sum_of_products(event, makers)
    return None


def _same(x: Tensor) -> Tensor:
    return x


def _convolution(event: Event) -> Product | None:
    x, weight = event.given[0], event.given[1]
    if x.dim() != weight.dim() or weight[0, 0].numel() != 1 or event.args[-1] != 1:
        return None
    batch, places = x.shape[0], x.shape[2:]

    def rows(x: Tensor) -> Tensor:
        return x.flatten(2).transpose(1, 2).flatten(0, 1)[None]

    def shaped(out: Tensor) -> Tensor:
        in_places: Tensor = out[0].unflatten(0, (batch, -1)).transpose(1, 2).unflatten(2, places)
        return in_places

    return _product(event, 0, 1, rows, lambda w: w.flatten(1)[None], shaped)


def _sum_of_products(event: Event, makers: dict[int, Event]) -> Product | None:
    """`(a * b).sum(axis)` as a product."""
    summed = event.args[0]
    made = makers.get(storage_of(summed))
    if made is None or made.op != "mul" or len(event.args) < 2 or not event.args[1]:
        return None
    factors = list(tensors_in(*made.args))
    axes = event.args[1]
    if len(factors) != 2 or len(axes) != 1 or storage_of(factors[0]) == storage_of(factors[1]):
        return None
    if made.out[0].shape != summed.shape:
        return None
    shape, axis = summed.shape, int(axes[0]) % summed.dim()
    own = [_own_axes(factor, len(shape)) for factor in factors]
    kept = [i for i in range(len(shape)) if i != axis]
    both = [i for i in kept if own[0][i] and own[1][i]]
    first = [i for i in kept if i not in both and not own[1][i]]
    second = [i for i in kept if i not in both and i not in first]

    def rows(number: int, axes: list[int]) -> Turn:
        other = second if number == 0 else first

        def turned(x: Tensor) -> Tensor:
            x = x.reshape((1,) * (len(shape) - x.dim()) + tuple(x.shape))
            for i in other:
                x = x.narrow(i, 0, 1)
            sizes = [1 if i in other else shape[i] for i in range(len(shape))]
            x = x.expand(sizes).permute(*both, *axes, *other, axis)
            return x.reshape(_count(shape, both), _count(shape, axes), shape[axis])

        return turned

    order = [*both, *first, *second]

    def shaped(out: Tensor) -> Tensor:
        whole = out.reshape([shape[i] for i in order])
        return whole.permute([order.index(i) for i in kept]).reshape(event.out[0].shape)

    return _product(_replaced(made, event), 0, 1, rows(0, first), rows(1, second), shaped)


def _own_axes(factor: Tensor, count: int) -> list[bool]:
    """On which of the axes of a product a factor has numbers of its own."""
    sizes = zip(factor.shape, factor.stride(), strict=True)
    own = [size > 1 and stride != 0 for size, stride in sizes]
    return [False] * (count - len(own)) + own


def _count(shape: torch.Size, axes: list[int]) -> int:
    return math.prod(shape[i] for i in axes)


def _replaced(made: Event, event: Event) -> Event:
    """The sum as an operation on the two factors."""
    return Event(
        number=event.number,
        op="sum of products",
        func=event.func,
        args=made.args,
        keywords={},
        out=event.out,
        values=event.values,
        given=made.given,
        line=event.line,
        writes=True,
    )
