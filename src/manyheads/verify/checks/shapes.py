"""Shapes at the edges: batch one, length one, unbatched input, memory that is not contiguous."""

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.verify.calling import Outcome, from_callee, read_answer
from manyheads.verify.context import Context
from manyheads.verify.findings import found, short
from manyheads.verify.gaps import relative_gap


def expected_shape(ctx: Context, problem: Problem) -> tuple[int, ...]:
    """The shape that an output must have."""
    spec = ctx.subject.spec
    if ctx.subject.call.form == "heads":
        return (problem.batch, spec.heads, problem.x_q.shape[-2], spec.dv)
    width = spec.width
    if ctx.located is not None and not ctx.located.has_out:
        width = spec.heads * spec.dv
    return (problem.batch, problem.x_q.shape[-2], width)


def check_size_one(ctx: Context) -> None:
    """Batch one and length one must keep every axis, and give what the formula gives."""
    tried, worst = 0, 0.0
    for batch, queries, keys in ((1, 5, 5), (3, 1, 1), (1, 1, 1), (3, 1, 4), (1, 4, 1)):
        has_two = ctx.subject.call.form in ("cross", "qkv", "heads")
        if keys != queries and (ctx.subject.extras.is_square or not has_two):
            continue
        if keys < queries and (ctx.subject.spec.causal == "always" or ctx.subject.spec.window):
            continue
        problem = ctx.maker.plain(batch, queries, keys, seed=40)
        outcome = ctx.put(problem)
        want = expected_shape(ctx, problem)
        if outcome.output is None:
            says = (
                f"with batch {batch} and {queries} positions the call raises {outcome.raised}, "
                "and with larger sizes it does not"
            )
            ctx.failed(
                "size one",
                found("shape-at-size-one", "size one", says, batch=batch, length=queries),
            )
            return
        tried += 1
        have = tuple(outcome.output.shape)
        if have != want:
            says = (
                f"with batch {batch} and {queries} positions the output has shape {have} instead "
                f"of {want}: an axis of size one is lost"
            )
            ctx.failed(
                "size one", found("shape-at-size-one", "size one", says, shape=have, expected=want)
            )
            return
        if ctx.located is not None:
            worst = max(worst, relative_gap(outcome.output, ctx.answer(problem).output))
    if worst > ctx.tolerance:
        ctx.skipped("size one", "shapes are correct; the values differ as in larger problems")
        return
    ctx.passed(
        "size one", f"{tried} problems with an axis of size one have the correct shape", worst
    )


def check_unbatched(ctx: Context) -> None:
    """Where (T, E) is declared, it must give what (1, T, E) gives."""
    if not ctx.subject.call.unbatched or ctx.subject.call.form not in ("self", "cross", "qkv"):
        return
    problem = ctx.maker.plain(1, 5, seed=41)
    batched = ctx.put(problem)
    layout = ctx.subject.call.layout or "BTE"
    axis = {"BTE": 0, "TBE": 1, "BET": 0}[layout]
    inputs = [x.squeeze(axis) for x in ctx.callee._inputs(problem, layout)]
    keywords = {**ctx.subject.call.extra, **ctx.callee.arguments}
    try:
        with torch.no_grad():
            output, _, _ = read_answer(ctx.callee.made(*inputs, **keywords))
    except Exception as error:
        says = f"an input without batch axis, declared as accepted, raises {short(error)}"
        ctx.failed(
            "unbatched", found(None, "unbatched", says, fix="add the batch axis inside: x[None]")
        )
        return
    if batched.output is None or output is None:
        ctx.skipped("unbatched", "the batched call gives no tensor")
        return
    single = from_callee(output.unsqueeze(axis), layout)
    gap = relative_gap(single, batched.output)
    if gap > ctx.tolerance:
        says = (
            f"an input without batch axis gives shape {tuple(output.shape)} and differs by "
            f"{gap:.3g} from the same input with batch one"
        )
        ctx.failed("unbatched", found("shape-at-size-one", "unbatched", says, gap=gap), gap)
        return
    ctx.passed("unbatched", "(T, E) gives what (1, T, E) gives", gap)


def _restrided(x: Tensor, kind: str) -> Tensor:
    """The same numbers in memory that is not contiguous."""
    if kind == "sliced":
        wide = x.new_full((*x.shape[:-1], 2 * x.shape[-1]), 7.5)
        wide[..., ::2] = x
        return wide[..., ::2]
    if kind == "offset":
        long = torch.cat(
            (torch.full_like(x[:, :1], -3.25), x, torch.full_like(x[:, :1], 4.5)), dim=1
        )
        return long[:, 1:-1]
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def _call_raw(ctx: Context, inputs: list[Tensor]) -> Outcome:
    keywords = {**ctx.subject.call.extra, **ctx.callee.arguments}
    try:
        with torch.no_grad():
            output, _, raw = read_answer(ctx.callee.made(*inputs, **keywords))
    except Exception as error:
        return Outcome(raised=short(error))
    return Outcome(output=output, raw=raw)


def check_strides(ctx: Context) -> None:
    """The same numbers in other memory must give the same answer, or a loud error."""
    if ctx.subject.call.form in ("cache", "static_cache"):
        ctx.skipped("strides", "cached calls already use slices")
        return
    problem = ctx.maker.plain(3, 6, seed=42)
    inputs = list(ctx.callee._inputs(problem, ctx.subject.call.layout or "BTE"))
    reference, worst, refused = _call_raw(ctx, [x.clone() for x in inputs]), 0.0, []
    if reference.output is None:
        ctx.skipped("strides", f"the call raises {reference.raised}")
        return
    for kind in ("transposed", "sliced", "offset"):
        outcome = _call_raw(ctx, [_restrided(x, kind) for x in inputs])
        if outcome.output is None:
            refused.append(kind)
            continue
        gap = relative_gap(outcome.output, reference.output)
        worst = max(worst, gap)
        if gap > ctx.tolerance:
            says = (
                f"the same numbers in {kind} (non-contiguous) memory give an output that differs "
                f"by {gap:.3g} of the largest: strides are ignored"
            )
            ctx.failed(
                "strides", found("strides-ignored", "strides", says, memory=kind, gap=gap), gap
            )
            return
    why = "transposed, sliced and offset memory give the same answer"
    if refused:
        why = f"{', '.join(refused)} memory is refused with an error, which is allowed"
    ctx.passed("strides", why, worst)
