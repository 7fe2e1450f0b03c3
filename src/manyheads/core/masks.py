"""Every mask, and every conversion between mask conventions.

Our own convention: `attn_mask` Boolean, True = may attend, or floating point, added to the scores;
`key_padding_mask` Boolean, True = padding. Masks combine: a key is seen only if all allow it.
Query t of T has position t + (S - T) among S keys, so the last query has the last position.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.core.errors import ShapeError


def causal_mask(
    num_queries: int, num_keys: int, *, device: torch.device | None = None
) -> Bool[Tensor, "T S"]:
    """Allow each query its own key and all earlier ones; (T, S), True = may attend.

    Aligned to the last key: query t sees keys up to t + (S - T), so the last query sees all.
    """
    ones = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    return ones.tril(num_keys - num_queries)


def window_mask(
    num_queries: int, num_keys: int, window: int, *, device: torch.device | None = None
) -> Bool[Tensor, "T S"]:
    """Allow each query the last `window` keys up to its own; (T, S), True = may attend.

    Source: Beltagy et al. 2020, arXiv:2004.05150; one-sided as in Jiang et al. 2023,
    arXiv:2310.06825.
    """
    causal = causal_mask(num_queries, num_keys, device=device)
    return causal & ~causal.tril(num_keys - num_queries - window)


def allowed_from_blocked(blocked: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Turn True = blocked (as in `nn.MultiheadAttention`) into True = may attend."""
    return ~blocked


def blocked_from_allowed(allowed: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Turn True = may attend into True = blocked (as in `nn.MultiheadAttention`)."""
    return ~allowed


def allowed_from_key_padding(key_padding_mask: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """Turn (B, S), True = padding, into (B, 1, 1, S), True = may attend."""
    return ~key_padding_mask[:, None, None, :]


def key_padding_from_keep(keep: Tensor) -> Bool[Tensor, "B S"]:
    """Turn a keep mask (1 or True = real token, as tokenizers give) into (B, S), True = padding."""
    return keep == 0


def key_padding_from_lengths(lengths: Tensor, num_keys: int) -> Bool[Tensor, "B S"]:
    """Turn the number of real keys of each sample into (B, S), True = padding at the end."""
    return torch.arange(num_keys, device=lengths.device)[None, :] >= lengths[:, None]


def allowed_from_additive(additive: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Read which entries of an additive mask leave a key visible: those that are not -inf."""
    return additive != -math.inf


def additive_from_allowed(
    allowed: Bool[Tensor, "..."], dtype: torch.dtype = torch.float32
) -> Float[Tensor, "..."]:
    """Turn True = may attend into 0 where allowed and -inf where not."""
    zeros = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return zeros.masked_fill(~allowed, -math.inf)


def check_attn_mask(mask: Tensor, shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    """Check an `attn_mask`: (T, S), or four axes that broadcast to (B, H, T, S).

    Args:
        mask: the mask that was given.
        shape: (B, H, T, S).
        dtype: of the queries, which an additive mask must share.

    Raises:
        ShapeError: another rank, shape or dtype.
    """
    _check_tensor("attn_mask", mask)
    given, hint = tuple(mask.shape), "with a cache, S counts cached keys too"
    if mask.dim() not in (2, 4):
        raise ShapeError(
            f"attn_mask has shape {given}, expected (T, S) = {shape[2:]} or "
            f"(B, H, T, S) = {shape}: "
            "use attn_mask[:, None] for a mask per sample, attn_mask[None] for a mask per head"
        )
    expected, letters = (shape[2:], "(T, S)") if mask.dim() == 2 else (shape, "(B, H, T, S)")
    if any(have not in (1, want) for have, want in zip(given, expected, strict=True)):
        raise ShapeError(f"attn_mask has shape {given}, expected {letters} = {expected}: {hint}")
    if mask.dtype not in (torch.bool, dtype):
        raise ShapeError(
            f"attn_mask has dtype {mask.dtype}, expected torch.bool (True = may attend) or {dtype} "
            "(added to the scores): use attn_mask.bool(), or convert it to the queries' dtype"
        )


def check_key_padding_mask(mask: Tensor, batch: int, num_keys: int) -> None:
    """Check a `key_padding_mask`: Boolean, (B, S), True = padding.

    Raises:
        ShapeError: another rank, shape or dtype.
    """
    _check_tensor("key_padding_mask", mask)
    given = tuple(mask.shape)
    if given != (batch, num_keys):
        raise ShapeError(
            f"key_padding_mask has shape {given}, expected (B, S) = {(batch, num_keys)}: "
            "with a cache, S counts cached keys too"
        )
    if mask.dtype != torch.bool:
        raise ShapeError(
            f"key_padding_mask has dtype {mask.dtype}, expected torch.bool (True = padding): "
            "use key_padding_from_keep for a 1 = keep mask"
        )


def _check_tensor(name: str, mask: object) -> None:
    if not isinstance(mask, Tensor):
        raise ShapeError(f"{name} ({type(mask).__name__}) must be a tensor: use torch.as_tensor")


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """The keys that each query sees, and the bias added to each score, for one call.

    Nothing of size T x S is allocated before a call of `rows`.
    """

    num_queries: int
    """T."""
    num_keys: int
    """S, cached keys included."""
    is_causal: bool = False
    """Whether later keys are hidden."""
    window: int | None = None
    """Number of keys that a query sees: its own and earlier ones; None means all."""
    attn_mask: Tensor | None = None
    """(T, S) or broadcasting to (B, H, T, S): Boolean, True = may attend, or added to scores."""
    key_padding_mask: Tensor | None = None
    """(B, S), Boolean, True = padding."""
    slopes: Tensor | None = None
    """(H,), linear position bias in score units per position."""

    @property
    def hides_nothing(self) -> bool:
        """Whether every query sees every key with nothing added."""
        given = (self.attn_mask, self.key_padding_mask, self.slopes, self.window)
        is_open = all(mask is None for mask in given)
        return is_open and (not self.is_causal or self.num_queries == 1)

    @property
    def is_square_causal(self) -> bool:
        """Whether the only condition is causality over T = S positions."""
        given = (self.attn_mask, self.key_padding_mask, self.slopes, self.window)
        is_square = self.num_queries == self.num_keys
        return self.is_causal and is_square and all(mask is None for mask in given)

    @property
    def can_empty_a_row(self) -> bool:
        """Whether some query may be left without any allowed key."""
        masked = self.attn_mask is not None or self.key_padding_mask is not None
        ordered = self.is_causal or self.window is not None
        return masked or (ordered and self.num_queries > self.num_keys)

    def keys_seen(self, start: int, stop: int) -> slice:
        """Range of keys that causality and window leave to the queries start to stop (exclusive).

        It has at least one key. Keys outside are hidden from all of these queries; inside, use
        `rows`.
        """
        if not self.is_causal and self.window is None:
            return slice(0, self.num_keys)
        offset = self.num_keys - self.num_queries
        last = max(1, stop + offset)
        first = 0 if self.window is None else start + offset - self.window + 1
        return slice(min(max(0, first), last - 1), last)

    def rows(
        self, start: int, stop: int, device: torch.device
    ) -> tuple[Tensor | None, Tensor | None]:
        """Build the part of the mask for queries start to stop (exclusive).

        Returns:
            allowed: Boolean, True = may attend, broadcasts to (B, H, stop - start, S); None
                allows all.
            bias: finite numbers to add to the scores, broadcasts alike; None adds nothing.
        """
        offset = self.num_keys - self.num_queries
        position = torch.arange(start, stop, device=device)[:, None] + offset
        source = torch.arange(self.num_keys, device=device)[None, :]
        conditions, bias = self._ordered(position, source), None
        if self.key_padding_mask is not None:
            conditions.append(allowed_from_key_padding(self.key_padding_mask))
        if self.attn_mask is not None:
            mask = self.attn_mask
            mask = mask if mask.shape[-2] == 1 else mask[..., start:stop, :]
            if mask.dtype == torch.bool:
                conditions.append(mask)
            else:
                conditions.append(allowed_from_additive(mask))
                least = torch.finfo(mask.dtype).min / 2  # score plus bias must not become -inf
                bias = mask.masked_fill(~conditions[-1], 0.0).clamp(min=least)
        if self.slopes is not None:
            slopes = self.slopes[None, :, None, None]
            linear = -slopes * (position - source).abs()  # (1, H, T, S)
            bias = linear if bias is None else bias + linear
        allowed: Tensor | None = None
        for condition in conditions:
            allowed = condition if allowed is None else allowed & condition
        return allowed, bias

    def _ordered(self, position: Tensor, source: Tensor) -> list[Tensor]:
        """Conditions on the order of positions: no later key, and no key older than the window."""
        if self.window is not None:
            return [(source <= position) & (source > position - self.window)]
        return [source <= position] if self.is_causal else []


def mask_scores(
    scores: Float[Tensor, "B H T S"], allowed: Tensor | None, bias: Tensor | None
) -> Float[Tensor, "B H T S"]:
    """Add the bias and set the scores of blocked keys to -inf.

    Args:
        scores: (B, H, T, S).
        allowed: Boolean, True = may attend, broadcasts to (B, H, T, S), or None.
        bias: added to the scores, broadcasts to (B, H, T, S), or None.
    """
    masked = scores if bias is None else scores + bias
    return masked if allowed is None else masked.masked_fill(~allowed, -math.inf)


def rows_without_key(allowed: Tensor) -> Tensor:
    """Find the queries without an allowed key: shaped like `allowed`, with a last axis of one."""
    return ~allowed.any(dim=-1, keepdim=True)


def softmax_over_keys(
    masked_scores: Float[Tensor, "B H T S"], allowed: Tensor | None
) -> Float[Tensor, "B H T S"]:
    """Take the softmax over keys; a query without an allowed key gets zeros, with finite gradients.

    Args:
        masked_scores: (B, H, T, S), -inf where blocked.
        allowed: the mask that made them, or None where none did.
    """
    if allowed is None:
        return masked_scores.softmax(dim=-1)
    empty = rows_without_key(allowed)
    weights = masked_scores.masked_fill(empty, 0.0).softmax(dim=-1)
    return weights.masked_fill(empty, 0.0)
