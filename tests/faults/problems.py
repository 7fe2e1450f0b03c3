"""Standard problems: between them, every reading of every known fault makes a difference on one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.positions import published_slopes
from manyheads.attention.problem import GivenMask, Problem, RowNorm
from manyheads.core.config import Rotary
from manyheads.core.variants import RotaryScaling
from manyheads.core.weights import HeadWeights
from tests.factories import random_like


def weights_of(
    heads: int, groups: int, width: int, d: int, *, k: int | None = None, v: int | None = None
) -> HeadWeights:
    """Weights of which none is zero; scores have a deviation of about one and a half."""
    shapes = {
        "w_q": (heads, width, d), "w_k": (groups, k or width, d), "w_v": (groups, v or width, d),
        "w_o": (heads, d, width), "b_q": (heads, d), "b_k": (groups, d), "b_v": (groups, d),
        "b_o": (width,),
    }  # fmt: skip
    drawn = {n: random_like(i, *shape) for i, (n, shape) in enumerate(shapes.items())}
    return HeadWeights(
        **{n: t * (1.3 / width**0.5 if n[0] == "w" else 0.5) for n, t in drawn.items()}
    )


def problem_of(
    batch: int = 2,
    queries: int = 5,
    *,
    heads: int = 3,
    groups: int | None = None,
    d: int = 4,
    **more: Any,
) -> Problem:
    """One tensor as query, key and value input unless given others; width H * d."""
    x = random_like(40 + queries, batch, queries, heads * d)
    given = {"x_q": x, "x_k": x, "x_v": x, "scale": d**-0.5} | more
    return Problem(
        weights=given.pop("weights", weights_of(heads, groups or heads, heads * d, d)),
        num_heads=heads, num_kv_heads=groups or heads, **given,
    )  # fmt: skip


def key_mask(*rows: str) -> GivenMask:
    """A mask of keys, one row a sample, 1 = may attend."""
    allowed = torch.tensor([[c == "1" for c in row] for row in rows])[:, None]
    return GivenMask(allowed=allowed, axes="BS", convention="allowed")


def full_mask(batch: int, queries: int, keys: int) -> GivenMask:
    """A random mask a sample that leaves every query the first key and its own."""
    allowed = random_like(77, batch, queries, keys) > 0
    allowed[:, :, 0] = True
    allowed[:, torch.arange(queries), torch.arange(queries)] = True
    return GivenMask(allowed=allowed, axes="BTS", convention="allowed")


def _other(batch: int, keys: int, width: int = 12, seed: int = 60) -> Tensor:
    return random_like(seed, batch, keys, width)


_MASKED = (key_mask("11010", "01111"),)
_LENGTHS = (1, 2, 3, 2)


def _weighted() -> Iterator[tuple[str, Problem]]:
    yield "plain", problem_of()
    yield "batch, heads and length equal", problem_of(3, 3)
    yield "square heads", problem_of(3, 4)
    yield "one head", problem_of(heads=1)
    for arrangement in ("packed", "packed_per_head", "packed_kv", "mha"):
        yield arrangement, problem_of(arrangement=arrangement)
    for layout in ("TBE", "BET"):
        yield layout, problem_of(layout=layout)
    yield "grouped", problem_of(heads=6, groups=2, d=2)
    yield "six heads", problem_of(heads=6, d=2)
    yield "long", problem_of(2, 70)
    yield "cross", problem_of(x_k=(c := _other(2, 7)), x_v=c)
    yield "query, key and value", problem_of(x_k=_other(2, 7), x_v=_other(2, 7, seed=61))
    yield (
        "query, key and value of a length",
        problem_of(x_k=_other(2, 5), x_v=_other(2, 5, seed=61)),
    )


def _thrice(mask: GivenMask) -> tuple[GivenMask, ...]:
    """The mask and two that hide only what another sample's row of it hides."""
    turned = (
        mask.allowed.roll(i, dims=0) | (torch.arange(mask.allowed.shape[2]) % 2 == 1)
        for i in (1, 2)
    )
    return (mask, *(replace(mask, allowed=allowed) for allowed in turned))


def _masked() -> Iterator[tuple[str, Problem]]:
    full = full_mask(2, 5, 5)
    yield "key mask", problem_of(masks=_MASKED)
    yield "full mask", problem_of(masks=(full,))
    three = (*_MASKED, full, key_mask("10111", "11101"))
    yield "three masks", problem_of(masks=three)
    yield "two key masks", problem_of(masks=(three[0], three[2]))
    yield "three samples as heads", problem_of(3, 5, masks=(key_mask("11010", "01111", "10110"),))
    square = key_mask("11010", "01111", "10110", "11101", "00111")
    yield "samples as queries", problem_of(5, 5, masks=(square,))
    yield "samples as queries, three masks", problem_of(5, 5, masks=_thrice(square))
    three_samples = key_mask("11010", "01111", "10110")
    yield "three samples as heads, three masks", problem_of(3, 5, masks=_thrice(three_samples))
    yield "causal", problem_of(is_causal=True)
    yield "causal, more keys", problem_of(x_k=(c := _other(2, 8)), x_v=c, is_causal=True)
    yield "causal and masks", problem_of(is_causal=True, masks=(key_mask("11010", "10111"),))
    yield "window", problem_of(2, 7, is_causal=True, window=3)
    yield "window, not asked to be causal", problem_of(2, 7, window=3)


def _placed() -> Iterator[tuple[str, Problem]]:
    for style in ("half", "interleaved"):
        rotary = Rotary(style=style, base=100.0)  # type: ignore[arg-type]  # one of the two
        yield f"rotary {style}", problem_of(rotary=rotary)
        yield (
            f"rotary {style}, pieces",
            problem_of(2, 8, rotary=rotary, is_causal=True, chunks=_LENGTHS),
        )
        yield (
            f"rotary {style}, more keys",
            problem_of(rotary=rotary, x_k=(c := _other(2, 8)), x_v=c),
        )
    yield "pieces", problem_of(2, 8, is_causal=True, chunks=_LENGTHS)
    yield "pieces, causal not asked for", problem_of(2, 8, chunks=_LENGTHS)
    yield "linear bias", problem_of(heads=3, slopes=published_slopes(3))
    yield "linear bias of six heads", problem_of(heads=6, d=2, slopes=published_slopes(6))
    yield "linear bias of four heads", problem_of(heads=4, d=3, slopes=published_slopes(4))


def _with_options() -> Iterator[tuple[str, Problem]]:
    yarn = RotaryScaling(type="yarn", factor=4.0, original_length=16)
    rotary = Rotary(base=100.0, scaling=yarn)
    for over, width in (("head", 4), ("all", 12)):
        gain = 1.0 + 0.5 * random_like(30, width)
        norm = RowNorm(kind="rms", over=over, eps=1e-6, gain=gain)
        norms = {"q": norm, "k": replace(norm, gain=gain.flip(0))}
        yield f"norm over {over}", problem_of(norms=norms, rotary=Rotary(base=100.0))
    yield "soft-cap and sinks", problem_of(softcap=0.5, sinks=random_like(31, 3), is_causal=True)
    part = Rotary(base=100.0, dim=4)
    yield "part of the channels rotated", problem_of(heads=2, d=6, rotary=part)
    yield "scaled rotary", problem_of(rotary=rotary)
    plain = weights_of(3, 3, 12, 4)
    yield "gate", problem_of(weights=replace(plain, w_g=random_like(32, 3, 12, 4)))


def _bare() -> Iterator[tuple[str, Problem]]:
    q, k, v = (random_like(80 + i, 2, 3, t, 4) for i, t in enumerate((5, 7, 7)))
    heads = Problem(x_q=q, x_k=k, x_v=v, weights=None, num_heads=3, num_kv_heads=3, scale=0.5)
    yield "heads", heads
    yield "causal heads", replace(heads, is_causal=True)


STANDARD: dict[str, Problem] = {
    name: problem
    for family in (_weighted, _masked, _placed, _with_options, _bare)
    for name, problem in family()
}
"""All of them by name."""
