"""Attention of recent models is sound, declared and undeclared; a wrong declaration is not."""

import json
from typing import Any

import pytest
import torch

import manyheads as mh
from manyheads.attention.positions import t5_buckets
from manyheads.core.errors import SubjectError
from manyheads.verify import subject_schema
from manyheads.verify.subject_files import subject_from_declared, subject_from_dict
from tests.verify.modern import (
    DECLARED,
    PATHS,
    SIZES,
    T5,
    YARN,
    Gated,
    Gemma2,
    GptOss,
    Olmo2,
    Phi,
    Plain,
    Qwen3,
    declared,
)

QUICK = (GptOss, T5)
KINDS = [
    pytest.param(k, id=k.__name__, marks=() if k in QUICK else pytest.mark.slow) for k in DECLARED
]


@pytest.mark.parametrize("kind", KINDS)
def test_attention_of_recent_models_is_sound_declared(kind: Any) -> None:
    report = mh.check(kind(), **declared(kind))
    assert report.verdict == "sound", report
    assert not any(name.startswith("spec") for name in report.inferred)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in DECLARED if k is not Gemma2], ids=lambda k: k.__name__)
def test_attention_of_recent_models_is_sound_undeclared(kind: Any) -> None:
    report = mh.check(kind(), **SIZES)
    assert report.verdict == "sound", report


def test_what_is_inferred_is_named() -> None:
    report = mh.check(GptOss(), **SIZES)
    inferred = report.inferred
    assert report.verdict == "sound", report
    assert "cosine and sine times 1.20794" in inferred["spec.position"]
    assert "scaled frequencies 1, 0.005802" in inferred["spec.position"]
    assert inferred["spec.sinks"] == "one score per head without a value"
    assert mh.check(Gated(), **SIZES).inferred["spec.gate"].startswith("sigmoid")


@pytest.mark.slow
def test_a_scale_of_its_own_is_nonstandard_until_it_is_declared() -> None:
    assert mh.check(Gemma2(), **SIZES).verdict == "nonstandard"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (Qwen3, {"qk_norm": {"type": "layer"}}),
        (GptOss, {"sinks": False}),
        (GptOss, {"position": {"type": "rope"}}),
        (Phi, {"position": {"type": "rope"}}),
        (T5, {"bias": {"type": "t5", "buckets": 8, "max_distance": 32}}),
    ],
    ids=str,
)
def test_another_variant_than_declared_is_faulty(kind: Any, changes: dict[str, Any]) -> None:
    assert mh.check(kind(), **declared(kind, **changes)).verdict == "faulty"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"qk_norm": {"type": "rms"}}, "without the norms of queries and keys"),
        ({"sinks": True}, "without the sinks"),
        ({"gate": "sigmoid", "params": None}, "without the gate"),
    ],
    ids=str,
)
def test_a_declared_variant_that_is_missing_is_faulty(changes: dict[str, Any], says: str) -> None:
    plain = SIZES | {"num_kv_heads": 2, "causal": "always", "form": "self", "params": PATHS}
    report = mh.check(Plain(), **{k: x for k, x in (plain | changes).items() if x is not None})
    assert report.verdict == "faulty", report
    assert says in report.findings[0].says


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        (Gated, {"params": PATHS}, "params.gate is missing"),
        (Olmo2, {"qk_norm": {"type": "rms"}}, "check spec.qk_norm.over"),
        (T5, {"bias": {"type": "t5"}}, r"expected \(buckets, H\) = \(32, 4\)"),
    ],
    ids=str,
)
def test_declarations_that_do_not_fit_say_so(kind: Any, changes: Any, says: str) -> None:
    report = mh.check(kind(), **declared(kind, **changes))
    assert report.verdict == "undetermined"
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(str(report))


def test_wrong_settings_of_scaling_are_refused_with_their_place() -> None:
    for scaling, says in (
        ({"type": "yarn", "factor": 2.0}, "original_length"),
        ({"type": "linear"}, "type and factor are needed"),
        ({"type": "linear", "factor": 2.0, "beta": 1}, "beta is not known"),
    ):
        with pytest.raises(SubjectError, match=says):
            mh.check(Plain(), **SIZES, position={"type": "rope", "scaling": scaling})


def test_scaling_is_declared_by_name_or_as_an_object_and_stands_in_the_schema() -> None:
    scaling = mh.RotaryScaling(type="yarn", factor=8.0, original_length=64)
    by_name = {"type": "rope", "rotary_dim": 4, "scaling": YARN}
    whole = subject_from_declared("a:b", {"position": mh.Rotary(dim=4, scaling=scaling)})
    part = subject_from_declared("a:b", {"position": by_name | {"scaling": scaling}})
    assert whole == part == subject_from_dict({"target": "a:b", "spec": {"position": by_name}})
    assert {"scaling", "qk_norm", "bias_table"} <= set(json.dumps(subject_schema()).split('"'))


def test_buckets_of_distances_are_those_of_the_published_code() -> None:
    distance = torch.tensor([[-20, -8, -3, -2, -1, 0, 1, 2, 3, 20]])
    both = t5_buckets(distance, 8, 16, is_bidirectional=True)
    assert both.tolist() == [[3, 3, 2, 2, 1, 0, 5, 6, 6, 7]]
    past = t5_buckets(distance, 8, 16, is_bidirectional=False)
    assert past.tolist() == [[7, 6, 3, 2, 1, 0, 0, 0, 0, 0]]
