"""Attention in blocks of query rows, so that no tensor of T x T numbers exists.

Each block is a call of the model's own eager function with some of the queries and the keys that
their mask allows. The mask is an object that makes its rows when they are asked for.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from manyheads.looking.interface import EagerFunction
from manyheads.looking.watching import Site, Watch

MOST_WEIGHTS = 7 << 20
"""Weights in a block that is a part of a text; glibc maps fresh pages for more than 32 MiB."""


@runtime_checkable
class TakesRows(Protocol):
    """What takes the weights of a block of queries."""

    def rows(self, layer: int, weights: Tensor, first: int, low: int, num_keys: int) -> None:
        """Take weights (B, H, R, K) of queries from `first` and keys from `low` of `num_keys`."""
        ...

    def messages(self, layer: int, message: Tensor) -> None:
        """Take the messages (B, T, H, v) of a whole layer."""
        ...


class LazyMask:
    """A mask (B, 1, T, S) whose rows are made on demand."""

    ndim = 4

    def __init__(self, make: Callable[..., Tensor | None], given: dict[str, Any]) -> None:
        self._make, self._given = make, given
        self.dtype, self.device = given.get("dtype"), given.get("device")
        self.shape = torch.Size((given["batch_size"], 1, given["q_length"], given["kv_length"]))
        self._keys = given["kv_length"]
        self._seen: dict[tuple[int, int, int], tuple[int, int]] = {}

    def size(self, axis: int | None = None) -> Any:  # noqa: ANN401 - as Tensor.size
        """As `Tensor.size`."""
        return self.shape if axis is None else self.shape[axis]

    def dim(self) -> int:
        """As `Tensor.dim`."""
        return self.ndim

    def to(self, *args: Any, **kwargs: Any) -> "LazyMask":  # noqa: ANN401 - as Tensor.to
        """The mask, which is made in the type and on the device of the model."""
        return self

    def __getitem__(self, index: Any) -> "LazyMask":  # noqa: ANN401 - as a tensor takes it
        """Cut the last axis; anything else is no row of a mask."""
        axes = index if isinstance(index, tuple) else (index,)
        axes = tuple(axis for axis in axes if axis is not Ellipsis)
        whole = all(axis == slice(None) for axis in axes[:-1])
        last = axes[-1] if axes else slice(None)
        if not whole or not isinstance(last, slice) or last.step or last.start:
            raise TypeError("a lazy mask gives rows only")
        cut = LazyMask(self._make, self._given)
        cut._keys = min(self._keys, last.stop if last.stop is not None else self._keys)
        cut.shape = torch.Size((*self.shape[:3], cut._keys))
        return cut

    def rows(self, start: int, stop: int) -> Tensor | None:
        """Rows of queries from `start` to `stop`, (B, 1, R, S); None if every key is allowed."""
        offset = self._given.get("q_offset", 0) + start
        given = self._given | {"q_length": stop - start, "q_offset": offset}
        made = self._make(**given)
        return None if made is None else made[..., : self._keys]

    def keys_seen(self, rows: Tensor | None, num_keys: int, start: int) -> tuple[int, int]:
        """As `_keys_seen`, computed once for all layers that share the mask and the block size."""
        place = (start, num_keys, 0 if rows is None else rows.shape[-2])
        if place not in self._seen:
            self._seen[place] = _keys_seen(rows, num_keys)
        return self._seen[place]


class RowBlocks(Watch):
    """Watches a forward pass in blocks of query rows."""

    def __init__(self, taker: TakesRows, *, batch: int, block: int, is_lazy: bool) -> None:
        super().__init__(batch=batch, keep_messages=True, on_site=self._whole)
        self._taker, self._block, self._is_lazy = taker, block, is_lazy

    def mask(self, eager: Callable[..., Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - a mask
        """A mask that makes its rows on demand."""
        return LazyMask(eager, kwargs) if self._is_lazy else eager(**kwargs)

    def attend(
        self, eager: EagerFunction, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Tensor, Tensor | None]:
        """Compute a call block by block."""
        query, key, value = args[:3]
        mask: Any = args[3] if len(args) > 3 else kwargs.get("attention_mask")
        T, S = query.shape[2], key.shape[2]
        layer, outs = len(self.sites), []
        block = self._queries_at_a_time(T, query.shape[0] * query.shape[1] * S)
        for start in range(0, T, block):
            stop = min(start + block, T)
            rows = _rows_of(mask, start, stop)
            is_lazy = isinstance(mask, LazyMask)
            low, high = mask.keys_seen(rows, S, start) if is_lazy else _keys_seen(rows, S)
            part = None if rows is None else rows[..., low:high]
            keys, values = key[:, :, low:high], value[:, :, low:high]
            options = {
                k: _cut(v, (T, S), (start, stop), (low, high))
                for k, v in kwargs.items()
                if k != "attention_mask"
            }
            self._is_inside = True
            out, weights = eager(module, query[:, :, start:stop], keys, values, part, **options)
            self._is_inside = False
            assert weights is not None
            with torch._C.DisableTorchFunction():
                self._taker.rows(layer, weights, start, low, S)
            outs.append(out)
        message = torch.cat(outs, dim=1)
        with torch._C.DisableTorchFunction():
            self._taker.messages(layer, message)
        self.sites.append(_site(layer, module, query, key, S))
        return message, None

    def _queries_at_a_time(self, num_queries: int, per_query: int) -> int:
        """Few enough that the weights take memory that is used again, not fresh pages."""
        if num_queries <= self._block:
            return num_queries
        return max(1, min(self._block, MOST_WEIGHTS // per_query))

    def _whole(self, site: Site) -> None:
        """A call that is not read through the interface gives its weights at once."""
        assert site.weights is not None
        self._taker.rows(site.index, site.weights, 0, 0, site.shape[2])
        if site.message is not None:
            self._taker.messages(site.index, site.message)
        site.weights = site.message = None


def _site(layer: int, module: nn.Module, query: Tensor, key: Tensor, num_keys: int) -> Site:
    return Site(
        index=layer,
        module=module,
        read_by="interface",
        num_heads=query.shape[1],
        num_groups=key.shape[1],
        shape=(query.shape[0], query.shape[2], num_keys),
    )


def _rows_of(mask: Tensor | LazyMask | None, start: int, stop: int) -> Tensor | None:
    if isinstance(mask, LazyMask):
        return mask.rows(start, stop)
    if mask is None or mask.shape[-2] == 1:
        return mask
    return mask[:, :, start:stop]


def _keys_seen(rows: Tensor | None, num_keys: int) -> tuple[int, int]:
    """The keys between the first and the last that a block's mask allows."""
    if rows is None or rows.shape[-1] != num_keys:
        return 0, num_keys
    allowed = rows if rows.dtype == torch.bool else rows > torch.finfo(rows.dtype).min / 2
    by_row = allowed.flatten(0, -2)
    if not bool(by_row.any(dim=1).all()):  # a row without a key: eager gives it equal weights
        return 0, num_keys
    seen = by_row.any(dim=0).nonzero()[:, 0]
    return int(seen[0]), int(seen[-1]) + 1


def _cut(value: Any, full: tuple[int, int], rows: tuple[int, int], keys: tuple[int, int]) -> Any:  # noqa: ANN401 - any argument
    """The part of a bias (..., T, S) that belongs to a block."""
    if isinstance(value, Tensor) and value.ndim >= 3 and tuple(value.shape[-2:]) == full:
        return value[..., rows[0] : rows[1], keys[0] : keys[1]]
    return value
