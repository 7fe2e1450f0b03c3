"""Traces travel through JSON and safetensors without losing a bit; damaged files are refused."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import manyheads as mh
from manyheads.core.errors import TraceError
from tests.core.test_trace import DTYPES, trace_of
from tests.factories import annotations_unchecked, inputs_of, layer_of


def assert_same_bits(found: mh.AttentionTrace, given: mh.AttentionTrace) -> None:
    """Raise unless form, names, dtypes and all bits are equal; NaN equals NaN."""
    assert found.form == given.form
    assert list(found.tensors()) == list(given.tensors())
    for name, tensor in given.tensors().items():
        assert found[name].dtype == tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        assert torch.equal(found[name].nan_to_num(nan=7.0), tensor.nan_to_num(nan=7.0)), name


@pytest.mark.parametrize("form", ["loop", "packed"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_json_and_safetensors_keep_every_bit(dtype: torch.dtype, form: str, tmp_path: Path) -> None:
    for out_bias in (True, False):
        trace = trace_of(form, dtype, out_bias=out_bias)
        assert_same_bits(mh.AttentionTrace.from_json(trace.to_json()), trace)
        trace.save(tmp_path / "trace.safetensors")
        assert_same_bits(mh.AttentionTrace.load(tmp_path / "trace.safetensors"), trace)


def test_dtypes_that_differ_within_a_trace_survive() -> None:
    layer = layer_of(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trace = layer.trace(*inputs_of(layer, 3, 4))
    assert len({t.dtype for t in trace.tensors().values()}) == 2
    assert_same_bits(mh.AttentionTrace.from_json(trace.to_json()), trace)


def test_blocked_scores_are_null_and_other_special_numbers_are_words() -> None:
    trace = trace_of()
    special = trace.scores.detach().clone()
    special[0, 0, 0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    trace = replace(trace, scores=special)
    document = json.loads(trace.to_json())
    assert document["masked_scores"][0][0][0][2:] == [document["masked_scores"][0][0][0][2], None]
    assert document["scores"][0][0][0][:3] == ["NaN", "Infinity", "-Infinity"]
    assert document["kind"] == "manyheads.AttentionTrace"
    assert_same_bits(mh.AttentionTrace.from_json(trace.to_json()), trace)


def test_smallest_numbers_and_negative_zero_survive_json() -> None:
    trace = trace_of()
    tiny = trace.scores.detach().clone()
    tiny[0, 0, 0] = torch.tensor([5e-324, -0.0, 1 / 3, 1.7976931348623157e308])
    found = mh.AttentionTrace.from_json(replace(trace, scores=tiny).to_json())
    assert torch.equal(found.scores.view(torch.int64), tiny.view(torch.int64))


def damaged_documents() -> list[str]:
    """Texts that are nearly a trace."""
    whole = trace_of().to_json()
    good = json.loads(whole)
    texts = ["", "{", whole[:-1], whole[: len(whole) // 2], "[]", "null", "3", '"x"', "[" * 100_000]
    changes: list[dict[str, Any]] = [
        {"kind": "other"},
        {"form": "fused"},
        {"form": 3},
        {"dtypes": None},
    ]
    changes += [
        {"dtypes": {}},
        {"dtypes": good["dtypes"] | {"q": "int8"}},
        {"dtypes": good["dtypes"] | {"q": []}},
    ]
    for name in ("x", "q", "masked_scores", "w_o", "output"):
        for value in (
            None,
            3,
            "text",
            {},
            [],
            [[]],
            [[[["text"]]]],
            [[1.0], [2.0, 3.0]],
            [10**400],
            [True, {}],
        ):
            changes.append({name: value})
    nested = json.loads(whole)
    nested["scores"][0][0][0][0] = None
    texts.append(json.dumps(nested))
    changes += [{"output": [[[v + 1 for v in row] for row in rows] for rows in good["output"]]}]
    changes += [
        {"q": good["k"]},
        {"b_o": good["b_o"][:-1]},
        {"b_o": "text"},
        {"concat": good["output"]},
    ]
    return texts + [json.dumps(good | change) for change in changes]


@pytest.mark.parametrize("index", range(len(damaged_documents())))
def test_damaged_document_is_refused_in_one_line(index: int) -> None:
    with annotations_unchecked(), pytest.raises(TraceError) as caught:
        mh.AttentionTrace.from_json(damaged_documents()[index])
    assert len(str(caught.value).splitlines()) == 1


def test_damaged_safetensors_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.safetensors"
    trace_of().save(path)
    whole, chance = path.read_bytes(), random.Random(0)
    cuts = [whole[:n] for n in (0, 1, 7, 8, 100, len(whole) // 2, len(whole) - 1)]
    noise = [bytes(chance.randrange(256) for _ in range(300)), b"PK\x03\x04" + whole, b"{}"]
    for content in (*cuts, *noise):
        path.write_bytes(content)
        with (
            annotations_unchecked(),
            pytest.raises(TraceError, match=r"path \(.*trace.safetensors\)"),
        ):
            mh.AttentionTrace.load(path)


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    path, tensors = tmp_path / "t.safetensors", trace_of().tensors()
    tensors = {n: t.detach().clone().contiguous() for n, t in tensors.items()}
    kind = {"kind": "manyheads.AttentionTrace", "form": "loop"}
    with pytest.raises(TraceError, match=r"path \(.*\) is not a readable safetensors file"):
        mh.AttentionTrace.load(tmp_path / "absent")
    with pytest.raises(TraceError, match="is not a readable safetensors file"):
        mh.AttentionTrace.load(tmp_path)
    cases: list[tuple[dict[str, torch.Tensor], dict[str, str] | None, str]] = [
        (tensors, None, "does not hold a trace"),
        (tensors, kind | {"kind": "x"}, "does not hold a trace"),
        (tensors, kind | {"form": "x"}, r"form \('x'\) is not known"),
        (
            {n: t for n, t in tensors.items() if n != "q"},
            kind,
            r"has no tensor q: give what AttentionTrace.save wrote",
        ),
        (
            tensors | {"q": tensors["q"].int()},
            kind,
            "q has dtype torch.int32, expected floating point",
        ),
        (tensors | {"output": tensors["output"] + 1}, kind, "contradict each other"),
        (tensors | {"v": tensors["v"][0]}, kind, r"v has shape .* contradict each other"),
    ]
    for given, metadata, words in cases:
        save_file({n: t.clone() for n, t in given.items()}, path, metadata)
        with annotations_unchecked(), pytest.raises(TraceError, match=words):
            mh.AttentionTrace.load(path)


def test_saving_replaces_a_file_only_when_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.safetensors"
    trace = trace_of()
    trace.save(path)
    before = path.read_bytes()

    def broken(handle: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="no space left"):
            trace_of("packed").save(str(path))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    trace_of("packed").save(path)
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"kind": "manyheads.AttentionTrace", "form": "packed"}
    assert list(tmp_path.iterdir()) == [path]


def test_saved_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    trace_of().save(tmp_path / "trace")
    (tmp_path / "other").touch()
    assert (tmp_path / "trace").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_path_that_can_hold_no_file_is_refused(tmp_path: Path) -> None:
    trace, missing = trace_of(), tmp_path / "none" / "trace"
    with pytest.raises(TraceError, match=rf"^path \({tmp_path}\) is a folder: give a file in it"):
        trace.save(tmp_path)
    with pytest.raises(
        TraceError,
        match=rf"^path \({missing}\) is in a folder that does not .*: create {tmp_path}/none",
    ):
        trace.save(missing)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_text_is_no_trace() -> None:
    with annotations_unchecked(), pytest.raises(TraceError, match=r"^text is not JSON .*not int"):
        mh.AttentionTrace.from_json(3)  # type: ignore[arg-type]  # on purpose
