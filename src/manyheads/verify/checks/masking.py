"""Checks of masks: rows without keys, hidden content, autocast."""

from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.problem import GivenMask, Problem
from manyheads.verify.context import Context
from manyheads.verify.findings import found, short
from manyheads.verify.gaps import relative_gap
from manyheads.verify.hidden import hidden_by
from manyheads.verify.locating import place_at
from manyheads.verify.subject import MaskSpec
from manyheads.verify.watch import Links, place_of, tensors_in


def _emptied(ctx: Context, spec: MaskSpec) -> tuple[Problem, Tensor]:
    """A problem in which the first sample (or second query) sees nothing, and those (B, T) rows."""
    queries, keys = 6, 6
    if ctx.subject.call.form in ("cross", "qkv", "heads"):
        keys = 8
    problem = ctx.maker.plain(2, queries, keys, seed=90)
    mask = ctx.maker.mask(spec, problem, 90)
    allowed = mask.allowed.clone()
    empty = torch.zeros(problem.batch, queries, dtype=torch.bool)
    if allowed.shape[1] == 1:
        allowed[0] = False
        empty[0] = True
    else:
        allowed[:, 1] = False
        empty[:, 1] = True
    given = GivenMask(allowed=allowed, axes=mask.axes, convention=mask.convention)
    return ctx.maker.with_masks(problem, (given,)), empty


def check_empty_rows(ctx: Context) -> None:
    """What a query without any allowed key gives, and whether it harms other rows or gradients."""
    specs = ctx.subject.call.masks or ()
    if not specs:
        ctx.skipped("empty rows", "no mask arguments")
        return
    for spec in specs:
        if spec.convention != "documents" and _check_one(ctx, spec):
            return
    ctx.passed("empty rows", "a query without any allowed key has no effect on other queries")


def _rows(output: Tensor, empty: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
    """Rows of empty queries and of the others, whatever the form."""
    if ctx.subject.call.form == "heads":
        output = output.transpose(1, 2)
    return output[empty], output[~empty]


def _check_one(ctx: Context, spec: MaskSpec) -> bool:
    problem, empty = _emptied(ctx, spec)
    outcome = ctx.put(problem)
    zero_is_declared = ctx.subject.spec.fully_masked == "zero"
    if outcome.output is None:
        if zero_is_declared:
            says = (
                f"a query whose keys are all hidden by {spec.arg} makes the call raise "
                f"{outcome.raised}; zeros are declared"
            )
            ctx.failed("empty rows", found("fully-masked-row", "empty rows", says))
            return True
        return False
    if ctx.located is None:
        return False
    expected = ctx.answer(problem).output
    expected = _as_zeroed(ctx, problem, outcome.output, expected)
    dead, alive = _rows(outcome.output, empty, ctx)
    want_dead, want_alive = _rows(expected, empty, ctx)
    if zero_is_declared:
        gap = relative_gap(dead, want_dead)
        if gap > max(ctx.tolerance, 1e-9):
            says = (
                f"a query whose keys are all hidden by {spec.arg} gives {_what(dead, want_dead)} "
                "instead of the declared zeros (the output bias alone)"
            )
            ctx.failed(
                "empty rows", found("fully-masked-row", "empty rows", says, argument=spec.arg)
            )
            return True
    if relative_gap(alive, want_alive) > ctx.tolerance and not _fails_elsewhere(ctx, spec):
        says = (
            f"a query whose keys are all hidden by {spec.arg} changes the output of other queries"
        )
        ctx.failed("empty rows", found("fully-masked-row", "empty rows", says, argument=spec.arg))
        return True
    return zero_is_declared and _gradient_is_spoiled(ctx, problem, empty, spec)


def _as_zeroed(ctx: Context, problem: Problem, output: Tensor, expected: Tensor) -> Tensor:
    """What is expected, with zeros at padded queries where the subject zeroes those rows."""
    allowed = problem.masks[0].allowed
    is_self = ctx.subject.call.form in ("self", "heads")
    if not is_self or allowed.shape[1] != 1 or allowed.shape[2] != problem.x_q.shape[-2]:
        return expected
    padded = ~allowed[:, 0].expand(problem.batch, -1)  # (B, T)
    rows = padded[..., None] if output.dim() == 3 else padded[:, None, :, None]
    return expected if output.masked_select(rows).any() else expected.masked_fill(rows, 0.0)


def _what(dead: Tensor, want: Tensor) -> str:
    if torch.isnan(dead).any():
        return "NaN"
    return (
        f"numbers up to {float(dead.abs().max()):.3g} (expected up to "
        f"{float(want.abs().max()):.3g})"
    )


def _fails_elsewhere(ctx: Context, spec: MaskSpec) -> bool:
    """Whether the mask is already wrong where every query has a key."""
    return any(case.gap is not None and case.gap > ctx.tolerance for case in ctx.cases)


def _gradient_is_spoiled(ctx: Context, problem: Problem, empty: Tensor, spec: MaskSpec) -> bool:
    x = problem.x_q.clone().requires_grad_()
    same = [x if other is problem.x_q else other for other in (problem.x_k, problem.x_v)]
    with torch.enable_grad():
        outcome = ctx.callee.call(replace(problem, x_q=x, x_k=same[0], x_v=same[1]))
        if outcome.output is None or not outcome.output.requires_grad:
            return False
        (gradient,) = torch.autograd.grad(outcome.output.sum(), x, allow_unused=True)
    if gradient is None:
        return False
    bad = int((~torch.isfinite(gradient)).sum())
    if not bad:
        return False
    says = (
        f"a query whose keys are all hidden by {spec.arg} gives NaN gradients: {bad} of "
        f"{gradient.numel()} entries of the input's gradient are not finite"
    )
    ctx.failed(
        "empty rows",
        found("fully-masked-row", "empty rows", says, argument=spec.arg, not_finite=bad),
    )
    return True


_LARGE = 100.0
_AUTOCAST = 0.2


def check_autocast(ctx: Context) -> None:
    """Under autocast to bfloat16 the output must be that of float32, up to rounding."""
    if ctx.values_are_wrong or ctx.located is None:
        ctx.skipped("autocast", "the weights are not known, or the values differ")
        return
    try:
        callee = ctx.callee.in_dtype(torch.float32)
    except Exception as error:
        ctx.skipped("autocast", f"cannot be converted to float32: {short(error)}")
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
        ctx.skipped("hidden content", "there is no mask of keys, or the values differ")
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
                f"output of real queries by {gap:.3g} of the largest: they are not fully hidden"
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
    ctx.passed("hidden content", "the content of hidden keys has no effect, at large scores too")


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


def check_masks_used(ctx: Context) -> None:
    """What hides keys must not be computed and then left aside."""
    seen = ctx.known.seen
    if seen is None or seen.structure.trouble is not None:
        return
    read = {maker for makers in Links(seen.structure.events).parents.values() for maker in makers}
    answers = {place_of(x) for x in tensors_in(seen.outcome.raw)}
    for event in seen.structure.events:
        hidden = hidden_by(event, seen.structure) if event.writes else None
        if hidden is None or event.op.endswith("_") or not bool(hidden.any()):
            continue
        if (event.number, 0) in read or place_of(event.out[0]) in answers:
            continue
        where = place_at(event.line, "masked_scores", "missing")
        says = "masked scores are computed, but nothing uses them: the keys stay visible"
        fix = "assign the result, for example scores = scores.masked_fill(...)"
        ctx.failed("masks used", found(None, "masks used", says, where=where, fix=fix))
        return
