"""Small modules of every legal kind, and what is to be understood of them."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.factories import random_like

E, H, d = 12, 3, 4


class Plain(nn.Module):
    """Self-attention of separate projections whose steps can be replaced."""

    bias = True

    def __init__(self) -> None:
        super().__init__()
        self.embed_dim, self.num_heads = E, H
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(E, E, bias=self.bias) for _ in range(4))

    def project(self, x: Tensor) -> list[Tensor]:
        return [f(x).unflatten(-1, (H, -1)).transpose(1, 2) for f in (self.wq, self.wk, self.wv)]

    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q, k

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(q.shape[-1])

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def join(self, y: Tensor) -> Tensor:
        return self.wo(y.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Any:
        q, k, v = self.project(x)
        q, k = self.prepare(q, k)
        return self.join(self.weights(self.scores(q, k)) @ v)


class HeadNorm(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.q_norm, self.k_norm = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)

    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.q_norm(q), self.k_norm(k)


class LayerNorms(HeadNorm):
    def __init__(self) -> None:
        super().__init__()
        self.q_norm, self.k_norm = nn.LayerNorm(d), nn.LayerNorm(d)


class WholeNorm(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.q_norm, self.k_norm = nn.RMSNorm(E, eps=1e-5), nn.RMSNorm(E, eps=1e-5)

    def project(self, x: Tensor) -> list[Tensor]:
        rows = self.q_norm(self.wq(x)), self.k_norm(self.wk(x)), self.wv(x)
        return [y.unflatten(-1, (H, -1)).transpose(1, 2) for y in rows]


class UnitLength(Plain):
    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1)


class Cosine(UnitLength):
    """Cosines times a fixed factor."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return 10.0 * q @ k.mT


class HeadGains(UnitLength):
    """Each head has gains of its own, which include the scale."""

    def __init__(self) -> None:
        super().__init__()
        self.gains = nn.Parameter(1.2 * torch.ones(2, H, 1, d))

    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        q, k = super().prepare(q, k)
        return q * self.gains[0], k * self.gains[1]

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


class ValueNorm(Plain):
    def project(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().project(x)
        return [q, k, F.rms_norm(v, (d,))]


class Divided(Plain):
    """The norm of the input is a division, and its gain a product."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(E))

    def project(self, x: Tensor) -> list[Tensor]:
        return super().project(F.normalize(x, dim=-1) * E**0.5 * self.gain)


class ContextNorm(Plain):
    """Queries and keys come from two inputs with norms of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm_context = nn.LayerNorm(E), nn.RMSNorm(E)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        (q, _, _), (_, k, v) = (self.project(y) for y in (self.norm(x), self.norm_context(context)))
        return self.join(self.weights(self.scores(q, k)) @ v)


class CausalOrMask(Plain):
    """Causality, where it is asked for, takes the place of the mask."""

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        q, k, v = self.project(x)
        scores = self.scores(q, k)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        return self.join(self.weights(scores) @ v)


class ValuesFirst(Plain):
    """Takes values, keys and queries in this order."""

    def forward(self, v: Tensor, k: Tensor, q: Tensor) -> Tensor:
        rows = [self.project(x)[i] for i, x in enumerate((q, k, v))]
        return self.join(self.weights(self.scores(*rows[:2])) @ rows[2])


class SingleSinks(Plain):
    """The first key is zero and has no value; the softmax works in float32."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)
        k, v = F.pad(k, (0, 0, 1, 0)), F.pad(v, (0, 0, 1, 0))
        weights = self.scores(q, k).softmax(-1, dtype=torch.float32).to(v.dtype)
        return self.join(weights @ v)


class HeadScales(Plain):
    """The output of each head has a factor of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.rand(H, 1, 1))

    def join(self, y: Tensor) -> Tensor:
        return super().join(y * self.factors)


class Residual(Plain):
    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = super().forward(x)
        return x + output


class InputNorm(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(E)

    def project(self, x: Tensor) -> list[Tensor]:
        return super().project(self.norm(x))


class Rotary(Plain):
    """Halves are turned against each other."""

    base, width = 10000.0, d

    def pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one, two = x.chunk(2, -1)
        return one, two

    def together(self, one: Tensor, two: Tensor) -> Tensor:
        return torch.cat((one, two), -1)

    def turn(self, x: Tensor) -> Tensor:
        part, rest = x[..., : self.width], x[..., self.width :]
        steps = self.base ** (-torch.arange(0, self.width, 2).double() / self.width)
        angles = torch.arange(x.shape[-2]).double()[:, None] * steps
        one, two = self.pairs(part)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        turned = self.together(one * cos - two * sin, two * cos + one * sin)
        return torch.cat((turned, rest), -1)

    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q), self.turn(k)


class TwoSequences(Rotary):
    """Positions of queries and of keys both count from zero."""

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        (q, _, _), (_, k, v) = self.project(x), self.project(context)
        q, k = self.prepare(q, k)
        return self.join(self.weights(self.scores(q, k)) @ v)


class TurnedThenNormed(Rotary):
    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return F.rms_norm(self.turn(q), (d,)), F.rms_norm(self.turn(k), (d,))


class Neighbours(Rotary):
    """Neighbours are turned against each other."""

    base = 500.0

    def pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[..., ::2], x[..., 1::2]

    def together(self, one: Tensor, two: Tensor) -> Tensor:
        return torch.stack((one, two), -1).flatten(-2)


class PartRotary(Rotary):
    base, width = 100.0, 2


class Capped(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return 5.0 * torch.tanh(super().scores(q, k) / 5.0)


class WronglyCapped(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        s = super().scores(q, k)
        return s * torch.tanh(s / 5.0)


class Sinks(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.sinks = nn.Parameter(random_like(5, H).float())

    def weights(self, scores: Tensor) -> Tensor:
        sink = self.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return torch.cat((scores, sink), -1).softmax(-1)[..., :-1]


class ZeroKey(Plain):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)
        k, v = (torch.cat((y, y.new_zeros(*y.shape[:2], 1, d)), 2) for y in (k, v))
        return self.join(self.weights(self.scores(q, k)) @ v)


class Table(Plain):
    """A learned bias by the distance of query and key."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(random_like(6, H, 127).float())

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        distance = place[:, None] - place[None]
        return super().scores(q, k) + self.table[:, distance + 63]


class Alibi(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        slopes = torch.tensor([2.0**-4, 2.0**-8, 2.0**-2])
        bias = -slopes[:, None, None] * (place[:, None] - place[None]).abs()
        return super().scores(q, k) + bias.to(q.dtype)


class Causal(Plain):
    def allowed(self, distance: Tensor) -> Tensor:
        return distance >= 0

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        hidden = ~self.allowed(place[:, None] - place[None])
        return super().scores(q, k).masked_fill(hidden, -math.inf)


class Window(Causal):
    def allowed(self, distance: Tensor) -> Tensor:
        return (distance >= 0) & (distance < 3)


class BothSides(Causal):
    def allowed(self, distance: Tensor) -> Tensor:
        return distance.abs() <= 2


class Packed(Plain):
    """One weight for queries, keys and values in blocks."""

    order = "qkv"

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.embed_dim, self.num_heads = E, H
        self.qkv, self.wo = nn.Linear(E, 3 * E), nn.Linear(E, E)

    def project(self, x: Tensor) -> list[Tensor]:
        blocks = dict(zip(self.order, self.qkv(x).chunk(3, -1), strict=True))
        return [blocks[n].unflatten(-1, (H, -1)).transpose(1, 2) for n in "qkv"]


class LowRank(Packed):
    """A product of two small matrices is added to the weight of the queries."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(E, 2, bias=False), nn.Linear(2, E, bias=False)

    def project(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().project(x)
        return [q + self.up(self.down(x)).unflatten(-1, (H, -1)).transpose(1, 2), k, v]


class HeadByHead(Packed):
    """Rows of head 0 first: its query, key and value, then head 1."""

    def project(self, x: Tensor) -> list[Tensor]:
        rows = self.qkv(x).unflatten(-1, (H, 3, -1)).unbind(-2)
        return [y.transpose(1, 2) for y in rows]


class HeadMinor(Plain):
    """Projected channels are ordered (d, H)."""

    def project(self, x: Tensor) -> list[Tensor]:
        rows = (f(x).unflatten(-1, (-1, H)) for f in (self.wq, self.wk, self.wv))
        return [y.permute(0, 3, 1, 2) for y in rows]

    def join(self, y: Tensor) -> Tensor:
        return self.wo(y.permute(0, 2, 3, 1).flatten(2))


class InOut(Plain):
    """Weights (in, out)."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.embed_dim, self.num_heads = E, H
        self.wq, self.wk, self.wv, self.wo = (
            nn.Parameter(random_like(i, E, E).float() / 4) for i in range(4)
        )

    def project(self, x: Tensor) -> list[Tensor]:
        return [(x @ w).unflatten(-1, (H, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv)]

    def join(self, y: Tensor) -> Tensor:
        return y.transpose(1, 2).flatten(2) @ self.wo


class Grouped(Plain):
    """Four heads read two of keys and values."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.embed_dim, self.num_heads = E, 4
        self.wq, self.wk = nn.Linear(E, 12), nn.Linear(E, 6)
        self.wv, self.wo = nn.Linear(E, 6), nn.Linear(12, E)

    def project(self, x: Tensor) -> list[Tensor]:
        q, k, v = (f(x).unflatten(-1, (-1, 3)).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        return [q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)]


class Stacked(Grouped):
    """The queries of both heads that share keys stand in one matrix."""

    def project(self, x: Tensor) -> list[Tensor]:
        q = self.wq(x).unflatten(-1, (2, 2, 3)).permute(0, 2, 3, 1, 4).flatten(2, 3)
        return [q, *(f(x).unflatten(-1, (2, 3)).transpose(1, 2) for f in (self.wk, self.wv))]

    def join(self, y: Tensor) -> Tensor:
        return self.wo(y.unflatten(2, (2, -1)).permute(0, 3, 1, 2, 4).flatten(2))


class StackedFused(Stacked):
    """The same with a fused kernel."""

    def forward(self, x: Tensor) -> Tensor:
        return self.join(nn.functional.scaled_dot_product_attention(*self.project(x)))


class ScaledBefore(Plain):
    """The scale is divided between queries and keys."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q * d**-0.25) @ (k * d**-0.25).mT


def with_arguments(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> Tensor:
    """A function whose weights are arguments."""
    q, k, v = ((x @ w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2) @ w_o
