"""Checks of numerical accuracy: half types, long rows, large inputs."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.core.weights import HeadWeights
from manyheads.verify.calling import Callee, Outcome
from manyheads.verify.context import RIGHT, Context, changed_inputs
from manyheads.verify.findings import found, short
from manyheads.verify.gaps import relative_gap
from manyheads.verify.locating import locate_problem

_HALF = (torch.float16, torch.bfloat16)
_FACTOR = 14.0
"""Blocks summed in the input type reach 11 and are common; running sums reach 20 and more."""


def check_half(ctx: Context) -> None:
    """The call must work in half precision, about as exactly as plain code does."""
    worst = 0.0
    for dtype in _HALF:
        try:
            callee = ctx.callee.in_dtype(dtype)
        except Exception as error:
            ctx.skipped("half precision", f"cannot be converted to {dtype}: {short(error)}")
            return
        for name, problem in _small_problems(ctx):
            outcome = put(callee, problem)
            if outcome.raised is not None:
                if _report_refusal(ctx, dtype, name, outcome.raised):
                    return
                continue
            assert outcome.output is not None
            ratio = _error_ratio(ctx, callee, problem, outcome.output, dtype)
            worst = max(worst, ratio)
            is_compared = problem.weights is None and not ctx.values_are_wrong
            if _works_wider(ctx) and is_compared and ratio > 2.0:
                says = (
                    f"in {_short(dtype)} the error is {ratio:.1f} times that of rounding the "
                    f"result once, though {ctx.subject.spec.compute_dtype} is declared inside"
                )
                ctx.failed(
                    "half precision",
                    found("low-precision", "half precision", says, ratio=ratio),
                    ratio,
                )
                return
    if ctx.values_are_wrong:
        ctx.skipped("half precision", "the values differ already")
        return
    ctx.passed(
        "half precision",
        "float16 and bfloat16 work; the figure is the error against plain code",
        worst,
    )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _small_problems(ctx: Context) -> list[tuple[str, Problem]]:
    specs = ctx.subject.call.masks or ()
    plain = ctx.maker.plain(2, 6, seed=101)
    found_ = [("plain", plain)]
    if specs:
        found_.append(("masked", ctx.maker.masked(ctx.maker.plain(2, 6, seed=102), specs, seed=5)))
    if ctx.subject.call.causal_arg is not None:
        found_.append(("causal", ctx.maker.plain(2, 6, seed=103, causal=True)))
    return found_


def put(callee: Callee, problem: Problem) -> Outcome:
    """Call in any dtype, without recording gradients."""
    with torch.no_grad():
        return callee.call(problem)


def _report_refusal(ctx: Context, dtype: torch.dtype, name: str, raised: str) -> bool:
    text = raised.lower()
    if "overflow" in text or "cannot be converted" in text or "out of range" in text:
        says = (
            f"in {_short(dtype)} the {name} call raises {raised}: a mask value does not fit the "
            "type"
        )
        if ctx.subject.spec.compute_dtype in ("float16", "bfloat16"):
            finding = found("mask-value-in-half", "half precision", says, dtype=_short(dtype))
            ctx.failed("half precision", finding)
        else:
            ctx.limits.append(f"I{says[1:]}.")
        return True
    if (
        "dtype" in text
        or "scalar type" in text
        or "same type" in text
        or "expected m1 and m2" in text
    ):
        says = (
            f"in {_short(dtype)} the {name} call raises {raised}: some tensor keeps another dtype "
            "inside"
        )
        ctx.failed(
            "half precision", found("dtype-mismatch", "half precision", says, dtype=_short(dtype))
        )
        return True
    says = f"in {_short(dtype)} the {name} call raises {raised}"
    ctx.failed(
        "half precision", found(None, "half precision", says, severity="note", dtype=_short(dtype))
    )
    return False


def rounded(problem: Problem, dtype: torch.dtype) -> Problem:
    """The problem with inputs and weights rounded to a dtype, still held in float64."""

    def cut(x: Tensor) -> Tensor:
        return x.to(dtype).double()

    weights = problem.weights
    if weights is not None:
        weights = HeadWeights(**{n: cut(t) for n, t in weights.tensors().items()})
    return replace(changed_inputs(problem, cut), weights=weights)


def _in_dtype(problem: Problem, dtype: torch.dtype) -> Problem:
    weights = problem.weights
    if weights is not None:
        weights = HeadWeights(**{n: t.to(dtype) for n, t in weights.tensors().items()})
    return replace(
        problem,
        x_q=problem.x_q.to(dtype),
        x_k=problem.x_k.to(dtype),
        x_v=problem.x_v.to(dtype),
        weights=weights,
    )


def _errors(
    ctx: Context, problem: Problem, output: Tensor, dtype: torch.dtype
) -> tuple[float, float] | None:
    """Root mean square errors of the output and of plain code in the dtype.

    Both against float64 on the same numbers; None where the shape is another one.
    """
    exact_problem = rounded(problem, dtype)
    with torch.no_grad():
        exact = RIGHT.run(exact_problem).output
        plain = RIGHT.run(_in_dtype(exact_problem, dtype)).output.double()
        if _works_wider(ctx) and problem.weights is None:
            plain = exact.to(dtype).double()  # only the result is rounded
    if output.shape != exact.shape:
        return None
    mine = float((output.double() - exact).square().mean().sqrt())
    theirs = float((plain - exact).square().mean().sqrt())
    floor = torch.finfo(dtype).eps / 8 * float(exact.abs().mean())
    return mine, max(theirs, floor)


def _works_wider(ctx: Context) -> bool:
    return ctx.subject.spec.compute_dtype in ("float32", "float64")


def _error_ratio(
    ctx: Context, callee: Callee, problem: Problem, output: Tensor, dtype: torch.dtype
) -> float:
    if ctx.located is None:
        return 0.0
    errors = _errors(ctx, problem, output, dtype)
    return 0.0 if errors is None else errors[0] / errors[1]


def check_long_rows(ctx: Context) -> None:
    """In bfloat16, long rows must be about as exact as plain code, which sums in float32."""
    reason = _why_no_long_rows(ctx)
    if reason:
        ctx.skipped("long rows", reason)
        return
    try:
        callee = ctx.callee.in_dtype(torch.bfloat16)
    except Exception as error:
        ctx.skipped("long rows", f"cannot be converted to bfloat16: {short(error)}")
        return
    for length in (768, 96, 24):
        problem = ctx.maker.plain(1, 8 if _may_differ(ctx) else length, length, seed=104)
        outcome = put(callee, problem)
        if outcome.output is None:
            continue
        errors = _errors(ctx, problem, outcome.output, torch.bfloat16)
        if errors is not None:
            _judge_long_rows(ctx, length, *errors)
        return
    ctx.skipped("long rows", "longer inputs are refused")


def _why_no_long_rows(ctx: Context) -> str:
    """Why long rows cannot be checked; empty where they can."""
    if ctx.values_are_wrong:
        return "the values differ already"
    if ctx.located is None or ctx.subject.call.form in ("cache", "static_cache"):
        return "the weights are not known, or the call is cached"
    if ctx.subject.spec.position is not None or ctx.subject.extras.bias is not None:
        return "positions in a half type lose more accuracy than sums"
    return ""


def _judge_long_rows(ctx: Context, length: int, mine: float, theirs: float) -> None:
    ratio = mine / theirs
    if ratio <= _FACTOR:
        why = f"rows of {length} keys in bfloat16; the figure is the error against plain code"
        ctx.passed("long rows", why, ratio)
        return
    says = (
        f"in bfloat16 with rows of {length} keys the error is {mine:.3g}, {ratio:.0f} times that "
        f"of plain code ({theirs:.3g}), while float64 agrees: long sums are accumulated in the "
        "input type"
    )
    finding = found("low-precision", "long rows", says, ratio=round(ratio, 1))
    ctx.failed("long rows", finding, ratio)


def _may_differ(ctx: Context) -> bool:
    return ctx.subject.call.form in ("cross", "qkv", "heads") and not ctx.subject.spec.window


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
    if not torch.isfinite(outcome.output).all():
        says = (
            f"with scores up to about 4,000 the output holds {_not_finite(outcome.output)}: the "
            "softmax overflows"
        )
        fix = "subtract the largest score of each row before the exponential"
        where = locate_problem(ctx, problem) if ctx.located is not None else None
        ctx.failed("large inputs", found(None, "large inputs", says, fix=fix, where=where))
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
    if ctx.values_are_wrong or any(f.check == "large inputs" for f in ctx.findings):
        ctx.skipped("float16 range", "the values differ already")
        return
    if ctx.located is None:
        ctx.skipped("float16 range", "the weights are not known")
        return
    try:
        callee = ctx.callee.in_dtype(torch.float16)
    except Exception as error:
        ctx.skipped("float16 range", f"cannot be converted to float16: {short(error)}")
        return
    says, is_strict = _overflow(ctx, callee)
    if says and is_strict:
        ctx.failed("float16 range", found("half-overflow", "float16 range", says))
        return
    if says:
        ctx.limits.append(says[0].upper() + says[1:] + ".")
    ctx.passed("float16 range", "large products do not overflow in float16")


def _overflow(ctx: Context, callee: Callee) -> tuple[str, bool]:
    """What overflows in float16 where plain code does not, and whether that is a fault.

    Products of up to 30,000 must not overflow; beyond that it is a limit of correct code, unless
    float32 inside is declared.
    """
    base = ctx.maker.plain(2, 6, seed=106)
    raw = _largest_score(ctx, base) / (base.scale or 1.0)
    inside = ctx.subject.spec.compute_dtype in ("float32", "float64")
    for largest, is_strict in ((3e4, True), (1e5, inside)):
        if largest * base.scale > 6e4:
            continue
        problem = _times(base, math.sqrt(largest / max(raw, 1e-3)))
        outcome = put(callee, problem)
        is_plain = torch.isfinite(RIGHT.run(rounded(problem, torch.float16)).output).all()
        if not is_plain or outcome.output is None or torch.isfinite(outcome.output).all():
            continue
        says = (
            f"in float16 with products q·k up to {largest:,.0f} the output holds "
            f"{_not_finite(outcome.output)}: products overflow before the scale is applied"
        )
        return says, is_strict
    return "", False
