"""Rotary positions and caches as people write them, each with one mistake."""

import math
from typing import Any

import torch
from torch import Tensor

from tests.verify.faulty_modules import Plain, d


def turned(x: Tensor, start: int = 0, style: str = "half", table: str = "half") -> Tensor:
    """Rotary turning with base 100, and the table of one pairing or of the other."""
    angle = torch.arange(start, start + x.shape[-2])[:, None] * 100.0 ** (
        -torch.arange(0, d, 2) / d
    )
    full = torch.cat((angle, angle), -1) if table == "half" else angle.repeat_interleave(2, -1)
    full = full.to(x.dtype)
    if style == "half":
        other = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), -1)
    else:
        other = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return x * full.cos() + other * full.sin()


class Rotary(Plain):
    def place(self, x: Tensor, start: int = 0) -> Tensor:
        return turned(x.double(), start).to(x.dtype)


class OtherPairs(Plain):
    def place(self, x: Tensor, start: int = 0) -> Tensor:
        return turned(x, start, "interleaved", "interleaved")


class MixedUp(Plain):
    def place(self, x: Tensor, start: int = 0) -> Tensor:
        return turned(x, start, "half", "interleaved")


class AlongHeads(Plain):
    def place(self, x: Tensor, start: int = 0) -> Tensor:
        return turned(x.transpose(1, 2), start).transpose(1, 2)


class QueriesOnly(Plain):
    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().heads(x)
        return turned(q), k, v


class NotCastBack(Rotary):
    def place(self, x: Tensor, start: int = 0) -> Tensor:
        return turned(x.to(torch.promote_types(x.dtype, torch.float32)), start)


class Cached(Rotary):
    """Right: keys are turned once, before they are stored."""

    def forward(self, x: Tensor, cache: Any = None) -> Any:  # type: ignore[override]
        start = 0 if cache is None else cache[0].shape[2]
        q, k, v = (self.split(layer(x)) for layer in (self.wq, self.wk, self.wv))
        q, k = self.turn(q, k, start)
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        k_read, v_read = self.read(k, v, start)
        y = self.attend(
            q, k_read, v_read, lambda s: s.masked_fill(self.later(*s.shape[-2:]), -math.inf)
        )
        return self.wo(y), self.store(k, v)

    def turn(self, q: Tensor, k: Tensor, start: int) -> tuple[Tensor, Tensor]:
        return self.place(q, start), self.place(k, start)

    def read(self, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        return k, v

    def store(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return k, v


class FromZeroAgain(Cached):
    def turn(self, q: Tensor, k: Tensor, start: int) -> tuple[Tensor, Tensor]:
        return self.place(q, 0), self.place(k, 0)


class TurnedEachStep(Cached):
    def read(self, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        return (torch.cat((self.place(k[:, :, :start], 0), k[:, :, start:]), 2) if start else k), v


class FirstLost(Cached):
    def read(self, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        k, v = k.clone(), v.clone()
        k[:, :, 0] = 0
        v[:, :, 0] = 0
        return k, v


class OneSlotFar(Cached):
    """Entries after the first piece come one slot late: the newest is not read."""

    def read(self, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        return (k, v) if not start else (self.late(k, self.first), self.late(v, self.first))

    def late(self, x: Tensor, first: int) -> Tensor:
        return torch.cat((x[:, :, :first], torch.zeros_like(x[:, :, :1]), x[:, :, first:-1]), 2)

    def forward(self, x: Tensor, cache: Any = None) -> Any:  # type: ignore[override]
        if cache is None:
            self.first = x.shape[1]
        return super().forward(x, cache)
