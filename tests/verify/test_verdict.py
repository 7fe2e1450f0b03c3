"""What each verdict means: nothing is sound whose numbers were not reproduced."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from manyheads.verify import check
from manyheads.verify.report import VerifyReport
from tests.factories import annotations_unchecked, mostly_slow
from tests.verify import kinds
from tests.verify.kinds import E, H, Plain, d
from tests.verify.test_reading import drawn

LEGAL = (
    *(kinds.Plain, kinds.HeadNorm, kinds.WholeNorm, kinds.UnitLength, kinds.InputNorm),
    *(kinds.Rotary, kinds.Neighbours, kinds.PartRotary, kinds.Capped, kinds.Sinks),
    *(kinds.ZeroKey, kinds.Table, kinds.Alibi, kinds.Causal, kinds.Window, kinds.BothSides),
    *(kinds.Packed, kinds.HeadByHead, kinds.HeadMinor, kinds.InOut, kinds.Grouped),
    *(kinds.Stacked, kinds.StackedFused, kinds.Cosine, kinds.HeadGains, kinds.ValueNorm),
    *(kinds.Divided, kinds.ContextNorm, kinds.CausalOrMask, kinds.TwoSequences),
    *(kinds.ValuesFirst, kinds.TurnedThenNormed, kinds.SingleSinks),
    kinds.LowRank,
)


def judged(made: Any, **declared: Any) -> VerifyReport:
    with annotations_unchecked():
        return check(made, **declared)


@cache
def report_of(kind: type[nn.Module]) -> VerifyReport:
    """Of a class of which nothing is declared; several tests read it."""
    return judged(drawn(kind))


def status_of(report: VerifyReport, name: str) -> str:
    return next((c.status for c in report.checks if c.name == name), "absent")


def is_compared(report: VerifyReport) -> bool:
    return status_of(report, "values") == "passed"


QUICK_LEGAL = (
    *(kinds.HeadNorm, kinds.Rotary, kinds.Capped, kinds.Sinks, kinds.Alibi, kinds.BothSides),
    *(kinds.Packed, kinds.Grouped),
)


@pytest.mark.parametrize("kind", mostly_slow(LEGAL, *QUICK_LEGAL))
def test_what_nobody_does_by_mistake_is_sound_and_compared(kind: type[nn.Module]) -> None:
    report = judged(drawn(kind))
    assert report.verdict == "sound", str(report)
    assert is_compared(report)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (kinds.HeadScales, "multiplied by numbers that differ"),
        (kinds.Residual, "a residual connection"),
    ],
)
def test_what_is_no_part_of_attention_is_named(kind: type[nn.Module], says: str) -> None:
    report = judged(drawn(kind))
    assert report.verdict == "undetermined", str(report)
    assert says in report.findings[0].says


class Unscaled(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


class UnscaledRotary(kinds.TwoSequences):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


def test_a_mistake_beside_rotary_positions_has_its_line() -> None:
    report = judged(drawn(UnscaledRotary))
    assert report.verdict == "nonstandard", str(report)
    where = report.findings[0].where
    assert where is not None and where.step == "scores" and where.line is not None


class ByModelWidth(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(E)


class Inverse(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT * math.sqrt(d)


class OneOverWidth(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / d


class Tiled(kinds.Grouped):
    def project(self, x: Tensor) -> list[Tensor]:
        q, k, v = (f(x).unflatten(-1, (-1, 3)).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        return [q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)]


MISTAKES = {Unscaled: 1.0, ByModelWidth: E**-0.5, Inverse: d**0.5, OneOverWidth: 1 / d}


@pytest.mark.parametrize("kind", mostly_slow(MISTAKES, Unscaled, Inverse))
def test_another_scale_is_nonstandard_until_it_is_declared(kind: type[nn.Module]) -> None:
    report = judged(drawn(kind))
    assert report.verdict == "nonstandard"
    assert report.findings[0].fault == "scale"
    assert report.findings[0].where is not None
    assert report.findings[0].where.step == "scores"
    assert judged(drawn(kind), scale=MISTAKES[kind]).verdict == "sound"


def test_a_declared_scale_that_is_not_used_is_a_fault() -> None:
    assert judged(drawn(Plain), scale=0.3).verdict == "faulty"


def test_tiled_groups_are_nonstandard() -> None:
    report = judged(drawn(Tiled), num_kv_heads=2)
    assert report.verdict == "nonstandard"
    assert report.findings[0].fault == "grouped-order"


class Detached(Plain):
    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q, k.detach()


def test_a_bias_that_gets_no_gradient_is_not_said_to_be_unused() -> None:
    assert [f.fault for f in judged(drawn(Detached)).findings] == ["gradient-cut"]


class UnusedBias(Plain):
    def project(self, x: Tensor) -> list[Tensor]:
        q, _, v = super().project(x)
        return [q, (x @ self.wk.weight.mT).unflatten(-1, (H, -1)).transpose(1, 2), v]


def test_a_bias_without_effect_is_said_to_be_unused() -> None:
    assert [f.fault for f in judged(drawn(UnusedBias)).findings] == ["bias-dropped"]


class OneAndAHalf(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1.5


class HalfTheValues(Plain):
    def project(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().project(x)
        return [q, k, v * 0.5]


class NoSoftmax(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        return scores


class Sigmoid(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.sigmoid()


class LogSoftmax(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.log_softmax(-1)


class ByBatch(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) / q.shape[0]


class FirstSample(Plain):
    def project(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().project(x)
        return [q, k[:1].expand_as(k), v]


class OneMore(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.01 * x.mean(1, keepdim=True)


class Residual(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x


class LeaksWhenLong(kinds.Causal):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + 0.1 * self.wo(x.flip(1)) if x.shape[1] > 6 else y


WRONG = (
    *(OneAndAHalf, HalfTheValues, NoSoftmax, Sigmoid, LogSoftmax, ByBatch, FirstSample),
    *(OneMore, Residual, LeaksWhenLong, Unscaled, Tiled),
)


QUICK_WRONG = (OneAndAHalf, LogSoftmax, ByBatch, OneMore, LeaksWhenLong)


@pytest.mark.parametrize("kind", mostly_slow(WRONG, *QUICK_WRONG))
def test_unexplained_numbers_are_never_sound(kind: type[nn.Module]) -> None:
    report = report_of(kind)
    assert report.verdict != "sound", str(report)
    assert not is_compared(report) or report.verdict == "nonstandard" or report.findings


NO_ATTENTION = (NoSoftmax, LogSoftmax, ByBatch, FirstSample, OneAndAHalf)


@pytest.mark.parametrize("kind", mostly_slow(NO_ATTENTION, LogSoftmax, ByBatch, OneAndAHalf))
def test_what_is_attention_for_no_weights_is_not_undetermined(kind: type[nn.Module]) -> None:
    assert report_of(kind).verdict in ("faulty", "nonstandard")


@pytest.mark.parametrize("factor", mostly_slow([2.0, 1.5], 1.5))
def test_a_hook_on_every_module_that_scales_outputs_is_never_sound(factor: float) -> None:
    def scaled(module: nn.Module, given: Any, output: Any) -> Any:
        return output * factor if isinstance(module, Plain) else None

    hook = nn.modules.module.register_module_forward_hook(scaled)
    try:
        report = judged(drawn(Plain))
    finally:
        hook.remove()
    assert report.verdict != "sound"
    assert report_of(Plain).verdict == "sound"


def test_a_hook_that_doubles_the_output_of_every_module_is_never_sound() -> None:
    def doubled(module: nn.Module, given: Any, output: Any) -> Any:
        return output * 2 if isinstance(output, Tensor) else None

    hook = nn.modules.module.register_module_forward_hook(doubled)
    try:
        report = judged(drawn(Plain))
    finally:
        hook.remove()
    assert report.verdict != "sound"


class Gated(Plain):
    """A gate that depends on the input: attention, but none that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(E, E)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)
        y = (self.weights(self.scores(q, k)) @ v).transpose(1, 2).flatten(2)
        return self.wo(y * self.gate(x).relu())


class Bent(Plain):
    """Queries go through another function first."""

    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return nn.functional.silu(q), nn.functional.silu(k)


class Differential(Plain):
    """The difference of two softmaxes."""

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1) - 0.3 * (scores * 2).softmax(-1)


FOREIGN = {Gated: ("ReLU", ".relu()"), Bent: ("SiLU", "silu(q)")}


@pytest.mark.parametrize("kind", FOREIGN)
def test_operations_that_are_not_understood_are_named_with_their_line(
    kind: type[nn.Module],
) -> None:
    report = report_of(kind)
    assert report.verdict == "undetermined", str(report)
    words, code = FOREIGN[kind]
    said = [f for f in report.findings if words in f.says]
    assert said, str(report)
    with open(__file__, encoding="utf-8") as file:
        lines = [number for number, text in enumerate(file, 1) if code in text]
    where = said[0].where
    assert where is not None or f"line {lines[0]}" in said[0].says
    assert where is None or where.line in lines


class InNumpy(Plain):
    """Works outside of torch, so that nothing can be watched."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            q, k, v = self.project(x)
            s = (q @ k.mT).numpy() / math.sqrt(d)
            p = np.exp(s - s.max(-1, keepdims=True))
            y = torch.from_numpy(p / p.sum(-1, keepdims=True) @ v.numpy())
            return self.join(y)


def test_what_cannot_be_watched_is_undetermined() -> None:
    report = judged(drawn(InNumpy), embed_dim=E, num_heads=H)
    assert report.verdict == "undetermined", str(report)


class Keeps(Plain):
    """Keeps its weights and its output on itself, with their history."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)
        self.kept = self.weights(self.scores(q, k))
        self.last = self.join(self.kept @ v)
        return self.last


class KeepsWrong(Keeps):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-2)


@pytest.mark.parametrize("kind", [Keeps, KeepsWrong])
def test_a_module_gets_the_same_verdict_after_it_was_called(kind: type[Keeps]) -> None:
    fresh, called = drawn(kind), drawn(kind)
    called(torch.randn(2, 5, E)).sum().backward()
    assert isinstance(called.kept, Tensor)
    assert not called.kept.is_leaf
    before, after = judged(fresh), judged(called)
    assert after.verdict == before.verdict == ("sound" if kind is Keeps else "faulty")
    assert [f.fault for f in after.findings] == [f.fault for f in before.findings]
    assert not called.kept.is_leaf  # left as it was


class Raises(Plain):
    def forward(self, x: Tensor, mask: Any) -> Tensor:
        raise ValueError("no such thing")


def test_what_cannot_be_called_says_what_is_missing() -> None:
    report = judged(Raises())
    assert report.verdict == "undetermined"
    assert "no such thing" in report.findings[0].says
    assert "declare" in report.findings[0].says + report.findings[0].fix


@pytest.mark.parametrize("kind", [OneAndAHalf, LogSoftmax, Gated])
def test_a_check_that_failed_or_was_not_made_is_not_passed(kind: type[nn.Module]) -> None:
    report = report_of(kind)
    assert status_of(report, "values") in ("failed", "skipped")


class Large(Plain):
    """Correct; its number for hidden keys cannot be written in float16."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x)
        scores = self.scores(q, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, None, None], -1e20)
        return self.join(scores.softmax(-1) @ v)


class Padded(Plain):
    def forward(self, x: Tensor, padding: Tensor | None = None) -> Any:
        return super().forward(x)


def test_an_argument_that_no_check_used_is_named() -> None:
    assert any("padding" in limit for limit in judged(drawn(Padded)).limits)
    assert not any("default" in limit for limit in judged(drawn(Plain)).limits)


def test_limits_of_correct_code_come_last_and_leave_it_sound() -> None:
    report = judged(drawn(Large))
    assert report.verdict == "sound", str(report)
    assert any("float16" in limit for limit in report.limits)
    text = str(report)
    assert text.index("float16") > 0


FUNCTIONS: tuple[Callable[..., Tensor], ...] = (kinds.with_arguments,)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_with_weights_as_arguments_are_compared(function: Callable[..., Tensor]) -> None:
    report = judged(function, embed_dim=E, num_heads=H)
    assert report.verdict == "sound", str(report)
    assert is_compared(report)
