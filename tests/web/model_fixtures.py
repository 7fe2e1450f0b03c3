"""What vitest compares the page's model engine with, worked out by PyTorch and the terminal's code.

Run as `python -m tests.web.model_fixtures OUT`: it writes models in a folder as the package ships
them, the files that the page loads, and `expected.json`.
"""

import base64
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.checkpoints.files import write_model
from manyheads.checkpoints.shipped import load_shipped, shipped_models
from manyheads.data.stories import generate_stories
from manyheads.data.tokens import SPECIAL_WORDS, WordTokenizer
from manyheads.models import build_model
from manyheads.models.config import EOS_ID, ModelConfig
from manyheads.models.generation import generate
from manyheads.models.lm import AttentionLM
from manyheads.web.models import SHIPPED, model_files, model_scripts
from tests.web.tokenizer_fixtures import tokenizer_cases
from tools.page.models import page_index

V = 4000
KINDS: dict[str, dict[str, Any]] = {
    "mlp": {"kind": "fixed-window-mlp"},
    "one-head": {"kind": "attention", "num_heads": 1},
    "four-heads": {"kind": "attention", "num_heads": 4},
    "uneven": {
        "kind": "attention",
        "num_heads": 3,
        "head_dim": 5,
        "context": 11,
        "width": 14,
        "hidden": 9,
    },
    "shared": {
        "kind": "attention",
        "num_heads": 3,
        "head_dim": 4,
        "pattern": "shared",
        "width": 10,
    },
    "uniform": {"kind": "attention", "num_heads": 2, "pattern": "uniform", "width": 10},
}
DTYPES = {"uneven": torch.float32, "shared": torch.bfloat16}
SETTINGS: tuple[dict[str, Any], ...] = (
    {"prompt": "", "seed": 0, "max_tokens": 40},
    {"prompt": "The cat said “Hello”, and the", "seed": 11, "temperature": 1.0, "top_k": 7},
    {"prompt": "One day", "seed": 2**64 - 1, "temperature": 1.7, "top_k": 400, "max_tokens": 70},
    {"prompt": "Once upon a time", "seed": 3, "temperature": 0.0, "max_tokens": 20},
    {"prompt": "Zyzzyva wept. " * 30, "seed": 4, "max_tokens": 12},
    {"prompt": "the", "seed": 29, "temperature": 3.0, "max_tokens": 80, "stop": "THE"},
)


def write_shipped(folder: Path) -> WordTokenizer:
    """Models that were never trained, but are as certain as trained ones, as a shipped folder."""
    tokenizer = full_tokenizer()
    folder.mkdir(parents=True)
    words = tokenizer.to_json().encode()
    (folder / "tokenizer.json").write_bytes(words)
    models = {name: _write(folder, name, number) for number, name in enumerate(KINDS)}
    index = {
        "format": 1,
        "study": {
            "plan": "made-up",
            "plan_sha256": "ab" * 32,
            "seed": 7,
            "data": {"source": "none"},
        },
        "tokenizer": {"file": "tokenizer.json", "sha256": hashlib.sha256(words).hexdigest()},
        "models": models,
    }
    (folder / "models.json").write_text(json.dumps(index), encoding="utf-8")
    return tokenizer


def full_tokenizer() -> WordTokenizer:
    """A tokeniser with 4,000 words, most of them made up."""
    trained = json.loads(WordTokenizer.train(generate_stories(80, seed=1)).to_json())
    words = sorted(trained["model"]["vocab"], key=trained["model"]["vocab"].__getitem__)
    letters = "abcdefghijklmnopqrstuvwxyz"
    made = (f"qx{a}{b}{c}" for a in letters for b in letters for c in letters)
    words += [next(made) for _ in range(V - len(words))]
    trained["model"]["vocab"] = {word: index for index, word in enumerate(words)}
    return WordTokenizer.from_json(json.dumps(trained))


def sharpened(config: ModelConfig, seed: int) -> nn.Module:
    """A model whose weights are large enough for distinct attention and few likely words."""
    torch.manual_seed(seed)
    model = build_model(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            factor = {"attention.in_proj_weight": 2.5, "output.weight": 6.0}.get(name, 1.0)
            parameter.mul_(factor)
        if config.pattern == "uniform":
            model.query_rows.zero_()
        if config.num_heads == 3 and config.pattern == "learned":
            model.output.bias[EOS_ID] += 4.0  # stories of this one end
    return model


def _write(folder: Path, name: str, seed: int) -> dict[str, Any]:
    config = ModelConfig(**({"vocab_size": V} | KINDS[name]))
    model = sharpened(config, seed)
    path = folder / f"{name}.safetensors"
    facts = {"run": f"{name}-seed7"}
    digest = write_model(path, model, facts=facts, dtype=DTYPES.get(name, torch.float16))
    return {
        "file": path.name,
        "sha256": digest,
        "config": config.to_dict(),
        "seed": 7,
        "parameters": config.num_parameters,
        "validation_loss": 2.5,
        "validation_loss_float16": 2.25,
        "test_loss": 2.75,
    }


def windows_of(config: ModelConfig) -> list[list[int]]:
    """Windows of one word, some, nearly all and all that the model can see."""
    generator = torch.Generator().manual_seed(5)
    lengths = (1, 2, config.context // 2, config.context - 1, config.context)
    drawn = [torch.randint(2, config.vocab_size, (n - 1,), generator=generator) for n in lengths]
    return [[1, *part.tolist()] for part in drawn]


@torch.no_grad()
def answers_of(model: nn.Module) -> list[dict[str, Any]]:
    """Logits of each window, and for models with heads all grids and switched heads."""
    found = []
    for ids in windows_of(model.config):
        tokens = torch.tensor([ids])
        answer: dict[str, Any] = {"ids": ids, "logits": packed(model(tokens)[0])}
        if isinstance(model, AttentionLM):
            answer["grids"] = packed(grids_of(model, tokens))
            answer["switched"] = [
                {"heads": heads, "logits": packed(switched_logits(model, tokens, heads))}
                for heads in switches_of(model.config.num_heads or 0)
            ]
        found.append(answer)
    return found


def grids_of(model: AttentionLM, tokens: Tensor) -> Tensor:
    """Weights (H, S, S): each row is that of the last word of the words up to it."""
    num_words = tokens.shape[1]
    grids = torch.zeros(model.config.num_heads or 0, num_words, num_words)
    for end in range(1, num_words + 1):
        _, weights = model(tokens[:, :end], need_weights=True)
        grids[:, end - 1, :end] = weights[0, :, -end:]
    return grids


def switches_of(num_heads: int) -> list[list[str | int]]:
    """Each head alone off, all off, all uniform, and every head with the next one's weights."""
    alone: list[list[str | int]] = [
        ["off" if h == off else "own" for h in range(num_heads)] for off in range(num_heads)
    ]
    shifted: list[str | int] = [(h + 1) % num_heads for h in range(num_heads)]
    mixed: list[str | int] = [("uniform", 0, "own", "off")[h % 4] for h in range(num_heads)]
    return [*alone, ["off"] * num_heads, ["uniform"] * num_heads, shifted, mixed]


def switched_logits(model: AttentionLM, tokens: Tensor, heads: Sequence[str | int]) -> Tensor:
    """The last row with some heads' weights replaced, written out head by head."""
    x, own = model.rows(tokens), grids_of(model, tokens)[:, -1]  # (H, S)
    H, d = len(heads), model.config.width_of_head
    stacked = model.attention.in_proj_weight
    assert stacked is not None
    values = (x[0] @ stacked[-H * d :].T).unflatten(1, (H, d))  # (S, H, d)
    messages = []
    for h, state in enumerate(heads):
        if state == "off":
            weights = torch.zeros_like(own[h])
        elif state == "uniform":
            weights = torch.full_like(own[h], 1 / own.shape[1])
        else:
            weights = own[h if state == "own" else int(state)]
        messages.append(weights @ values[:, h])
    return model.predict(x[0, -1] + model.attention.out_proj(torch.cat(messages)))


@torch.no_grad()
def losses_of(model: nn.Module, ids: Sequence[int]) -> list[float]:
    """Nats of each word after the beginning, from the words before it."""
    T = model.config.context
    return [
        float(
            F.cross_entropy(model(torch.tensor([ids[max(0, n - T) : n]])), torch.tensor([ids[n]]))
        )
        for n in range(1, len(ids))
    ]


def stories_of(model: nn.Module, tokenizer: WordTokenizer) -> list[dict[str, Any]]:
    """What `manyheads generate` tells under each of the settings, and with a stop that is met."""
    stories = [_story(model, tokenizer, settings) for settings in SETTINGS]
    middle = stories[0]["text"][:40].split()[1:3]
    stopped = {**SETTINGS[0], "stop": " ".join(middle or ["zz"]).upper()}
    return [*stories, _story(model, tokenizer, stopped)]


def _story(model: nn.Module, tokenizer: WordTokenizer, settings: dict[str, Any]) -> dict[str, Any]:
    steps = list(generate(model, tokenizer, **settings))
    return {
        **settings,
        "seed": str(settings["seed"]),
        "ids": [step.word_id for step in steps],
        "text": "".join(step.piece for step in steps),
        "probabilities": [step.probability for step in steps],
        "context": list(steps[-1].context),
        "ended_by": steps[-1].ended_by,
    }


def packed(numbers: Tensor) -> str:
    """Float32 numbers as base64, least byte first."""
    return base64.b64encode(numbers.float().contiguous().numpy().astype("<f4").tobytes()).decode()


def expected_of(shipped: Path) -> dict[str, Any]:
    """All that is compared of each model in a folder."""
    found = {}
    for name in shipped_models(shipped):
        model, tokenizer_json, _ = load_shipped(name, shipped)
        tokenizer = WordTokenizer.from_json(tokenizer_json)
        text = tokenizer.encode("Once upon a time there was a little dog. The dog went home, and")
        ids = [1, *text, *range(10, 80)]
        found[name] = {
            "answers": answers_of(model),
            "losses": {"ids": ids, "nats": losses_of(model, ids)},
            "stories": stories_of(model, tokenizer),
        }
    return found


def write_set(out: Path, shipped: Path) -> None:
    """Write the files that the page loads of a shipped folder, and what is expected of them."""
    files = model_files(shipped)
    for path, data in {**files, **model_scripts(files)}.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(data)
    (out / "index.json").write_text(json.dumps(page_index(shipped)), encoding="utf-8")
    (out / "expected.json").write_text(json.dumps(expected_of(shipped)), encoding="utf-8")


def main(out: Path) -> None:
    """Write everything into a new folder."""
    torch.set_num_threads(1)
    tokenizer = write_shipped(out / "shipped")
    assert tokenizer.words[: len(SPECIAL_WORDS)] == SPECIAL_WORDS
    write_set(out / "made-up", out / "shipped")
    if (SHIPPED / "models.json").is_file():
        write_set(out / "real", SHIPPED)
    text = json.dumps(tokenizer_cases(tokenizer), ensure_ascii=True)
    (out / "tokenizer.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
