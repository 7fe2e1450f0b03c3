"""Exhibits whose fault lies in dropout: what is dropped, when, and what is made good."""

import torch
from torch import Tensor, nn

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Answer, Problem
from manyheads.verify.exhibit_module import FaultyAttention
from manyheads.verify.subject import Subject


class Dropping(Pipeline):
    """Weights dropped in training, rightly; faults override one step."""

    is_training = False

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def drop(self, x: Tensor) -> Tensor:
        """Zero a share of the numbers and divide the others by what is kept."""
        return nn.functional.dropout(x, self.rate, self.is_training)

    def weigh(self, p: Problem, weights: Tensor, v: Tensor) -> Tensor:
        """Weighted sums with dropped weights."""
        return super().weigh(p, self.drop(weights), v)


class DropsScores(Dropping):
    """Scores are dropped instead of weights."""

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """Drop before the softmax."""
        return Pipeline.hide(self, p, self.drop(scores), allowed)

    def weigh(self, p: Problem, weights: Tensor, v: Tensor) -> Tensor:
        """Drop nothing here."""
        return weights @ v


class DropsAlways(Dropping):
    """In evaluation too."""

    def drop(self, x: Tensor) -> Tensor:
        """Whatever the mode."""
        return nn.functional.dropout(x, self.rate, True)


class DropsWithoutRescaling(Dropping):
    """Kept weights stay as they are."""

    def drop(self, x: Tensor) -> Tensor:
        """Zero a share of the numbers."""
        return x * (torch.rand_like(x) >= self.rate) if self.is_training else x


class DropsAndRenormalises(Dropping):
    """Rows sum to one again after dropout."""

    def drop(self, x: Tensor) -> Tensor:
        """Divide by the sum of what is kept."""
        kept = super().drop(x)
        return kept / kept.sum(dim=-1, keepdim=True).clamp_min(1e-9) if self.is_training else kept


class DropsOutputs(Dropping):
    """Channels of the weighted sum are dropped."""

    def weigh(self, p: Problem, weights: Tensor, v: Tensor) -> Tensor:
        """Drop after the values."""
        return self.drop(weights @ v)


class ReturnsDropped(Dropping):
    """The dropped weights are returned."""

    def attend(
        self, p: Problem, q: Tensor, k: Tensor, v: Tensor, start: int
    ) -> tuple[Tensor, Tensor]:
        """Draw once, use and return."""
        _, weights = Pipeline.attend(self, p, q, k, v, start)
        dropped = self.drop(weights)
        return dropped @ self.group(p, v), dropped


class DroppingAttention(FaultyAttention):
    """Tells its pipeline which mode it is in."""

    def answer(self, problem: Problem) -> Answer:
        """Run the steps in the module's mode."""
        assert isinstance(self.pipeline, Dropping)
        self.pipeline.is_training = self.training
        return super().answer(problem)


def dropping(pipeline: type[Dropping], subject: Subject) -> nn.Module:
    """A module that drops by this pipeline, at the declared rate."""
    assert subject.spec.dropout is not None
    return DroppingAttention(subject, pipeline(subject.spec.dropout))
