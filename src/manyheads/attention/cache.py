"""KVCache: keys and values of earlier positions, passed in and handed back.

It is never hidden in a module.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.core.errors import ShapeError


@dataclass(frozen=True, kw_only=True, eq=False)
class KVCache:
    """Keys and values of the positions seen so far; `KVCache()` is the empty one to begin with.

    A call never changes the cache it is given: it hands back a longer one, so that several
    continuations can start from the same cache.

    Raises:
        ShapeError: only one of k and v is given, one is no tensor, or they disagree about batch,
            heads or length.
    """

    k: Float[Tensor, "B G S d"] | None = None
    """Keys, (B, G, S, d), already turned where the layer has rotary positions."""
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
                    f"{name} ({kind}) must be a tensor: begin with manyheads.KVCache()"
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
        """A longer cache with the new positions at the end.

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
