"""Saved tensors of a study: safetensors with a checksum over numbers and facts."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from manyheads.checkpoints.files import digest_from_tensors
from manyheads.core.errors import StudyError
from manyheads.study.folder import write_bytes

FORMAT = "manyheads-study-1"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a run; together with parameters and moments, everything that resuming needs."""

    step: int = 0
    """Steps taken."""
    loss_sum: float = 0.0
    """Sum of training losses since the last validation, in nats."""
    loss_targets: int = 0
    """Targets of that sum."""
    tokens_seen: int = 0
    """Targets trained on."""
    seconds: float = 0.0
    """Wall time of all steps and validations so far."""
    cpu_seconds: float = 0.0
    """Processor time of the same, over all threads of the first process."""
    best_step: int = 0
    """Step of the best validation loss; 0 before the first."""
    best_loss: float | None = None
    """The best validation loss, in nats per target."""
    best_sha256: str = ""
    """Hash of the weights file of that step."""
    trace: tuple[Mapping[str, Any], ...] = ()
    """One entry per validation: step, train_loss, validation_loss, learning_rate."""

    def to_dict(self) -> dict[str, Any]:
        """The progress as numbers and lists."""
        return asdict(self) | {"trace": [dict(entry) for entry in self.trace]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Progress":
        """Build a progress from the result of `to_dict`."""
        return cls(**{**values, "trace": tuple(values["trace"])})


def save_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    """Write tensors and metadata to one file, under a temporary name that is then renamed.

    Args:
        path: the file.
        tensors: by name.
        facts: metadata that JSON can represent.

    Returns:
        the file's hash, in hexadecimal digits.

    Raises:
        StudyError: the file system refuses.
    """
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(facts, allow_nan=False)
    digest = digest_from_tensors(held, text)
    data = _sorted(save(held, metadata={"format": FORMAT, "facts": text, "sha256": digest}))
    write_bytes(path, data)
    return sha256(data).hexdigest()


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote.

    Returns:
        tensors by name, on the CPU, and metadata.

    Raises:
        StudyError: the file is missing, damaged, or of another format.
    """
    try:
        with safe_open(path, framework="pt") as stream:
            metadata = dict(stream.metadata() or {})
            tensors = {name: stream.get_tensor(name).clone() for name in stream.keys()}  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError) as error:
        raise StudyError(f"file ({path}) is damaged ({error}): {_ADVICE}") from error
    text = metadata.get("facts", "")
    if metadata.get("format") != FORMAT:
        raise StudyError(f"file ({path}) was not written by a study: {_ADVICE}")
    if metadata.get("sha256") != digest_from_tensors(tensors, text):
        raise StudyError(f"file ({path}) is damaged (its checksum is wrong): {_ADVICE}")
    facts = json.loads(text)
    assert isinstance(facts, dict)
    return tensors, facts


def _sorted(data: bytes) -> bytes:
    """The same file with the header's keys sorted; the library writes them in any order."""
    size = int.from_bytes(data[:8], "little")
    text = json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True, separators=(",", ":"))
    header = text.encode()
    header += b" " * (-len(header) % 8)  # numbers begin at a multiple of 8 bytes
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


_ADVICE = "restore it, or delete it to restart that run; other runs are intact"
