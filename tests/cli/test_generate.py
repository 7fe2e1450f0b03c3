"""`manyheads generate` as a user meets it."""

import io
import json
import math
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from manyheads.checkpoints import shipped
from manyheads.checkpoints.shipped import load_shipped
from manyheads.checkpoints.shipping import ship
from manyheads.cli.main import main
from manyheads.data.tokens import WordTokenizer
from manyheads.models.generation import generate
from tests.checkpoints.small_study import SEED, small_batches, small_corpus, write_study

COMMAND = (sys.executable, "-m", "manyheads.cli.main", "generate")
Run = Callable[..., str]


@pytest.fixture(scope="module")
def small_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small untrained models, by the names of those that are shipped."""
    corpus, study = small_corpus(), tmp_path_factory.mktemp("study")
    write_study(study, corpus)
    folder = tmp_path_factory.mktemp("shipped")
    ship(study, folder, seed=SEED, batches=small_batches(corpus))
    return folder


@pytest.fixture(autouse=True)
def small_models_are_shipped(small_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "DATA", small_models)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command, which must succeed in silence, and return what it printed."""

    def ran(*arguments: str) -> str:
        assert main(["generate", *arguments]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return ran


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command, which must be refused in one line, and return the line."""

    def ran(*arguments: str) -> str:
        assert main(["generate", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("manyheads: ") and err.count("\n") == 1
        return err

    return ran


def prompt_of(folder: Path, count: int = 3) -> str:
    """Some words that the small models know."""
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    return " ".join(word for word in WordTokenizer.from_json(text).words[4:] if word.isalpha())[
        : 6 * count
    ].rsplit(" ", 1)[0]


def test_text_is_that_of_the_library(run: Run, small_models: Path) -> None:
    prompt = prompt_of(small_models)
    for model in ("four-heads", "one-head", "mlp"):
        found = load_shipped(model)
        tokenizer = WordTokenizer.from_json(found.tokenizer_json)
        steps = generate(
            found.model, tokenizer, prompt, max_tokens=20, temperature=1.1, top_k=9, seed=5
        )
        wanted = prompt + "".join(step.piece for step in steps)
        options = ["--max-tokens", "20", "--temperature", "1.1", "--top-k", "9", "--seed", "5"]
        assert run(prompt, "--model", model, *options) == f"{wanted}\n"


def test_the_same_command_gives_the_same_text_and_another_seed_another(run: Run) -> None:
    assert run("--seed", "3") == run("--seed", "3")
    assert len({run("--seed", str(seed), "--temperature", "2") for seed in range(4)}) > 1


def test_four_heads_is_the_model_unless_another_is_named(run: Run) -> None:
    assert json.loads(run("--json"))["model"] == "four-heads"
    assert run() == run("--model", "four-heads")


def test_json_is_one_document_with_every_word(run: Run, small_models: Path) -> None:
    prompt = prompt_of(small_models)
    document = json.loads(run(prompt, "--json", "--max-tokens", "7", "--seed", "2"))
    assert set(document) == {
        *("model", "prompt", "unknown_words", "settings", "text", "ended_by", "words")
    }
    assert document["settings"] == {
        "max_tokens": 7,
        "temperature": 0.8,
        "top_k": None,
        "seed": 2,
        "stop": None,
    }
    assert document["text"] == "".join(word["piece"] for word in document["words"])
    assert all(0 < word["probability"] < 1 for word in document["words"])
    text = run(prompt, "--max-tokens", "7", "--seed", "2")
    assert text == f"{prompt}{document['text']}\n"


def test_heads_are_shown_word_by_word(run: Run) -> None:
    document = json.loads(run("--json", "--heads", "--max-tokens", "9"))
    lines = run("--heads", "--max-tokens", "9").splitlines()
    assert len(lines) == 1 + 4 * len(document["words"])
    assert max(map(len, lines)) <= 80
    blocks = ["\n".join(lines[low : low + 4]) for low in range(1, len(lines), 4)]
    for line, word in zip(blocks, document["words"], strict=True):
        rows = word["head_weights"]
        assert len(rows) == 4
        assert all(len(row) == len(word["context"]) for row in rows)
        assert all(math.isclose(sum(row), 1, abs_tol=1e-5) for row in rows)
        assert line.startswith(word["word"])
        best = max(range(len(rows[2])), key=rows[2].__getitem__)
        shown = re.search(r"head 3: \S+?\((-?\d+)\) (\d+)%", line)
        assert shown is not None
        assert rows[2][int(shown[1]) - 1] == pytest.approx(rows[2][best], abs=1e-9)
        assert int(shown[2]) == round(100 * rows[2][best])


def test_stop_and_the_length_end_the_text(run: Run) -> None:
    whole = json.loads(run("--json", "--max-tokens", "60", "--temperature", "1.5"))
    word = whole["words"][1]["word"]
    document = json.loads(
        run("--json", "--max-tokens", "60", "--temperature", "1.5", "--stop", word.upper())
    )
    assert document["ended_by"] == "stop"
    assert word in document["text"]
    assert len(document["words"]) <= 2
    assert json.loads(run("--json", "--max-tokens", "1", "--temperature", "0"))["ended_by"]


def test_unknown_words_are_named_on_standard_error(
    capsys: pytest.CaptureFixture[str], small_models: Path
) -> None:
    prompt = f"{prompt_of(small_models)} quagga okapi quagga"
    assert main(["generate", prompt, "--max-tokens", "2"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(prompt)
    assert err == ("unknown to four-heads, read as [UNK]: quagga, okapi\n")


def test_an_endless_unknown_word_is_named_by_its_beginning(
    capsys: pytest.CaptureFixture[str], small_models: Path
) -> None:
    assert main(["generate", "q" * 5000, "--max-tokens", "1"]) == 0
    assert capsys.readouterr().err.endswith(f"read as [UNK]: {'q' * 40}...\n")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_unknown_words_are_marked_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, small_models: Path
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["generate", f"{prompt_of(small_models)} quagga, \x1b", "--max-tokens", "1"]) == 0
    assert "\x1b[4m[quagga]\x1b[0m" in screen.getvalue()
    assert "[\N{REPLACEMENT CHARACTER}]" in screen.getvalue()


def test_stats_are_on_standard_error_and_leave_the_text_alone(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run("--max-tokens", "9")
    assert main(["generate", "--max-tokens", "9", "--stats"]) == 0
    out, err = capsys.readouterr()
    assert out == text
    found = re.fullmatch(
        r"(\d+) tokens in ([\d.]+) s, ([\d,]+) tokens per second on one thread "
        r"\(without [\d.]+ s of loading\)\n",
        err,
    )
    assert found is not None
    assert 1 <= int(found[1]) <= 9
    assert int(found[3].replace(",", "")) > 20


def test_a_model_of_a_study_is_named_by_its_path(run: Run, small_models: Path) -> None:
    path = small_models / "one-head.safetensors"
    assert run("--model", str(path)) == run("--model", "one-head")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--temperature", "-0.1"], r"temperature \(-0.1\) must be a finite number of at least 0"),
        (["--temperature", "nan"], r"--temperature.*'nan' is not a valid number"),
        (["--temperature", "inf"], r"--temperature.*'inf' is not a valid number"),
        (["--temperature", "warm"], "--temperature"),
        (["--top-k", "0"], r"top_k \(0\) must be at least 1"),
        (["--top-k", "1000000"], r"top_k \(1000000\) must be at most 57"),
        (["--max-tokens", "0"], "--max-tokens.*0 is not in the range"),
        (["--max-tokens", "1000000"], "--max-tokens"),
        (["--seed", "-1"], r"seed \(-1\) must be between 0 and 2\*\*64 - 1"),
        (["--stop", ""], r"stop \(''\) must not be empty"),
        (["--model", "five-heads"], "is not known: use four-heads, mlp, one-head, or the path"),
        (["--model", "absent.safetensors"], "cannot be read"),
        (["--model", "/dev/null"], "is not known|not a regular file|a pipe or a device"),
        (["--model", "mlp", "--heads"], r"model \(mlp\) has no heads: use one-head"),
        (["a", "b"], "unexpected extra argument"),
        (["\udcff"], "must be text: give it as UTF-8"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: list[str], said: str, refused: Run) -> None:
    assert re.search(said, refused(*arguments))


def test_a_pickle_is_refused_with_the_remedy(refused: Run, tmp_path: Path) -> None:
    torch.save({}, tmp_path / "model.pt")
    assert "is a pickle" in refused("--model", str(tmp_path / "model.pt"))


def test_words_come_one_by_one_and_ctrl_c_ends_cleanly(small_models: Path) -> None:
    line = [*COMMAND, "--max-tokens", "100000", "--top-k", "1"]
    line += ["--model", str(small_models / "four-heads.safetensors")]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        seen = process.stdout.read(20)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest, error = process.communicate(timeout=20)
    assert len(seen) == 20
    assert process.returncode == 130
    assert time.monotonic() - begun < 5
    assert rest.endswith(b"\n")
    assert error.strip() == b""


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--help"]) == 0
    assert 'manyheads generate "Once upon a time"' in capsys.readouterr().out
