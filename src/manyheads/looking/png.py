"""Attention weights as a PNG with a palette, without an image library."""

import base64
import struct
import zlib

import torch
from torch import Tensor

from manyheads.looking.terminal import colour

_LEVELS = 250
_HATCH, _BLANK = 251, 252
_GREY, _PALE = (200, 200, 200), (240, 240, 240)


def png_from_weights(weights: Tensor, blocked: Tensor | None = None) -> bytes:
    """A PNG, one pixel per weight; blocked pairs are hatched.

    Args:
        weights: (T, S), 0 to 1; the picture shows their square root, so that small ones are seen.
        blocked: (T, S), True where the mask allows no weight.
    """
    pixels = (weights.detach().float().clamp(0, 1).sqrt() * _LEVELS).round().to(torch.uint8)
    if blocked is not None:
        T, S = pixels.shape
        stripe = (torch.arange(T)[:, None] + torch.arange(S)) % 3 == 0
        hatch = torch.where(stripe, _HATCH, _BLANK).to(torch.uint8)
        pixels = torch.where(blocked.cpu(), hatch, pixels.cpu())
    rows = b"".join(b"\0" + row.tobytes() for row in pixels.cpu().numpy())
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 3, 0, 0, 0)
    palette = b"".join(bytes(colour(i / _LEVELS)) for i in range(_LEVELS + 1))
    palette += bytes(_GREY) + bytes(_PALE)
    parts = (
        (b"IHDR", header),
        (b"PLTE", palette),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def data_uri(png: bytes) -> str:
    """The picture as an address inside the page."""
    return "data:image/png;base64," + base64.b64encode(png).decode()
