"""Checks of state: nothing that belongs to the caller or to a later call is changed."""

import torch
from torch import Tensor

from manyheads.verify.calling import Callee
from manyheads.verify.context import Context
from manyheads.verify.findings import found
from manyheads.verify.gaps import relative_gap
from manyheads.verify.locating import is_random, locate_operation, writes_into_argument


def check_repeatable(ctx: Context) -> None:
    """In evaluation mode the same input must give the same output, call after call."""
    problem, callee = ctx.maker.plain(), ctx.callee.fresh()
    outputs = []
    for _ in range(4):
        with torch.no_grad():
            outcome = callee.call(problem)
        if outcome.output is None:
            ctx.skipped("repeatable", f"a repeated call raises {outcome.raised}")
            return
        outputs.append(outcome.output)
    gaps = [_change(other, outputs[0]) for other in outputs[1:]]
    if max(gaps) <= ctx.tolerance:
        _check_memory(ctx, callee, outputs[0])
        return
    if _follows_the_generator(ctx):
        says = (
            f"in evaluation mode two calls with the same input differ by {max(gaps):.3g} of the "
            "largest output, and agree when the random generator is reset: dropout is active"
        )
        where = locate_operation(ctx, problem, "attn_weights", is_random)
        finding = found("dropout-in-eval", "repeatable", says, where=where, gaps=gaps)
        ctx.failed("repeatable", finding, max(gaps))
        return
    says = (
        f"the same input gives different outputs in every call (the second differs by "
        f"{gaps[0]:.3g}, the fourth by {gaps[2]:.3g} of the largest output) though nothing is "
        "random: a call changes the module's state"
    )
    changed = _changed_state(ctx)
    if changed:
        says += f"; changed: {', '.join(changed)}"
    where = locate_operation(ctx, problem, "q", writes_into_argument)
    finding = found("state-mutated", "repeatable", says, where=where, gaps=gaps, changed=changed)
    ctx.failed("repeatable", finding, max(gaps))


def _change(now: Tensor, first: Tensor) -> float:
    """How far a call moved from the first; what is not finite in the same places has not moved."""
    if now.shape == first.shape and torch.equal(now.isfinite(), first.isfinite()):
        now, first = (x.nan_to_num(0.0, 0.0, 0.0) for x in (now, first))
    return relative_gap(now, first)


def _check_memory(ctx: Context, callee: Callee, first: Tensor) -> None:
    """A call with masks, causality or another size must not change a later plain call."""
    others = [ctx.maker.plain(3, 4, seed=6)]
    if ctx.subject.call.masks:
        others.append(ctx.maker.masked(ctx.maker.plain(), ctx.subject.call.masks, seed=9))
    if ctx.subject.call.causal_arg is not None:
        others.append(ctx.maker.plain(causal=True))
    for other in others:
        with torch.no_grad():
            callee.call(other)
            again = callee.call(ctx.maker.plain()).output
        gap = float("inf") if again is None else _change(again, first)
        if gap > ctx.tolerance:
            what = (
                "with masks"
                if other.masks
                else "that asks for causality"
                if other.is_causal
                else "of another size"
            )
            says = (
                f"after a call {what} the first input gives another output (difference {gap:.3g}): "
                "the call changes the state of the module"
            )
            ctx.failed(
                "repeatable", found("state-mutated", "repeatable", says, gap=min(gap, 1e300)), gap
            )
            return
    ctx.passed("repeatable", "calls in evaluation mode agree, also after other calls", 0.0)


def _follows_the_generator(ctx: Context) -> bool:
    """Whether fresh copies agree after the same seed and differ after another."""
    problem, outputs = ctx.maker.plain(), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            outputs.append(ctx.callee.fresh().call(problem).output)
    first, again, other = outputs
    if first is None or again is None or other is None:
        return False
    return relative_gap(again, first) <= ctx.tolerance < relative_gap(other, first)


def _state(ctx: Context, module: torch.nn.Module) -> dict[str, Tensor]:
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: tensor.detach().clone() for name, tensor in named.items()}


def _changed_state(ctx: Context) -> list[str]:
    callee = ctx.callee.fresh()
    if callee.module is None:
        return []
    before = _state(ctx, callee.module)
    with torch.no_grad():
        callee.call(ctx.maker.plain())
    after = _state(ctx, callee.module)
    return [
        n
        for n, t in after.items()
        if n in before and not torch.equal(t.nan_to_num(), before[n].nan_to_num())
    ]


def check_inputs_kept(ctx: Context) -> None:
    """The caller's input tensors must be unchanged after the call."""
    problem = ctx.maker.masked(ctx.maker.plain(queries=6), ctx.subject.call.masks or (), seed=8)
    layout = ctx.subject.call.form
    before = [x.clone() for x in (problem.x_q, problem.x_k, problem.x_v)]
    outcome = ctx.put(problem)
    if outcome.output is None:
        ctx.skipped("inputs kept", f"the call raises {outcome.raised}")
        return
    again = ctx.callee.fresh()._inputs(problem, ctx.subject.call.layout or "BTE")
    if layout in ("cache", "static_cache"):
        ctx.skipped("inputs kept", "cached calls get chunks of the input")
        return
    changed = [
        i
        for i, (x, y) in enumerate(zip(outcome.inputs, again, strict=True))
        if not torch.equal(x, y)
    ]
    if any(
        not torch.equal(a, b)
        for a, b in zip(before, (problem.x_q, problem.x_k, problem.x_v), strict=True)
    ):
        changed = changed or [0]
    if not changed:
        ctx.passed("inputs kept", "the input tensors are unchanged after the call")
        return
    i = changed[0]
    gap = float((outcome.inputs[i] - again[i]).abs().max())
    says = (
        f"input {i + 1} of the call is changed in place, by up to {gap:.3g}: this changes the "
        "tensor of the caller"
    )
    where = locate_operation(ctx, problem, "q", writes_into_argument)
    finding = found("input-mutated", "inputs kept", says, where=where, largest_change=gap)
    ctx.failed("inputs kept", finding)


def check_masks_kept(ctx: Context) -> None:
    """The caller's masks must be unchanged after the call, with and without causality."""
    specs = ctx.subject.call.masks or ()
    if not specs:
        ctx.skipped("masks kept", "no mask arguments")
        return
    for causal in {False, ctx.subject.call.causal_arg is not None}:
        problem = ctx.maker.plain(queries=6, causal=causal)
        problem = ctx.maker.masked(problem, specs, seed=7)
        fresh = ctx.callee._masks(problem)
        outcome = ctx.put(problem)
        for name, mask in outcome.given_masks.items():
            if not torch.equal(mask, fresh[name]):
                count = int((mask != fresh[name]).sum())
                says = (
                    f"the mask given as {name} is changed in place: {count} of {mask.numel()} "
                    "entries differ after the call"
                )
                where = locate_operation(ctx, problem, "masked_scores", writes_into_argument)
                finding = found("mask-mutated", "masks kept", says, where=where, argument=name)
                ctx.failed("masks kept", finding, count / mask.numel())
                return
    ctx.passed("masks kept", "the masks are unchanged after the call")


def check_second_sequence(ctx: Context) -> None:
    """After a long sequence, a second and shorter one must give what it gives on a fresh module."""
    if ctx.subject.call.form not in ("cache", "static_cache"):
        return
    callee = ctx.callee.fresh()
    first = ctx.maker.plain(2, 9, seed=110, chunks=(6, 1, 1, 1))
    second = ctx.maker.plain(2, 4, seed=111, chunks=(2, 1, 1))
    callee.call(first)
    again, alone = callee.call(second), ctx.callee.fresh().call(second)
    if again.output is None or alone.output is None:
        ctx.skipped("second sequence", f"the call raises {again.raised or alone.raised}")
        return
    gap = relative_gap(again.output, alone.output)
    if gap > ctx.tolerance:
        says = (
            f"a second, shorter sequence differs by {gap:.3g} of the largest output from the same "
            "one on a fresh module"
        )
        ctx.failed("second sequence", found("state-mutated", "second sequence", says, gap=gap), gap)
        return
    ctx.passed("second sequence", "a second, shorter sequence does not see the first", gap)
