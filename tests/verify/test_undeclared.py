"""Mistakes that show without a declaration: in training, in what is left aside, in names."""

import math

import pytest
import torch
from torch import Tensor, nn

from tests.verify.kinds import Plain
from tests.verify.test_reading import drawn
from tests.verify.test_verdict import is_compared, judged, status_of

RATE = 0.25
"""Written into the code: no attribute of a module holds it."""


class Drops(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        return nn.functional.dropout(scores.softmax(-1), RATE, self.training)


class DropsByHand(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        weights = scores.softmax(-1)
        return (
            weights * (torch.rand_like(weights) > RATE) / (1 - RATE) if self.training else weights
        )


class NotRescaled(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        weights = scores.softmax(-1)
        return weights * (torch.rand_like(weights) > RATE) if self.training else weights


class DropsScores(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        return nn.functional.dropout(scores, RATE, self.training).softmax(-1)


class LeftAside(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores.masked_fill(later, -math.inf)
        return scores.softmax(-1)


class KeysByQueries(Plain):
    def project(self, x: Tensor) -> list[Tensor]:
        q, _, v = super().project(x)
        return [q, q, v]


class OtherSlopes(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2])
        slopes = torch.tensor([0.5, 0.3, 0.2], dtype=q.dtype)[:, None, None]
        return super().scores(q, k) - slopes * (place[:, None] - place).abs()


class Padded(Plain):
    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x)
        s = self.scores(q, k)
        if key_padding_mask is not None:
            s = s.masked_fill(~key_padding_mask[:, None, None], -math.inf)
        return self.join(self.weights(s) @ v)


@pytest.mark.parametrize("kind", [Drops, DropsByHand])
def test_dropout_whose_rate_nothing_holds_is_sound_and_checked(kind: type[nn.Module]) -> None:
    report = judged(drawn(kind))
    assert report.verdict == "sound", str(report)
    assert is_compared(report)
    assert status_of(report, "dropout") == "passed"


MISTAKES = {
    NotRescaled: ("faulty", "dropout-not-rescaled", "rand_like"),
    DropsScores: ("faulty", "dropout-before-softmax", "dropout(scores"),
    LeftAside: ("faulty", None, "scores.masked_fill(later"),
    KeysByQueries: ("faulty", "wrong-tensor", ""),
    OtherSlopes: ("nonstandard", "linear-bias-slopes", ""),
    Padded: ("nonstandard", "mask-polarity", ""),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_shows_without_a_declaration(kind: type[nn.Module]) -> None:
    verdict, fault, code = MISTAKES[kind]
    report = judged(drawn(kind))
    first = report.findings[0]
    assert (report.verdict, first.fault) == (verdict, fault), str(report)
    assert not code or (first.where is not None and code in first.where.code)
