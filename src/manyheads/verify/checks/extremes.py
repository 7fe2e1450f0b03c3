"""Extreme numbers: large scores in float64, and products that overflow in float16."""

import math

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.verify.calling import first_line
from manyheads.verify.checks.precision import put, rounded
from manyheads.verify.context import RIGHT, Context, changed_inputs, relative_gap
from manyheads.verify.findings import Severity, found


def check_large_inputs(ctx: Context) -> None:
    """Large scores must give finite output: the softmax has to subtract the maximum."""
    base = ctx.maker.plain(2, 6, seed=105)
    scores = _largest_score(ctx, base)
    factor = math.sqrt(4000.0 / max(scores, 1e-3))
    problem = _times(base, factor)
    outcome = ctx.put(problem)
    if outcome.output is None:
        ctx.skipped("large inputs", f"the call raises {outcome.raised}")
        return
    if any(f.fault == "half-overflow" for f in ctx.findings):
        return
    if not torch.isfinite(outcome.output).all():
        says = (
            f"with scores up to about 4,000 the output holds {_not_finite(outcome.output)}: the "
            "softmax overflows"
        )
        fix = "subtract the largest score of each row before the exponential"
        ctx.failed("large inputs", found(None, "large inputs", says, fix=fix))
        return
    figure = None
    if ctx.located is not None:
        figure = relative_gap(outcome.output, ctx.answer(problem).output)
        if figure > max(ctx.tolerance * 1e4, 1e-7) and not any(
            (c.gap or 0) > ctx.tolerance for c in ctx.cases
        ):
            says = (
                f"with scores up to about 4,000 the output differs by {figure:.3g} of the largest, "
                "with small ones it is right"
            )
            ctx.failed("large inputs", found(None, "large inputs", says, gap=figure), figure)
            return
    ctx.passed("large inputs", "scores up to about 4,000 give finite output", figure)


def _not_finite(x: Tensor) -> str:
    return f"{int((~torch.isfinite(x)).sum())} of {x.numel()} numbers that are not finite"


def _times(problem: Problem, factor: float) -> Problem:
    return changed_inputs(problem, lambda x: x * factor)


def _largest_score(ctx: Context, problem: Problem) -> float:
    """The largest score of a problem; a rough guess where the weights are not known."""
    if ctx.located is None:
        return 3.0
    with torch.no_grad():
        q, k, _ = RIGHT.heads(problem)
        q, k = RIGHT.turn(problem, q, k)
        # the largest above zero: one far below it overflows to -inf, and its weight to a right 0
        return float(RIGHT.scores(problem, q, RIGHT.group(problem, k)).max())


def check_half_range(ctx: Context) -> None:
    """Large inputs in float16 must not overflow where plain code does not.

    Nor where float32 inside is declared.
    """
    if ctx.values_are_wrong:
        ctx.skipped("float16 range", "the values differ already")
        return
    if ctx.located is None:
        ctx.skipped("float16 range", "the weights are not known")
        return
    base = ctx.maker.plain(2, 6, seed=106)
    try:
        callee = ctx.callee.in_dtype(torch.float16)
    except Exception as error:
        ctx.skipped("float16 range", f"cannot be converted to float16: {first_line(error)}")
        return
    raw = _largest_score(ctx, base) / (base.scale or 1.0)
    inside = ctx.subject.spec.compute_dtype in ("float32", "float64")
    for largest, is_strict in ((3e4, True), (1e5, inside)):
        if largest * base.scale > 6e4:
            continue
        factor = math.sqrt(largest / max(raw, 1e-3))
        problem = _times(base, factor)
        plain = RIGHT.run(rounded(problem, torch.float16)).output
        if not torch.isfinite(plain).all():
            continue
        outcome = put(callee, problem)
        if outcome.output is None or torch.isfinite(outcome.output).all():
            continue
        says = (
            f"in float16 with products q·k up to {largest:,.0f} the output holds "
            f"{_not_finite(outcome.output)}: products overflow before the scale is applied"
        )
        severity: Severity = "error" if is_strict else "note"
        fault = "half-overflow" if is_strict else None
        ctx.failed("float16 range", found(fault, "float16 range", says, severity=severity))
        return
    ctx.passed("float16 range", "large products do not overflow in float16")
