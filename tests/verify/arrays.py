"""Attention written in NumPy, right and wrong, in the ways people write it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Loop:
    """A loop over heads that fills an array."""

    def __init__(self, d_model: int = 12, num_heads: int = 3) -> None:
        draw = np.random.default_rng(1).standard_normal
        self.num_heads, self.d = num_heads, d_model // num_heads
        self.layers = [draw((d_model, d_model)) / 3 for _ in range(4)]

    def softmax(self, s: Array) -> Array:
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def hide(self, s: Array) -> Array:
        return s

    def __call__(self, x: Array) -> Array:
        w_q, w_k, w_v, w_o = self.layers
        out = np.zeros(x.shape)
        for i in range(self.num_heads):
            own = slice(i * self.d, (i + 1) * self.d)
            q, k, v = x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]
            s = np.einsum("btd,bsd->bts", q, k) / np.sqrt(self.d)
            out[:, :, own] = self.softmax(self.hide(s)) @ v
        return out @ w_o


class Causal(Loop):
    """Later keys are overwritten."""

    def hide(self, s: Array) -> Array:
        i = np.arange(s.shape[-1])
        s[:, i[:, None] < i[None, :]] = -np.inf
        return s


class OneLater(Loop):
    """Each query sees one later key."""

    def hide(self, s: Array) -> Array:
        return s + np.triu(np.full(s.shape[-2:], -np.inf), k=2)  # the line


class OverQueries(Loop):
    """The softmax is taken over the wrong axis."""

    def softmax(self, s: Array) -> Array:
        e = np.exp(s - s.max(axis=-2, keepdims=True))  # the line
        return e / e.sum(axis=-2, keepdims=True)


class Random(Loop):
    """Weights are dropped at random."""

    def softmax(self, s: Array) -> Array:
        return super().softmax(s) * (np.random.rand(*s.shape) > 0.1)
