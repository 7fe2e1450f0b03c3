"""The types of a call of the layer: what it returns follows from `need_weights` and `kv_cache`."""

from collections.abc import Callable
from typing import Literal, Protocol, TypedDict, Unpack, cast, overload, runtime_checkable

from torch import Tensor

from manyheads.attention.cache import KVCache

Result = Tensor | tuple[Tensor, Tensor] | tuple[Tensor, KVCache] | tuple[Tensor, Tensor, KVCache]


class Masks(TypedDict, total=False):
    """The masks of a call, as `MultiHeadAttention.forward` describes them."""

    attn_mask: Tensor | None
    key_padding_mask: Tensor | None
    is_causal: bool
    head_mask: Tensor | None


@runtime_checkable
class AttentionCall(Protocol):
    """A call of `MultiHeadAttention`, so that a type checker knows the exact result."""

    @overload
    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        need_weights: Literal[False] = False,
        kv_cache: None = None,
        **masks: Unpack[Masks],
    ) -> Tensor: ...

    @overload
    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        need_weights: Literal[True],
        kv_cache: None = None,
        **masks: Unpack[Masks],
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        need_weights: Literal[False] = False,
        kv_cache: KVCache,
        **masks: Unpack[Masks],
    ) -> tuple[Tensor, KVCache]: ...

    @overload
    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        need_weights: Literal[True],
        kv_cache: KVCache,
        **masks: Unpack[Masks],
    ) -> tuple[Tensor, Tensor, KVCache]: ...

    @overload
    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        need_weights: bool = False,
        kv_cache: KVCache,
        **masks: Unpack[Masks],
    ) -> tuple[Tensor, KVCache] | tuple[Tensor, Tensor, KVCache]: ...

    @overload
    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        need_weights: bool = False,
        kv_cache: None = None,
        **masks: Unpack[Masks],
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def typed_by_arguments(forward: Callable[..., Result]) -> AttentionCall:
    """Give a `forward` method the type of `AttentionCall`; the method itself stays as it is.

    Args:
        forward: the method.
    """
    return cast("AttentionCall", forward)
