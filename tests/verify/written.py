"""One attention written in many ways: the same heads, whatever the code looks like."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.factories import random_like

B, T, E, H, d = 2, 4, 6, 3, 2


@dataclass(frozen=True, eq=False)
class Weights:
    """Matrices (E, H * d) and (H * d, E)."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor


WEIGHTS = Weights(
    *(random_like(seed, *shape) for seed, shape in enumerate([(E, H * d)] * 3 + [(H * d, E)]))
)
X = random_like(9, B, T, E)


def heads(x: Tensor, weight: Tensor) -> Tensor:
    """(B, H, T, d)."""
    return (x @ weight).unflatten(-1, (H, d)).transpose(1, 2)


def expected() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v and weights in our order of axes."""
    q, k, v = (heads(X, w) for w in (WEIGHTS.q, WEIGHTS.k, WEIGHTS.v))
    return q, k, v, (q @ k.mT / math.sqrt(d)).softmax(-1)


def batched(x: Tensor, w: Weights) -> Tensor:
    q, k, v = heads(x, w.q), heads(x, w.k), heads(x, w.v)
    weights = (q @ k.mT / math.sqrt(d)).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2) @ w.o


def by_heads(x: Tensor, w: Weights) -> Tensor:
    done = []
    for h in range(H):
        part = slice(h * d, h * d + d)
        q, k, v = x @ w.q[:, part], x @ w.k[:, part], x @ w.v[:, part]
        done.append((q @ k.mT / math.sqrt(d)).softmax(-1) @ v)
    return torch.cat(done, -1) @ w.o


def by_samples(x: Tensor, w: Weights) -> Tensor:
    rows = []
    for sample in x:
        q, k, v = ((sample @ m).view(T, H, d).transpose(0, 1) for m in (w.q, w.k, w.v))
        weights = torch.softmax(q @ k.mT / math.sqrt(d), dim=-1)
        rows.append((weights @ v).transpose(0, 1).reshape(T, H * d) @ w.o)
    return torch.stack(rows)


def by_queries(x: Tensor, w: Weights) -> Tensor:
    q, k, v = heads(x, w.q), heads(x, w.k), heads(x, w.v)
    y = torch.zeros_like(q)
    for t in range(x.shape[1]):
        scores = (q[:, :, t : t + 1] @ k.mT) / math.sqrt(d)
        y[:, :, t] = (scores.softmax(-1) @ v)[:, :, 0]
    return y.transpose(1, 2).flatten(2) @ w.o


def one_by_one(x: Tensor, w: Weights) -> Tensor:
    y = torch.empty(x.shape[0], x.shape[1], H * d, dtype=x.dtype)
    for b in range(x.shape[0]):
        for h in range(H):
            part = slice(h * d, h * d + d)
            q, k, v = x[b] @ w.q[:, part], x[b] @ w.k[:, part], x[b] @ w.v[:, part]
            for t in range(x.shape[1]):
                y[b, t, part] = torch.softmax(k @ q[t] / math.sqrt(d), 0) @ v
    return y @ w.o


def einsums(x: Tensor, w: Weights) -> Tensor:
    q, k, v = (torch.einsum("bte,ehd->bthd", x, m.view(E, H, d)) for m in (w.q, w.k, w.v))
    weights = torch.einsum("bthd,bshd->bhts", q, k).div(math.sqrt(d)).softmax(-1)
    return torch.einsum("bhts,bshd,hde->bte", weights, v, w.o.view(H, d, E))


def keys_first(x: Tensor, w: Weights) -> Tensor:
    q, k, v = (torch.einsum("bte,ehd->bhtd", x, m.view(E, H, d)) for m in (w.q, w.k, w.v))
    weights = (k @ q.mT / math.sqrt(d)).softmax(-2)  # (B, H, S, T)
    return (weights.mT @ v).transpose(1, 2).flatten(2) @ w.o


def sums(x: Tensor, w: Weights) -> Tensor:
    q, k, v = heads(x, w.q), heads(x, w.k), heads(x, w.v)
    weights = ((q[:, :, :, None] * k[:, :, None]).sum(-1) / math.sqrt(d)).softmax(-1)
    return (weights[..., None] * v[:, :, None]).sum(-2).transpose(1, 2).flatten(2) @ w.o


def sums_of_values(x: Tensor, w: Weights) -> Tensor:
    q, k, v = heads(x, w.q), heads(x, w.k), heads(x, w.v)
    weights = (q @ k.mT / math.sqrt(d)).softmax(-1)
    return (weights[..., None] * v[:, :, None]).sum(-2).transpose(1, 2).flatten(2) @ w.o


def fused(x: Tensor, w: Weights) -> Tensor:
    y = F.scaled_dot_product_attention(heads(x, w.q), heads(x, w.k), heads(x, w.v))
    return y.transpose(1, 2).flatten(2) @ w.o


def folded(x: Tensor, w: Weights) -> Tensor:
    q, k, v = (heads(x, m).flatten(0, 1) for m in (w.q, w.k, w.v))
    y = torch.baddbmm(q.new_zeros(B * H, T, T), q, k.mT, alpha=1 / math.sqrt(d)).softmax(-1) @ v
    return y.view(B, H, T, d).transpose(1, 2).flatten(2) @ w.o


def exponentials(x: Tensor, w: Weights) -> Tensor:
    q, k, v = heads(x, w.q), heads(x, w.k), heads(x, w.v)
    scores = q @ k.mT / math.sqrt(d)
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True) @ v).transpose(1, 2).flatten(2) @ w.o


def positions_first(x: Tensor, w: Weights) -> Tensor:
    y = x.transpose(0, 1)
    q, k, v = ((y @ m).view(T, B * H, d).transpose(0, 1) for m in (w.q, w.k, w.v))
    weights = (q @ k.mT / math.sqrt(d)).softmax(-1)
    return ((weights @ v).transpose(0, 1).reshape(T, B, H * d) @ w.o).transpose(0, 1)


def library(x: Tensor, w: Weights) -> Tensor:
    zeros = torch.zeros(3 * H * d, dtype=x.dtype)
    y = x.transpose(0, 1)
    packed = torch.cat((w.q, w.k, w.v), 1).T
    return F.multi_head_attention_forward(
        *(y, y, y, E, H, packed, zeros, None, None, False, 0.0, w.o.T, None), need_weights=False
    )[0].transpose(0, 1)


WRITTEN: tuple[Callable[[Tensor, Weights], Tensor], ...] = (
    *(
        batched,
        by_heads,
        by_samples,
        by_queries,
        one_by_one,
        einsums,
        keys_first,
        sums,
        sums_of_values,
        fused,
    ),
    *(folded, exponentials, positions_first, library),
)
