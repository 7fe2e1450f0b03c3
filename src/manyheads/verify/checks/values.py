"""Checks of the values and of the returned weights against the formula."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.verify.calling import Outcome
from manyheads.verify.context import Case, Context
from manyheads.verify.findings import READING, Finding, Severity, found
from manyheads.verify.gaps import relative_gap

_OTHER_SIZES, _LONG = "other sizes", "long"


def problems(ctx: Context) -> Iterator[tuple[str, Problem]]:
    """Problems that together show every fault of values: name and problem."""
    form, maker = ctx.subject.call.form, ctx.maker
    has_two_lengths = form in ("cross", "qkv", "heads") and not ctx.subject.extras.is_square
    if form in ("cache", "static_cache"):
        yield from _cached(ctx)
        return
    yield "plain", maker.plain(2, 7, seed=1)
    yield _OTHER_SIZES, maker.plain(3, 5, seed=2)
    yield _LONG, maker.plain(2, 13, seed=3)
    heads = ctx.subject.spec.heads
    if 1 < heads <= 16:
        yield "batch and length equal to the heads", maker.plain(heads, heads, seed=4)
    if has_two_lengths:
        yield "more keys than queries", maker.plain(2, 4, 9, seed=5)
        if ctx.subject.spec.causal != "always" and ctx.subject.spec.window is None:
            yield "more queries than keys", maker.plain(2, 8, 5, seed=6)
    if (
        form == "qkv"
        and maker.plain().x_q.shape[-1]
        == maker.plain().x_k.shape[-1]
        == maker.plain().x_v.shape[-1]
    ):
        own = maker.plain(2, 6, seed=7)
        yield "one tensor as query, key and value", replace(own, x_k=own.x_q, x_v=own.x_q)
    if ctx.subject.call.causal_arg is not None:
        yield "causal", maker.plain(2, 7, seed=8, causal=True)
        if has_two_lengths:
            yield "causal with more keys than queries", maker.plain(2, 4, 9, seed=9, causal=True)


def _cached(ctx: Context) -> Iterator[tuple[str, Problem]]:
    for i, chunks in enumerate(((7,), (5, 1, 1, 1), (3, 4), (1, 1, 1, 1, 1), (2, 3, 1, 2))):
        name = "one piece" if len(chunks) == 1 else "in pieces of " + ", ".join(map(str, chunks))
        yield name, ctx.maker.plain(2, sum(chunks), seed=20 + i, chunks=chunks)


def masked_problems(ctx: Context) -> Iterator[tuple[str, Problem]]:
    """Problems with each mask alone, all together, and with causality."""
    specs, maker = ctx.subject.call.masks or (), ctx.maker
    heads = ctx.subject.spec.heads
    for i, spec in enumerate(specs):
        sizes = [(2, 7), (3, 5), (4, 6)]
        if 1 < heads <= 16:
            sizes += [(heads, heads + 2), (5, 5)]
        for j, (batch, queries) in enumerate(sizes):
            if batch * queries == 1:
                continue
            problem = maker.plain(batch, queries, seed=30 + 10 * i + j)
            yield f"mask {spec.arg}", maker.masked(problem, (spec,), seed=10 * i + j)
        has_two = ctx.subject.call.form in ("cross", "qkv", "heads")
        if has_two and not ctx.subject.extras.is_square:
            problem = maker.plain(2, 4, 9, seed=60 + i)
            yield (
                f"mask {spec.arg}, more keys than queries",
                maker.masked(problem, (spec,), seed=60 + i),
            )
        is_exclusive = spec.arg in ctx.subject.extras.exclusive
        if ctx.subject.call.causal_arg is not None and not is_exclusive:
            problem = maker.plain(2, 7, seed=70 + i, causal=True)
            yield f"mask {spec.arg} and causal", maker.masked(problem, (spec,), seed=70 + i)
    for a, b in itertools.combinations(range(len(specs)), 2):
        problem = maker.masked(
            maker.plain(2, 7, seed=80 + a + b), (specs[a], specs[b]), seed=80 + a + b
        )
        yield f"masks {specs[a].arg} and {specs[b].arg}", problem


def _observe(ctx: Context, name: str, path: str, problem: Problem, **extra: object) -> Case:
    outcome = ctx.put(problem, **extra)
    gap = None
    if ctx.located is not None:
        gap = float("inf") if outcome.output is None else _gap(ctx, problem, outcome.output)
    case = Case(name=name, path=path, problem=problem, outcome=outcome, gap=gap, extra=extra)
    ctx.cases.append(case)
    return case


def _gap(ctx: Context, problem: Problem, output: Tensor) -> float:
    """Difference from the formula; rows of padded queries that are set to zero are left out."""
    expected = ctx.answer(problem).output
    if output.shape != expected.shape or ctx.subject.call.form not in ("self", "heads"):
        return relative_gap(output, expected)
    for mask in problem.masks:
        if mask.axes not in ("BS", "B") or mask.allowed.shape[-1] != problem.x_q.shape[-2]:
            continue
        padded = ~mask.allowed[:, 0].expand(problem.batch, -1)  # (B, T)
        rows = padded[..., None] if output.dim() == 3 else padded[:, None, :, None]
        if padded.any() and not output.masked_select(rows).any():
            return relative_gap(output, expected.masked_fill(rows, 0.0))
    return relative_gap(output, expected)


def check_values(ctx: Context) -> None:
    """Output against the formula in float64, over problems, masks, flags and modes."""
    every = [(n, p) for n, p in (*problems(ctx), *masked_problems(ctx)) if ctx.covers(p)]
    for name, problem in every:
        _observe(ctx, name, "", problem)
    for flag, values in ctx.subject.call.flags.items():
        for value in values:
            for name, problem in _first_of_each(every):
                _observe(ctx, name, f"{flag}={value}", problem, **{flag: value})
    _modes(ctx, _first_of_each(every))
    if ctx.located is None:
        ctx.skipped("values", "the weights are not known, so the formula cannot be evaluated")
        return
    gaps = [
        case.gap for case in ctx.cases if case.gap is not None and case.outcome.output is not None
    ]
    worst = max(gaps, default=0.0)
    if worst <= ctx.tolerance:
        ctx.passed("values", f"{len(gaps)} problems agree with the formula in float64", worst)


def _first_of_each(every: list[tuple[str, Problem]]) -> list[tuple[str, Problem]]:
    kept: dict[str, Problem] = {}
    for name, problem in every:
        kept.setdefault(name, problem)
    return [(n, p) for n, p in kept.items() if n not in (_LONG, _OTHER_SIZES)]


def _modes(ctx: Context, every: list[tuple[str, Problem]]) -> None:
    """With gradients recorded, and in training mode where nothing is dropped."""
    module = ctx.callee.module
    for name, problem in every[:2] + [item for item in every[2:] if item[1].masks][:2]:
        with torch.enable_grad():
            outcome = ctx.callee.call(problem)
            if module is not None and not ctx.subject.spec.dropout and not _has_dropout(module):
                answers = _in_training(ctx, module, problem)
                if answers is not None:
                    _record_mode(ctx, name, "training mode", problem, answers)
        _record_mode(ctx, name, "gradients recorded", problem, outcome)


def _in_training(ctx: Context, module: torch.nn.Module, problem: Problem) -> Outcome | None:
    """The answer in training mode; None if it is drawn at random, as dropout makes it."""
    module.train()
    try:
        first, second = (ctx.callee.call(problem) for _ in range(2))
    finally:
        module.eval()
    if first.output is None or second.output is None:
        return first
    if torch.equal(first.output, second.output):
        return first
    name = "training mode"
    if not any(result.name == name for result in ctx.results):
        ctx.skipped(name, "the output is random in training; see the check of dropout")
    return None


def _has_dropout(module: torch.nn.Module) -> bool:
    rates = [getattr(m, "p", 0) for m in module.modules() if isinstance(m, torch.nn.Dropout)]
    rates += [m.dropout for m in module.modules() if isinstance(m, torch.nn.MultiheadAttention)]
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def _record_mode(ctx: Context, name: str, path: str, problem: Problem, outcome: Outcome) -> None:
    output = None if outcome.output is None else outcome.output.detach()
    outcome = replace(outcome, output=output)
    gap = None
    if ctx.located is not None:
        gap = float("inf") if output is None else _gap(ctx, problem, output)
    ctx.cases.append(Case(name=name, path=path, problem=problem, outcome=outcome, gap=gap))


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
        ctx.skipped("returned weights", "no weights are returned, or the parameters are not known")
        return
    if not cases:
        says = "weights are declared as returned, but the call returns only one tensor"
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
    ctx.passed(
        "returned weights", f"weights of {len(cases)} calls equal the softmax weights", worst
    )


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
    name = "returned weights in training"
    if not ctx.strict and any(
        isinstance(m, torch.nn.MultiheadAttention) for m in ctx.callee.module.modules()
    ):
        ctx.limits.append("In training the returned weights are those after dropout, as in torch.")
        return False
    check = name if ctx.strict else READING
    severity: Severity = ctx.against_declared
    ctx.failed(name, found("returned-weights", check, says, severity=severity))
    return ctx.strict


def check_weights_state(ctx: Context) -> None:
    """Rows of weights must sum to one; checked only where there is no formula to compare with."""
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
            says = f"rows of the returned weights do not sum to one (error up to {gap:.3g})"
            ctx.failed(
                "weights are probabilities",
                found(None, "weights are probabilities", says, severity="note"),
            )
        return
