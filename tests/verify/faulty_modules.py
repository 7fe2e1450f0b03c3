"""Attention as people write it, each with one mistake, in plain torch and without our own steps."""

import math
from typing import Any

import torch
from torch import Tensor, nn

F = nn.functional
D, H, d = 12, 3, 4


class Plain(nn.Module):
    """Right: four layers, split, scores, masks, softmax, join. Mistakes override one method."""

    kv_heads, width = H, d

    def __init__(self) -> None:
        super().__init__()
        narrow = self.kv_heads * self.width
        self.wq, self.wo = nn.Linear(D, D), nn.Linear(D, D)
        self.wk, self.wv = nn.Linear(D, narrow), nn.Linear(D, narrow)
        self.scale = self.width**-0.5

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.width)).transpose(1, 2)

    def join(self, y: Tensor) -> Tensor:
        return y.transpose(1, 2).flatten(2)

    def place(self, x: Tensor, start: int = 0) -> Tensor:
        return x

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) * self.scale

    def hide(self, scores: Tensor, blocked: Tensor) -> Tensor:
        return scores.masked_fill(blocked, -math.inf)

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)

    def blocked(self, scores: Tensor, padding: Tensor | None, causal: bool) -> Tensor:
        found = torch.zeros_like(scores, dtype=torch.bool)
        if padding is not None:
            found = found | padding[:, None, None, :]
        return found | self.later(*scores.shape[-2:]) if causal else found

    def later(self, t: int, s: int) -> Tensor:
        return torch.ones(t, s, dtype=torch.bool).triu(s - t + 1)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        return self.place(q), self.place(k), v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, blocked: Any) -> Tensor:
        return self.join(self.weights(blocked(self.scores(q, k))) @ v)

    def forward(self, x: Tensor, padding: Tensor | None = None, causal: bool = False) -> Any:
        q, k, v = self.heads(x)

        def hidden(scores: Tensor) -> Tensor:
            return self.hide(scores, self.blocked(scores, padding, causal))

        return self.wo(self.attend(q, k, v, hidden))


class Inverted(Plain):
    def blocked(self, scores: Tensor, padding: Tensor | None, causal: bool) -> Tensor:
        return super().blocked(scores, None if padding is None else ~padding, causal)


class Ignoring(Plain):
    def blocked(self, scores: Tensor, padding: Tensor | None, causal: bool) -> Tensor:
        return super().blocked(scores, None, causal)


class AlongQueries(Plain):
    def hide(self, scores: Tensor, blocked: Tensor) -> Tensor:
        return scores + blocked.transpose(-1, -2) * -1e9


class Multiplying(Plain):
    def hide(self, scores: Tensor, blocked: Tensor) -> Tensor:
        return scores * ~blocked


class Adding(Plain):
    def hide(self, scores: Tensor, blocked: Tensor) -> Tensor:
        return scores + (~blocked).to(scores.dtype)


class NearZero(Plain):
    def hide(self, scores: Tensor, blocked: Tensor) -> Tensor:
        return scores.masked_fill(blocked, -1e-9)


class TooLate(Plain):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, blocked: Any) -> Tensor:
        scores = self.scores(q, k)
        return self.join((scores.softmax(-1) * (blocked(scores) != -math.inf)) @ v)


class Tiling(Plain):
    def blocked(self, scores: Tensor, padding: Tensor | None, causal: bool) -> Tensor:
        if padding is None:
            return super().blocked(scores, None, causal)
        return padding.repeat(H, 1).view(-1, H, 1, padding.shape[1]).expand_as(scores)


class Billion(Plain):
    def hide(self, scores: Tensor, blocked: Tensor) -> Tensor:
        return scores.masked_fill(blocked, -1e9)


class WritesInMask(Plain):
    def forward(self, x: Tensor, padding: Tensor | None = None, causal: bool = False) -> Any:
        y = super().forward(x, padding, causal)
        if padding is not None:
            padding.zero_()
        return y


class CannotSeeItself(Plain):
    def later(self, t: int, s: int) -> Tensor:
        return torch.ones(t, s, dtype=torch.bool).triu(s - t + 2)


class FromFirstKey(Plain):
    def later(self, t: int, s: int) -> Tensor:
        return torch.ones(t, s, dtype=torch.bool).triu(1)

    def forward(self, x: Tensor, context: Tensor, causal: bool = False) -> Any:  # type: ignore[override]
        q, k, v = self.split(self.wq(x)), self.split(self.wk(context)), self.split(self.wv(context))
        return self.wo(self.attend(q, k, v, lambda s: self.hide(s, self.blocked(s, None, causal))))


class Unasked(Plain):
    def later(self, t: int, s: int) -> Tensor:
        return torch.zeros(t, s, dtype=torch.bool)


class ByModelWidth(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.scale = D**-0.5


class Tiled(Plain):
    kv_heads, width = 2, 2

    def attend(self, q: Tensor, k: Tensor, v: Tensor, blocked: Any) -> Tensor:
        return super().attend(q, k.repeat(1, 3, 1, 1), v.repeat(1, 3, 1, 1), blocked)


class Packed(Plain):
    """Right: one layer makes all three, as blocks."""

    def __init__(self) -> None:
        super().__init__()
        del self.wq, self.wk, self.wv
        self.qkv = nn.Linear(D, 3 * D)

    def thirds(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.qkv(x).chunk(3, dim=-1)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (self.split(part) for part in self.thirds(x))
        return q, k, v


class ReadHeadByHead(Packed):
    def thirds(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(p.flatten(-2) for p in self.qkv(x).unflatten(-1, (H, 3, d)).unbind(-2))


class KeysFirst(Packed):
    def thirds(self, x: Tensor) -> tuple[Tensor, ...]:
        k, q, v = super().thirds(x)
        return q, k, v


class WithoutBias(Packed):
    def thirds(self, x: Tensor) -> tuple[Tensor, ...]:
        return F.linear(x, self.qkv.weight).chunk(3, dim=-1)


class OverQueries(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-2)


class RunningHalf(Plain):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, blocked: Any) -> Tensor:
        scores = blocked(self.scores(q, k))
        powers, total, y = (scores - scores.amax(-1, keepdim=True)).exp(), 0, 0
        for s in range(k.shape[2]):
            total = total + powers[..., s : s + 1]
            y = y + powers[..., s : s + 1] * v[..., s : s + 1, :]
        return self.join(y / total)


class Listed(Plain):
    """Layers in plain lists: torch does not see them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(D, D) for _ in range(3)]
        self.wq, self.wk, self.wv = nn.Identity(), nn.Identity(), nn.Identity()

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (self.split(layer(x)) for layer in self.layers)
        return q, k, v


class Counting(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.temperature = 1.0

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        self.temperature *= 0.9
        return super().scores(q, k) / self.temperature


class ValuesByKeys(Plain):
    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, _ = super().heads(x)
        return q, k, k


class CutQueries(Plain):
    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().heads(x)
        return q.detach(), k, v
