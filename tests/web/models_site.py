"""A site with models to ask, and what PyTorch answers to the same questions."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.checkpoints.shipped import load_shipped
from manyheads.data.tokens import WordTokenizer
from manyheads.models.lm import AttentionLM
from manyheads.web.models import SHIPPED
from manyheads.web.site import write_site
from tests.web.model_fixtures import grids_of, losses_of, switched_logits, write_shipped
from tools.page.models import page_index, write_onnx_files

NAME = re.compile(r"([\w-]+):([\w.]+?)(_change)?((?:\[[\w-]+\])*)")
COLLECT_ASKED = """() => {
  const above = (node, name) => node.closest(`[data-${name}]`)?.dataset[name] ?? "";
  return [...document.querySelectorAll("main [data-quantity]")].map((node) => [
    node.dataset.quantity, node.dataset.value, above(node, "ids"), above(node, "heads"),
  ]);
}"""


class ModelsSite(NamedTuple):
    """A written site, and the folder of the models that it carries."""

    folder: Path
    shipped: Path


def write_models_site(folder: Path, static: Path, runtime: Path | None = None) -> ModelsSite:
    """Write the page with the package's models, or, where none come with it, with made-up ones.

    Args:
        folder: where to write.
        static: the built page.
        runtime: the folder of onnxruntime-web, to carry it and the models as ONNX too.
    """
    page, shipped = folder / "static", SHIPPED
    if not (SHIPPED / "models.json").is_file():
        shipped = folder / "shipped"
        write_shipped(shipped)
    _copy(static, page)
    onnx = write_onnx_files(page, runtime, shipped) if runtime else None
    script = page / "assets" / "page.js"
    index = json.dumps(page_index(shipped, onnx), ensure_ascii=False, separators=(",", ":"))
    script.write_text(_with_index(script.read_text(encoding="utf-8"), index), encoding="utf-8")
    write_site(folder / "site", page, shipped)
    return ModelsSite(folder / "site", shipped)


def _copy(static: Path, page: Path) -> None:
    for path in static.rglob("*"):
        if path.is_file() and "onnx" not in path.parts:
            (page / path.relative_to(static)).parent.mkdir(parents=True, exist_ok=True)
            (page / path.relative_to(static)).write_bytes(path.read_bytes())


def _with_index(script: str, index: str) -> str:
    """The built script with another list of models in the place of its own."""
    found = re.search(r"\{format:1,study:", script)
    assert found, "the built page has no list of models"
    begin = found.start()
    return f"{script[:begin]}{index}{script[_end_of_literal(script, begin) :]}"


def _end_of_literal(script: str, begin: int) -> int:
    """Where the object ends that begins there; braces in its texts do not count."""
    depth = 0
    for found in re.compile(r"""[{}]|`[^`]*`|"(?:[^"\\]|\\.)*"|'[^']*'""").finditer(script, begin):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return found.end()
    raise AssertionError("the list of models has no end")


@cache
def _asked(shipped: Path, name: str) -> nn.Module:
    return load_shipped(name, shipped).model


@cache
def tokenizer_of(shipped: Path, name: str) -> WordTokenizer:
    """The words of a model."""
    return WordTokenizer.from_json(load_shipped(name, shipped).tokenizer_json)


@cache
@torch.no_grad()
def _logits(shipped: Path, name: str, ids: tuple[int, ...], heads: tuple[str, ...]) -> Tensor:
    model = _asked(shipped, name)
    tokens = torch.tensor([ids[-model.config.context :]])
    if not isinstance(model, AttentionLM) or not heads:
        return model(tokens)[0]
    switches: list[str | int] = [int(state) if state.isdigit() else state for state in heads]
    return switched_logits(model, tokens, switches)


@cache
@torch.no_grad()
def _weights(shipped: Path, name: str, ids: tuple[int, ...], heads: tuple[str, ...]) -> Tensor:
    model = _asked(shipped, name)
    own = grids_of(model, torch.tensor([ids[-model.config.context :]]))
    S = own.shape[-1]
    forms = {"off": torch.zeros(S, S), "uniform": torch.tril(torch.ones(S, S))}
    forms["uniform"] = forms["uniform"] / torch.arange(1, S + 1)[:, None]
    rows = [own[h] if s == "own" else forms.get(s) for h, s in enumerate(heads)]
    return torch.stack(
        [own[int(s)] if row is None else row for row, s in zip(rows, heads, strict=True)]
    )


@cache
@torch.no_grad()
def _losses(
    shipped: Path, name: str, ids: tuple[int, ...], heads: tuple[str, ...]
) -> tuple[float, ...]:
    if set(heads) <= {"own"}:
        return tuple(losses_of(_asked(shipped, name), ids))
    logits = (_logits(shipped, name, ids[:n], heads) for n in range(1, len(ids)))
    return tuple(
        float(F.cross_entropy(row[None], torch.tensor([ids[n + 1]])))
        for n, row in enumerate(logits)
    )


def answer(shipped: Path, quantity: str, ids_text: str, heads_text: str) -> float | None:
    """What PyTorch says, float32; None for what only the device knows, such as speed."""
    found = NAME.fullmatch(quantity)
    assert found, quantity
    name, field, is_change, tail = found.groups()
    ids = tuple(int(part) for part in ids_text.split(",") if part)
    heads = tuple(part for part in heads_text.split(",") if part)
    if is_change:
        own = ",".join("own" for _ in heads)
        after = answer(shipped, f"{name}:{field}{tail}", ids_text, heads_text)
        before = answer(shipped, f"{name}:{field}{tail}", ids_text, own)
        return None if after is None or before is None else after - before
    return _field(shipped, name, field, [*re.findall(r"\d+", tail)], ids, heads)


def _hero_fact(shipped: Path, name: str, field: str, index: tuple[int, ...]) -> float:
    """A fact of how often a name comes back, as the index of the shipped models has it."""
    models = json.loads((shipped / "models.json").read_text(encoding="utf-8"))["models"]
    value = models[name]["heroes"][field]
    return float(value[index[0]] if index else value)


def _field(
    shipped: Path, name: str, field: str, tail: list[str], ids: Any, heads: Any
) -> float | None:
    index = tuple(int(digits) for digits in tail)
    if field in ("tokens_per_second", "seconds", "milliseconds_per_word", "largest_gap"):
        return None
    if field.startswith("heroes."):
        return _hero_fact(shipped, name, field.removeprefix("heroes."), index)
    if field == "parameters":
        return float(_asked(shipped, name).config.num_parameters)
    if field == "logits":
        return float(_logits(shipped, name, ids, heads)[index])
    if field == "probabilities":
        return float(_logits(shipped, name, ids, heads).softmax(-1)[index])
    if field == "attn_weights":
        return float(_weights(shipped, name, ids, heads)[index])
    losses = _losses(shipped, name, ids, heads)
    return losses[index[0]] if field == "losses" else sum(losses) / len(losses)
