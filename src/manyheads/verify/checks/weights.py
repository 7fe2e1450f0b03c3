"""Returned weights: are they the softmax weights of this call, for every head, before dropout?"""

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.verify.context import Case, Context, relative_gap
from manyheads.verify.findings import Finding, found


def _expected(ctx: Context, problem: Problem) -> Tensor:
    weights = ctx.answer(problem).attn_weights
    return weights.mean(dim=1) if ctx.subject.call.weights_axes == "BTS" else weights


def check_returned_weights(ctx: Context) -> None:
    """Returned weights against the formula, on every problem that returned any."""
    if ctx.subject.call.form in ("cache", "static_cache"):
        return
    promised = ctx.subject.call.returns == "out,weights"
    cases = [case for case in ctx.cases if case.outcome.attn_weights is not None]
    if ctx.located is None or not (cases or promised):
        ctx.skipped(
            "returned weights", "none are returned, or the weights of the layer are not known"
        )
        return
    if not cases:
        says = "weights are declared as returned, but the answer holds only one tensor"
        ctx.failed("returned weights", found("returned-weights", "returned weights", says))
        return
    if not promised and ctx.subject.call.returns is not None:
        ctx.skipped("returned weights", "not declared as returned")
        return
    worst = 0.0
    for case in cases:
        finding, gap = _against_formula(ctx, case)
        if finding is not None:
            ctx.failed("returned weights", finding, gap)
            return
        worst = max(worst, gap or 0.0)
    ctx.passed("returned weights", f"weights of {len(cases)} calls are the softmax weights", worst)


def _against_formula(ctx: Context, case: Case) -> tuple[Finding | None, float | None]:
    """What is wrong with the weights of one case, if anything, and how far off they are."""
    have, want = case.outcome.attn_weights, _expected(ctx, case.problem)
    assert have is not None
    if have.shape != want.shape:
        says = f"returned weights have shape {tuple(have.shape)}, expected {tuple(want.shape)}"
        says += _shape_hint(have, want)
        return found("returned-weights", "returned weights", says), None
    gap = relative_gap(have.detach(), want)
    if gap <= ctx.tolerance * 10 or _explained(ctx, case.gap):
        return None, gap
    says = (
        f"returned weights differ from the softmax weights by {gap:.3g} "
        f"({case.name}{_path(case.path)}), while the output is right{_sums(have)}"
    )
    return found("returned-weights", "returned weights", says, gap=gap), gap


def _explained(ctx: Context, gap: float | None) -> bool:
    """Whether the output is wrong too, so that the weights only follow."""
    return gap is not None and gap > ctx.tolerance


def _path(path: str) -> str:
    return f", {path}" if path else ""


def _shape_hint(have: Tensor, want: Tensor) -> str:
    return ": they are averaged over heads" if have.dim() == want.dim() - 1 else ""


def _sums(weights: Tensor) -> str:
    sums = weights.detach().double().sum(dim=-1)
    return f"; their rows sum to between {float(sums.min()):.4g} and {float(sums.max()):.4g}"


def check_training_weights(ctx: Context, problem: Problem) -> bool:
    """In training the returned weights must be those before dropout.

    Returns:
        Whether something was found.
    """
    if ctx.subject.call.returns != "out,weights" or ctx.callee.module is None:
        return False
    ctx.callee.module.train()
    try:
        outcome = ctx.put(problem)
    finally:
        ctx.callee.module.eval()
    if outcome.attn_weights is None:
        return False
    have, want = outcome.attn_weights.double(), _expected(ctx, problem)
    if have.shape != want.shape or relative_gap(have, want) <= ctx.tolerance * 10:
        return False
    zeros = float((have == 0).double().mean() - (want == 0).double().mean())
    says = (
        f"in training the returned weights are those after dropout: {zeros:.0%} of them are "
        f"zero{_sums(have)}; the weights before dropout are declared"
    )
    ctx.failed(
        "returned weights in training",
        found(
            "returned-weights", "returned weights in training", says, severity=ctx.against_declared
        ),
    )
    return ctx.strict


def check_weights_state(ctx: Context) -> None:
    """Rows of weights must sum to one; judged only where there is no formula to compare with."""
    for case in ctx.cases:
        weights = case.outcome.attn_weights
        if (
            weights is None
            or ctx.located is not None
            or ctx.subject.call.form in ("cache", "static_cache")
        ):
            continue
        if (
            weights.dim() not in (3, 4)
            or not weights.is_floating_point()
            or not torch.isfinite(weights).all()
        ):
            continue
        gap = float((weights.double().sum(dim=-1) - 1.0).abs().max())
        if gap > 1e-6:
            says = (
                f"rows of the returned weights do not sum to one: they miss it by up to {gap:.3g}"
            )
            ctx.failed(
                "weights are probabilities",
                found(None, "weights are probabilities", says, severity="note"),
            )
        return
