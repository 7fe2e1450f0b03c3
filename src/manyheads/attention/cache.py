"""KVCache: keys and values of earlier positions, passed to a call and returned by it.

A module never stores it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.core.errors import ShapeError
from manyheads.core.numbers import whole_number


@dataclass(frozen=True, kw_only=True, eq=False)
class KVCache:
    """Keys and values of the positions seen so far; `KVCache()` is the empty one to begin with.

    Nothing changes a cache: a call returns a longer one, and every method a new one, so that
    several continuations can start from the same cache.

    Raises:
        ShapeError: only one of k and v is given, one is not a tensor, or they disagree about batch,
            heads or length.
    """

    k: Float[Tensor, "B G S d"] | None = None
    """Keys, (B, G, S, d), already rotated if the layer has rotary positions."""
    v: Float[Tensor, "B G S v"] | None = None
    """Values, (B, G, S, v)."""

    def __post_init__(self) -> None:
        """Check that keys and values belong together."""
        if (self.k is None) != (self.v is None):
            raise ShapeError("k and v must be given together: use KVCache() for an empty cache")
        for name, tensor in (("k", self.k), ("v", self.v)):
            if tensor is not None and not isinstance(tensor, Tensor):
                kind = type(tensor).__name__
                raise ShapeError(
                    f"{name} ({kind}) must be a tensor: start with manyheads.KVCache()"
                )
            if tensor is not None and tensor.dim() != 4:
                shape = tuple(tensor.shape)
                raise ShapeError(f"{name} has shape {shape}, expected (B, G, S, d): give four axes")
        if self.k is not None and self.v is not None and self.k.shape[:3] != self.v.shape[:3]:
            raise ShapeError(
                f"k has shape {tuple(self.k.shape)} and v {tuple(self.v.shape)}: "
                "their batch, heads and length must agree"
            )

    @property
    def seq_len(self) -> int:
        """How many positions are cached."""
        return 0 if self.k is None else self.k.shape[2]

    def appended(self, k: Float[Tensor, "B G T d"], v: Float[Tensor, "B G T v"]) -> "KVCache":
        """Return a longer cache with the new positions at the end.

        Args:
            k: keys of the new positions, (B, G, T, d).
            v: values of the new positions, (B, G, T, v).

        Raises:
            ShapeError: batch, heads, width or dtype differ from what is cached.
        """
        if self.k is None or self.v is None:
            return KVCache(k=k, v=v)
        for name, old, new in (("k", self.k, k), ("v", self.v, v)):
            if (old.shape[:2], old.shape[3], old.dtype) != (new.shape[:2], new.shape[3], new.dtype):
                raise ShapeError(
                    f"kv_cache.{name} has shape {tuple(old.shape)} and dtype {old.dtype}, but "
                    f"the new positions have {tuple(new.shape)} and {new.dtype}: "
                    "pass the cache of this layer and this batch"
                )
        return KVCache(k=torch.cat((self.k, k), dim=2), v=torch.cat((self.v, v), dim=2))

    def crop(self, seq_len: int) -> "KVCache":
        """Return a cache with the first positions only, to go back to an earlier position.

        Args:
            seq_len: how many positions to keep, from 0 to the number cached.

        Raises:
            ConfigError: seq_len is not a whole number.
            ShapeError: seq_len is more than the number cached, or negative.
        """
        seq_len = whole_number("seq_len", seq_len)
        if not 0 <= seq_len <= self.seq_len:
            raise ShapeError(
                f"seq_len ({seq_len}) must be from 0 to {self.seq_len}, the positions cached: "
                "crop to one of those"
            )
        return self._mapped(lambda x: x[:, :, :seq_len])

    def select(self, rows: Tensor) -> "KVCache":
        """Return the given samples of the batch, in the given order, also several times.

        Args:
            rows: indices of samples from 0, or a Boolean (B,), True = keep.

        Raises:
            ShapeError: indices that are not integers, or not of samples of this cache.
        """
        if self.k is None:
            return self
        batch = self.k.shape[0]
        if not isinstance(rows, Tensor):
            kind = type(rows).__name__
            raise ShapeError(f"rows ({kind}) must be a tensor of indices: use torch.tensor(rows)")
        if rows.dim() != 1 or rows.is_floating_point() or rows.is_complex():
            raise ShapeError(
                f"rows has shape {tuple(rows.shape)} and dtype {rows.dtype}, expected one axis of "
                "integers or torch.bool: give the indices of samples"
            )
        is_mask = rows.dtype == torch.bool
        if is_mask and len(rows) != batch:
            raise ShapeError(
                f"rows has shape ({len(rows)},), expected (B,) = ({batch},): give True or False "
                "for each sample"
            )
        if not is_mask and len(rows) and not (0 <= int(rows.min()) <= int(rows.max()) < batch):
            raise ShapeError(
                f"rows ({int(rows.min())} to {int(rows.max())}) must be samples of this cache: "
                f"use indices from 0 to {batch - 1}"
            )
        if not is_mask:
            rows = rows.long()  # torch would read uint8 as a mask
        return self._mapped(lambda x: x[rows.to(x.device)])

    def reorder(self, beams: Tensor) -> "KVCache":
        """The cache after a step of beam search: row b continues what row beams[b] held.

        Args:
            beams: (B,), the row that each new row continues.

        Raises:
            ShapeError: the number of indices is not the number of rows, or an index is not a row.
        """
        if not isinstance(beams, Tensor):
            kind = type(beams).__name__
            raise ShapeError(f"beams ({kind}) must be a tensor of indices: use torch.tensor(beams)")
        if self.k is not None and (beams.dtype == torch.bool or beams.shape != self.k.shape[:1]):
            raise ShapeError(
                f"beams has shape {tuple(beams.shape)} and dtype {beams.dtype}, expected one index "
                f"for each of the {self.k.shape[0]} rows: use select for another number of rows"
            )
        return self.select(beams)

    def to(
        self,
        *args: torch.device | str | torch.dtype | int,
        **kwargs: torch.device | str | torch.dtype | int | None,
    ) -> "KVCache":
        """The cache on another device or in another dtype; arguments as in `torch.Tensor.to`."""
        return self._mapped(lambda x: x.to(*args, **kwargs))  # type: ignore[call-overload]

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> "KVCache":
        if self.k is None or self.v is None:
            return self
        return KVCache(k=change(self.k), v=change(self.v))
