"""Attention of recent models, written by hand: each class changes one step of `Plain`."""

import math
from typing import Any

import torch
from torch import Tensor, nn

HALF = 6


def frequencies(base: float = 10000.0, width: int = HALF) -> Tensor:
    """Radians per position of each channel pair."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def turned(x: Tensor, inv: Tensor, magnitude: float = 1.0) -> Tensor:
    """Rotate the first channels of heads (B, H, T, d), pairs by halves."""
    angles = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64), inv)
    cos, sin = (magnitude * angles.cos()).to(x.dtype), (magnitude * angles.sin()).to(x.dtype)
    width = 2 * len(inv)
    one, two = x[..., :width].chunk(2, -1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin, x[..., width:]), -1)


class RMS(nn.Module):
    """A norm by the root mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Plain(nn.Module):
    """Causal attention with two groups of two heads."""

    has_bias = False

    def __init__(self, dim: int = 24, heads: int = 4, groups: int = 2, width: int = 6) -> None:
        super().__init__()
        self.h, self.g, self.d = heads, groups, width
        self.q_proj = nn.Linear(dim, heads * width, bias=self.has_bias)
        self.k_proj = nn.Linear(dim, groups * width, bias=self.has_bias)
        self.v_proj = nn.Linear(dim, groups * width, bias=self.has_bias)
        self.o_proj = nn.Linear(heads * width, dim, bias=self.has_bias)
        self.add(dim)

    def add(self, dim: int) -> None:
        """More parameters."""

    def norm(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q, k

    def turn(self, x: Tensor) -> Tensor:
        return x

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-1, -2) * self.d**-0.5

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def gated(self, x: Tensor, y: Tensor) -> Tensor:
        return y

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.h, self.d)
        k = self.k_proj(x).view(b, t, self.g, self.d)
        v = self.v_proj(x).view(b, t, self.g, self.d).transpose(1, 2)
        q, k = (self.turn(z.transpose(1, 2)) for z in self.norm(q, k))
        k, v = (z.repeat_interleave(self.h // self.g, 1) for z in (k, v))
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
        weights = self.softmax(self.score(q, k).masked_fill(hidden, -torch.inf))
        y = (weights @ v).transpose(1, 2).reshape(b, t, -1)
        return self.o_proj(self.gated(x, y))


class Qwen3(Plain):
    """RMS norm of each head, then rotary positions."""

    def add(self, dim: int) -> None:
        self.q_norm, self.k_norm = RMS(self.d), RMS(self.d)

    def norm(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.q_norm(q), self.k_norm(k)

    def turn(self, x: Tensor) -> Tensor:
        return turned(x, frequencies())


class Olmo2(Qwen3):
    """RMS norm over all heads."""

    def add(self, dim: int) -> None:
        self.q_norm, self.k_norm = RMS(self.d * self.h), RMS(self.d * self.g)

    def norm(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.q_norm(q.flatten(2)).view_as(q), self.k_norm(k.flatten(2)).view_as(k)


class Gemma2(Qwen3):
    """Soft-cap, and a scale of its own."""

    add, norm = Plain.add, Plain.norm

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.tanh(q @ k.transpose(-1, -2) * 10**-0.5 / 50.0) * 50.0


class GptOss(Gemma2):
    """Sinks, biases, and scaled rotary positions (YaRN)."""

    has_bias = True

    def add(self, dim: int) -> None:
        self.sinks = nn.Parameter(torch.zeros(self.h))

    def turn(self, x: Tensor) -> Tensor:
        low, high = (
            HALF * math.log(64 / (beta * 2 * math.pi)) / (2 * math.log(1e4)) for beta in (32, 1)
        )
        low, high = max(math.floor(low), 0), min(math.ceil(high), HALF - 1)
        ramp = ((torch.arange(HALF // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
        inv = frequencies()
        return turned(x, inv / 8 * ramp + inv * (1 - ramp), 0.1 * math.log(8) + 1)

    score = Plain.score

    def softmax(self, scores: Tensor) -> Tensor:
        sinks = self.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return torch.cat((scores, sinks), -1).softmax(-1)[..., :-1]


class Phi(Qwen3):
    """Layer norm, biases, and rotary positions on four of six channels."""

    has_bias = True

    def add(self, dim: int) -> None:
        self.q_norm, self.k_norm = nn.LayerNorm(self.d), nn.LayerNorm(self.d)

    def turn(self, x: Tensor) -> Tensor:
        return turned(x, frequencies(width=4))


class Gated(Plain):
    """A sigmoid of a projection of the input multiplies the head outputs."""

    def add(self, dim: int) -> None:
        self.gate_proj = nn.Linear(dim, self.h * self.d, bias=False)

    def gated(self, x: Tensor, y: Tensor) -> Tensor:
        return y * torch.sigmoid(self.gate_proj(x))


class T5(nn.Module):
    """No scale, and a table of biases by buckets of distances."""

    def __init__(self, dim: int = 24, heads: int = 4, width: int = 6) -> None:
        super().__init__()
        self.h, self.d, self.buckets, self.far = heads, width, 8, 16
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(dim, heads * width, bias=False) for _ in range(4)
        )
        self.table = nn.Embedding(self.buckets, heads)

    def bucket(self, distance: int) -> int:
        """As the paper describes it: near distances have their own, far ones share."""
        half = self.buckets // 2
        first, distance, exact = half * (distance > 0), abs(distance), half // 2
        if distance < exact:
            return first + distance
        share = math.log(distance / exact) / math.log(self.far / exact)
        return first + min(exact + int(share * (half - exact)), half - 1)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (
            f(x).view(b, t, self.h, self.d).transpose(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        rows = torch.tensor([[self.bucket(s - t_) for s in range(t)] for t_ in range(t)])
        weights = (q @ k.transpose(-1, -2) + self.table(rows).permute(2, 0, 1)).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(b, t, -1))


PATHS: dict[str, Any] = {"layout": "separate"} | {part: f"{part}_proj" for part in "qkvo"}
NORMS = {"q_norm": "q_norm", "k_norm": "k_norm"}
SIZES: dict[str, Any] = {"embed_dim": 24, "num_heads": 4}
YARN = {"type": "yarn", "factor": 8.0, "original_length": 64}
DECLARED: dict[type[nn.Module], dict[str, Any]] = {
    Qwen3: {"qk_norm": {"type": "rms"}, "position": {"type": "rope"}, "params": PATHS | NORMS},
    Olmo2: {
        "qk_norm": {"type": "rms", "over": "all", "eps": 1e-6},
        "position": {"type": "rope"},
        "params": PATHS | NORMS,
    },
    Gemma2: {"softcap": 50.0, "scale": 10**-0.5, "position": {"type": "rope"}, "params": PATHS},
    GptOss: {
        "sinks": True,
        "position": {"type": "rope", "scaling": YARN},
        "params": PATHS | {"sinks": "sinks"},
    },
    Phi: {
        "qk_norm": {"type": "layer", "eps": 1e-5},
        "position": {"type": "rope", "rotary_dim": 4},
        "params": PATHS | NORMS,
    },
    Gated: {"gate": "sigmoid", "params": PATHS | {"gate": "gate_proj"}},
    T5: {
        "scale": 1.0,
        "bias": {"type": "t5", "buckets": 8, "max_distance": 16},
        "params": PATHS | {"bias_table": "table"},
    },
}
"""What each computes, in full."""


def declared(kind: type[nn.Module], **changes: Any) -> dict[str, Any]:
    """The declaration of one class, with some of it changed."""
    sizes = SIZES | ({} if kind is T5 else {"num_kv_heads": 2, "causal": "always"})
    return sizes | {"form": "self"} | DECLARED[kind] | changes
