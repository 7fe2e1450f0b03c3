"""How positions enter attention: a rotation of q and k (rotary), or a linear bias on the scores."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.core.config import LinearBias, Rotary
from manyheads.core.variants import RotaryScaling


def rotary_frequencies(
    rotary: Rotary, width: int, device: torch.device | None = None
) -> Float[Tensor, " half"]:
    """Radians per position of each channel pair, in float64.

    Args:
        rotary: base and scaling.
        width: channels that are rotated; even.
        device: where to make them.

    Source: Su et al. 2021, arXiv:2104.09864, section 3.2.2; scaled as in `RotaryScaling`.
    """
    if rotary.frequencies is not None:
        return torch.tensor(rotary.frequencies, dtype=torch.float64, device=device)
    exponent = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    scaling, base = rotary.scaling, rotary.base
    if scaling is not None and scaling.type == "ntk":
        base = base * scaling.factor ** (width / max(1, width - 2))
    frequencies: Tensor = base**-exponent
    if scaling is None or scaling.type == "ntk":
        return frequencies
    kept = _part_kept(scaling, rotary.base, frequencies, width)
    return kept * frequencies + (1.0 - kept) * frequencies / scaling.factor


def _part_kept(scaling: RotaryScaling, base: float, frequencies: Tensor, width: int) -> Tensor:
    """How much of each frequency stays, from 0 (divided by the factor) to 1 (as it was)."""
    if scaling.original_length is None:
        return torch.zeros_like(frequencies)
    if scaling.type == "llama3":
        turns = scaling.original_length * frequencies / (2.0 * math.pi)
        low, high = scaling.low_freq_factor, scaling.high_freq_factor
        return ((turns - low) / (high - low)).clamp(0.0, 1.0)
    first, last = (
        width * math.log(scaling.original_length / (beta * 2.0 * math.pi)) / (2.0 * math.log(base))
        for beta in (scaling.beta_fast, scaling.beta_slow)
    )
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    pair = torch.arange(width // 2, dtype=torch.float64, device=frequencies.device)
    gap = last - first if last != first else 0.001  # as in the published code
    return 1.0 - ((pair - first) / gap).clamp(0.0, 1.0)


def rotary_angles(
    rotary: Rotary, width: int, start: int, length: int, device: torch.device
) -> Float[Tensor, "T half"]:
    """Angles in radians of positions start to start + length - 1, one per channel pair, in float64.

    Args:
        rotary: base and scaling.
        width: channels that are rotated; even.
        start: position of the first row.
        length: T.
        device: where to make them.

    Source: Su et al. 2021, arXiv:2104.09864, section 3.2.2.
    """
    position = torch.arange(start, start + length, dtype=torch.float64, device=device)
    return torch.outer(position, rotary_frequencies(rotary, width, device))


def rotate(x: Float[Tensor, "B N T d"], rotary: Rotary, start: int) -> Float[Tensor, "B N T d"]:
    """Rotate each channel pair of x by the angle of its position.

    Half types are rotated in float32 and rounded once.

    Args:
        x: queries or keys of N heads, (B, N, T, d).
        rotary: base, pairing and rotated width.
        start: position of the first row.
    """
    width = x.shape[-1] if rotary.dim is None else rotary.dim
    work = x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32
    angles = rotary_angles(rotary, width, start, x.shape[-2], x.device)
    cos, sin = angles.cos(), angles.sin()  # (T, width / 2)
    magnitude = rotary.magnitude * (1.0 if rotary.scaling is None else rotary.scaling.magnitude)
    if magnitude != 1.0:
        cos, sin = cos * magnitude, sin * magnitude
    cos, sin = cos.to(work), sin.to(work)
    turned = x[..., :width].to(work)
    if rotary.style == "half":
        first, second = turned.chunk(2, dim=-1)
    else:
        first, second = turned[..., ::2], turned[..., 1::2]
    pair = (first * cos - second * sin, first * sin + second * cos)
    is_half = rotary.style == "half"
    joined = torch.cat(pair, dim=-1) if is_half else torch.stack(pair, dim=-1).flatten(-2)
    joined = joined.to(x.dtype)
    return joined if width == x.shape[-1] else torch.cat((joined, x[..., width:]), dim=-1)


def published_slopes(num_heads: int) -> tuple[float, ...]:
    """Slopes of the linear bias, one per head, in score units per position.

    For n heads, n a power of two: 2^(-8/n), 2^(-16/n), ... to 2^-8. Otherwise those of the next
    lower power of two, then every other one of the next higher.

    Source: Press et al. 2022, arXiv:2108.12409, section 3, and their published code.
    """
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / power) for i in range(num_heads - power)]
    return tuple(slopes)


def t5_buckets(
    distance: Int[Tensor, "T S"], buckets: int, max_distance: int, *, is_bidirectional: bool
) -> Int[Tensor, "T S"]:
    """The row of the table of biases that each pair of positions uses, (T, S).

    Half of the buckets hold one distance each; the others grow with its logarithm.

    Args:
        distance: position of the key minus that of the query, (T, S).
        buckets: number of rows of the table.
        max_distance: from this distance on all share the last bucket.
        is_bidirectional: whether later keys have buckets of their own, the second half.

    Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1, and their published code.
    """
    first = torch.zeros_like(distance)
    if is_bidirectional:
        buckets //= 2
        first = (distance > 0).long() * buckets
        far = distance.abs()
    else:
        far = (-distance).clamp(min=0)
    exact = buckets // 2
    growth = math.log(max_distance / exact)
    large = torch.log(far.clamp(min=1).float() / exact) / growth * (buckets - exact)
    bucket = (exact + large.long()).clamp(max=buckets - 1)
    return first + torch.where(far < exact, far, bucket)


def bias_slopes(bias: LinearBias, num_heads: int, like: Tensor) -> Float[Tensor, " H"]:
    """The slopes of a layer as a tensor of the dtype and device of `like`, (H,).

    Args:
        bias: the given slopes, or None for the published ones.
        num_heads: H.
        like: the tensor whose dtype and device are taken.
    """
    slopes = published_slopes(num_heads) if bias.slopes is None else bias.slopes
    return torch.tensor(slopes, dtype=like.dtype, device=like.device)
