"""The shipped models as the page loads them: files beside the page, and a list of them inside it.

`model_files` gives what is served; `script_twins` gives the same bytes as classic scripts, for a
page that is opened from disk and may fetch nothing. Neither loads torch. Run as `python -m
manyheads.web.models INDEX.json FOLDER`, this file writes the list that is built into the page, and
the files for ONNX Runtime (see `onnx_files.py`).
"""

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.core.errors import CheckpointError, ManyHeadsError
from manyheads.web.file_facts import file_facts

FORMAT = 1
SHIPPED = Path(__file__).parents[1] / "checkpoints" / "data"
"""Where the package keeps its models; that room loads torch, so its files are read here."""
FOLDER = "models"
"""Where the page finds them."""
WORDS = f"{FOLDER}/words.json"
_PIECE = 3 * (1 << 16)
"""Bytes decoded without a pause; a multiple of three, so that each piece stands for whole bytes."""
_FACTS = ("run", "seed", "parameters", "validation_loss", "test_loss")


def model_files(shipped: Path | None = None) -> dict[str, bytes]:
    """The files that the page loads on demand, by their path from the page; hashes are checked.

    Args:
        shipped: the folder of shipped models; the package's own unless given.

    Returns:
        "models/words.json", and "models/NAME.safetensors" for each model; nothing where no model
        comes with the package.

    Raises:
        CheckpointError: a file is missing, damaged or changed.
    """
    shipped = shipped or SHIPPED
    index = _shipped_index(shipped)
    if index is None:
        return {}
    words = _checked(shipped, index["tokenizer"])
    files = {WORDS: _words(shipped, words)}
    for name, entry in sorted(index["models"].items()):
        files[f"{FOLDER}/{name}.safetensors"] = _checked(shipped, entry)
    return files


def script_twins(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A classic script for each file of `model_files`, which hands over its bytes as text.

    Args:
        files: by path from the page.

    Returns:
        scripts by path: "models/mlp.js" for "models/mlp.safetensors".
    """
    return {f"{path.rpartition('.')[0]}.js": _script(path, data) for path, data in files.items()}


def page_index(
    shipped: Path | None = None, onnx: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What the page knows of its models before it loads one; `ModelIndex` of types.ts.

    Args:
        shipped: as in `model_files`.
        onnx: what `write_onnx_files` returned; None where the page has no ONNX Runtime.

    Raises:
        CheckpointError: as in `model_files`.
    """
    shipped = shipped or SHIPPED
    index, onnx = _shipped_index(shipped), onnx or {"models": {}, "runtime": None}
    if index is None:
        return {"format": FORMAT, "study": None, "words": None, "models": [], "runtime": None}
    files = model_files(shipped)
    facts = {path: file_facts(path, data) for path, data in files.items()}
    study = index["study"]
    data = study.get("data") or {}
    return {
        "format": FORMAT,
        "study": {
            "plan": study["plan"],
            "plan_sha256": study["plan_sha256"],
            "data": str(data.get("kind") or data.get("source") or ""),
        },
        "words": facts[WORDS],
        "models": [
            _model(name, entry, facts[f"{FOLDER}/{name}.safetensors"], onnx["models"].get(name))
            for name, entry in sorted(index["models"].items(), key=_by_heads)
        ],
        "runtime": onnx["runtime"],
    }


def _by_heads(item: tuple[str, Mapping[str, Any]]) -> tuple[int, str]:
    """The model without heads first, then by their number."""
    return item[1]["config"].get("num_heads") or 0, item[0]


def _model(
    name: str, entry: Mapping[str, Any], weights: Mapping[str, Any], onnx: Mapping[str, Any] | None
) -> dict[str, Any]:
    known = {"run": f"{name}-seed{entry['seed']}", **entry}
    known["validation_loss"] = entry.get("validation_loss_float16", entry["validation_loss"])
    facts = {key: known[key] for key in _FACTS}
    return {"name": name, "config": entry["config"], "weights": weights, "onnx": onnx, **facts}


def _shipped_index(shipped: Path) -> dict[str, Any] | None:
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
    """A file of the list, read whole, with the hash that the list gives."""
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
            f"file ({shipped / 'tokenizer.json'}) holds no words: restore it"
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


def main(arguments: list[str] | None = None) -> int:
    """Write the list and the ONNX files named on the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m manyheads.web.models", description=__doc__)
    parser.add_argument("index", metavar="INDEX.json", type=Path, help="the list to write")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where the page's files lie")
    parser.add_argument(
        "--runtime", metavar="DIR", type=Path, help="the folder of the onnxruntime-web package"
    )
    options = parser.parse_args(arguments)
    try:
        onnx = None
        if options.runtime is not None and _shipped_index(SHIPPED) is not None:
            from manyheads.web.onnx_files import write_onnx_files  # loads torch and onnx

            onnx = write_onnx_files(options.folder, options.runtime, SHIPPED)
        text = json.dumps(page_index(onnx=onnx), ensure_ascii=False, separators=(",", ":"))
        options.index.parent.mkdir(parents=True, exist_ok=True)
        options.index.write_text(f"{text}\n", encoding="utf-8")
    except (ManyHeadsError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
