"""The checksum that a study's files of tensors carry: over names, types, shapes, numbers, facts."""

from collections.abc import Mapping
from hashlib import sha256

import torch
from torch import Tensor


def digest_from_tensors(tensors: Mapping[str, Tensor], text: str) -> str:
    """Hash of tensors and of the text that belongs to them, in hexadecimal digits.

    Args:
        tensors: by name, on the processor, contiguous.
        text: the facts as JSON text.
    """
    found = sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
