"""Each check finds what it is for, alone, and leaves the right form of the same code in peace."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.verify.calling import prepared
from manyheads.verify.context import Context
from manyheads.verify.findings import Finding, found
from manyheads.verify.isolation import judged
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import Subject
from manyheads.verify.understanding import Understanding
from tests.factories import annotations_unchecked
from tests.verify.faulty_modules import Plain
from tests.verify.faulty_positions import Cached
from tests.verify.handmade import CACHED, PADDED, SEPARATE, STEPS, declared
from tools.museum.examples import fault_examples
from tools.museum.grid import CHECKS
from tools.museum.module import subject_named
from tools.museum.own import sound_module


def findings(title: str, made: nn.Module, subject: Subject) -> list[Finding]:
    """What one check alone finds."""
    with annotations_unchecked():
        callee = prepared(made, subject)
        located = callee.located()
        maker = ProblemMaker(subject, located)
        ctx = Context(
            subject=subject,
            callee=callee,
            maker=maker,
            located=located,
            strict=True,
            known=Understanding(subject=subject),
        )
        if subject.spec.position is not None:
            ctx.tolerance = 3e-5  # float32 angles
        CHECKS[title](ctx)
    return [finding for finding in ctx.findings if finding.severity == "error"]


NAMED = {
    "repeatable": "state-mutated", "registration": "unregistered-parameters",
    "sharing": "heads-share-parameters", "inputs kept": "input-mutated",
    "masks kept": "mask-mutated", "size one": "shape-at-size-one", "strides": "strides-ignored",
    "empty rows": "fully-masked-row", "dropout": "dropout-not-rescaled",
    "gradients": "gradient-cut", "half": "dtype-mismatch", "long rows": "low-precision",
    "half range": "half-overflow",
}  # fmt: skip


@pytest.mark.parametrize("title", NAMED)
def test_check_names_its_fault(title: str) -> None:
    example = fault_examples()[NAMED[title]]
    first = findings(title, example.make(example.subject), example.subject)[0]
    assert first.fault == NAMED[title]
    assert first.says


@pytest.mark.parametrize("title", CHECKS)
def test_check_finds_nothing_in_sound_modules(title: str) -> None:
    for kind in ("self", "padding, zero", "cache", "dropout, weights", "qkv"):
        subject = subject_named(kind)
        assert findings(title, sound_module(subject), subject) == []


class Unbatched(Plain):
    """(T, E) is taken for a batch of positions."""

    def forward(self, x: Tensor, padding: Any = None, causal: bool = False) -> Any:
        return super().forward(x[:, None] if x.dim() == 2 else x).squeeze(1)


class NoBatch(Plain):
    def forward(self, x: Tensor, padding: Any = None, causal: bool = False) -> Any:
        y = super().forward(x[None] if x.dim() == 2 else x)
        return y[0] if x.dim() == 2 else y


def test_unbatched_input_must_give_what_a_batch_of_one_gives() -> None:
    subject = declared({}, {"unbatched": True}, SEPARATE)
    assert findings("unbatched", NoBatch(), subject) == []
    (finding,) = findings("unbatched", Unbatched(), subject)
    assert "an input without batch axis" in finding.says


class Remembers(Cached):
    """Reads what an earlier sequence left in its own buffer."""

    old: Any = None

    def read(self, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        if self.old is not None and start == 0:
            k = k * (2.0 + self.old.mean())
        self.old = k.detach()
        return k, v


def test_second_sequence_must_start_afresh() -> None:
    subject = declared(STEPS, CACHED, SEPARATE)
    assert findings("second sequence", Cached(), subject) == []
    (finding,) = findings("second sequence", Remembers(), subject)
    assert finding.fault == "state-mutated"


class Halved(Plain):
    """Returns weights of which the rows sum to a half."""

    def forward(self, x: Tensor, padding: Any = None, causal: bool = False) -> Any:
        q, k, v = self.heads(x)
        weights = self.weights(self.scores(q, k))
        return self.wo(self.join(weights @ v)), weights / 2


def test_returned_weights_must_be_those_of_the_call() -> None:
    subject = declared({}, {"returns": "out,weights"}, SEPARATE)
    (finding,) = findings("returned weights", Halved(), subject)
    assert finding.fault == "returned-weights"
    assert "between 0.5 and 0.5" in finding.says


def test_missing_weights_are_noticed_where_they_are_declared() -> None:
    (finding,) = findings(
        "returned weights", Plain(), declared({}, {"returns": "out,weights"}, SEPARATE)
    )
    assert "returns only one tensor" in finding.says


def test_declared_dropout_that_never_happens_is_said() -> None:
    (finding,) = findings("dropout", Plain(), declared({"dropout": 0.3}, {}, SEPARATE))
    assert finding.fault is None
    assert "nothing is dropped" in finding.says


class Unsubtracted(Plain):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.exp() / scores.exp().sum(-1, keepdim=True)


def test_softmax_that_does_not_subtract_the_maximum_overflows() -> None:
    (finding,) = findings("large inputs", Unsubtracted(), declared({}, {}, SEPARATE))
    assert "the softmax overflows" in finding.says


class Constant(Plain):
    def forward(self, x: Tensor, padding: Any = None, causal: bool = False) -> Any:
        return self.wo(torch.zeros_like(x))


def test_output_that_depends_on_nothing_is_no_known_fault() -> None:
    (finding,) = findings("dependence", Constant(), declared({}, {}, SEPARATE))
    assert finding.fault is None
    assert "is the same for every input" in finding.says


def test_numbers_that_are_not_finite_do_not_spoil_the_document() -> None:
    finding = found(None, "x", "says", gap=float("inf"), gaps=[1.0, float("nan")])
    assert finding.evidence == {"gap": None, "gaps": [1.0, None]}


def test_what_was_not_checked_says_why() -> None:
    with annotations_unchecked():
        report = judged(Plain(), declared({}, PADDED, SEPARATE))
    skipped = {check.name: check.why for check in report.checks if check.status == "skipped"}
    assert skipped["dropout"] == "nothing is drawn at random in training"
    assert all(skipped.values())
    passed = {check.name for check in report.checks if check.status == "passed"}
    assert {"values", "gradients", "registration", "empty rows", "masks kept"} <= passed
