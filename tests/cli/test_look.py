"""`manyheads look` as a user meets it; the models of the package need no extra."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import manyheads as mh
from manyheads.cli.main import main
from manyheads.looking import saving
from manyheads.looking.saving import BLOCKED, STEPS

TEXT = "once upon a time there was a little cat"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of transformers without a tokeniser."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install manyheads[look]"
    )
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=90, n_embd=24, n_layer=2, n_head=4, n_positions=64)
    path = tmp_path_factory.mktemp("look") / "model"
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    return path


def test_a_model_of_the_package_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "four-heads", "--text", TEXT, "--layer", "0", "--head", "1"]) == 0
    shown = capsys.readouterr()
    assert "heads per layer" in shown.out
    assert "Strongest sources of head 0.1" in shown.out


def test_the_json_document_is_alone_on_standard_output(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", str(folder), "--json", "--logit", "7", "--against", "9"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert found["format"] == "manyheads-look-1"
    assert (found["model"]["layers"], found["model"]["heads"]) == (2, 4)
    assert found["proof"]["refused"] == []
    assert all(isinstance(head["logit"], float) for head in found["heads"])
    assert "random token ids" in shown.err


def test_the_saved_file_has_the_weights_and_the_mask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "look.json"
    assert main(["look", "four-heads", "--text", TEXT, "--save", str(path)]) == 0
    found, capsys_text = json.loads(path.read_text()), capsys.readouterr().out
    assert "heads per layer" in capsys_text
    assert found["format"] == "manyheads-look-1"
    assert {(one["layer"], one["head"]) for one in found["maps"]} == {(0, h) for h in range(4)}
    one = found["maps"][0]
    steps = np.frombuffer(base64.b64decode(one["weights"]), "<u2").reshape(
        one["rows"], one["columns"]
    )
    assert found["axes"][str(one["columns"])] == TEXT.split()
    assert np.where(steps == BLOCKED, 0, steps).sum() == pytest.approx(STEPS, rel=1e-3)


def test_a_file_of_many_weights_keeps_the_heads_that_were_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "MOST_NUMBERS", 2 * 36)
    seen = mh.look(folder, inputs=torch.arange(6)[None])
    found = json.loads(saving.saved_json(seen, [(1, 3)]))
    assert [(one["layer"], one["head"]) for one in found["maps"]] == [(1, 3), (0, 0)]
    steps = np.frombuffer(base64.b64decode(found["maps"][0]["weights"]), "<u2").reshape(6, 6)
    assert (steps[np.triu_indices(6, 1)] == BLOCKED).all()
    expected = seen.weights(1, 3)[0].detach().numpy()
    assert abs(steps[np.tril_indices(6)] / STEPS - expected[np.tril_indices(6)]).max() < 1 / STEPS


def test_the_html_file_is_whole_and_loads_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "heads.html"
    assert main(["look", str(folder), "--html", str(page), "--layer", "1", "--head", "2"]) == 0
    text = page.read_text()
    assert 'id="head-1-2"' in text
    assert text.count("<table") >= 4
    for outside in ("http://", "https://", "src='", "import "):
        assert outside not in text.replace("http://www.w3.org/2000/svg", "")
    capsys.readouterr()


def test_labels_say_that_no_head_exceeds_chance(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", "labels", str(folder), "--draws", "2", "--behaviour", "induction"]) == 0
    assert "no head more than chance" in capsys.readouterr().out
    assert main(["look", "labels", str(folder), "--draws", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"] == []
    assert {one["behaviour"] for one in found["tested"]} >= {"previous", "induction", "copying"}


def test_ablation_of_a_trained_models_head_costs_more_than_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["look", "ablate", "four-heads", "--heads", "0.1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["loss"] < 6.0  # nats per token; equal probabilities of all words give 8.3
    assert found["interval"][0] <= found["change"] <= found["interval"][1]
    assert len(found["controls"]) == 12


def test_corpus_statistics_are_written_and_joined(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    data = tmp_path / "texts.txt"
    data.write_text("once upon a time\nthere was a little cat and a dog\n")
    words = ["look", "corpus", "four-heads", "--data", str(data), "--json"]
    assert main([*words, "--resume", str(state), "--block", "3"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert (one["batches"], len(one["heads"])) == (2, 4)
    assert main([*words, "--merge", str(state), "--merge", str(state)]) == 0
    two = json.loads(capsys.readouterr().out)
    assert two["batches"] == 4
    assert two["heads"][0]["entropy"] == pytest.approx(one["heads"][0]["entropy"])
    assert main(["look", "corpus", str(folder), "--data", str(data)]) == 2


def test_two_folders_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "compare", str(folder), str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["pattern"] for one in found["heads"]] == [0.0] * 8
    assert main(["look", "compare", "four-heads", "one-head"]) == 2


def test_refused_layers_end_with_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install manyheads[look]"
    )
    config = transformers.BitNetConfig(
        vocab_size=60, hidden_size=24, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=20,
    )  # fmt: skip
    transformers.BitNetForCausalLM(config).save_pretrained(tmp_path / "model")
    assert main(["look", str(tmp_path / "model"), "--no-labels"]) == 1
    assert "not additive" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["nothing"],
        ["four-heads", "--head", "1"],
        ["four-heads", "--layer", "1"],
        ["four-heads", "--layer", "0", "--head", "4"],
        ["four-heads", "--against", "cat"],
        ["four-heads", "--text", ""],
        ["mlp"],
        ["labels", "four-heads"],
        ["ablate", "four-heads", "--heads", "9.9"],
        ["ablate", "four-heads", "--heads", "x"],
        ["labels", "nothing"],
        [],
    ],
)
def test_wrong_use_is_refused_in_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1


def test_inputs_by_name_come_from_a_safetensors_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "inputs.safetensors"
    save_file({"input_ids": torch.arange(6)[None]}, path)
    assert main(["look", str(folder), "--inputs", str(path), "--json", "--no-labels"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == [[str(i) for i in range(6)]]
    save_file({"pixel_values": torch.zeros(1, 3, 4, 4)}, path)
    assert main(["look", str(folder), "--inputs", str(path)]) == 2
    refused = capsys.readouterr().err
    assert "do not run through the model" in refused
    assert refused.count("\n") == 1
    path.write_bytes(b"no")
    assert main(["look", str(folder), "--inputs", str(path)]) == 2
