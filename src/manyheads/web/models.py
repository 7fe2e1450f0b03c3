"""The shipped models as the page loads them: files next to the page, and a list in the page.
`model_files` returns the served files. `model_scripts` returns the same bytes as classic scripts,
for a page that is opened from disk and cannot fetch files. Neither loads torch.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.core.errors import CheckpointError

SHIPPED = Path(__file__).parents[1] / "checkpoints" / "data"
"""Folder of the package's models; `checkpoints` loads torch, so the files are read here."""
FOLDER = "models"
"""Folder from which the page loads them."""
WORDS = f"{FOLDER}/words.json"
_PIECE = 3 * (1 << 16)
"""Bytes decoded without a pause; a multiple of three, so that each piece encodes whole bytes."""


def model_files(shipped: Path | None = None) -> dict[str, bytes]:
    """The files that the page loads on demand, by their path from the page; hashes are checked.

    Args:
        shipped: the folder of shipped models; the package's own unless given.

    Returns:
        "models/words.json", and "models/NAME.safetensors" for each model; empty if the package has no models.

    Raises:
        CheckpointError: a file is missing, damaged or changed.
    """
    shipped = shipped or SHIPPED
    index = shipped_index(shipped)
    if index is None:
        return {}
    words = _checked(shipped, index["tokenizer"])
    files = {WORDS: _words(shipped, words)}
    for name, entry in sorted(index["models"].items()):
        files[f"{FOLDER}/{name}.safetensors"] = _checked(shipped, entry)
    return files


def model_scripts(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A classic script for each file of `model_files`, which hands over its bytes as text.

    Args:
        files: by path from the page.

    Returns:
        scripts by path: "models/mlp.js" for "models/mlp.safetensors".
    """
    return {f"{path.rpartition('.')[0]}.js": _script(path, data) for path, data in files.items()}


def shipped_index(shipped: Path) -> dict[str, Any] | None:
    """Read the list of the shipped models; None if the package has no models.

    Args:
        shipped: the folder of shipped models.

    Raises:
        CheckpointError: the list is damaged.
    """
    path = shipped / "models.json"
    try:
        index = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"file ({path}) is damaged ({error}): restore it") from error
    if not isinstance(index, dict) or not {"study", "tokenizer", "models"} <= set(index):
        raise CheckpointError(f"file ({path}) is damaged (it lists no models): restore it")
    return index


def _checked(shipped: Path, entry: Mapping[str, Any]) -> bytes:
    """A file of the list; its hash must be the one in the list."""
    path = shipped / Path(str(entry["file"])).name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"file ({path}) cannot be read ({error.strerror}): restore it"
        ) from error
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise CheckpointError(f"file ({path}) was changed or damaged: restore it")
    return data


def _words(shipped: Path, tokenizer: bytes) -> bytes:
    """The word of each id as a JSON list, from the JSON of the `tokenizers` library."""
    try:
        ids = json.loads(tokenizer)["model"]["vocab"]
        words = sorted(ids, key=ids.__getitem__)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"file ({shipped / 'tokenizer.json'}) contains no words: restore it"
        ) from error
    if [ids[word] for word in words] != list(range(len(words))):
        raise CheckpointError(
            f"file ({shipped / 'tokenizer.json'}) leaves out ids: use one that manyheads wrote"
        )
    return f"{json.dumps(words, ensure_ascii=False, separators=(',', ':'))}\n".encode()


def _script(path: str, data: bytes) -> bytes:
    pieces = [data[begin : begin + _PIECE] for begin in range(0, len(data), _PIECE)]
    texts = [path, *(base64.b64encode(piece).decode("ascii") for piece in pieces)]
    return f"manyheadsFile({','.join(map(json.dumps, texts))});\n".encode()
