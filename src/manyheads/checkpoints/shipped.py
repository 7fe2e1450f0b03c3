"""The trained models of the package, and models in a study's folder.

`data/models.json` lists the models and the hash of each file; a file with another hash is refused.
This package does not import `manyheads.data`, so it returns the tokeniser as JSON text.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from manyheads.checkpoints.files import read_model, read_whole
from manyheads.core.errors import CheckpointError

DATA = Path(__file__).parent / "data"
"""Folder of the package's models."""
INDEX, TOKENIZER = "models.json", "tokenizer.json"
INDEX_FORMAT = 1
MAX_JSON_BYTES = 1 << 24
_ENDING = ".safetensors"


class Shipped(NamedTuple):
    """A trained model with its tokeniser and metadata."""

    model: nn.Module
    """The model in evaluation mode, in float32."""
    tokenizer_json: str
    """The tokeniser, for `WordTokenizer.from_json`."""
    facts: Mapping[str, Any]
    """Origin, sizes, hash and losses (nats per token)."""


def shipped_models(folder: Path | None = None) -> tuple[str, ...]:
    """Names of the models that come with the package, in alphabetical order.

    Args:
        folder: folder of the models; the package's own unless given.

    Raises:
        CheckpointError: the list of models is damaged.
    """
    folder = folder or DATA
    if not (folder / INDEX).is_file():
        return ()
    return tuple(sorted(_index(folder)["models"]))


def load_shipped(name: str, folder: Path | None = None) -> Shipped:
    """Read a model of the package, or one at a path.

    The `tokenizer.json` of a model at a path must be in the same folder or up to two folders above;
    in a study's folder it is.

    Args:
        name: one of `shipped_models()`, or the path of a .safetensors file.
        folder: folder of the named models; the package's own unless given.

    Raises:
        CheckpointError: the model does not exist, or a file is missing, damaged or changed.
    """
    folder = folder or DATA
    known = shipped_models(folder)
    if name in known:
        return _named(name, folder)
    if name.lower().endswith(_ENDING) or os.path.isfile(name):
        return _at(Path(name))
    choices = f"use {', '.join(known)}" if known else "this installation has no models: use"
    joint = ", or" if known else ""
    raise CheckpointError(
        f"model ({name}) is not known: {choices}{joint} the path of a {_ENDING} file"
    )


def _named(name: str, folder: Path) -> Shipped:
    index = _index(folder)
    try:
        entry, tokenizer = index["models"][name], index["tokenizer"]
        path, digest = _place(folder, entry["file"]), str(entry["sha256"])
        words_path, words_digest = _place(folder, tokenizer["file"]), str(tokenizer["sha256"])
        facts = {**index["study"], **entry, "model": name}
    except (KeyError, TypeError) as error:
        raise _damaged(folder, f"{name}: {error}") from error
    text = _tokenizer(words_path)
    if hashlib.sha256(text.encode()).hexdigest() != words_digest:
        raise CheckpointError(f"file ({words_path}) was changed or damaged: restore it")
    return Shipped(read_model(path, sha256=digest).model, text, facts)


def _at(path: Path) -> Shipped:
    """A model at a path, with its tokeniser; the tokeniser's hash is checked if it is known."""
    found = read_model(path)
    places = [folder / TOKENIZER for folder in path.absolute().parents[:3]]
    place = next((place for place in places if place.is_file()), None)
    if place is None:
        raise CheckpointError(
            f"model ({path}) has no {TOKENIZER} in its folder or up to two folders above: copy the "
            "one that it was trained with there"
        )
    text = _tokenizer(place)
    expected = found.facts.get("tokenizer_sha256")
    if expected is not None and tokenizer_sha256(text) != expected:
        raise CheckpointError(
            f"file ({place}) is not the tokenizer that {path.name} was trained with: copy that one "
            "there"
        )
    sizes = {"sha256": found.sha256, "size": found.size}
    return Shipped(found.model, text, {**found.facts, **sizes, "model": str(path)})


def tokenizer_sha256(text: str) -> str:
    """Hash of a tokeniser's JSON text, as `WordTokenizer.sha256` computes it."""
    return hashlib.sha256(text.removesuffix("\n").encode()).hexdigest()


def _tokenizer(path: Path) -> str:
    try:
        return read_whole(path, MAX_JSON_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"file ({path}) is not UTF-8 text: restore it") from error


def _index(folder: Path) -> dict[str, Any]:
    try:
        index = json.loads(read_whole(folder / INDEX, MAX_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise _damaged(folder, str(error)) from error
    if not isinstance(index, dict) or not isinstance(index.get("models"), dict):
        raise _damaged(folder, "it lists no models")
    if index.get("format") != INDEX_FORMAT:
        raise _damaged(folder, f"format {index.get('format')!r}, expected {INDEX_FORMAT}")
    return index


def _place(folder: Path, name: object) -> Path:
    """The path of a listed file; it must be in the folder itself."""
    if not isinstance(name, str) or Path(name).name != name:
        raise _damaged(folder, f"file ({name!r}) is not a plain file name")
    return folder / name


def _damaged(folder: Path, what: str) -> CheckpointError:
    return CheckpointError(f"file ({folder / INDEX}) is damaged ({what}): install manyheads again")
