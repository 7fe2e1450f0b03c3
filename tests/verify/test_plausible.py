"""Without known weights, what cannot be attention is not called sound, and what can be is."""

import pytest
import torch
from torch import Tensor, nn

from manyheads.verify import check
from tests.factories import annotations_unchecked


class Plain(nn.Module):
    """Ordinary self-attention with one replaceable step."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.h = num_heads
        self.wq, self.wk = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)
        self.wv, self.wo = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        layers = (self.wq, self.wk, self.wv)
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in layers)
        return self.wo((self.weights(q, k) @ v).transpose(1, 2).flatten(2))


class Tanh(Plain):
    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.mT).tanh()


class Unsigned(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).abs()


class NormedQueries(Plain):
    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        norm = nn.functional.normalize
        return (10 * norm(q, dim=-1) @ norm(k, dim=-1).mT).softmax(-1)


class Whole(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).long()


@pytest.mark.parametrize(
    ("kind", "verdict", "said"),
    [
        (Plain, "sound", None),
        (NormedQueries, "sound", "no known fault"),
        (Tanh, "undetermined", "do not sum to one"),
        (Unsigned, "undetermined", "not proportional to the output projection"),
        (Whole, "faulty", "torch.int64"),
    ],
)
def test_undeclared_module_gets_the_verdict_that_its_behaviour_allows(
    kind: type[Plain], verdict: str, said: str | None
) -> None:
    torch.manual_seed(3)
    with annotations_unchecked():  # every variant of every fault is computed
        report = check(kind(8, 2), embed_dim=8, num_heads=2)
    assert report.verdict == verdict, report
    assert said is None or said in report.findings[0].says
