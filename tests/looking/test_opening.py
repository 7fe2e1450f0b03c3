"""A folder is opened only if it is complete and safe; otherwise one line says why."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from manyheads.core.errors import LookError
from manyheads.looking.comparing import compare_looks
from manyheads.looking.opening import open_model
from manyheads.looking.reading import look
from tests.looking.conftest import small_model


@pytest.fixture
def folder(tmp_path: Path, gpt2: nn.Module) -> Path:
    """A folder that save_pretrained wrote."""
    gpt2.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_is_opened_as_it_was_saved(folder: Path, gpt2: nn.Module) -> None:
    opened = open_model(folder)
    assert opened.tokenizer is None
    ids = torch.randint(0, 60, (1, 9))
    with torch.no_grad():
        assert torch.equal(opened.model(ids).logits, gpt2.eval()(ids).logits)


def test_no_pickle_is_read(folder: Path) -> None:
    class Bomb:
        """Leaves a mark when it is unpickled."""

        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (folder / "exploded",)  # type: ignore[return-value]

    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    (folder / "model.safetensors").unlink()
    with pytest.raises(LookError, match="pickle can run code"):
        open_model(folder)
    assert not (folder / "exploded").exists()


def test_code_of_the_folder_is_not_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('run')")
    with pytest.raises(LookError, match="never run"):
        open_model(folder)


@pytest.mark.parametrize("kind", ["missing", "surplus", "shape", "damaged", "sizes"])
def test_tensors_that_do_not_fit_the_configuration_are_refused(kind: str, folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = "transformer.h.1.attn.c_proj.weight"
    if kind == "missing":
        del tensors[name]
    elif kind == "surplus":
        tensors["transformer.h.7.attn.c_proj.weight"] = torch.zeros(24, 24)
    elif kind == "shape":
        tensors[name] = torch.zeros(24, 12)
    save_file(tensors, path, metadata={"format": "pt"})
    if kind == "damaged":
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "sizes":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"n_embd": 48}))
    with pytest.raises(LookError) as caught:
        open_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"model_type": 3}', '{"model_type": ["a"]}', "\0"]
)
def test_a_wrong_configuration_is_refused(text: str, folder: Path) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(LookError):
        open_model(folder)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install manyheads[look]"
    )
    with pytest.raises(LookError, match="has no config.json"):
        open_model(tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(LookError, match="GGUF"):
        open_model(tmp_path / "x.gguf")
    with pytest.raises(LookError, match="GGUF"):
        open_model(tmp_path)
    with pytest.raises(LookError, match="--download"):
        open_model("somebody/some-model")


def test_two_models_are_compared_head_by_head(gpt2: nn.Module) -> None:
    ids = torch.randint(3, 60, (2, 9))
    other = small_model("GPT2LMHeadModel", vocab_size=60, n_embd=24, n_layer=2, n_head=4)
    same = compare_looks(look(gpt2, inputs=ids), look(other, inputs=ids))
    assert all(one.pattern == 0.0 and one.contribution == 0.0 for one in same.heads)
    with torch.no_grad():
        other.transformer.h[1].attn.c_attn.weight[:, 6:12] *= 3.0  # queries of head 1.1
    found = compare_looks(look(gpt2, inputs=ids), look(other, inputs=ids))
    assert (found.greatest[0].layer, found.greatest[0].head) == (1, 1)
    changed = [(one.layer, one.head) for one in found.heads if one.pattern > 0.0]
    assert changed == [(1, 1)]
    with pytest.raises(LookError, match="tokens"):
        compare_looks(look(gpt2, inputs=ids), look(other, inputs=ids.flip(1)))
