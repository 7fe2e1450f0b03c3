"""Every known fault is named first, every sound module is sound, and nonsense is noticed."""

import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.faults import FAULT_KINDS
from manyheads.verify import check
from manyheads.verify.isolation import judged as judged_as
from manyheads.verify.report import VerifyReport
from tests.factories import annotations_unchecked, mostly_slow
from tests.verify.faulty_modules import D, H, Plain
from tests.verify.handmade import ASKED, FAULTY, PADDED, SEPARATE, SOUND, declared
from tools.museum.examples import fault_examples
from tools.museum.module import SUBJECTS, subject_named
from tools.museum.own import sound_module


def judged(made: Any, *declaration: dict[str, Any]) -> VerifyReport:
    torch.manual_seed(0)
    with annotations_unchecked():  # thousands of small calls
        return judged_as(made, declared(*declaration))


ONLY_A_LIMIT = "mask-value-in-half"


HANDMADE = mostly_slow(
    sorted(FAULTY.keys() - {ONLY_A_LIMIT}),
    *("causal-off-by-one", "dtype-mismatch", "fully-masked-row", "mask-mutated", "mask-polarity"),
    *("packed-layout", "rotary-axis", "softmax-axis", "state-mutated", "unregistered-parameters"),
)


@pytest.mark.parametrize("fault", HANDMADE)
def test_handmade_fault_is_named_first(fault: str) -> None:
    make, *declaration = FAULTY[fault]
    report = judged(make(), *declaration)
    assert report.verdict == "faulty"
    first = report.findings[0]
    assert first.fault == fault, [(f.fault, f.says) for f in report.findings]
    assert first.severity == "error"
    assert first.fix == FAULT_KINDS[fault].fix
    json.loads(report.to_json())


@pytest.mark.parametrize("name", SOUND)
def test_right_form_of_the_same_code_is_sound(name: str) -> None:
    make, *declaration = SOUND[name]
    report = judged(make(), *declaration)
    assert report.verdict == "sound", report.findings
    assert not [f for f in report.findings if f.severity == "error"]


def test_a_number_that_float16_cannot_hold_is_a_limit_of_correct_code() -> None:
    make, *declaration = FAULTY[ONLY_A_LIMIT]
    report = judged(make(), *declaration)
    assert report.verdict == "sound", report.findings
    assert any("float16" in limit for limit in report.limits)


EXHIBITS = mostly_slow(
    [fault for fault in FAULT_KINDS if fault != ONLY_A_LIMIT],
    *("attends-over-heads", "dropout-in-eval", "gradient-cut", "mask-after-softmax"),
    *("merge-by-view", "rotary-pairing"),
)


@pytest.mark.parametrize("fault", EXHIBITS)
def test_exhibit_of_every_kind_is_named_first(fault: str) -> None:
    example = fault_examples()[fault]
    torch.manual_seed(0)
    with annotations_unchecked():
        report = judged_as(example.make(example.subject), example.subject)
    assert report.verdict == "faulty"
    assert report.findings[0].fault == fault, [(f.fault, f.says) for f in report.findings]


@pytest.mark.parametrize("kind", mostly_slow(SUBJECTS, "self", "padding", "grouped", "dropout"))
def test_module_without_the_fault_is_sound_under_the_same_declaration(kind: str) -> None:
    subject = subject_named(kind)
    torch.manual_seed(0)
    with annotations_unchecked():
        report = judged_as(sound_module(subject), subject)
    assert report.verdict == "sound", report.findings


class Nan(Plain):
    def forward(self, *given: Any, **keywords: Any) -> Tensor:  # type: ignore[override]
        return super().forward(*given, **keywords) * float("nan")


class OneNan(Plain):
    def forward(self, *given: Any, **keywords: Any) -> Tensor:  # type: ignore[override]
        y = super().forward(*given, **keywords)
        return y.index_fill(1, torch.tensor([0]), float("nan"))


class Narrow(Plain):
    def forward(self, *given: Any, **keywords: Any) -> Tensor:  # type: ignore[override]
        return super().forward(*given, **keywords)[..., :-1]


class Swapped(Plain):
    def forward(self, *given: Any, **keywords: Any) -> Tensor:  # type: ignore[override]
        return super().forward(*given, **keywords).transpose(0, 1)


class Offset(Plain):
    def forward(self, *given: Any, **keywords: Any) -> Tensor:  # type: ignore[override]
        return super().forward(*given, **keywords) + 0.01


class Zero(Plain):
    def forward(self, *given: Any, **keywords: Any) -> Tensor:  # type: ignore[override]
        return super().forward(*given, **keywords) * 0.0


SAID = {
    Nan: "is not finite",
    OneNan: "is not finite",
    Narrow: r"shape \(2, 7, 11\), expected \(2, 7, 12\)",
    Swapped: r"shape \(7, 2, 12\), expected \(2, 7, 12\)",
    Offset: "differs by 0.00",
    Zero: "differs by 1 of the largest",
}


@pytest.mark.parametrize("make", mostly_slow(SAID, OneNan, Swapped, Zero))
def test_nonsense_is_noticed(make: type[nn.Module]) -> None:
    report = judged(make(), {}, {**PADDED, **ASKED}, SEPARATE)
    assert report.verdict == "faulty"
    assert re.search(SAID[make], report.findings[0].says), report.findings


def test_the_offset_alone_is_measured() -> None:
    report = judged(Offset(), {}, {}, SEPARATE)
    difference = report.findings[0].evidence["difference"]
    assert 0.001 < difference < 0.02


def test_module_is_left_as_it_was() -> None:
    module = Plain().train()
    kept = {name: t.clone() for name, t in module.state_dict().items()}
    state = torch.random.get_rng_state()
    judged_by = declared({}, PADDED, SEPARATE)
    with annotations_unchecked():
        judged_as(module, judged_by)
    assert module.training
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(t, kept[name]) for name, t in module.state_dict().items())
    assert all(t.dtype == torch.float32 for t in module.state_dict().values())


class Raises(Plain):
    def forward(self, *given: Any, **keywords: Any) -> Tensor:  # type: ignore[override]
        raise KeyError("no such thing")


class Chatty(Plain):
    def forward(self, *given: Any, **keywords: Any) -> Any:
        return {"hidden": super().forward(*given, **keywords), "more": None}


def test_module_that_raises_is_undetermined_with_its_reason() -> None:
    report = judged(Raises(), {}, {}, SEPARATE)
    assert report.verdict == "undetermined"
    assert "KeyError" in report.findings[0].says


def test_answer_in_a_dict_is_read() -> None:
    assert judged(Chatty(), {}, {}, SEPARATE).verdict == "sound"


def test_missing_width_is_asked_for() -> None:
    report = check(Plain(), num_heads=3)
    assert report.verdict == "undetermined"
    assert "declare" in report.findings[0].says + report.findings[0].fix


def test_parameters_that_are_not_there_are_undetermined_by_name() -> None:
    report = check(Plain(), embed_dim=D, num_heads=H, params={**SEPARATE, "q": "query"})
    assert report.verdict == "undetermined"
    assert "'query'" in report.findings[0].says
