"""ONNX files: equal to PyTorch on all logits, under padding and head masks; or no file at all."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from manyheads.checkpoints.onnx_export import (
    ALLOWED_GAP,
    export_onnx,
    onnx_gap,
    random_windows,
)
from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.models.config import GPTConfig
from manyheads.models.gpt import TinyGPT
from manyheads.models.lm import AttentionLM, FixedWindowMLP
from tests.factories import annotations_unchecked, mostly_slow
from tests.models.drawing import ATTENTION, KINDS, T, V, config_of, draw, ids, model_of, padded

onnx = pytest.importorskip("onnx", reason="the onnx package is not there: install the dev extra")
runtime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not there: install the dev extra"
)

FULL_SIZE = {
    "mlp": FixedWindowMLP,
    "one-head": lambda: AttentionLM(1),
    "four-heads": lambda: AttentionLM(4),
}


def small_model(kind: str) -> Any:
    """A small model in float32, all its numbers drawn."""
    return model_of(kind).float()


def run(path: Path, **feeds: Tensor) -> dict[str, np.ndarray]:
    """All outputs of a file by name."""
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    given = {name: feed.numpy() for name, feed in feeds.items()}
    return dict(zip(names, session.run(names, given), strict=True))


@pytest.mark.parametrize("name", mostly_slow(FULL_SIZE, "four-heads"))
def test_the_three_models_equal_pytorch_on_all_logits_of_many_windows(
    name: str, tmp_path: Path
) -> None:
    model = FULL_SIZE[name]()
    draw(model, size=0.2 if name == "mlp" else 0.3)
    path = tmp_path / "model.onnx"
    written = export_onnx(model, path, weights=name != "mlp")
    assert written.size == path.stat().st_size < 4.1 * model.config.num_parameters
    gap = onnx_gap(model, path)
    assert gap.num_windows == 256
    logits = model(random_windows(model, 8, torch.Generator().manual_seed(1)))
    assert 2.0 < logits.std() < 20.0  # as in a trained model, so the gap means something
    assert gap.logits < 6e-5 < ALLOWED_GAP
    assert (gap.attn_weights is None) == (name == "mlp")
    assert (gap.attn_weights or 0.0) < 1e-5
    assert gap.is_small


@pytest.mark.parametrize("opset", mostly_slow([13, 17, 21], 13, 21))
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_equals_pytorch_in_old_and_new_operators(
    kind: str, opset: int, tmp_path: Path
) -> None:
    model, path = small_model(kind), tmp_path / "model.onnx"
    written = export_onnx(model, path, weights=kind != "mlp", opset=opset)
    assert written.opset == opset == onnx.load(path).opset_import[0].version
    assert onnx_gap(model, path).is_small


@pytest.mark.parametrize("kind", ATTENTION)
def test_logits_weights_and_head_mask_are_those_of_the_model(kind: str, tmp_path: Path) -> None:
    model, path = small_model(kind), tmp_path / "model.onnx"
    export_onnx(model, path, weights=True)
    H = model.config.num_heads
    mask = torch.linspace(0.0, 1.0, H) if H > 1 else torch.zeros(1)
    tokens = padded(ids(1, 4, T), 0, 3, T - 1, T)  # the last is padding alone
    found = run(path, tokens=tokens, head_mask=mask)
    logits, weights = model(tokens, mask, need_weights=True)
    assert found["logits"].shape == (4, V)
    assert found["attn_weights"].shape == (4, H, T)
    assert np.abs(found["logits"] - logits.detach().numpy()).max() < 1e-5
    assert np.abs(found["attn_weights"] - weights.detach().numpy()).max() < 1e-6
    assert not found["attn_weights"].transpose(0, 2, 1)[tokens.numpy() == 0].any()
    without = run(path, tokens=tokens, head_mask=torch.ones(H))
    assert np.abs(without["logits"] - found["logits"]).max() > 1e-2


@pytest.mark.parametrize("kind", ATTENTION)
def test_padding_never_matters_in_the_file(kind: str, tmp_path: Path) -> None:
    model, path = small_model(kind), tmp_path / "model.onnx"
    tokens, mask = padded(ids(2, 3, T), 1, 2, 3), torch.ones(model.config.num_heads)
    found = []
    for value in (0.0, 1e3):
        with torch.no_grad():
            model.token_embedding.weight[0] = value
        export_onnx(model, path)
        found.append(run(path, tokens=tokens, head_mask=mask)["logits"])
    assert np.array_equal(*found)


def test_inputs_and_outputs_are_as_documented(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    found = {}
    for name, kind, weights in (
        ("mlp", "mlp", False),
        ("heads", "three heads", False),
        ("weights", "three heads", True),
    ):
        export_onnx(small_model(kind), path, weights=weights)
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        places = [*session.get_inputs(), *session.get_outputs()]
        found[name] = {place.name: (place.type, place.shape) for place in places}
    mlp = {"tokens": ("tensor(int64)", ["batch", T]), "logits": ("tensor(float)", ["batch", V])}
    heads = mlp | {"head_mask": ("tensor(float)", [3])}
    assert found["mlp"] == mlp
    assert found["heads"] == heads
    assert found["weights"] == heads | {"attn_weights": ("tensor(float)", ["batch", 3, T])}


def test_the_graph_is_small_and_of_standard_operators(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export_onnx(small_model("three heads"), path, weights=True)
    graph = onnx.load(path).graph
    assert len(graph.node) < 40
    assert {node.domain for node in graph.node} == {""}
    stored = {tensor.name for tensor in graph.initializer}
    assert {"token_embedding", "position_embedding", "w_q", "w_v", "w_o"} <= stored


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export_onnx(small_model("shared"), path, metadata={"name": "mine", "licence": "free"})
    proto = onnx.load(path)
    about = {entry.key: entry.value for entry in proto.metadata_props}
    assert proto.producer_name == "manyheads"
    assert about["name"] == "mine"
    assert about["licence"] == "free"
    assert json.loads(about["config"]) == config_of("shared").to_dict()
    assert int(about["num_parameters"]) == config_of("shared").num_parameters


def test_equal_models_give_equal_bytes(tmp_path: Path) -> None:
    files = [
        export_onnx(small_model("three heads"), tmp_path / name, metadata={"b": "1", "a": "2"})
        for name in ("one.onnx", "two.onnx")
    ]
    assert files[0].sha256 == files[1].sha256
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


@pytest.mark.parametrize("name", ["output.bias", "token_embedding.weight", "hidden.weight"])
def test_a_file_of_other_numbers_is_told_apart(name: str, tmp_path: Path) -> None:
    model, path = small_model("three heads"), tmp_path / "model.onnx"
    export_onnx(model, path)
    with torch.no_grad():
        model.get_parameter(name).mul_(1.01)
    gap = onnx_gap(model, path)
    assert gap.logits > ALLOWED_GAP
    assert not gap.is_small


def test_windows_that_are_compared_are_full_and_padded_on_the_left() -> None:
    tokens = random_windows(small_model("mlp"), 400, torch.Generator().manual_seed(0))
    is_pad = tokens == 0
    assert tokens.shape == (400, T)
    assert set(is_pad.sum(dim=1).tolist()) == set(range(T))
    assert not (is_pad[:, 1:] & ~is_pad[:, :-1]).any()
    assert set(tokens.flatten().tolist()) == set(range(V))


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (
            lambda: TinyGPT(GPTConfig(vocab_size=9)),
            {},
            r"model \(TinyGPT\) is not a model of the studies",
        ),
        (
            lambda: small_model("mlp"),
            {"weights": True},
            r"weights \(True\) need a model with heads",
        ),
        (lambda: small_model("mlp"), {"opset": 12}, r"opset \(12\) must be from 13 to 21: use 17"),
        (lambda: small_model("mlp"), {"opset": 22}, r"opset \(22\) must be from 13 to 21"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_no_file(
    make: Any, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        export_onnx(make(), tmp_path / "model.onnx", **options)
    assert not list(tmp_path.iterdir())


def test_weights_that_are_no_numbers_are_refused_and_the_earlier_file_stays(tmp_path: Path) -> None:
    model, path = small_model("three heads"), tmp_path / "model.onnx"
    before = export_onnx(model, path)
    with torch.no_grad():
        model.hidden.bias[0] = torch.nan
    with pytest.raises(CheckpointError, match=r"model \(hidden.bias\) has numbers that are not"):
        export_onnx(model, path)
    assert [path] == list(tmp_path.iterdir())
    assert path.stat().st_size == before.size


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "model.onnx"
    with pytest.raises(CheckpointError, match=r"nowhere/model.onnx\) cannot be written"):
        export_onnx(small_model("mlp"), path)


@pytest.mark.parametrize("content", [b"", b"no such thing"])
def test_a_file_that_is_no_onnx_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model.onnx\) is not a readable ONNX file"):
        onnx_gap(small_model("mlp"), path)
    with pytest.raises(CheckpointError, match=r"absent.onnx\) cannot be read \(No such file"):
        onnx_gap(small_model("mlp"), tmp_path / "absent.onnx")


def test_a_file_of_a_model_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export_onnx(small_model("mlp"), path)
    with pytest.raises(CheckpointError, match=r"model.onnx\) is not a file of this model"):
        onnx_gap(small_model("three heads"), path)


def test_a_model_that_is_no_module_is_refused(tmp_path: Path) -> None:
    with annotations_unchecked(), pytest.raises(ConfigError, match=r"model \(str\) is not a model"):
        export_onnx("four-heads", tmp_path / "model.onnx")  # type: ignore[arg-type]  # on purpose
