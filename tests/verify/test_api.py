"""`check` and `assert_sound` on living modules: declared by keyword, judged on a copy."""

import importlib.util
import threading
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import manyheads as mh
from manyheads.core.config import Rotary
from manyheads.core.errors import SubjectError
from manyheads.verify import assert_sound, check
from manyheads.verify.subject import MaskSpec, ParamSpec
from manyheads.verify.subject_files import subject_from_declared, subject_from_dict
from tests.factories import annotations_unchecked
from tests.verify.strangers import PARAMS, declaration, judge_by_one_call, write_strangers

SIZES: dict[str, Any] = {"embed_dim": 12, "num_heads": 3, "form": "self", "params": PARAMS}


@pytest.fixture
def strangers(tmp_path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("strangers", write_strangers(tmp_path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_sound_module_stays_as_it_was(strangers: ModuleType) -> None:
    module = strangers.Sound()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    report = mh.check(module, **SIZES)
    assert report.verdict == "sound", str(report)
    assert isinstance(report, mh.VerifyReport)
    assert report.target.endswith(":Sound")
    assert module.training
    assert torch.get_num_threads() == threads
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_a_faulty_module_raises_with_the_report(strangers: ModuleType) -> None:
    with pytest.raises(AssertionError, match="(?s)FAULTY: .*dropout-in-eval.*Fix: "):
        assert_sound(strangers.Drops(), **SIZES)


def test_the_traceback_ends_at_the_line_of_the_fault(strangers: ModuleType) -> None:
    match = "this attention is faulty: "
    with annotations_unchecked(), pytest.raises(AssertionError, match=match) as caught:
        assert_sound(strangers.Faulty(), **SIZES)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    with annotations_unchecked():
        place = check(strangers.Faulty(), **SIZES).place
    assert place is not None
    assert place.file == strangers.__file__
    assert (last.filename, last.lineno, last.line) == (place.file, place.line, place.code)
    assert "\nSteps:\n" in str(caught.value)
    assert "departs" in str(caught.value)


def test_what_could_not_be_judged_is_not_sound(strangers: ModuleType) -> None:
    with pytest.raises(AssertionError, match="UNDETERMINED"):
        assert_sound(strangers.Raises(), **SIZES)


def test_a_module_that_cannot_be_copied_is_undetermined(strangers: ModuleType) -> None:
    module = strangers.Sound()
    module.cached = threading.Lock()
    report = check(module, **SIZES)
    assert report.verdict == "undetermined"
    assert "cannot be copied" in report.findings[0].says


def test_a_class_is_built_and_a_subject_can_be_a_dict(
    strangers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_by_one_call(monkeypatch)
    given = {name: value for name, value in declaration("Sound").items() if name != "target"}
    assert check(strangers.Sound, given).id == "sound"
    assert check(strangers.Sound, given, id="mine").id == "mine"
    subject = subject_from_dict(declaration("Sound"))
    assert check(strangers.Sound, subject).verdict == "sound"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("num_head", "num_heads"),
        ("is_causal", "causal"),
        ("paramz", "params"),
        ("zzz", "embed_dim"),
    ],
)
def test_an_unknown_keyword_is_named_with_the_nearest_known(name: str, near: str) -> None:
    with pytest.raises(SubjectError, match=rf"{name} \(7\) cannot be declared: .*{near}"):
        check(nn.Linear(3, 3), **{name: 7})


def test_wrong_kinds_are_refused() -> None:
    with pytest.raises(SubjectError, match="spec.num_heads"):
        check(nn.Linear(3, 3), num_heads="three")
    with pytest.raises(SubjectError, match=r"call.masks \('no'\) must be a list"):
        check(nn.Linear(3, 3), masks="no")


def test_keywords_go_before_the_subject_and_leave_the_rest() -> None:
    base = subject_from_dict(declaration("Sound"))
    said = subject_from_declared("x:y", {"num_heads": 6, "layout": "TBE"}, base)
    assert (said.spec.num_heads, said.spec.embed_dim) == (6, 12)
    assert (said.call.layout, said.call.form) == ("TBE", "self")
    assert said.target == base.target
    assert said.params == base.params


def test_objects_and_plain_values_declare_the_same() -> None:
    mask = {"arg": "mask", "axes": "BS", "convention": "blocked"}
    plain = {
        "position": {"type": "rope", "style": "interleaved", "base": 500.0},
        "masks": [mask],
        "params": PARAMS,
        "flags": {"flash": [True, False]},
    }
    names = {name: PARAMS[name] for name in "qkvo"}
    objects = {
        "position": Rotary(base=500.0, style="interleaved"),
        "masks": (MaskSpec(**mask),),
        "params": ParamSpec(layout="separate", names=names),
        "flags": {"flash": (True, False)},
    }
    assert subject_from_declared("x:y", plain) == subject_from_declared("x:y", objects)
