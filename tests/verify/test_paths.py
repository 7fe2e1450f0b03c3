"""Autocast and large hidden numbers: each check is seen to fail, and to pass."""

import pytest
import torch
from torch import Tensor, nn

from manyheads.verify import check

DECLARED = {
    "embed_dim": 12,
    "num_heads": 3,
    "form": "self",
    "layout": "BTE",
    "returns": "out",
    "masks": [{"arg": "mask", "axes": "BS", "convention": "allowed"}],
    "params": {"layout": "separate", "q": "wq", "k": "wk", "v": "wv", "o": "wo"},
}


class Masked(nn.Module):
    """Ordinary self-attention with a padding mask."""

    hidden = float("-inf")

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(12, 12) for _ in range(4))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / 2.0

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        layers = (self.wq, self.wk, self.wv)
        q, k, v = (f(x).unflatten(-1, (3, 4)).transpose(1, 2) for f in layers)
        scores = self.scores(q, k)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], self.hidden)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class SoftlyMasked(Masked):
    hidden = -60.0  # far below ordinary scores, not below large ones


class LostUnderAutocast(Masked):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) * (0.1 if torch.is_autocast_enabled("cpu") else 1.0)


@pytest.mark.parametrize(
    ("kind", "name", "fault"),
    [(SoftlyMasked, "hidden content", "mask-value"), (LostUnderAutocast, "autocast", None)],
)
def test_what_only_shows_on_a_path_is_found(
    kind: type[Masked], name: str, fault: str | None
) -> None:
    torch.manual_seed(5)
    report = check(kind(), **DECLARED)
    assert report.verdict == "faulty"
    assert (report.findings[0].check, report.findings[0].fault) == (name, fault)


def test_sound_module_passes_both_checks() -> None:
    torch.manual_seed(5)
    report = check(Masked(), **DECLARED)
    assert report.verdict == "sound", report
    status = {result.name: result.status for result in report.checks}
    assert status["hidden content"] == status["autocast"] == "passed"
