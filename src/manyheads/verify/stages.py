"""The formula with every intermediate result kept, for the comparison with a watched call."""

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.core.config import Rotary
from manyheads.core.shapes import repeat_kv
from manyheads.core.weights import HeadWeights


class Stages(Pipeline):
    """The formula, keeping every step."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Tensor]] = {}

    def _keep(self, name: str, x: Tensor) -> Tensor:
        self.kept.setdefault(name, []).append(x)
        return x

    def project(self, p: Problem, x: Tensor, w: Tensor, b: Tensor | None, name: str) -> Tensor:
        """Joined rows."""
        if b is not None:
            self._keep(f"{name} before its bias", super().project(p, x, w, None, name))
        return self._keep(f"projected {name}", super().project(p, x, w, b, name))

    def norm_inputs(self, p: Problem, *inputs: Tensor) -> list[Tensor]:
        """Inputs after a norm."""
        return [self._keep("input", x) for x in super().norm_inputs(p, *inputs)]

    def norm_heads(self, p: Problem, x: Tensor, name: str) -> Tensor:
        """Queries, keys or values after a norm."""
        return self._keep(name.removeprefix("turned "), super().norm_heads(p, x, name))

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Rotated rows."""
        return self._keep("rotated", super().rotate(x, rotary, start))

    def attend(
        self, p: Problem, q: Tensor, k: Tensor, v: Tensor, start: int
    ) -> tuple[Tensor, Tensor]:
        """From heads to messages."""
        self._keep("q", q)
        self._keep("q", q * p.scale)
        self._keep("q", q * p.scale**0.5)
        for name, x in (("k", k), ("v", v)):
            self._keep(name, x)
            self._keep(name, repeat_kv(x, p.num_heads))
        self._keep("k", k * p.scale**0.5)
        self._keep("k", repeat_kv(k, p.num_heads) * p.scale**0.5)
        self._keep("products", q @ repeat_kv(k, p.num_heads).mT)
        return super().attend(p, q, k, v, start)

    def scores(self, p: Problem, q: Tensor, k: Tensor) -> Tensor:
        """Scores."""
        return self._keep("scores", super().scores(p, q, k))

    def cap(self, p: Problem, scores: Tensor) -> Tensor:
        """Capped scores."""
        return self._keep("scores", super().cap(p, scores))

    def add_bias(self, p: Problem, scores: Tensor) -> Tensor:
        """Scores with their bias."""
        return self._keep("scores", super().add_bias(p, scores))

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """Masked scores."""
        return self._keep("masked_scores", super().hide(p, scores, allowed))

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """Weights."""
        largest = masked.amax(-1, keepdim=True).clamp_min(torch.finfo(masked.dtype).min)
        shifted = self._keep("exponents", masked - self._keep("exponents", largest))
        for exponents in (shifted.exp(), masked.exp()):
            self._keep("exponents", exponents)
            self._keep("exponents", exponents.sum(-1, keepdim=True))
        return self._keep("attn_weights", super().softmax(p, masked, allowed))

    def weigh(self, p: Problem, weights: Tensor, v: Tensor) -> Tensor:
        """Messages."""
        return self._keep("head_outputs", super().weigh(p, weights, v))

    def merge(self, p: Problem, y: Tensor) -> Tensor:
        """Joined messages."""
        return self._keep("concat", super().merge(p, y))

    def project_out(self, p: Problem, concat: Tensor, weights: HeadWeights) -> Tensor:
        """Output."""
        if weights.b_o is not None:
            self._keep("output before its bias", concat @ weights.w_o.flatten(0, 1))
        return self._keep("output", super().project_out(p, concat, weights))
