"""The step that departs, how it departs, and the very line."""

from functools import cache
from pathlib import Path

import pytest
from torch import Tensor, nn

from manyheads.faults.head_layout import variants as layout_variants
from manyheads.faults.softmax import variants as softmax_variants
from manyheads.verify import check
from manyheads.verify.findings import Where
from manyheads.verify.locate import STEPS
from manyheads.verify.report import VerifyReport
from manyheads.verify.variants import changes_step
from tests.factories import annotations_unchecked
from tests.verify.kinds import Causal, E, H, Plain, d
from tests.verify.test_reading import drawn

SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()


class NoScale(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT  # here: missing


class Doubled(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        s = q @ k.mT
        return s * (3.0 / d**0.5)  # here: factor


class SplitByView(Plain):
    def project(self, x: Tensor) -> list[Tensor]:
        b, t, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q, k, v = (y.view(b, H, t, d) for y in (q, k, v))  # here: split
        return [q, k, v]


class MergedByView(Plain):
    def join(self, y: Tensor) -> Tensor:
        y = y.reshape(y.shape[0], y.shape[2], E)  # here: merge
        return self.wo(y)


class OneHeadTwice(Plain):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        s = super().scores(q, k)
        s[:, 1] = s[:, 1] * 2  # here: one head
        return s


class LateMask(Causal):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return Plain.scores(self, q, k)

    def weights(self, scores: Tensor) -> Tensor:
        weights = scores.softmax(-1)
        return weights.tril()  # here: late


class OverQueries(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-2)  # here: axis


class NoSoftmax(Plain):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)
        s = self.scores(q, k)
        return self.join(s @ v)  # here: no softmax


class FirstKeys(Plain):
    def prepare(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        k = k[:1].expand_as(k)  # here: sample
        return q, k


class Added(Plain):
    def join(self, y: Tensor) -> Tensor:
        out = self.wo(y.transpose(1, 2).flatten(2))
        return out + out.mean(1, keepdim=True)  # here: output


# mark of the line, step, how its numbers differ
EXPECTED: dict[type[nn.Module], tuple[str, str, str]] = {
    NoScale: ("missing", "scores", "missing"),
    Doubled: ("factor", "scores", "factor"),
    SplitByView: ("split", "q", "arrangement"),
    MergedByView: ("merge", "concat", "arrangement"),
    OneHeadTwice: ("one head", "scores", "factor"),
    LateMask: ("late", "attn_weights", "part"),
    OverQueries: ("axis", "attn_weights", "other"),
    NoSoftmax: ("no softmax", "attn_weights", "missing"),
    FirstKeys: ("sample", "k", "part"),
    Added: ("output", "output", "other"),
}


def line_of(mark: str) -> int:
    return next(n for n, text in enumerate(SOURCE, 1) if text.endswith(f"# here: {mark}"))


@cache
def report_of(kind: type[nn.Module]) -> VerifyReport:
    with annotations_unchecked():
        return check(drawn(kind))


def place_of(report: VerifyReport) -> Where:
    places = [f.where for f in report.findings if f.where is not None]
    assert places, str(report)
    return places[0]


QUICK = (NoScale, Doubled, SplitByView, LateMask, Added)
PLACES = [pytest.param(kind, marks=[] if kind in QUICK else pytest.mark.slow) for kind in EXPECTED]


@pytest.mark.parametrize("kind", PLACES)
def test_the_line_of_a_mistake_is_named_with_its_step(kind: type[nn.Module]) -> None:
    mark, step, relation = EXPECTED[kind]
    place = place_of(report_of(kind))
    assert place.file is not None
    assert Path(place.file).name == Path(__file__).name
    assert (place.line, place.step, place.relation) == (line_of(mark), step, relation)
    assert place.code in SOURCE[line_of(mark) - 1]
    assert place.code


def test_a_factor_is_measured() -> None:
    place = place_of(report_of(Doubled))
    assert place.factor == pytest.approx(3.0)


def test_steps_before_the_mistake_are_equal_and_those_after_it_are_not_seen() -> None:
    report = report_of(OverQueries)
    status = {step.step: step.status for step in report.steps}
    assert list(status) == [step for step in STEPS if step in status]
    assert (status["q"], status["v"], status["scores"]) == ("equal", "equal", "equal")
    assert status["attn_weights"] == "departs"
    assert "equal" not in {status["head_outputs"], status["output"]}


def test_one_entry_is_shown_with_both_numbers() -> None:
    finding = report_of(Doubled).findings[0]
    expected, found = finding.evidence["expected"], finding.evidence["found"]
    assert found == pytest.approx(3 * expected)
    assert len(finding.evidence["entry"]) >= 1


def test_every_step_of_a_sound_module_is_equal_or_not_seen() -> None:
    report = report_of(Plain)
    assert report.verdict == "sound"
    assert {step.status for step in report.steps} <= {"equal", "not seen"}


def test_variants_are_sorted_by_the_steps_that_they_change() -> None:
    axes = [v for v in softmax_variants() if v.fault == "softmax-axis"]
    assert axes
    assert all(changes_step(v.pipeline, "attn_weights") for v in axes)
    assert not any(changes_step(v.pipeline, "v") for v in axes)
    splits = [v for v in layout_variants() if v.fault == "split-by-view"]
    assert splits
    assert all(changes_step(v.pipeline, "q") for v in splits)
