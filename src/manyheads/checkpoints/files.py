"""Model files: safetensors with a model's tensors and metadata; nothing in a file is executed.

A file is checked whole before any of its numbers is used: hash, sizes, names, shapes, types, and
that every number is finite. The weights files of a study's runs are read too.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.core.files import reason_of, write_whole
from manyheads.core.text import brief, quoted
from manyheads.models import build_model
from manyheads.models.config import ModelConfig


def digest_from_tensors(tensors: Mapping[str, Tensor], text: str) -> str:
    """Hash of tensors and their metadata, in hexadecimal digits.

    Args:
        tensors: by name, on the CPU, contiguous.
        text: the metadata as JSON text.
    """
    found = sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


FORMAT = 1
MAX_BYTES = 1 << 28
"""Maximum size of a model file, 256 MiB; a model of the studies has less than 10 MiB."""
_KEY = "manyheads-model"
_STUDY_FORMAT = "manyheads-study-1"
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_HALVES = (torch.float16, torch.bfloat16)
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A model and the metadata of its file."""

    model: nn.Module
    """The model in evaluation mode on the CPU, in float32 (float64 if the file has float64)."""
    config: ModelConfig
    """Kind and sizes."""
    facts: Mapping[str, Any]
    """Origin of the numbers: run, seed, losses, hashes."""
    sha256: str
    """Hash of the file, in hexadecimal digits."""
    size: int
    """Size of the file in bytes."""


def write_model(
    path: Path | str,
    model: nn.Module,
    *,
    facts: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> str:
    """Write a model; an existing file is replaced only when the new one is whole.

    Equal models and facts give equal bytes.

    Args:
        path: the file; its folder must exist.
        model: with a `config`, as those of `manyheads.models` have.
        facts: metadata that JSON can represent, such as the origin of the numbers.
        dtype: data type of the stored numbers.

    Returns:
        hash of the file, in hexadecimal digits.

    Raises:
        CheckpointError: a number is not finite in this type, or the file cannot be written.
    """
    config = model.config
    assert isinstance(config, ModelConfig)
    held = {
        name: tensor.detach().to(device="cpu", dtype=dtype, copy=True).contiguous()
        for name, tensor in model.state_dict().items()
    }
    for name, tensor in held.items():
        _check_finite(str(path), name, tensor)
    about = {"format": FORMAT, "config": config.to_dict(), "facts": dict(facts or {})}
    text = json.dumps(about, sort_keys=True, allow_nan=False, ensure_ascii=False)
    data = save(held, metadata={_KEY: text})
    write_model_file(Path(path), data)
    return hashlib.sha256(data).hexdigest()


def write_model_file(path: Path, data: bytes) -> None:
    """`core.files.write_whole`, with an error that names the path.

    Raises:
        CheckpointError: the file system refuses.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise CheckpointError(
            f"file ({path}) cannot be written ({reason_of(error)}): choose another folder, "
            "or make room"
        ) from error


def read_model(path: Path | str, *, sha256: str | None = None) -> ModelFile:
    """Read a model that `write_model` or a study wrote.

    Args:
        path: the file.
        sha256: expected hash, in hexadecimal digits; not checked if None.

    Raises:
        CheckpointError: the file is missing, too large, a pickle, damaged, changed or of another
            format.
    """
    path = Path(path)
    if path.suffix.lower() in _PICKLES:
        raise _pickle(path)
    data = read_whole(path, MAX_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    if sha256 is not None and digest != sha256:
        raise CheckpointError(
            f"file ({path}) has the hash {digest[:12]}, expected {sha256[:12]}: it was changed or "
            "damaged; restore it"
        )
    tensors, about = _parsed(path, data)
    config = _config(path, about.get("config"))
    model = _filled(path, config, tensors)
    facts = about.get("facts")
    found = facts if isinstance(facts, dict) else {}
    return ModelFile(model=model, config=config, facts=found, sha256=digest, size=len(data))


def read_whole(path: Path, limit: int) -> bytes:
    """Read a file of limited size.

    Args:
        path: the file.
        limit: maximum number of bytes.

    Raises:
        CheckpointError: the file does not exist, is not a regular file, or is larger.
    """
    try:
        if path.is_dir():
            raise CheckpointError(f"file ({path}) is a folder: give a file in it")
        if path.exists() and not path.is_file():
            raise CheckpointError(f"file ({path}) is not a regular file: give a model file")
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(
            f"file ({path}) cannot be read ({reason}): check the path and its permissions"
        ) from error
    if len(data) > limit:
        raise CheckpointError(f"file ({path}) has more than {limit:,} bytes: give a model file")
    return data


def _pickle(path: Path) -> CheckpointError:
    return CheckpointError(
        f"file ({path}) is a pickle, which can run code when it is opened, and is never read here: "
        "have the owner save it as .safetensors with manyheads.checkpoints.write_model"
    )


def _parsed(path: Path, data: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors, and the metadata of the file: "config" and "facts"."""
    try:
        tensors = load(data)
    except (SafetensorError, KeyError) as error:
        if data.startswith(_PICKLE_STARTS):  # only now: a header's length can look like this
            raise _pickle(path) from error
        raise CheckpointError(
            f"file ({path}) is damaged or not a safetensors file ({error}): restore it"
        ) from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = header.get("__metadata__") or {}
    try:
        if metadata.get("format") == _STUDY_FORMAT:
            if metadata["sha256"] != digest_from_tensors(tensors, metadata["facts"]):
                raise CheckpointError(
                    f"file ({path}) is damaged (its checksum is wrong): restore it"
                )
            facts = json.loads(metadata["facts"])
            return tensors, {"config": facts.pop("config"), "facts": facts}
        about = json.loads(metadata[_KEY])
        version = about["format"]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"file ({path}) is not a model file of manyheads: give one that "
            "manyheads.checkpoints.write_model or a study wrote"
        ) from error
    if version != FORMAT:
        raise CheckpointError(
            f"file ({path}) has format {quoted(version)}, expected {FORMAT}: update manyheads"
        )
    return tensors, about


def _config(path: Path, values: object) -> ModelConfig:
    try:
        if not isinstance(values, dict):
            raise ConfigError("it has no sizes: write the file with write_model")
        return ModelConfig.from_dict(values)
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"file ({path}) has no usable model config: {error}") from error


def _filled(path: Path, config: ModelConfig, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A model with these numbers; its sizes must fit the size of the file."""
    held = sum(tensor.numel() for tensor in tensors.values())
    if held != config.num_parameters:
        raise CheckpointError(
            f"file ({path}) holds {held:,} numbers, expected {config.num_parameters:,} of its "
            "sizes: restore it"
        )
    dtypes = {tensor.dtype for tensor in tensors.values()}
    if len(dtypes) != 1 or not dtypes <= set(_DTYPES):
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
        raise CheckpointError(
            f"file ({path}) holds {names}, expected one floating-point type: save all tensors as "
            f"one of {known}"
        )
    with torch.random.fork_rng(devices=[]):
        model = build_model(config)
    expected = model.state_dict()
    _check_names(path, set(expected), set(tensors))
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise CheckpointError(
                f"file ({path}), {name} has shape {tuple(tensor.shape)}, expected "
                f"{tuple(expected[name].shape)}: restore it"
            )
        _check_finite(str(path), name, tensor)
    dtype = dtypes.pop()
    model.to(torch.float32 if dtype in _HALVES else dtype)
    model.load_state_dict(tensors)
    return model.eval()


def _check_names(path: Path, expected: set[str], found: set[str]) -> None:
    wrong = [f"lacks {name}" for name in sorted(expected - found)]
    wrong += [f"has an unknown {brief(name)}" for name in sorted(found - expected)]
    if wrong:
        raise CheckpointError(f"file ({path}) {wrong[0]}: give a file of one whole model")


def _check_finite(path: str, name: str, tensor: Tensor) -> None:
    num_bad = int((~torch.isfinite(tensor)).sum())
    if num_bad:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise CheckpointError(
            f"file ({path}), {name} has {num_bad} numbers that are not finite in {kind}: "
            "train again, or keep it in float32"
        )
