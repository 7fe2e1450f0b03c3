"""The published subjects: each gets the verdict that is published with it, and most their line."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.verify.isolation import judged
from manyheads.verify.loading import load_target
from manyheads.verify.report import VerifyReport
from manyheads.verify.subject import Spec, Subject
from manyheads.verify.subject_files import read_manifest
from tests.factories import annotations_unchecked, mostly_slow


def cases_in(shared: Path, kind: str) -> list[tuple[dict[str, Any], Subject]]:
    """Each case of a manifest as it is written, and as it is read."""
    path = shared / "subjects" / kind / "manifest.json"
    written = json.loads(path.read_text(encoding="utf-8"))["cases"]
    found = []
    for case, subject in zip(written, read_manifest(path), strict=True):
        assert isinstance(subject, Subject), subject
        found.append((case, subject))
    return found


@cache
def report_of(folder: Path, target: str) -> VerifyReport:
    """Nothing declared but sizes, which some of the classes want for their construction."""
    spec = Spec(embed_dim=32, num_heads=4) if folder.name == "tried" else Spec()
    return judge(Subject(target=target, folder=folder, spec=spec))


def judge(subject: Subject) -> VerifyReport:
    torch.manual_seed(0)
    with annotations_unchecked():
        return judged(load_target(subject.target, subject.folder), subject)


@pytest.mark.slow
def test_fault_of_every_published_subject_is_named_first(shared: Path) -> None:
    cases = cases_in(shared, "faulty")
    assert len(cases) >= 20
    wrong = []
    for case, subject in cases:
        report = judge(subject)
        named = (report.verdict, report.findings[0].fault if report.findings else None)
        if named != ("faulty", case["fault"]) or report.id != subject.id:
            wrong.append((subject.id, [(f.fault, f.says) for f in report.findings]))
    assert wrong == []


@pytest.mark.slow
def test_every_published_sound_subject_is_sound(shared: Path) -> None:
    cases = cases_in(shared, "sound")
    assert len(cases) >= 30
    wrong = []
    for _, subject in cases:
        report = judge(subject)
        if report.verdict != "sound" or not is_compared(report):
            wrong.append((subject.id, [(f.fault, f.says) for f in report.findings]))
    assert wrong == []


def is_compared(report: VerifyReport) -> bool:
    return any(c.name == "values" and c.status == "passed" for c in report.checks)


@pytest.mark.slow
def test_sound_subjects_are_sound_undeclared(shared: Path) -> None:
    wrong = []
    for _, subject in cases_in(shared, "sound"):
        sizes = Spec(embed_dim=subject.spec.embed_dim, num_heads=subject.spec.num_heads)
        bare = Subject(
            target=subject.target, kwargs=subject.kwargs, spec=sizes, folder=subject.folder
        )
        report = judge(bare)
        if report.verdict != "sound" or not is_compared(report):
            wrong.append((subject.id, report.verdict, [f.says for f in report.findings]))
    assert [w for w in wrong if w[1] in ("faulty", "nonstandard")] == []
    assert len(wrong) <= 2, wrong  # undetermined


@pytest.mark.slow
def test_faulty_subjects_are_never_sound_undeclared(shared: Path) -> None:
    """A batch axis is inferred, so that a mistaken one shows only against a declared layout."""
    wrong = []
    for _, subject in cases_in(shared, "faulty"):
        sizes = Spec(embed_dim=subject.spec.embed_dim, num_heads=subject.spec.num_heads)
        bare = Subject(
            target=subject.target, kwargs=subject.kwargs, spec=sizes, folder=subject.folder
        )
        if judge(bare).verdict == "sound":
            wrong.append(subject.id)
    assert wrong == ["f-batch-as-sequence"]


@pytest.mark.slow
def test_answers_to_exercises_get_their_verdict_and_most_their_line(shared: Path) -> None:
    wrong, located, with_line = [], 0, 0
    for case, subject in cases_in(shared, "peer"):
        expected, report = case["expected"], judge(subject)
        if report.verdict not in expected["verdict"]:
            wrong.append((subject.id, report.verdict, expected["verdict"]))
        if expected["changed_lines"]:
            with_line += 1
            places = [f.where.line for f in report.findings if f.where is not None]
            located += bool(places) and places[0] in expected["changed_lines"]
    assert wrong == []
    assert with_line >= 20
    assert located / with_line >= 0.85


PEER = ("mha-sound", "causal-scale-missing", "mha-batch-mix", "window-sound", "causal-uniform")


@pytest.mark.parametrize("name", mostly_slow(PEER, *PEER[:3]))
def test_an_answer_to_an_exercise_gets_its_verdict_and_line(name: str, shared: Path) -> None:
    case, subject = next(c for c in cases_in(shared, "peer") if c[0]["id"] == name)
    report = judge(subject)
    assert report.verdict in case["expected"]["verdict"], str(report)
    lines = case["expected"]["changed_lines"]
    places = [f.where.line for f in report.findings if f.where is not None]
    assert places[:1] == lines[:1]


UNUSUAL = {
    "arrays": "module",
    "float32_scores": "Attention",
    "learned_relative_bias": "Attention",
    "norm_inside": "Attention",
    "query_key_norm": "Attention",
    "query_value_key": "Attention",
    "rope_table_neighbours": "Attention",
    "sink": "Attention",
    "soft_cap": "Attention",
    "width_from_weights": "module",
    "zero_key": "module",
}


@pytest.mark.parametrize("name", mostly_slow(UNUSUAL, "norm_inside", "sink", "zero_key"))
def test_correct_attention_of_unusual_manner_is_sound(name: str, shared: Path) -> None:
    report = report_of(shared / "subjects" / "unusual", f"{name}.py:{UNUSUAL[name]}")
    assert report.verdict == "sound", str(report)
    assert is_compared(report)


def test_every_unusual_subject_is_tried(shared: Path) -> None:
    there = {path.stem for path in (shared / "subjects" / "unusual").glob("*.py")}
    assert there == set(UNUSUAL)


TRIED = {
    "soft_cap.py:Faulty": "faulty",
    "soft_cap.py:CappedAttention": "sound",
    "packed_documents.py:Faulty": "faulty",
    "packed_documents.py:PackedAttention": "sound",
    "heads_first_merge.py:Faulty": "faulty",
    "heads_first_merge.py:SelfAttention": "sound",
    "wrong_layer_for_query.py:Faulty": "faulty",
    "wrong_layer_for_query.py:MultiHeadAttention": "sound",
    "scale_inverted.py:Faulty": "nonstandard",
    "scale_inverted.py:Attention": "sound",
    "chunked_mask.py:Faulty": "faulty",
    "chunked_mask.py:ChunkedAttention": "sound",
    "nanogpt_style.py:CausalSelfAttention": "sound",
    "d2l_style.py:MultiHeadAttention": "sound",
    "einops_prenorm_style.py:Attention": "sound",
    "timm_style.py:Attention": "sound",
    "timm_style.py:NormedAttention": "sound",
    "packed_style.py:varlen_attention": "sound",
    "packed_style.py:PackedAttention": "sound",
    "latent_attention.py:MLAFutureLeak": "faulty",
    "numpy_style.py:multi_head_attention": "sound",
    "numpy_style.py:NumpyMHA": "sound",
    "numpy_style.py:scaled_dot_product_attention": "sound",
}
"""What must be; latent attention may still be undetermined."""


NAMED = {
    "heads_first_merge.py:Faulty": "merge-by-view",
    "wrong_layer_for_query.py:Faulty": "wrong-tensor",
    "packed_documents.py:Faulty": "mask-ignored",
    "scale_inverted.py:Faulty": "scale",
}
STYLES = ("nanogpt_style.py:CausalSelfAttention", "packed_style.py:PackedAttention")


@pytest.mark.parametrize("target", mostly_slow(TRIED, *NAMED, *STYLES))
def test_public_faults_fixes_and_styles_get_their_verdict(target: str, shared: Path) -> None:
    report = report_of(shared / "subjects" / "tried", target)
    assert report.verdict == TRIED[target], str(report)
    assert report.verdict != "sound" or is_compared(report)


@pytest.mark.parametrize("target", NAMED)
def test_public_faults_are_named(target: str, shared: Path) -> None:
    report = report_of(shared / "subjects" / "tried", target)
    assert report.findings[0].fault == NAMED[target]


def test_latent_attention_is_never_faulty_nor_sound_without_comparison(shared: Path) -> None:
    report = report_of(shared / "subjects" / "tried", "latent_attention.py:MLA")
    assert report.verdict in ("sound", "undetermined")
    assert report.verdict != "sound" or is_compared(report)


def test_a_number_too_large_for_float16_is_a_limit_not_a_fault(shared: Path) -> None:
    report = report_of(shared / "subjects" / "tried", "wrong_layer_for_query.py:MultiHeadAttention")
    assert any("float16" in limit for limit in report.limits), report.limits


@pytest.mark.parametrize(
    "target",
    mostly_slow(["nanogpt_style.py:make", "timm_style.py:Attention"], "timm_style.py:Attention"),
)
def test_dropout_on_the_output_beside_the_weights_is_no_fault(target: str, shared: Path) -> None:
    folder = shared / "subjects" / "tried"
    spec = Spec(embed_dim=32, num_heads=4, dropout=0.1)
    kwargs = {"attn_drop": 0.1, "proj_drop": 0.1, "dim": 32, "num_heads": 4}
    is_made = target.endswith("make")
    subject = Subject(target=target, folder=folder, spec=spec, kwargs=None if is_made else kwargs)
    report = judge(subject)
    assert "dropout-wrong-tensor" not in [f.fault for f in report.findings]
    assert report.verdict == "sound", str(report)
