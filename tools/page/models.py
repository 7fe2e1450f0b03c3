"""The shipped models for the page: a list of them, and the files that ONNX Runtime Web needs.

`manyheads.web.models` serves the models themselves.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.checkpoints.onnx_export import export_onnx
from manyheads.checkpoints.shipped import load_shipped, shipped_models
from manyheads.core.errors import ConfigError
from manyheads.web.models import FOLDER, SHIPPED, WORDS, model_files, shipped_index
from tools.page.files import file_facts

FORMAT = 1
ONNX_FOLDER = "onnx"
"""Where the page finds ONNX Runtime and the ONNX files."""
_FACTS = ("run", "seed", "parameters", "validation_loss", "test_loss")
RUNTIME_FILES: Mapping[str, tuple[str, ...]] = {
    "wasm": ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    "webgpu": (
        "ort.webgpu.min.js",
        "ort-wasm-simd-threaded.asyncify.mjs",
        "ort-wasm-simd-threaded.asyncify.wasm",
    ),
}
"""For each back end: the script, the module that it imports, and the WebAssembly."""
_LICENCE = """ONNX Runtime Web {version}: the files whose names begin with "ort".

MIT License

Copyright (c) Microsoft Corporation. All rights reserved.

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


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
    index, onnx = shipped_index(shipped), onnx or {"models": {}, "runtime": None}
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
    facts["heroes"] = entry.get("heroes")
    return {"name": name, "config": entry["config"], "weights": weights, "onnx": onnx, **facts}


def write_onnx_files(folder: Path, package: Path, shipped: Path | None = None) -> dict[str, Any]:
    """Write the runtime and every shipped model into `folder`/onnx.

    Args:
        folder: where the page's files lie; an earlier "onnx" in it is replaced.
        package: the folder of the installed onnxruntime-web package.
        shipped: the folder of shipped models; the package's own unless given.

    Returns:
        "models": facts of each model's file by name; "runtime": its version, and the facts of each
        back end's files.

    Raises:
        CheckpointError: a model is damaged, or a file cannot be written.
        ConfigError: the package is not there, or the onnx package is not installed.
    """
    runtime: dict[str, Any] = {"version": _version(package)}
    place = folder / ONNX_FOLDER
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for back_end, names in RUNTIME_FILES.items():
        runtime[back_end] = [_copied(package / "dist" / name, place) for name in names]
    licence = _LICENCE.format(version=runtime["version"])
    (place / "LICENCE-onnxruntime.txt").write_text(licence, encoding="utf-8")
    models = {}
    for name in shipped_models(shipped):
        found = load_shipped(name, shipped)
        path = place / f"{name}.onnx"
        about = {"name": name, "checkpoint_sha256": str(found.facts["sha256"])}
        export_onnx(found.model, path, metadata=about)
        models[name] = file_facts(f"{ONNX_FOLDER}/{path.name}", path.read_bytes())
    return {"models": models, "runtime": runtime}


def _version(package: Path) -> str:
    try:
        return str(json.loads((package / "package.json").read_bytes())["version"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"--runtime ({package}) must be the folder of onnxruntime-web: run `npm ci` in web/"
        ) from error


def _copied(source: Path, place: Path) -> dict[str, Any]:
    try:
        data = source.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--runtime ({source}) cannot be read ({error.strerror}): run `npm ci` in web/"
        ) from error
    (place / source.name).write_bytes(data)
    return file_facts(f"{ONNX_FOLDER}/{source.name}", data)
