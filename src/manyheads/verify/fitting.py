"""Fits steps of the formula to numbers: projections, norms, rotations, scores.

Nothing here knows of operations. Each function takes what goes in and what comes out, and returns
the settings of a step that makes one of the other, or None.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manyheads.attention.positions import rotate
from manyheads.attention.problem import RowNorm
from manyheads.core.config import Rotary, RotaryStyle
from manyheads.verify.gaps import relative_gap


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Weights of one kind: rows of heads as a linear function of rows of an input."""

    weight: Tensor
    """(N, E, width)."""
    bias: Tensor
    """(N, width)."""
    order: Tensor
    """(H,): which of the N projected heads each head of the core uses."""
    factor: float = 1.0
    """What the result is multiplied by before it is used."""
    norm: RowNorm | None = None
    """Normalisation after the projection."""
    rotary: Rotary | None = None
    """Rotation after that."""
    start: int = 0
    """Position of the first row in the rotation."""
    is_norm_last: bool = False
    """Whether the rows are normalised after the rotation instead of before."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """From the product of queries and keys to weights."""

    factor: float
    """What every product is multiplied by."""
    allowed: Tensor
    """(T, S), or (B, T, S) where samples differ."""
    softcap: float | None = None
    """Soft cap of the scores."""
    bias: Tensor | None = None
    """(H, T, S), added to the scores."""
    sinks: Tensor | None = None
    """(H,), a score without a value."""


def solved(x: Tensor, y: Tensor, tolerance: float) -> tuple[Tensor, Tensor] | None:
    """Weight and bias with y = x weight + bias; None where no such pair fits.

    Args:
        x: (n, in), n > in + 1.
        y: (n, out).
        tolerance: largest relative difference.
    """
    if not (torch.isfinite(x).all() and torch.isfinite(y).all()):
        return None
    ones = torch.cat((x, x.new_ones(x.shape[0], 1)), dim=1)
    solution = torch.linalg.lstsq(ones, y).solution
    if relative_gap(ones @ solution, y) > tolerance:
        return None
    return solution[:-1], solution[-1]


def is_unit(made: tuple[Tensor, Tensor]) -> bool:
    """Whether rows are the input itself, or columns of it."""
    weight, bias = made
    return float((weight.sort(0).values[:-1]).abs().max()) < 1e-9 > float(bias.abs().max())


def whole_rows(used: Tensor, base: Tensor, tolerance: float) -> Rows | None:
    """Weights of rows that are made of the input in several operations."""
    heads, width = used.shape[1], used.shape[3]
    rows = used.transpose(1, 2).flatten(2).flatten(0, 1)
    whole = solved(base.flatten(0, 1), rows, tolerance)
    if whole is None:
        return None
    return Rows(
        weight=whole[0].unflatten(1, (heads, width)).transpose(0, 1),
        bias=whole[1].unflatten(0, (heads, width)),
        order=torch.arange(heads),
    )


_EPS = (
    0.0,
    1e-12,
    1e-8,
    1e-6,
    1e-5,
    1e-3,
    torch.finfo(torch.float32).eps,
    torch.finfo(torch.float64).eps,
)


def fitted_norm(x: Tensor, y: Tensor, over: str, tolerance: float) -> RowNorm | None:
    """The norm that makes rows y of rows x; None where none does."""
    ones = x.new_ones(x.shape[-1])
    for kind in ("rms", "layer", "l2"):
        if _gained(RowNorm(kind=kind, over=over, eps=1e-6, gain=ones), y, x, 0.02) is None:
            continue
        for eps in _EPS:
            found = _gained(RowNorm(kind=kind, over=over, eps=eps, gain=ones), y, x, tolerance)
            if found is not None:
                return found
    return None


def _gained(norm: RowNorm, y: Tensor, x: Tensor, tolerance: float) -> RowNorm | None:
    """A norm with the gain and shift that take it from rows x to rows y."""
    flat_x, flat_y = norm.of(x).flatten(0, -2), y.flatten(0, -2)
    mean_x, mean_y = flat_x.mean(0), flat_y.mean(0)
    spread = (flat_x - mean_x).square().sum(0)
    gain = ((flat_x - mean_x) * (flat_y - mean_y)).sum(0) / spread
    shift = mean_y - gain * mean_x
    if relative_gap(flat_x * gain + shift, flat_y) > tolerance:
        return None
    has_shift = float(shift.abs().max()) > tolerance * float(flat_y.abs().max())
    return replace(norm, gain=gain, shift=shift if has_shift else None)


def explained(
    projected: Tensor, used: Tensor, tolerance: float, between: Iterator[Tensor]
) -> Rows | None:
    """How used heads (B, H, S, d) are made of projected ones (B, G, S, d).

    Returns:
        order of heads, factor, norm and rotation, without weights; None where nothing that is
        known explains it.
    """
    blank = Rows(weight=projected, bias=projected, order=torch.zeros(0))
    later = list(between)
    for stage, norm in _stages(projected, tolerance, later):
        simple = _same_heads(stage, used, tolerance)
        if simple is not None:
            return replace(blank, order=simple[0], factor=simple[1], norm=norm)
        turned = _rotated(stage, used, tolerance)
        if turned is not None:
            order, rotary, start, factor = turned
            return replace(blank, order=order, norm=norm, rotary=rotary, start=start, factor=factor)
    return _turned_then_normed(blank, used, tolerance, later)


def _turned_then_normed(
    blank: Rows, used: Tensor, tolerance: float, later: list[Tensor]
) -> Rows | None:
    """How used heads are made of projected ones by a rotation and a norm after it."""
    projected = blank.weight
    stages = [x.unflatten(2, (projected.shape[1], projected.shape[3])) for x in later]
    for i, rows in enumerate(stages):
        turned = _rotated(projected, rows.transpose(1, 2), tolerance)
        if turned is None or abs(turned[3] - 1.0) > 1e-6:
            continue
        for normed in stages[i + 1 :]:
            norm = fitted_norm(rows, normed, "head", tolerance)
            simple = _same_heads(normed.transpose(1, 2), used, tolerance) if norm else None
            if simple is not None:
                made = replace(blank, order=simple[0], factor=simple[1], norm=norm)
                return replace(made, rotary=turned[1], start=turned[2], is_norm_last=True)
    return None


def _stages(
    projected: Tensor, tolerance: float, between: list[Tensor]
) -> Iterator[tuple[Tensor, RowNorm | None]]:
    """Projected heads, and what norms make of them."""
    yield projected, None
    groups, width = projected.shape[1], projected.shape[3]
    rows = projected.transpose(1, 2)  # (B, S, G, d)
    for later in between:
        heads = later.unflatten(2, (groups, width))
        norm = fitted_norm(rows, heads, "head", tolerance)
        if norm is None and groups > 1:
            norm = _norm_of_each(rows, heads, tolerance)
        if norm is None and groups > 1:
            norm = fitted_norm(rows.flatten(2), later, "all", tolerance)
        if norm is not None:
            yield heads.transpose(1, 2), norm


def _norm_of_each(x: Tensor, y: Tensor, tolerance: float) -> RowNorm | None:
    """A norm (B, S, G, d) with a gain of its own for each head."""
    norms = []
    for g in range(x.shape[2]):
        norm = fitted_norm(x[:, :, g], y[:, :, g], "head", tolerance)
        if norm is None or norm.shift is not None:
            return None
        norms.append(norm)
    if len({(norm.kind, norm.eps) for norm in norms}) > 1:
        return None
    return replace(norms[0], gain=torch.stack([norm.gain for norm in norms])[:, None])


def _ratio(x: Tensor, y: Tensor) -> float:
    """The factor that takes x to y, by least squares."""
    size = float((x * x).sum())
    return float((x * y).sum()) / size if size else 0.0


def _same_heads(projected: Tensor, used: Tensor, tolerance: float) -> tuple[Tensor, float] | None:
    """Which projected head each used head is, and one factor for all."""
    order: list[int] = []
    factor: float | None = None
    for h in range(used.shape[1]):
        match = None
        for g in range(projected.shape[1]):
            c = _ratio(projected[:, g], used[:, h])
            if c and relative_gap(projected[:, g] * c, used[:, h]) <= tolerance:
                match = (g, c)
                break
        if match is None or (factor is not None and abs(match[1] / factor - 1) > 1e-6):
            return None
        order.append(match[0])
        factor = match[1] if factor is None else factor
    assert factor is not None
    return torch.tensor(order), factor


_STYLES: tuple[RotaryStyle, ...] = ("half", "interleaved")


def _rotated(
    projected: Tensor, used: Tensor, tolerance: float
) -> tuple[Tensor, Rotary, int, float] | None:
    """The rotation that takes projected heads to used ones, with heads in order or repeated."""
    heads, width = used.shape[1], used.shape[3]
    groups = projected.shape[1]
    orders = [torch.arange(heads) // (heads // groups)]
    if groups not in (1, heads):
        orders.append(torch.arange(heads) % groups)
    for order in orders:
        x = projected[:, order]
        for dim in _widths(x, used, width):
            for style in _STYLES:
                found = _angles(x[..., :dim], used[..., :dim], style, tolerance)
                for rotary, start, factor in () if found is None else _rotations(style, *found):
                    rotary = replace(rotary, dim=None if dim == width else dim)
                    made = rotate(x * factor, rotary, start)
                    if relative_gap(made, used) <= max(tolerance, 1e-8):
                        return order, rotary, start, factor
    return None


def _rotations(
    style: RotaryStyle, steps: Tensor, start: int, factor: float
) -> Iterator[tuple[Rotary, int, float]]:
    """Rotations with these radians per position, with the factor of all scores apart from it.

    Frequencies of no base are those of scaled positions (linear, YaRN, Llama 3, LongRoPE) only if
    they fall from pair to pair and are at most those of a base.
    """
    half = len(steps)
    base = 10000.0 if half == 1 else float((steps[0] / steps[1]) ** half)
    base = float(round(base)) if abs(base - round(base)) < 1e-3 * base * 1e-2 else base
    if not base > 0:
        return
    yield Rotary(style=style, base=base), start, factor
    if not (bool((steps > 0).all()) and bool((steps.diff() <= 0).all()) and float(steps[0]) < 1.1):
        return
    own = Rotary(style=style, frequencies=tuple(steps.tolist()))
    if factor > 1.0 + 1e-6:  # as the attention factor of YaRN and LongRoPE; scales are below one
        yield replace(own, magnitude=factor), start, 1.0
    yield own, start, factor


def is_same_rotary(one: Rotary, other: Rotary) -> bool:
    """Whether two rotations are equal within rounding of their frequencies."""
    if one.frequencies is None or other.frequencies is None:
        return one == other
    pairs = zip(one.frequencies, other.frequencies, strict=False)
    plain = [replace(r, frequencies=None, magnitude=1.0) for r in (one, other)]
    is_close = all(math.isclose(a, b, rel_tol=1e-6) for a, b in pairs)
    return is_close and plain[0] == plain[1] and abs(one.magnitude - other.magnitude) < 1e-6


def _widths(x: Tensor, used: Tensor, width: int) -> list[int]:
    """How many channels may be rotated: those that change."""
    same = [c for c in range(width) if relative_gap(used[..., c], x[..., c]) <= 1e-9]
    first = min(same) if same and same == list(range(min(same), width)) else width
    return [first] if first % 2 == 0 and first else []


def _angles(
    x: Tensor, y: Tensor, style: RotaryStyle, tolerance: float
) -> tuple[Tensor, int, float] | None:
    """Radians per position, first position and factor of a rotation; None where it is none."""

    def pairs(z: Tensor) -> Tensor:
        one, two = z.chunk(2, -1) if style == "half" else (z[..., ::2], z[..., 1::2])
        return torch.complex(one, two)

    ratio = pairs(y) / pairs(x)  # (B, H, S, half)
    turn = ratio.mean((0, 1))  # (S, half)
    if not float((ratio - turn).abs().max()) <= max(tolerance * 1e3, 1e-7):  # nor NaN
        return None
    size = turn.abs()
    factor = float(size.mean())
    if float((size - factor).abs().max()) > 1e-6 * factor or turn.shape[0] < 2:
        return None
    steps = (turn[1:] / turn[:-1]).angle()  # the same from each position to the next
    step = steps[0]
    turns = torch.polar(torch.ones_like(steps), steps)
    if float((turns - turns[0]).abs().max()) > 1e-6:
        return None
    if abs(float(step[0])) < 1e-9:
        return None
    return steps.mean(0), round(float(turn[0, 0].angle()) / float(step[0])), factor


def fitted_scores(
    raw: Tensor, weights: Tensor, tolerance: float, caps: list[float]
) -> Scores | None:
    """What makes weights (B, H, T, S) of products; None where nothing known does.

    Weights are compared by their logarithms, so it does not matter how the softmax is written.
    """
    allowed = _allowed(weights)
    if allowed is None:
        return None
    logs = weights.clamp_min(1e-300).log()
    first = allowed.to(torch.int64).argmax(-1)[:, None, :, None].expand(*raw.shape[:3], 1)
    for scale, cap, scores in _capped(raw, caps):
        found = _fit(scores, logs, first, allowed, tolerance, is_fixed=cap is not None)
        if found is None:
            continue
        factor, bias = found
        made = scores * factor if bias is None else scores * factor + bias
        sinks = _sinks(made, weights, allowed, tolerance)
        if sinks is False:
            return None
        same = bool((allowed == allowed[:1]).all())
        return Scores(
            factor=factor if cap is None else scale,
            allowed=allowed[0] if same else allowed,
            softcap=cap,
            bias=bias,
            sinks=sinks if isinstance(sinks, Tensor) else None,
        )
    return None


def _allowed(weights: Tensor) -> Tensor | None:
    """Which keys have a weight, (B, T, S).

    None where heads differ, where a row has no weight at all, or where these are no weights.
    """
    if not torch.isfinite(weights).all() or bool((weights < 0).any()):
        return None
    seen = weights > 0
    allowed = seen.any(1)
    is_same = bool((seen == allowed[:, None]).all())
    return allowed if is_same and bool(allowed.any(-1).all()) else None


def _capped(raw: Tensor, caps: list[float]) -> Iterator[tuple[float, float | None, Tensor]]:
    """Scores with every possible soft cap, then without: scale, cap and scores."""
    for cap in caps:
        for scale in scales_of(caps):
            yield scale, cap, cap * (raw * scale / cap).tanh()
    yield 1.0, None, raw


def with_zeros(scores: Scores | None, weights: Tensor) -> Scores | None:
    """Scores with keys hidden where weights are zero, as after a mask in the wrong place."""
    if scores is None or not bool(scores.allowed.all()):
        return scores
    seen = (weights != 0).any(1)
    return replace(scores, allowed=seen[0]) if bool((seen == seen[:1]).all()) else scores


def is_softmax_of(scores: Tensor, weights: Tensor) -> bool:
    """Whether weights are a softmax of scores over the keys that have any."""
    made = scores.masked_fill(weights == 0, -math.inf).softmax(-1)
    return relative_gap(made, weights) < 1e-8


def wrong_cap(raw: Tensor, weights: Tensor, caps: list[float]) -> str | None:
    """What is written in place of a soft cap c tanh(s / c)."""
    for cap in caps:
        for scale in scales_of(caps):
            s = raw * scale
            for says, made in (
                (f"s tanh(s / {cap:.4g})", s * (s / cap).tanh()),
                (f"tanh(s / {cap:.4g})", (s / cap).tanh()),
                (f"{cap:.4g} tanh(s)", cap * s.tanh()),
                (f"s / {cap:.4g} tanh(s)", s / cap * s.tanh()),
            ):
                if is_softmax_of(made, weights):
                    return f"the soft cap is written as {says} instead of c tanh(s / c)"
    return None


def scales_of(numbers: list[float]) -> list[float]:
    """Factors that scores may be multiplied by before a soft cap, no scale included."""
    return list(dict.fromkeys([1.0, *numbers]))


def _fit(
    scores: Tensor,
    logs: Tensor,
    first: Tensor,
    allowed: Tensor,
    tolerance: float,
    is_fixed: bool,
) -> tuple[float, Tensor | None] | None:
    """Factor and bias with which a softmax of scores has these logarithms."""
    keep = allowed[:, None].expand(scores.shape)
    s = (scores - scores.gather(-1, first)) * keep
    g = (logs - logs.gather(-1, first)) * keep
    everywhere = keep.all(0) if bool((keep == keep[:1]).all()) else None
    limit = max(tolerance * 10, 1e-8)
    factor = 1.0 if is_fixed else _ratio(s, g)
    if float((g - s * factor).abs().max()) <= limit * max(float(g.abs().max()), 1.0):
        return factor, None
    if everywhere is None:
        return None
    ds, dg = s - s.mean(0), g - g.mean(0)
    factor = 1.0 if is_fixed else _ratio(ds, dg)
    bias = (g - s * factor).mean(0)
    if float((g - s * factor - bias).abs().max()) > limit * max(float(g.abs().max()), 1.0):
        return None
    return factor, bias * everywhere


def _sinks(made: Tensor, weights: Tensor, allowed: Tensor, tolerance: float) -> Tensor | bool:
    """The scores of sinks (H,), True for none, False where the rows' sums have no such reason."""
    masked = made.masked_fill(~allowed[:, None], -math.inf)
    total = weights.sum(-1)
    if float((total - 1.0).abs().max()) <= max(tolerance * 10, 1e-9):
        return True
    limit = max(tolerance * 10, 1e-9)
    if bool((total > 1.0 + limit).any()):
        return False
    # The total is Z / (Z + e^sink), where Z is the sum over the keys. Where the rest is small, its
    # logarithm is not exact, so the mean is weighted and the totals are compared.
    rest = (1.0 - total).clamp_min(1e-12)
    keys = masked.logsumexp(-1)
    sink = ((keys + (rest / total).log()) * rest).sum((0, 2)) / rest.sum((0, 2))
    expected = (keys - sink[None, :, None]).sigmoid()
    return sink if float((expected - total).abs().max()) <= limit else False
