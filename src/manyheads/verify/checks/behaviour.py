"""What depends on what, without any weights: which inputs reach which outputs."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.problem import Problem, allowed_by_order
from manyheads.verify.context import Context
from manyheads.verify.findings import Finding, Where, found
from manyheads.verify.gaps import relative_gap
from manyheads.verify.watch import Line

Shown = Mapping[str, object]
"""Evidence that goes with every finding of this kind."""


def influence(ctx: Context, problem: Problem) -> Tensor | None:
    """(S, B, T): how far each output moves when one key position of sample 0 changes.

    None where a call raises.
    """
    base = ctx.put(problem)
    if base.output is None:
        return None
    size = float(base.output.nan_to_num(0.0, 0.0, 0.0).abs().max()) or 1.0
    generator = torch.Generator().manual_seed(120)
    moved = []
    for s in range(problem.x_k.shape[-2]):
        outcome = ctx.put(_perturbed(problem, s, generator))
        if outcome.output is None or outcome.output.shape != base.output.shape:
            return None
        gap = (outcome.output - base.output).abs() / size
        gap = gap.masked_fill(~outcome.output.isfinite() & ~base.output.isfinite(), 0.0)
        gap = gap.amax(dim=(1, 3)) if gap.dim() == 4 else gap.amax(dim=-1)  # (B, T)
        moved.append(gap.nan_to_num(nan=1.0))
    return torch.stack(moved)


def _perturbed(problem: Problem, s: int, generator: torch.Generator) -> Problem:
    def move(x: Tensor) -> Tensor:
        x = x.clone()
        x[0, ..., s, :] += 3.0 * torch.randn(x.shape[-1], generator=generator, dtype=x.dtype)
        return x

    x_k = move(problem.x_k)
    x_q = x_k if problem.x_k is problem.x_q else problem.x_q
    x_v = x_k if problem.x_v is problem.x_k else move(problem.x_v)
    return replace(problem, x_q=x_q, x_k=x_k, x_v=x_v)


def picture(moved: Tensor, tolerance: float) -> list[list[int]]:
    """A row an output position, a column an input position of that sample; 1 is influence."""
    return (moved[:, 0] > tolerance).T.int().tolist()


def dependence(ctx: Context) -> list[Finding]:
    """What the influence of inputs on outputs says against the declaration.

    Returns:
        Findings, most telling first; empty where everything depends on what it should.
    """
    if ctx.subject.call.form in ("static_cache", "cache"):
        return []
    problem = ctx.maker.plain(3, 6, seed=121)
    moved = influence(ctx, problem)
    if moved is None:
        return []
    reached = moved > ctx.tolerance * 10
    shown: Shown = {"influence": picture(moved, ctx.tolerance * 10)}
    queries, keys = problem.x_q.shape[-2], problem.x_k.shape[-2]
    allowed = allowed_by_order(problem, queries, keys)
    own = reached[:, 0].T  # (T, S)
    reaches_away = bool((own & ~torch.eye(queries, keys, dtype=torch.bool)).any())
    is_over_batch = not reaches_away and ctx.subject.call.form != "cross"
    if not bool(reached.any()):
        says = "the output is the same for every input"
        return [
            found(
                None,
                "dependence",
                says,
                fix="find the line that replaces the result",
                evidence=shown,
            )
        ]
    if bool(reached[:, 1:].any()):
        return _across_samples(reached, is_over_batch, shown)
    if not reaches_away and queries > 1 and int(allowed.sum()) > queries:
        says = (
            "no token reaches any other token: attention runs between heads inside each position, "
            "or not at all"
        )
        return [found("attends-over-heads", "dependence", says, evidence=shown)]
    against = _against_order(own, allowed, shown)
    if against and not bool((own & ~allowed).any()):  # too little influence: a pattern of its own
        against = [replace(finding, severity=ctx.against_declared) for finding in against]
    return against or _permutation(ctx, shown)


def _across_samples(reached: Tensor, is_over_batch: bool, shown: Shown) -> list[Finding]:
    """Samples reach each other: over the batch alone, or mixed with their own."""
    if is_over_batch:
        says = (
            "samples reach each other and no token reaches another token of its own sample: "
            "attention runs over the batch"
        )
        return [found("batch-first-confusion", "dependence", says, evidence=shown)]
    count = int(reached[:, 1:].any(dim=0).sum())
    says = (
        f"a change in sample 1 reaches {count} output positions of other samples: samples are mixed"
    )
    kinds = ("folded-axes-misread", "view-used-as-transpose")
    return [found(kind, "dependence", says, evidence=shown) for kind in kinds]


def _against_order(own: Tensor, allowed: Tensor, shown: Shown) -> list[Finding]:
    """What reaches, or does not reach, against the declared causality and window; both (T, S)."""
    name, wrong, missing = "dependence", own & ~allowed, allowed & ~own
    if bool(wrong.any()):
        t, s = (int(i) + 1 for i in wrong.nonzero()[0])
        says = (
            f"input position {s} reaches output position {t}, which the declared causality or "
            f"window forbids ({int(wrong.sum())} such pairs)"
        )
        return [found(None, name, says, fix="hide those keys before the softmax", evidence=shown)]
    if bool(missing.any()):
        t, s = (int(i) + 1 for i in missing.nonzero()[0])
        says = (
            f"input position {s} does not reach output position {t}, which may attend to it "
            f"({int(missing.sum())} such pairs)"
        )
        return [found(None, name, says, fix="find the mask that hides that key", evidence=shown)]
    return []


def _permutation(ctx: Context, shown: Shown) -> list[Finding]:
    """Without positions and causality, permuted inputs must give permuted outputs."""
    spec = ctx.subject.spec
    if (
        spec.position is not None
        or spec.causal is not None
        or spec.window is not None
        or ctx.subject.call.form != "self"
    ):
        return []
    problem = ctx.maker.plain(2, 6, seed=122)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    x = problem.x_q[:, order]
    base, turned = ctx.put(problem), ctx.put(replace(problem, x_q=x, x_k=x, x_v=x))
    if base.output is None or turned.output is None or base.output.dim() != 3:
        return []
    gap = relative_gap(turned.output, base.output[:, order])
    if gap <= ctx.tolerance * 10:
        return []
    says = (
        f"a permutation of the input positions does not permute the output (difference {gap:.3g} "
        "of the largest): the contents of positions are mixed, or there are undeclared position "
        "encodings"
    )
    return [
        found(kind, "permutation", says, severity=ctx.against_declared, gap=gap, evidence=shown)
        for kind in ("merge-by-view", "split-by-view")
    ]


def _hides_later(ctx: Context) -> Line | None:
    """The line of a softmax that hides all later keys, whatever else the subject does."""
    seen = ctx.known.seen
    for event in () if seen is None else seen.structure.events:
        if event.op not in ("_softmax", "_safe_softmax") or event.values[0].dim() < 2:
            continue
        weights = event.values[0]
        size = weights.shape[-1]
        if weights.shape[-2] != size or size < 3:
            continue
        later = torch.ones(size, size, dtype=torch.bool).triu(1)
        hidden = (weights == 0).flatten(0, -3).all(0) if weights.dim() > 2 else weights == 0
        if bool(hidden[later].all()) and not bool(hidden[~later].any()):
            return event.line
    return None


def check_leak(ctx: Context) -> None:
    """Where the softmax hides all later keys, no later input may reach an output."""
    line = _hides_later(ctx)
    is_cached = ctx.subject.call.form in ("cache", "static_cache")
    if line is None or is_cached or ctx.located is not None:
        return
    moved = influence(ctx, ctx.maker.plain(2, 6, seed=123))
    if moved is None:
        return
    own = (moved[:, 0] > max(ctx.tolerance, 1e-11) * 10).T
    later = own & torch.ones_like(own).triu(1)
    if not bool(later.any()):
        ctx.passed("no later input", "no output changes with a later input")
        return
    t, s = (int(i) + 1 for i in later.nonzero()[0])
    says = (
        f"the softmax hides later keys, and yet input position {s} reaches output position {t}: "
        "another way around the mask leaks later positions"
    )
    where = Where.at("masked_scores", "other", line)
    evidence: Shown = {"influence": own.int().tolist()}
    ctx.failed(
        "no later input", found(None, "no later input", says, where=where, evidence=evidence)
    )


def check_dependence(ctx: Context) -> None:
    """Influence of inputs on outputs, where the formula alone has not settled the matter."""
    settled = any(f.severity == "error" for f in ctx.findings)
    if settled:
        return
    findings = dependence(ctx)
    if not findings:
        ctx.passed("dependence", "every output depends on exactly the inputs that it may see")
        return
    agrees = ctx.located is not None and all(
        (case.gap or 0.0) <= ctx.tolerance for case in ctx.cases
    )
    if agrees:
        ctx.passed("dependence", "as in the formula")
        return
    ctx.failed("dependence", findings[0])
    ctx.findings.extend(findings[1:])
