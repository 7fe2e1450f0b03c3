"""Autocast, and large numbers in hidden places, which must not matter."""

from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.verify.calling import first_line
from manyheads.verify.context import Context, relative_gap
from manyheads.verify.findings import found

_LARGE = 100.0
_AUTOCAST = 0.2


def check_autocast(ctx: Context) -> None:
    """Under autocast to bfloat16 the output must be that of float32, up to rounding."""
    if ctx.values_are_wrong or ctx.located is None:
        ctx.skipped("autocast", "the weights are not known, or the values differ already")
        return
    try:
        callee = ctx.callee.in_dtype(torch.float32)
    except Exception as error:
        ctx.skipped("autocast", f"cannot be converted to float32: {first_line(error)}")
        return
    specs, worst = ctx.subject.call.masks or (), 0.0
    problems = [ctx.maker.plain(2, 6, seed=140)]
    if specs:
        problems.append(ctx.maker.masked(ctx.maker.plain(2, 6, seed=141), specs, seed=3))
    for problem in problems:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            outcome = callee.call(problem)
        if outcome.output is None:
            says = f"under autocast to bfloat16 the call raises {outcome.raised}"
            ctx.failed("autocast", found(None, "autocast", says, severity="note"))
            return
        usual = ctx.put(problem).output
        if usual is None:
            continue
        gap = relative_gap(outcome.output.float(), usual)
        worst = max(worst, gap)
        if gap > _AUTOCAST:
            says = f"under autocast to bfloat16 the output differs by {gap:.3g} of the largest"
            fix = "compute the softmax in float32, and hide keys with -inf in any type"
            ctx.failed("autocast", found(None, "autocast", says, fix=fix, gap=gap), gap)
            return
    ctx.passed("autocast", "under autocast to bfloat16 the output is that of float32", worst)


def check_hidden_content(ctx: Context) -> None:
    """Large finite numbers at hidden keys must not change what real queries get."""
    specs = ctx.subject.call.masks or ()
    by_key = [spec for spec in specs if spec.axes in ("BS", "B")]
    if not by_key or ctx.values_are_wrong or ctx.subject.call.form in ("cache", "static_cache"):
        ctx.skipped("hidden content", "no mask of keys, or the values differ already")
        return
    for spec in by_key:
        problem = ctx.maker.masked(ctx.maker.plain(2, 6, 8, seed=142), (spec,), seed=4)
        hidden = ~problem.masks[0].allowed[:, 0].expand(problem.batch, -1)  # (B, S)
        before, after = ctx.put(problem), ctx.put(_with_large(problem, hidden))
        if before.output is None or after.output is None:
            continue
        rows = _real_rows(problem, hidden, before.output)
        gap = relative_gap(after.output[rows], before.output[rows])
        if gap > max(ctx.tolerance, 1e-9):
            says = (
                f"numbers {_LARGE:g} times as large at keys that {spec.arg} hides change the "
                f"output of real queries by {gap:.3g} of the largest: they are hidden only softly"
            )
            ctx.failed("hidden content", found("mask-value", "hidden content", says, gap=gap), gap)
            return
        if _is_weak(ctx, problem):
            says = (
                f"where all visible scores are far below zero, keys that {spec.arg} hides get "
                "weight: hidden scores are set to a finite number that is not low enough"
            )
            ctx.failed("hidden content", found("mask-value", "hidden content", says))
            return
    ctx.passed("hidden content", "what hidden keys hold does not matter, at large scores too")


def _is_weak(ctx: Context, problem: Problem) -> bool:
    """Whether a mask stops hiding when scores reach some two thousand below zero."""
    everywhere = torch.ones(problem.batch, problem.x_k.shape[-2], dtype=torch.bool)
    large = _with_large(problem, everywhere, 30.0)
    if large.x_q is problem.x_q:
        large = replace(large, x_q=problem.x_q * 30.0)
    hidden = ~problem.masks[0].allowed[:, 0].expand(problem.batch, -1)
    before, after = ctx.put(large).output, ctx.put(_with_large(large, hidden, -1.0)).output
    if before is None or after is None or not torch.isfinite(before).all():
        return False
    rows = _real_rows(problem, hidden, before)
    return relative_gap(after[rows], before[rows]) > max(ctx.tolerance, 1e-9)


def _with_large(problem: Problem, hidden: Tensor, factor: float = _LARGE) -> Problem:
    def enlarge(x: Tensor) -> Tensor:
        where = hidden[..., None] if x.dim() == 3 else hidden[:, None, :, None]
        return torch.where(where, x * factor, x)

    x_k = enlarge(problem.x_k)
    x_q = x_k if problem.x_q is problem.x_k else problem.x_q
    return replace(
        problem, x_q=x_q, x_k=x_k, x_v=x_k if problem.x_v is problem.x_k else enlarge(problem.x_v)
    )


def _real_rows(problem: Problem, hidden: Tensor, output: Tensor) -> Tensor:
    """Where the output belongs to queries that are not hidden themselves."""
    if not problem.is_self:
        return torch.ones_like(output, dtype=torch.bool)
    rows = ~hidden[..., None] if output.dim() == 3 else ~hidden[:, None, :, None]
    return rows.expand_as(output)
