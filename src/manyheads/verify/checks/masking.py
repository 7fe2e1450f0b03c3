"""Queries that no key is left for: zeros where declared, and never harm to others."""

from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.problem import GivenMask, Problem
from manyheads.verify.context import Context, relative_gap
from manyheads.verify.findings import found
from manyheads.verify.subject import MaskSpec


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
    return replace(problem, masks=(given,)), empty


def check_empty_rows(ctx: Context) -> None:
    """What a query without any allowed key gives, and whether it harms other rows or gradients."""
    specs = ctx.subject.call.masks or ()
    if not specs:
        ctx.skipped("empty rows", "no mask arguments")
        return
    for spec in specs:
        if _check_one(ctx, spec):
            return
    ctx.passed("empty rows", "a query without any allowed key harms nothing else")


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
