"""Does the output equal the formula? Observes many problems on every path, for the diagnosis."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.verify.calling import Outcome
from manyheads.verify.context import Case, Context, relative_gap


def problems(ctx: Context) -> Iterator[tuple[str, Problem]]:
    """Problems that together show every fault of values: name and problem."""
    form, maker = ctx.subject.call.form, ctx.maker
    has_two_lengths = form in ("cross", "qkv", "heads")
    if form in ("cache", "static_cache"):
        yield from _cached(ctx)
        return
    yield "plain", maker.plain(2, 7, seed=1)
    yield "other sizes", maker.plain(3, 5, seed=2)
    yield "long", maker.plain(2, 13, seed=3)
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
        if ctx.subject.call.form in ("cross", "qkv", "heads"):
            problem = maker.plain(2, 4, 9, seed=60 + i)
            yield (
                f"mask {spec.arg}, more keys than queries",
                maker.masked(problem, (spec,), seed=60 + i),
            )
        if ctx.subject.call.causal_arg is not None:
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
    case = Case(name=name, path=path, problem=problem, outcome=outcome, gap=gap)
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
    every = [*problems(ctx), *masked_problems(ctx)]
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
    return [(n, p) for n, p in kept.items() if n not in ("long", "other sizes")]


def _modes(ctx: Context, every: list[tuple[str, Problem]]) -> None:
    """With gradients recorded, and in training mode where nothing is dropped."""
    module = ctx.callee.module
    for name, problem in every[:2] + [item for item in every[2:] if "mask" in item[0]][:2]:
        with torch.enable_grad():
            outcome = ctx.callee.call(problem)
            if module is not None and not ctx.subject.spec.dropout and not _has_dropout(module):
                module.train()
                try:
                    _record_mode(ctx, name, "training mode", problem, ctx.callee.call(problem))
                finally:
                    module.eval()
        _record_mode(ctx, name, "gradients recorded", problem, outcome)


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
