"""The tensors of a trace to and from JSON and safetensors, without losing a bit.

`trace.py` knows what the names mean and checks that the numbers agree.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from manyheads.core.errors import TraceError
from manyheads.core.files import write_whole

_KIND = "manyheads.AttentionTrace"
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in _TYPES}
Found = tuple[str, dict[str, Tensor]]


def _plain(value: object, *, none_is_blocked: bool) -> object:
    """Nested lists of numbers as JSON can hold them."""
    if isinstance(value, list):
        return [_plain(item, none_is_blocked=none_is_blocked) for item in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if none_is_blocked and value == -math.inf:
        return None
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _number(value: object, *, none_is_blocked: bool) -> object:
    """The reverse of `_plain`."""
    if isinstance(value, list):
        return [_number(item, none_is_blocked=none_is_blocked) for item in value]
    if value is None and none_is_blocked:
        return -math.inf
    return _WORDS.get(value, value) if isinstance(value, str) else value


def json_from_tensors(form: str, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors as one JSON document; blocked scores are null.

    Args:
        form: which form computed them.
        tensors: by field name.
    """
    document: dict[str, object] = {"kind": _KIND, "form": form, "dtypes": {}, "b_o": None}
    dtypes = {name: str(x.dtype).removeprefix("torch.") for name, x in tensors.items()}
    document["dtypes"] = dtypes
    for name, tensor in tensors.items():
        numbers = tensor.detach().double().tolist()
        document[name] = _plain(numbers, none_is_blocked=name == "masked_scores")
    return json.dumps(document, allow_nan=False)


def tensors_from_json(text: str, fields: Sequence[str], optional: Sequence[str]) -> Found:
    """Read what `json_from_tensors` wrote: the form, and the tensors by name.

    Args:
        text: the document.
        fields: the names to read.
        optional: those that may be absent.

    Raises:
        TraceError: the text is not a trace.
    """
    try:
        document = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(
            f"text is not JSON ({error}): give what AttentionTrace.to_json wrote"
        ) from error
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        raise TraceError(f'text has no "kind": "{_KIND}": give what AttentionTrace.to_json wrote')
    dtypes = document.get("dtypes")
    if not isinstance(dtypes, dict):
        raise TraceError(f"dtypes ({dtypes!r}) must be an object: give each field's dtype by name")
    tensors = {}
    for name in fields:
        if name not in optional or document.get(name) is not None:
            tensors[name] = _tensor(name, document.get(name), dtypes.get(name))
    return str(document.get("form")), tensors


def _tensor(name: str, value: object, dtype_name: object) -> Tensor:
    dtype = _DTYPES.get(str(dtype_name))
    if dtype is None:
        known = ", ".join(_DTYPES)
        raise TraceError(f"dtype of {name} ({dtype_name!r}) is not known: use one of {known}")
    numbers = _number(value, none_is_blocked=name == "masked_scores")
    try:
        return torch.tensor(numbers, dtype=torch.float64).to(dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TraceError(
            f"{name} ({error}) is missing or not an array of numbers: save the trace again"
        ) from error


def save_tensors(form: str, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file under a temporary name, then rename it.

    Args:
        form: which form computed them.
        tensors: by field name.
        path: the file; an existing one is replaced.

    Raises:
        TraceError: the path is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise TraceError(f"path ({path}) is a folder: give a file in it, such as trace.safetensors")
    if not path.parent.is_dir():
        raise TraceError(
            f"path ({path}) is in a folder that does not exist: create {path.parent} first"
        )
    whole = torch.contiguous_format  # safetensors accepts neither views nor shared memory
    copies = {n: x.detach().cpu().clone(memory_format=whole) for n, x in tensors.items()}
    content = save(copies, metadata={"kind": _KIND, "form": form})
    write_whole(path, content)


def load_tensors(path: Path, fields: Sequence[str], optional: Sequence[str]) -> Found:
    """Read what `save_tensors` wrote: the form, and the tensors by name.

    Args:
        path: the file.
        fields: the names to read.
        optional: those that may be absent.

    Raises:
        TraceError: the file is missing, damaged or not a trace.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata, names = file.metadata() or {}, set(file.keys())
            tensors = {name: file.get_tensor(name) for name in fields if name in names}
    except (OSError, SafetensorError) as error:
        raise TraceError(
            f"path ({path}) is not a readable safetensors file ({error}): "
            "give what AttentionTrace.save wrote"
        ) from error
    if metadata.get("kind") != _KIND:
        raise TraceError(
            f"path ({path}) does not hold a trace: give what AttentionTrace.save wrote"
        )
    for name in fields:
        if name not in tensors and name not in optional:
            raise TraceError(
                f"path ({path}) has no tensor {name}: give what AttentionTrace.save wrote"
            )
    return str(metadata.get("form")), tensors
