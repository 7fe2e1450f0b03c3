"""What a subject file may hold, and how each violation names its place."""

import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from manyheads.core.config import Rotary
from manyheads.core.errors import SubjectError
from manyheads.verify.subject import CallSpec, MaskSpec, Subject
from manyheads.verify.subject_files import (
    read_manifest,
    read_subject,
    subject_from_dict,
    subject_schema,
)

FULL: dict[str, Any] = {
    "id": 7,
    "target": "file.py:Name",
    "build": {"kwargs": {"width": 12}},
    "spec": {
        "embed_dim": 12, "num_heads": 6, "num_kv_heads": 2, "head_dim": 4, "v_head_dim": 3,
        "kdim": 5, "vdim": 6, "scale": 0.3, "causal": "always", "window": 3, "dropout": 0.1,
        "position": {"type": "rope", "style": "interleaved", "base": 50.0},
        "fully_masked": "zero", "compute_dtype": "float32",
    },
    "call": {
        "form": "qkv", "layout": "TBE", "unbatched": True, "causal_arg": "causal",
        "masks": [{"arg": "mask", "axes": "(BH)TS", "convention": "additive"}],
        "extra": {"a": 1}, "flags": {"fast": [True, False]}, "returns": "out,weights",
        "weights_axes": "BTS",
    },
    "params": {"layout": "separate", "q": "q", "k": "k", "v": "v", "o": "o", "biases": {"q": "bq"}},
    "submodule": "layers.0",
}  # fmt: skip


def test_everything_that_is_declared_is_read() -> None:
    subject = subject_from_dict(FULL, Path("somewhere"))
    assert (subject.id, subject.target, subject.kwargs) == ("7", "file.py:Name", {"width": 12})
    assert subject.spec.position == Rotary(style="interleaved", base=50.0)
    assert (subject.spec.heads, subject.spec.kv_heads, subject.spec.d, subject.spec.dv) == (
        6,
        2,
        4,
        3,
    )
    assert subject.spec.factor == 0.3
    assert subject.call.masks == (MaskSpec(arg="mask", axes="(BH)TS", convention="additive"),)
    assert subject.call.flags == {"fast": (True, False)}
    assert subject.params is not None
    assert subject.params.biases == {"q": "bq"}
    assert subject.unknown == ()


def test_what_is_absent_or_null_is_not_declared() -> None:
    bare = subject_from_dict({"target": "a:b", "spec": {"scale": None}, "call": None})
    assert bare == Subject(target="a:b")
    assert bare.call == CallSpec()
    assert bare.kwargs is None
    assert bare.params is None


def test_defaults_follow_from_the_sizes() -> None:
    spec = subject_from_dict({"target": "a:b", "spec": {"embed_dim": 12, "num_heads": 3}}).spec
    assert (spec.kv_heads, spec.width, spec.d, spec.dv, spec.factor) == (3, 12, 4, 4, 0.5)
    only_heads = {"target": "a:b", "spec": {"num_heads": 3, "head_dim": 5}}
    assert subject_from_dict(only_heads).spec.width == 15


def test_fault_diagnosis_and_style_are_never_read() -> None:
    plain = {"target": "a:b"}
    spoiled = {**plain, "fault": ["not", "text"], "diagnosis": 3, "style": {}}
    assert subject_from_dict(spoiled) == subject_from_dict(plain)


def test_unknown_fields_are_listed_by_place() -> None:
    document = {
        "target": "a:b", "colour": 1, "spec": {"height": 2}, "call": {"how": 3},
        "params": {"layout": "identity", "r": "x"},
    }  # fmt: skip
    unknown = subject_from_dict(document).unknown
    assert unknown == ("colour", "spec.height", "call.how", "params.r")


VIOLATIONS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    ((), [], r"subject \(\[\]\) must be an object"),
    (("target",), None, r"target \(None\) must be text"),
    (("target",), 3, r"target \(3\) must be text"),
    (("submodule",), 3, r"submodule \(3\) must be text"),
    (("build",), 3, r"build \(3\) must be an object"),
    (("build", "kwargs"), [1], r"build.kwargs \(\[1\]\) must be an object"),
    (("spec",), "x", r"spec \('x'\) must be an object"),
    (("spec", "embed_dim"), 0, r"spec.embed_dim \(0\) must be a whole number from 1"),
    (("spec", "num_heads"), True, r"spec.num_heads \(True\) must be a whole number"),
    (("spec", "num_kv_heads"), 4, r"spec.num_kv_heads \(4\) must divide spec.num_heads \(6\)"),
    (("spec", "window"), 1.5, r"spec.window \(1.5\) must be a whole number"),
    (("spec", "scale"), "big", r"spec.scale \('big'\) must be a finite number"),
    (("spec", "causal"), "never", r"spec.causal \('never'\) is not known: use one of always"),
    (("spec", "position"), "rope", r"spec.position \('rope'\) must be an object"),
    (("spec", "position", "type"), "x", r"spec.position.type \('x'\) is not known"),
    (("spec", "position", "style"), "x", r"spec.position.style \('x'\) is not known"),
    (("spec", "position", "base"), -1, r"spec.position.base \(-1\) must be a finite"),
    (("spec", "position", "base"), 0, r"spec.position: base \(0.0\) must be positive: use"),
    (("spec", "fully_masked"), "one", r"spec.fully_masked \('one'\) is not known: use one of zero"),
    (("spec", "compute_dtype"), "int8", r"spec.compute_dtype \('int8'\) is not known"),
    (("call",), 1, r"call \(1\) must be an object"),
    (("call", "form"), "loop", r"call.form \('loop'\) is not known: use one of self, cross"),
    (("call", "layout"), "ETB", r"call.layout \('ETB'\) is not known: use one of BTE"),
    (("call", "returns"), "all", r"call.returns \('all'\) is not known"),
    (("call", "weights_axes"), "TS", r"call.weights_axes \('TS'\) is not known"),
    (("call", "masks"), {}, r"call.masks \({}\) must be a list"),
    (("call", "masks"), [3], r"call.masks\[0\] \(3\) must be an object"),
    (("call", "masks"), [{"axes": "BS"}], r"call.masks\[0\].arg is missing: declare it"),
    (("call", "masks"), [{"arg": "m", "axes": "SB"}], r"call.masks\[0\].axes \('SB'\) is not"),
    (
        ("call", "masks"),
        [{"arg": "m", "axes": "BS", "convention": "keep"}],
        r"call.masks\[0\].convention \('keep'\) is not known: use one of allowed",
    ),
    (("call", "causal_arg"), 1, r"call.causal_arg \(1\) must be text"),
    (("call", "extra"), [], r"call.extra \(\[\]\) must be an object"),
    (("call", "flags"), {"a": 1}, r"call.flags.a \(1\) must be a list"),
    (("params",), "q", r"params \('q'\) must be an object"),
    (("params", "layout"), "heap", r"params.layout \('heap'\) is not known: use one of separate"),
    (("params", "q"), 1, r"params.q \(1\) must be the path"),
    (("params", "order"), "qqk", r"params.order \('qqk'\) must have"),
    (("params", "biases"), [1], r"params.biases \(\[1\]\) must be an object"),
    (("params", "biases"), {"q": 1}, r"params.biases.q \(1\) must be text"),
)  # fmt: skip


def changed(place: tuple[str, ...], value: Any) -> Any:
    """The full document with another value at a place."""
    if not place:
        return value
    document: Any = json.loads(json.dumps(FULL))
    *outer, last = place
    here = document
    for step in outer:
        here = here[step]
    here[last] = value
    return document


def refusal(document: object) -> str:
    try:
        subject_from_dict(document)
    except SubjectError as error:
        return str(error)
    return ""


def test_violation_names_the_place_the_value_and_a_remedy() -> None:
    refusals = [(refusal(changed(place, value)), said) for place, value, said in VIOLATIONS]
    assert [pair for pair in refusals if not (re.match(pair[1], pair[0]) and ": " in pair[0])] == []


def test_schema_refuses_what_the_reader_refuses_and_takes_what_it_takes() -> None:
    judge = jsonschema.Draft202012Validator(subject_schema())
    assert list(judge.iter_errors(FULL)) == []
    for place, value, said in VIOLATIONS:
        if place[-1:] == ("num_kv_heads",) or (place[-1:], value) == (("base",), 0):
            continue  # rules between fields, and of Rotary itself
        assert list(judge.iter_errors(changed(place, value))), said


def test_everything_that_is_missing_or_wrong_is_named_at_once() -> None:
    document = {"spec": {"num_heads": 0, "scale": -1.0}, "call": {"masks": [{"axes": "BS"}]}}
    assert refusal(document) == (
        "target is missing: declare it; spec.num_heads (0) must be a whole number from 1 to 65536: "
        "use a number such as 8; spec.scale (-1.0) must be a finite number that is not negative: "
        "use a number such as 0.5; call.masks[0].arg is missing: declare it; "
        "call.masks[0].convention is missing: declare it"
    )


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("num_heads", (1, 65536), (0, 65537)),
        ("scale", (0, 5e-324, 1.7e308), (-5e-324, math.inf, math.nan)),
    ],
)
def test_limits_of_numbers(name: str, good: tuple[float, ...], bad: tuple[float, ...]) -> None:
    assert [v for v in good if refusal({"target": "a:b", "spec": {name: v}})] == []
    assert [v for v in bad if not refusal({"target": "a:b", "spec": {name: v}})] == []


def test_long_value_is_shortened() -> None:
    assert len(refusal({"target": "a:b", "call": {"form": "x" * 5000}})) < 150


def test_subject_file_is_read_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "subject.json"
    path.write_text(json.dumps(FULL), encoding="utf-8")
    assert read_subject(path) == subject_from_dict(FULL, tmp_path)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\ud800".encode("utf-8", "surrogatepass")])
def test_file_that_is_no_json_is_named(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "subject.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SubjectError, match=r"subject.json\) is not JSON"):
        read_subject(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SubjectError, match=r"none.json\) cannot be read: No such file"):
        read_subject(tmp_path / "none.json")


def test_manifest_keeps_going_after_a_case_that_is_no_subject(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"cases": [FULL, {"target": 3}, {"target": "a:b"}]}))
    first, second, third = read_manifest(path)
    assert isinstance(first, Subject)
    assert isinstance(third, Subject)
    assert isinstance(second, SubjectError)
    assert str(second).startswith("cases[1]: target (3) must be text")


@pytest.mark.parametrize("document", [[], {}, {"cases": {}}, 3])
def test_manifest_without_cases_is_refused(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SubjectError, match=r"manifest.json\) has no list of cases"):
        read_manifest(path)
