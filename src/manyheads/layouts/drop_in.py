"""DropInAttention: our layer behind the signature and conventions of `nn.MultiheadAttention`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.attention.hooks import At
from manyheads.attention.module import MultiHeadAttention
from manyheads.attention.packed import weighted_values
from manyheads.attention.parameters import has_plain_out_proj
from manyheads.attention.steps import ProjectedHeads
from manyheads.core.errors import ConfigError, ShapeError
from manyheads.core.masks import Visibility, additive_from_allowed, allowed_from_blocked


class TorchCall(Protocol):
    """A call of `DropInAttention`, for type checkers."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As `DropInAttention.forward`."""
        ...


class DropInAttention(MultiHeadAttention):
    """Our layer in place of an `nn.MultiheadAttention`, inside `nn.Transformer` and its layers.

    `forward`, its masks, its results, the attributes and the state dict are those of torch. Heads,
    hooks, `trace` and `form` are those of `MultiHeadAttention`, with its own conventions. Made by
    `from_torch(module, drop_in=True)`.

    The fast path that `nn.TransformerEncoderLayer` takes in evaluation reads the parameters and
    does not call `forward`: it is taken unless a hook is registered on a head.

    Args:
        batch_first: as in `nn.MultiheadAttention`.
        **options: as in `MultiHeadAttention`.
    """

    fits_torch = True
    bias_k: None = None
    bias_v: None = None
    add_zero_attn = False
    merge_masks = nn.MultiheadAttention.merge_masks

    def __init__(self, *, batch_first: bool, **options: Any) -> None:  # noqa: ANN401 - as above
        super().__init__(**options)
        self.batch_first = batch_first

    @property
    def embed_dim(self) -> int:
        """D, the width of the query input and of the output."""
        return self.config.embed_dim

    @property
    def num_heads(self) -> int:
        """H, the number of heads."""
        return self.config.num_heads

    @property
    def head_dim(self) -> int:
        """d, the width of one head."""
        return self.config.head_dim

    @property
    def kdim(self) -> int:
        """The width of the key input."""
        return self.config.kdim

    @property
    def vdim(self) -> int:
        """The width of the value input."""
        return self.config.vdim

    @property
    def dropout(self) -> float:
        """The fraction of attention weights dropped in training."""
        return self.config.dropout

    @property
    def _qkv_same_embed_dim(self) -> bool:
        """Whether torch's fast path may read the parameters instead of calling `forward`."""
        is_plain = has_plain_out_proj(self) and not self.is_hooked
        return self.config.has_one_input_width and is_plain

    def extra_repr(self) -> str:
        """The configuration, for printing."""
        return f"{super().extra_repr()}, batch_first={self.batch_first}"

    def forward(  # type: ignore[override]  # the signature of nn.MultiheadAttention
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend as `nn.MultiheadAttention` does; its documentation describes the arguments.

        A query that may see no key gets the output bias here, and NaN in some of torch's paths.

        Args:
            query: (B, T, D), (T, B, D) unless `batch_first`, or (T, D).
            key: likewise, with S positions.
            value: likewise.
            key_padding_mask: (B, S) or (S,), Boolean, True = padding, or added to the scores.
            need_weights: return the weights too.
            attn_mask: (T, S) or (B * H, T, S), Boolean, True = blocked, or added to the scores.
            average_attn_weights: return the mean weights over heads.
            is_causal: a hint that `attn_mask` is the causal mask, which must be given too.

        Returns:
            output, shaped like the query, and the weights (B, T, S), or (B, H, T, S) per head, or
            None. In training they are those after dropout, as in torch.

        Raises:
            ConfigError: `is_causal` without `attn_mask`.
            ShapeError: nested tensors, or a wrong shape, rank or dtype.
        """
        _check_call(query, key, value, attn_mask, is_causal)
        is_self = query is key and key is value
        is_batched = query.dim() == 3
        query, key, value = map(self._batch_first, (query, key, value))
        _check_masks(self.num_heads, query, key, attn_mask, key_padding_mask, is_batched)
        masks = self._own_masks(query, key, attn_mask, key_padding_mask)
        if is_causal and not need_weights and key_padding_mask is None and query.shape == key.shape:
            masks = {"is_causal": True}  # as in torch, which lets its kernel make the mask
        others = () if is_self else (key, value)
        result = super().forward(query, *others, need_weights=need_weights, **masks)
        output, weights = result if need_weights else (result, None)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)  # (B, T, S)
        if not is_batched:
            return output[0], None if weights is None else weights[0]
        if self.batch_first and not self.training:
            return output, weights
        # In memory as torch has it, so that a dropout that follows draws the same numbers.
        output = output.transpose(0, 1).contiguous()  # (T, B, D)
        return output.transpose(0, 1) if self.batch_first else output, weights

    if TYPE_CHECKING:
        __call__: TorchCall  # type: ignore[assignment]  # the signature of nn.MultiheadAttention

    def _batch_first(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            return x[None]
        return x if self.batch_first else x.transpose(0, 1)

    def _own_masks(
        self, query: Tensor, key: Tensor, attn_mask: Tensor | None, padding: Tensor | None
    ) -> dict[str, Any]:
        """Torch's masks in our conventions."""
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.reshape(-1, self.num_heads, *attn_mask.shape[1:])  # (B, H, T, S)
        if attn_mask is not None:
            is_boolean = not attn_mask.is_floating_point()
            attn_mask = allowed_from_blocked(attn_mask) if is_boolean else attn_mask.to(query.dtype)
        if padding is None:
            return {"attn_mask": attn_mask}
        padding = padding.reshape(-1, key.shape[1])  # (B, S)
        if not padding.is_floating_point():
            return {"attn_mask": attn_mask, "key_padding_mask": padding}
        added = padding[:, None, None, :].to(query.dtype)  # (B, 1, 1, S)
        if attn_mask is not None:
            is_boolean = not attn_mask.is_floating_point()
            added = added + (
                additive_from_allowed(attn_mask, query.dtype) if is_boolean else attn_mask
            )
        return {"attn_mask": added}

    def _attend(
        self,
        heads: ProjectedHeads,
        visibility: Visibility,
        need_weights: bool,
        dropout: float,
        ats: Sequence[At] | None,
    ) -> tuple[Tensor, Tensor | None]:
        """As in our layer; returned weights are those after dropout, which torch returns."""
        if not need_weights or dropout == 0.0:
            return super()._attend(heads, visibility, need_weights, dropout, ats)
        _, weights = super()._attend(heads, visibility, True, 0.0, ats)
        assert weights is not None
        dropped = F.dropout(weights, dropout)
        return weighted_values(dropped, heads.v), dropped


def _check_call(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool
) -> None:
    """Check what torch takes and this module does not.

    Raises:
        ConfigError: `is_causal` without `attn_mask`.
        ShapeError: nested tensors.
    """
    if is_causal and attn_mask is None:
        raise ConfigError(
            "is_causal (True) is a hint about attn_mask in nn.MultiheadAttention: pass the "
            "causal attn_mask too"
        )
    if query.is_nested or key.is_nested or value.is_nested:
        raise ShapeError(
            "query, key or value is a nested tensor: use torch.nested.to_padded_tensor, or "
            "build nn.TransformerEncoder with enable_nested_tensor=False"
        )


def _check_masks(
    num_heads: int,
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    padding: Tensor | None,
    is_batched: bool,
) -> None:
    """Check masks by torch's rules, in the shapes that the caller gave.

    Args:
        num_heads: H.
        query: (B, T, D).
        key: (B, S, K).
        attn_mask: as in `DropInAttention.forward`.
        padding: the `key_padding_mask` likewise.
        is_batched: whether the inputs had a batch axis.

    Raises:
        ShapeError: a mask of another shape or dtype.
    """
    (batch, num_queries), num_keys = query.shape[:2], key.shape[1]
    two, three = (num_queries, num_keys), (batch * num_heads, num_queries, num_keys)
    if attn_mask is not None:
        _check_mask("attn_mask", attn_mask, {"(T, S)": two, "(B * H, T, S)": three}, "blocked")
    if padding is not None:
        shapes: dict[str, tuple[int, ...]]
        shapes = {"(B, S)": (batch, num_keys)} if is_batched else {"(S,)": (num_keys,)}
        _check_mask("key_padding_mask", padding, shapes, "padding")


def _check_mask(name: str, mask: Tensor, shapes: dict[str, tuple[int, ...]], true: str) -> None:
    if tuple(mask.shape) not in shapes.values():
        known = " or ".join(f"{letters} = {shape}" for letters, shape in shapes.items())
        raise ShapeError(
            f"{name} has shape {tuple(mask.shape)}, expected {known}: give a mask of that shape"
        )
    if not (mask.is_floating_point() or mask.dtype == torch.bool):
        raise ShapeError(
            f"{name} has dtype {mask.dtype}, expected torch.bool (True = {true}) or floating "
            f"point (added to the scores): use {name}.bool()"
        )
