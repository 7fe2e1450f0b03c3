"""Examples whose fault is outside the formula: state, memory, precision, gradients."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Answer, GivenMask, Problem
from manyheads.core.weights import HeadWeights
from manyheads.faults.softmax import OtherScale
from manyheads.verify.parameters import attribute
from manyheads.verify.subject import Subject
from tools.museum.module import FaultyAttention, Maker


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


class TurnsInFloat32(Pipeline):
    """Queries and keys come back from the rotation in float32, whatever they were."""

    def turn(self, p: Problem, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Half types are lifted and not cast back."""
        wide = torch.promote_types(q.dtype, torch.float32)
        q, k = super().turn(p, q, k)
        return q.to(wide), k.to(wide)


class EmptyRowsUndefined(Pipeline):
    """A plain softmax: NaN where every key is hidden."""

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """Nothing is done for empty rows."""
        return masked.softmax(dim=-1)


class KeysDetached(Pipeline):
    """No gradient reaches the key projection."""

    def project(self, p: Problem, x: Tensor, w: Tensor, b: Tensor | None, name: str) -> Tensor:
        """Detach keys."""
        joined = super().project(p, x, w, b, name)
        return joined.detach() if name == "k" else joined


class SumsInTheInputType(Pipeline):
    """Exponentials and values are added one after another in the input type."""

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """A running sum under the exponentials."""
        powers = (masked - masked.amax(dim=-1, keepdim=True)).exp()
        return powers / sum(powers.split(1, dim=-1)[1:], start=powers[..., :1])

    def weigh(self, p: Problem, weights: Tensor, v: Tensor) -> Tensor:
        """A running sum of values."""
        total = weights[..., :1] * v[..., :1, :]
        for s in range(1, v.shape[2]):
            total = total + weights[..., s : s + 1] * v[..., s : s + 1, :]
        return total


class HidesByBillion(Pipeline):
    """Hidden scores are filled with -1e9, which float16 cannot hold."""

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """A finite value instead of -inf."""
        return scores.masked_fill(~allowed, -1e9)


class WorksInFloat32(Pipeline):
    """Scores of half types are made in float32, rightly."""

    def scores(self, p: Problem, q: Tensor, k: Tensor) -> Tensor:
        """Lift before the product."""
        wide = torch.promote_types(q.dtype, torch.float32)
        return super().scores(p, q.to(wide), k.to(wide))

    def weigh(self, p: Problem, weights: Tensor, v: Tensor) -> Tensor:
        """Back to the type of the values."""
        return super().weigh(p, weights.to(v.dtype), v)


class EditsInput(FaultyAttention):
    """Halves the caller's input in place."""

    def forward(self, query: Tensor, *more: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as declared
        """Scale first, make good later."""
        with torch.no_grad():
            query.mul_(0.5)
        return super().forward(query * 2.0, *more, **keywords)


class EditsMask(FaultyAttention):
    """Writes the causal part into the caller's mask."""

    def forward(self, query: Tensor, *more: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as declared
        """Combine in place."""
        blocked = keywords.get("blocked")
        if blocked is not None and keywords.get("is_causal"):
            blocked |= torch.ones_like(blocked).triu(1)
        return super().forward(query, *more, **keywords)


class LosesMask(FaultyAttention):
    """The fused path does not get the mask."""

    def _masks(
        self, padding: Tensor | None, blocked: Tensor | None, is_fused: bool
    ) -> tuple[GivenMask, ...]:
        return () if is_fused else super()._masks(padding, blocked, is_fused)


class LosesScale(FaultyAttention):
    """The fused path uses its own scale."""

    def problem(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        is_causal: bool,
        is_fused: bool,
    ) -> Problem:
        """The declared scale on one path only."""
        problem = super().problem(query, key, value, is_causal, is_fused)
        return replace(problem, scale=self.subject.spec.d**-0.5) if is_fused else problem


class Squeezes(FaultyAttention):
    """A bare squeeze at the end."""

    def forward(self, *given: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as declared
        """Every axis of size one is lost."""
        return super().forward(*given, **keywords).squeeze()


class ReadsMemory(FaultyAttention):
    """Reads the input as if it were contiguous."""

    def forward(self, query: Tensor, *more: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as declared
        """Strides are not asked for."""
        strides = torch.empty(query.shape, device="meta").stride()
        flat = query.as_strided(query.shape, strides, query.storage_offset())
        return super().forward(flat, *more, **keywords)


class Sharpens(FaultyAttention):
    """The stored scale grows at every call."""

    def __init__(self, subject: Subject, pipeline: Pipeline) -> None:
        super().__init__(subject, pipeline)
        self.growth = 1.0

    def answer(self, problem: Problem) -> Answer:
        """Multiply what is stored, then use it."""
        answer = super().answer(replace(problem, scale=problem.scale * self.growth))
        self.growth *= 1.25
        return answer


class HeadByHead(FaultyAttention):
    """One set of layers a head, in a list that torch sees or does not see."""

    def __init__(self, subject: Subject, *, is_registered: bool, is_shared: bool) -> None:
        self.is_registered, self.is_shared = is_registered, is_shared
        super().__init__(subject, Pipeline())

    def _add_projections(self, sizes: dict[str, int], width: int) -> None:
        heads = self.subject.spec.heads

        def head() -> nn.ModuleDict:
            return nn.ModuleDict({n: nn.Linear(width, size // heads) for n, size in sizes.items()})

        made = [head()] * heads if self.is_shared else [head() for _ in range(heads)]
        self.heads = nn.ModuleList(made) if self.is_registered else made


def _piped(pipeline: type[Pipeline], subject: Subject) -> nn.Module:
    return FaultyAttention(subject, pipeline())


def _plain(module: type[FaultyAttention], subject: Subject) -> nn.Module:
    return module(subject, Pipeline())


def sound_module(subject: Subject) -> nn.Module:
    """The module of a declaration without any fault."""
    if subject.params is not None and subject.params.layout == "per_head_modules":
        return HeadByHead(subject, is_registered=True, is_shared=False)
    if subject.spec.dropout:
        return dropping(Dropping, subject)
    pipeline = WorksInFloat32() if subject.spec.compute_dtype == "float32" else Pipeline()
    return FaultyAttention(subject, pipeline)


def load_heads(module: nn.Module, weights: HeadWeights) -> None:
    """Copy per-head matrices into an example, however it stores them; biases they lack are zero."""
    rows: dict[str, tuple[Tensor, Tensor]] = {}
    for name in "qkv":
        weight, bias = getattr(weights, f"w_{name}"), getattr(weights, f"b_{name}")
        bias = weight.new_zeros(weight.shape[0], weight.shape[2]) if bias is None else bias
        rows[name] = weight.mT, bias  # (H, d, D), (H, d)
    out = weights.w_o.flatten(0, 1).T
    b_o = out.new_zeros(len(out)) if weights.b_o is None else weights.b_o
    with torch.no_grad():
        _copy(module.o, out, b_o)
        if isinstance(module, HeadByHead):
            for h in range(weights.num_heads):
                for name, (weight, bias) in rows.items():
                    _copy(attribute(module, f"heads.{h}.{name}"), weight[h], bias[h])
        elif hasattr(module, "qkv"):
            packed = [torch.cat([pair[i].flatten(0, 1) for pair in rows.values()]) for i in (0, 1)]
            _copy(module.qkv, *packed)
        else:
            for name, (weight, bias) in rows.items():
                _copy(getattr(module, name), weight.flatten(0, 1), bias.flatten())


def _copy(layer: Any, weight: Tensor, bias: Tensor) -> None:  # noqa: ANN401 - an nn.Linear
    layer.to(weight.dtype)  # a layer that the module does not register stayed as it was
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)


def _by_model_width(subject: Subject) -> nn.Module:
    return FaultyAttention(subject, OtherScale(subject.spec.width**-0.5))


OWN: dict[str, Maker] = {
    "scale": _by_model_width,
    "dropout-before-softmax": partial(dropping, DropsScores),
    "dropout-in-eval": partial(dropping, DropsAlways),
    "dropout-not-rescaled": partial(dropping, DropsWithoutRescaling),
    "dropout-renormalised": partial(dropping, DropsAndRenormalises),
    "dropout-wrong-tensor": partial(dropping, DropsOutputs),
    "returned-weights": partial(dropping, ReturnsDropped),
    "dtype-mismatch": partial(_piped, TurnsInFloat32),
    "fully-masked-row": partial(_piped, EmptyRowsUndefined),
    "gradient-cut": partial(_piped, KeysDetached),
    "half-overflow": partial(_piped, Pipeline),
    "low-precision": partial(_piped, SumsInTheInputType),
    "mask-value-in-half": partial(_piped, HidesByBillion),
    "input-mutated": partial(_plain, EditsInput),
    "mask-mutated": partial(_plain, EditsMask),
    "mask-lost-on-path": partial(_plain, LosesMask),
    "scale-option-ignored": partial(_plain, LosesScale),
    "shape-at-size-one": partial(_plain, Squeezes),
    "strides-ignored": partial(_plain, ReadsMemory),
    "state-mutated": partial(_plain, Sharpens),
    "heads-share-parameters": partial(HeadByHead, is_registered=True, is_shared=True),
    "unregistered-parameters": partial(HeadByHead, is_registered=False, is_shared=False),
}
"""Builder by fault, where no variant of the diagnosis computes it."""
