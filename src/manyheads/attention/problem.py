"""One attention call as data, for the verifier and the faults: inputs, weights, masks, sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool
from torch import Tensor

from manyheads.core.config import Rotary
from manyheads.core.weights import HeadWeights


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenMask:
    """One mask of a call, in our convention, and the convention in which the call passes it."""

    allowed: Bool[Tensor, "M R S"]
    """(M, R, S), True = may attend; M is B or 1 samples, R is T or 1 queries."""
    axes: str
    """The axes with which it is passed: BS, TS, BTS, B1TS, (BH)TS or B."""
    convention: str
    """What the callee takes its values to mean, such as "blocked" (True = hidden)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowNorm:
    """A normalisation of rows."""

    kind: str
    """"rms" (root mean square), "layer" or "l2" (to length one)."""
    over: str
    """What a row is: "head", "all" (all heads of a position) or "input"."""
    eps: float
    """Added to the mean square."""
    gain: Tensor
    """Factor of each channel."""
    shift: Tensor | None = None
    """Added to each channel, if anything."""

    @property
    def sets_scale(self) -> bool:
        """Whether rows get the length one, or gains of each head that include a scale."""
        length = self.gain * (1.0 if self.kind == "l2" else self.gain.shape[-1] ** 0.5)
        is_one = bool((length - 1.0).abs().max() < 1e-6)
        return self.kind != "layer" and (is_one or self.gain.dim() > 1)

    def of(self, x: Tensor) -> Tensor:
        """Normalise the last axis.

        Source: Ba et al. 2016, arXiv:1607.06450; Zhang and Sennrich 2019, arXiv:1910.07467.
        """
        if self.kind == "layer":
            x = x - x.mean(dim=-1, keepdim=True)
        squares = x.square()
        is_sum = self.kind == "l2"
        size = squares.sum(-1, keepdim=True) if is_sum else squares.mean(-1, keepdim=True)
        normed = x / (size + self.eps).sqrt() * self.gain.to(x.dtype)
        return normed if self.shift is None else normed + self.shift.to(x.dtype)

    def of_heads(self, x: Tensor) -> Tensor:
        """Normalise heads (B, H, T, d)."""
        if self.over == "head":
            return self.of(x)
        rows: Tensor = self.of(x.transpose(1, 2).flatten(2)).unflatten(2, (x.shape[1], -1))
        return rows.transpose(1, 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Everything that determines the answer of one call.

    Where `weights` is None the inputs are heads already: x_q (B, H, T, d), x_k and x_v
    (B, G, S, .).
    """

    x_q: Tensor
    """Query input, (B, T, D)."""
    x_k: Tensor
    """Key input, (B, S, K)."""
    x_v: Tensor
    """Value input, (B, S, V)."""
    weights: HeadWeights | None
    """The weights as declared."""
    num_heads: int
    """H."""
    num_kv_heads: int
    """G."""
    scale: float
    """What each q·k is multiplied by."""
    has_out: bool = True
    """Whether there is an output projection; without one the joined heads are the output."""
    rotary: Rotary | None = None
    """Rotary positions, or None."""
    turns_from_first: bool = False
    """Whether rotary positions of queries and of keys both count from zero."""
    slopes: tuple[float, ...] | None = None
    """Linear bias, one slope per head, or None."""
    is_causal: bool = False
    """Whether later keys are hidden."""
    is_top_left: bool = False
    """Whether order is aligned to the first key instead of the last."""
    window: int | None = None
    """Keys a query sees, itself included."""
    ahead: int | None = None
    """Later keys that a query sees, for a window to both sides; None where a window is causal."""
    softcap: float | None = None
    """Soft-cap: tanh limits the scores to (-softcap, softcap) before the mask; or None."""
    norms: Mapping[str, RowNorm] = field(default_factory=dict)
    """Norms by what they normalise: the inputs of queries ("input"), of keys ("context") and of
    values ("values"), the heads "q", "k" and "v", and "turned q" and "turned k" after rotation."""
    bias: Tensor | None = None
    """(H, N, N), added to the scores of up to N positions; or None."""
    sinks: Tensor | None = None
    """(H,), the score of a key without a value that takes part in the softmax; or None."""
    masks: tuple[GivenMask, ...] = ()
    """Masks; a key is seen only if all of them allow it."""
    chunks: tuple[int, ...] = ()
    """Lengths of the pieces of a cached call, in order; empty for one call without a cache."""
    layout: str = "BTE"
    """Order of the axes of the call's inputs: BTE, TBE or BET."""
    arrangement: str = "separate"
    """The declared arrangement of the weights."""
    tags: dict[str, str] = field(default_factory=dict)
    """Other settings of this call, for messages: flags, mode."""

    @property
    def batch(self) -> int:
        """B."""
        return self.x_q.shape[0]

    @property
    def is_self(self) -> bool:
        """Whether keys and values are made from the query input."""
        return self.x_k is self.x_q and self.x_v is self.x_q


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """The result of a call."""

    output: Tensor
    """(B, T, D), or (B, H, T, v) where the inputs are heads."""
    attn_weights: Tensor
    """(B, H, T, S); of the last piece where the call is cached."""


def allowed_by_order(problem: Problem, num_queries: int, num_keys: int) -> Tensor:
    """(T, S), True = may attend, by causality and window alone."""
    shift = 0 if problem.is_top_left else num_keys - num_queries
    position = torch.arange(num_queries)[:, None] + shift
    source = torch.arange(num_keys)[None, :]
    allowed = torch.ones(num_queries, num_keys, dtype=torch.bool)
    if problem.is_causal:
        allowed = allowed & (source <= position)
    if problem.window is not None:
        latest = position + (problem.ahead or 0)
        allowed = allowed & (source > position - problem.window) & (source <= latest)
    return allowed
