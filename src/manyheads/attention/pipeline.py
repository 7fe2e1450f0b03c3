"""Attention in float64, one method per step, so that a known fault can change one step.

With no step changed this is the formula of `attention/packed.py`. A test compares it with the loop
form.
"""

import math

import torch
from torch import Tensor

from manyheads.attention.positions import rotate
from manyheads.attention.problem import Answer, Problem, allowed_by_order
from manyheads.core.config import Rotary
from manyheads.core.masks import softmax_over_keys
from manyheads.core.shapes import merge_heads, repeat_kv, split_heads
from manyheads.core.weights import HeadWeights


class Pipeline:
    """The right steps; a fault overrides one."""

    def run(self, p: Problem) -> Answer:
        """Compute the answer of a problem; piece by piece if it uses a cache."""
        if p.chunks:
            return self.run_cached(p)
        q, k, v = self.heads(p)
        q, k = self.turn(p, q, k)
        return self.finish(p, q, k, v, 0)

    def finish(self, p: Problem, q: Tensor, k: Tensor, v: Tensor, start: int) -> Answer:
        """From rotated heads to the output; `start` is the number of earlier queries."""
        y, weights = self.attend(p, q, k, v, start)
        return Answer(output=self.join(p, self.gate(p, y, start)), attn_weights=weights)

    def attend(
        self, p: Problem, q: Tensor, k: Tensor, v: Tensor, start: int
    ) -> tuple[Tensor, Tensor]:
        """From rotated heads to head outputs (B, H, T, v) and weights (B, H, T, S)."""
        k, v = self.group(p, k), self.group(p, v)
        scores = self.cap(p, self.scores(p, q, k))
        allowed = self.allowed(p, q.shape[2], k.shape[2], start)
        weights = self.softmax(p, self.hide(p, self.add_bias(p, scores), allowed), allowed)
        return self.weigh(p, weights, v), weights

    def run_cached(self, p: Problem) -> Answer:
        """Compute piece by piece; each piece sees the keys and values of all pieces so far."""
        q, k, v = self.heads(p)
        outputs, start, weights = [], 0, q
        for length in p.chunks:
            stop = start + length
            now_q, now_k = self.turn_piece(p, q, k, start, stop)
            keys, values = self.cached(p, now_k, v[:, :, :stop], start)
            y, weights = self.attend(p, now_q, keys, values, start)
            outputs.append(self.join(p, self.gate(p, y, start)))
            start = stop
        return Answer(output=torch.cat(outputs, dim=-2), attn_weights=weights)

    def turn_piece(
        self, p: Problem, q: Tensor, k: Tensor, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Queries of one piece and all keys so far, rotated."""
        if p.rotary is None:
            return q[:, :, start:stop], k[:, :, :stop]
        q, k = rotate(q[:, :, start:stop], p.rotary, start), rotate(k[:, :, :stop], p.rotary, 0)
        return self.norm_heads(p, q, "turned q"), self.norm_heads(p, k, "turned k")

    def cached(self, p: Problem, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """What a piece that begins at `start` reads from the cache."""
        return k, v

    def heads(self, p: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """Projected heads q (B, H, T, d), k and v (B, G, S, .)."""
        x_q, x_k, x_v = self.norm_inputs(p, *self.inputs(p))
        if p.weights is None:
            return self.norm_heads(p, x_q, "q"), self.norm_heads(p, x_k, "k"), x_v
        w = self.weights(p, p.weights)
        q = self.split(p, self.project(p, x_q, w.w_q, w.b_q, "q"), w.num_heads, "q")
        k = self.split(p, self.project(p, x_k, w.w_k, w.b_k, "k"), w.num_kv_heads, "k")
        v = self.split(p, self.project(p, x_v, w.w_v, w.b_v, "v"), w.num_kv_heads, "v")
        q, k, v = (self.norm_heads(p, x, name) for x, name in ((q, "q"), (k, "k"), (v, "v")))
        return q, k, v

    def norm_inputs(self, p: Problem, *inputs: Tensor) -> list[Tensor]:
        """Inputs of queries, keys and values after norms inside the module."""
        used = [p.norms.get(name) for name in ("input", "context", "values")]
        if used[1] is None and p.x_k is p.x_q:
            used[1] = used[0]
        if used[2] is None and p.x_v is p.x_k:
            used[2] = used[1]
        return [x if n is None else n.of(x) for n, x in zip(used, inputs, strict=False)]

    def norm_heads(self, p: Problem, x: Tensor, name: str) -> Tensor:
        """Queries, keys or values after a norm of their own."""
        norm = p.norms.get(name)
        return x if norm is None else norm.of_heads(x)

    def inputs(self, p: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value inputs."""
        return p.x_q, p.x_k, p.x_v

    def weights(self, p: Problem, weights: HeadWeights) -> HeadWeights:
        """The weights as they are used."""
        return weights

    def project(self, p: Problem, x: Tensor, w: Tensor, b: Tensor | None, name: str) -> Tensor:
        """Joined rows (B, T, heads * width)."""
        joined = x @ w.permute(1, 0, 2).flatten(1)
        return joined if b is None else joined + b.flatten()

    def split(self, p: Problem, joined: Tensor, num_heads: int, name: str) -> Tensor:
        """Joined rows into heads (B, H, T, d)."""
        return split_heads(joined, num_heads)

    def turn(self, p: Problem, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Rotary positions; the last query has the position of the last key, unless declared."""
        if p.rotary is None:
            return q, k
        start = 0 if p.turns_from_first else k.shape[2] - q.shape[2]
        q, k = self.rotate(q, p.rotary, start), self.rotate(k, p.rotary, 0)
        return self.norm_heads(p, q, "turned q"), self.norm_heads(p, k, "turned k")

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Rotate q or k."""
        return rotate(x, rotary, start)

    def group(self, p: Problem, kv: Tensor) -> Tensor:
        """Key or value heads for all query heads."""
        return repeat_kv(kv, p.num_heads)

    def scores(self, p: Problem, q: Tensor, k: Tensor) -> Tensor:
        """q·k times the scale."""
        return q @ k.mT * p.scale

    def cap(self, p: Problem, scores: Tensor) -> Tensor:
        """Scores kept between -softcap and softcap, smoothly."""
        return scores if p.softcap is None else (scores / p.softcap).tanh() * p.softcap

    def add_bias(self, p: Problem, scores: Tensor) -> Tensor:
        """Position bias, linear or from a table."""
        if p.bias is not None:
            queries, keys = scores.shape[-2:]
            scores = scores + p.bias[:, keys - queries : keys, :keys].to(scores.dtype)
        if p.slopes is None:
            return scores
        num_queries, num_keys = scores.shape[-2:]
        position = torch.arange(num_queries)[:, None] + (num_keys - num_queries)
        distance = (position - torch.arange(num_keys)[None, :]).abs()
        slopes = torch.tensor(p.slopes, dtype=scores.dtype)
        return scores - slopes[:, None, None] * distance

    def allowed(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """(B or 1, 1, T, S): which keys a query may see, all masks together."""
        allowed = self.ordered(p, num_queries, num_keys, start)[None, None]
        for mask in self.masks(p):
            allowed = allowed & mask[:, None, start : start + num_queries, :num_keys]
        return allowed

    def ordered(self, p: Problem, num_queries: int, num_keys: int, start: int) -> Tensor:
        """(T, S): which keys a query may see by causality and window."""
        return allowed_by_order(p, num_queries, num_keys)

    def masks(self, p: Problem) -> list[Tensor]:
        """The given masks, each (B or 1, T, S)."""
        shape = (-1, p.x_q.shape[-2], -1)
        return [mask.allowed.expand(shape) for mask in p.masks]

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """Scores with -inf where blocked."""
        return scores.masked_fill(~allowed, -math.inf)

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """Softmax over keys, and over a sink if there is one."""
        if p.sinks is None:
            return softmax_over_keys(masked, allowed)
        sinks = p.sinks.to(masked.dtype)[:, None, None].expand(*masked.shape[:-1], 1)
        return torch.cat((masked, sinks), dim=-1).softmax(dim=-1)[..., :-1]

    def weigh(self, p: Problem, weights: Tensor, v: Tensor) -> Tensor:
        """Weighted sums of values, (B, H, T, v)."""
        return weights @ v

    def gate(self, p: Problem, y: Tensor, start: int) -> Tensor:
        """Head outputs times the sigmoid of a projection of the query input, if there is a gate.

        Source: Qiu et al. 2025, arXiv:2505.06708, position G1.
        """
        if p.weights is None or p.weights.w_g is None:
            return y
        x = self.norm_inputs(p, self.inputs(p)[0])[0][:, start : start + y.shape[2]]
        opened = x[:, None] @ p.weights.w_g  # (B, H, T, v)
        if p.weights.b_g is not None:
            opened = opened + p.weights.b_g[:, None]
        return y * opened.sigmoid()

    def join(self, p: Problem, y: Tensor) -> Tensor:
        """Head outputs to the output."""
        if p.weights is None:
            return y
        concat = self.merge(p, y)
        return self.project_out(p, concat, p.weights) if p.has_out else concat

    def merge(self, p: Problem, y: Tensor) -> Tensor:
        """Joined head outputs (B, T, H * v)."""
        return merge_heads(y)

    def project_out(self, p: Problem, concat: Tensor, weights: HeadWeights) -> Tensor:
        """The output projection."""
        output = concat @ weights.w_o.flatten(0, 1)
        return output if weights.b_o is None else output + weights.b_o
