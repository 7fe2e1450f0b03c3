"""Opening a model of a folder: its configuration, its safetensors and its tokeniser, nothing else.

No pickle is read, no code of the folder is run, and nothing is downloaded unless that is asked for.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from manyheads.checkpoints.shipped import load_shipped, shipped_models
from manyheads.core.errors import LookError
from manyheads.core.extras import require
from manyheads.core.text import brief, one_line, quoted
from manyheads.data.tokens import WordTokenizer

CONFIG, TOKENIZERS = "config.json", ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
LONGEST_CONFIG = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A model with its tokeniser."""

    model: nn.Module
    """In evaluation mode, in the type of its file."""
    tokenizer: Any
    """A tokeniser of transformers, a `WordTokenizer`, or None where the folder has none."""


def open_model(name: str | Path, *, download: bool = False) -> Opened:
    """Open a model.

    Args:
        name: a folder as `save_pretrained` writes it, a model that comes with the package, or a
            .safetensors file of a study; with `download`, the id of a model on the hub.
        download: whether the network may be used.

    Raises:
        LookError: the folder is no model that can be read safely and completely.
    """
    folder = Path(name)
    is_own = str(name) in shipped_models() or folder.suffix == ".safetensors"
    if is_own and not folder.is_dir():
        found = load_shipped(str(name))
        return Opened(model=found.model, tokenizer=WordTokenizer.from_json(found.tokenizer_json))
    require("look", "transformers", purpose="a model of transformers")
    if not folder.is_dir():
        _check_is_hub_id(str(name), download)
    kind = _checked_kind(folder) if folder.is_dir() else None
    return Opened(
        model=_loaded(str(name), kind, download=download),
        tokenizer=_tokenizer(str(name), folder, download=download),
    )


def _check_is_hub_id(name: str, download: bool) -> None:
    if name.lower().endswith(".gguf") and Path(name).is_file():
        raise LookError(
            f"model ({brief(name)}) is a GGUF file: convert it to safetensors with "
            "from_pretrained(..., gguf_file=...) and save_pretrained"
        )
    if not download:
        known = ", ".join(shipped_models())
        raise LookError(
            f"model ({brief(name)}) is neither a folder nor one of {known}: give the path of a "
            "folder with config.json, or use --download for a model on the hub"
        )


def _checked_kind(folder: Path) -> str:
    """The class of the model, after checks that need no code of transformers to run."""
    path = folder / CONFIG
    if not path.is_file():
        gguf = any(folder.glob("*.gguf"))
        hint = "convert its GGUF file to safetensors" if gguf else "give a folder with config.json"
        raise LookError(f"model ({brief(str(folder))}) has no {CONFIG}: {hint}")
    if not any(folder.glob("*.safetensors")):
        raise LookError(
            f"model ({brief(str(folder))}) has no .safetensors file: convert its weights, because "
            "a pickle can run code"
        )
    return _architecture(path)


def _architecture(path: Path) -> str:
    from transformers import CONFIG_MAPPING

    try:
        if path.stat().st_size > LONGEST_CONFIG:
            raise ValueError("too long")
        values = json.loads(path.read_text(encoding="utf-8"))
        kind, names = values["model_type"], values.get("architectures") or []
        known = kind in CONFIG_MAPPING
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LookError(
            f"{brief(str(path))} is no configuration of a model ({quoted(str(error))}): give a "
            "folder that save_pretrained wrote"
        ) from error
    if not known:
        raise LookError(
            f"model_type ({quoted(kind)}) is unknown to the installed transformers: code that "
            "comes with a model is never run"
        )
    return str(names[0]) if isinstance(names, list) and names else "AutoModel"


def _loaded(name: str, kind: str | None, *, download: bool) -> nn.Module:
    import transformers

    builder: Any = getattr(transformers, kind or "AutoModelForCausalLM", None)
    if not hasattr(builder, "from_pretrained"):
        builder = transformers.AutoModel
    try:
        with _quiet_unless_terminal():
            model, found = builder.from_pretrained(
                name,
                local_files_only=not download,
                trust_remote_code=False,
                use_safetensors=True,
                dtype="auto",
                output_loading_info=True,
            )
    except Exception as error:  # whatever a wrong configuration or a damaged file raises
        raise LookError(
            f"model ({brief(name)}) cannot be loaded ({one_line(error)}): give a complete folder "
            "of save_pretrained"
        ) from error
    _check_complete(name, found)
    assert isinstance(model, nn.Module)
    return model.eval()


@contextmanager
def _quiet_unless_terminal() -> Iterator[None]:
    """Without the progress bars of transformers, which they draw into files too."""
    from transformers.utils import logging

    hide = logging.is_progress_bar_enabled() and not sys.stderr.isatty()
    if hide:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if hide:
            logging.enable_progress_bar()


def _check_complete(name: str, found: dict[str, Any]) -> None:
    for kind, says in (
        ("missing_keys", "lacks tensors that its configuration needs"),
        ("unexpected_keys", "has tensors that its configuration does not know"),
        ("mismatched_keys", "has tensors of another shape than its configuration"),
    ):
        names = sorted(str(item[0] if isinstance(item, tuple) else item) for item in found[kind])
        if names:
            raise LookError(
                f"model ({brief(name)}) {says} ({len(names)}, such as {brief(names[0])}): give "
                "the folder with its own config.json"
            )


def _tokenizer(name: str, folder: Path, *, download: bool) -> Any:  # noqa: ANN401 - as transformers
    from transformers import AutoTokenizer

    if folder.is_dir() and not any((folder / file).is_file() for file in TOKENIZERS):
        return None
    try:
        return AutoTokenizer.from_pretrained(
            name, local_files_only=not download, trust_remote_code=False
        )
    except Exception as error:  # whatever a damaged tokeniser raises
        raise LookError(
            f"tokenizer of {brief(name)} cannot be loaded ({one_line(error)}): repair or remove "
            "its files, and give token ids"
        ) from error
