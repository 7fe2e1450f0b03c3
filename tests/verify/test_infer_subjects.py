"""The shared subjects with everything but sizes and constructor taken away."""

from collections.abc import Iterator
from pathlib import Path

from manyheads.verify.infer import infer
from manyheads.verify.infer_params import params_words
from manyheads.verify.loading import load_target
from manyheads.verify.run import verify
from manyheads.verify.subject import Spec, Subject
from manyheads.verify.subject_files import read_manifest
from tests.factories import annotations_unchecked


def _subjects(shared: Path, kind: str) -> Iterator[Subject]:
    for subject in read_manifest(shared / "subjects" / kind / "manifest.json"):
        assert isinstance(subject, Subject)
        yield subject


def _bare(subject: Subject) -> Subject:
    spec = Spec(embed_dim=subject.spec.embed_dim, num_heads=subject.spec.num_heads)
    return Subject(target=subject.target, kwargs=subject.kwargs, spec=spec, folder=subject.folder)


def test_sound_subjects_are_read_right_and_none_is_called_faulty(shared: Path) -> None:
    with annotations_unchecked():
        _check_sound_subjects(shared)


def _check_sound_subjects(shared: Path) -> None:
    wrong, total = [], 0
    for subject in _subjects(shared, "sound"):
        known = infer(load_target(subject.target, subject.folder), _bare(subject))
        assert subject.params is not None
        total += 1
        read = known.subject
        is_right = (
            read.params is not None
            and params_words(read.params) == params_words(subject.params)
            and (read.call.form, read.call.layout) == (subject.call.form, subject.call.layout)
            and read.spec.position == subject.spec.position
            and read.spec.causal == subject.spec.causal
        )
        if not is_right:
            wrong.append(subject.id)
        report = verify(known.made, known.subject, known.inferred)
        assert report.verdict == "sound", (subject.id, report.findings)
    assert len(wrong) <= total // 10, wrong


FOUND_UNDECLARED = (
    *("f-split-view", "f-merge-view", "f-view-both", "f-folded-axes", "f-attends-over-heads"),
    *("f-sequence-first-merge", "f-channels-first-view", "f-dropout-in-eval"),
    *("f-dropout-on-scores", "f-dropout-not-rescaled", "f-dropout-renormalised"),
    *("f-scale-grows-with-calls", "f-input-edited", "f-squeeze", "f-returns-unmasked-weights"),
)


def test_faults_of_behaviour_are_found_undeclared(shared: Path) -> None:
    subjects = {s.id: s for s in _subjects(shared, "faulty")}
    verdicts = {}
    with annotations_unchecked():
        for name in FOUND_UNDECLARED:
            subject = subjects[name]
            known = infer(load_target(subject.target, subject.folder), _bare(subject))
            verdicts[name] = verify(known.made, known.subject, known.inferred).verdict
    assert [name for name, verdict in verdicts.items() if verdict != "faulty"] == []
