"""From outputs that differ from the formula to a named fault: every variant is compared."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.faults import (
    caching,
    head_layout,
    masking,
    positions,
    projections,
    softmax,
    sources,
)
from manyheads.faults.catalogue import Variant
from manyheads.verify.checks.behaviour import dependence, influence, picture
from manyheads.verify.checks.values import implausible
from manyheads.verify.context import Case, Context, without_masks
from manyheads.verify.findings import Finding, Severity, found


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """One problem and what the subject made of it."""

    problem: Problem
    """What was put to it."""
    output: Tensor
    """What it gave, in our order of axes, float64."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A reading that reproduces every observation."""

    variant: Variant
    """The reading."""
    error: float
    """Largest difference, relative to the largest output."""


@cache
def all_variants() -> tuple[Variant, ...]:
    """Every variant of every family, the likelier families first."""
    families = (head_layout, sources, projections, masking, softmax, positions, caching)
    return tuple(variant for family in families for variant in family.variants())


def gap_where_known(actual: Tensor, expected: Tensor) -> float:
    """Largest difference relative to the largest expected number, where that is known.

    Rows that `expected` leaves open (NaN) are skipped. Infinity where shapes differ, where
    nothing is left to compare, or where only one side is finite.
    """
    if actual.shape != expected.shape:
        return math.inf
    known = torch.isfinite(expected)
    if int(known.sum()) * 4 < known.numel():
        return math.inf
    have, want = actual[known], expected[known]
    if not torch.isfinite(have).all():
        return math.inf
    size = float(want.abs().max())
    return float((have - want).abs().max()) / (size if size > 0 else 1.0)


def _answer(variant: Variant, problem: Problem) -> Tensor | None:
    if not variant.applies(problem):
        return None
    try:
        with torch.no_grad():
            return variant.pipeline.run(problem).output
    except (RuntimeError, IndexError, ValueError):
        return None  # the reading makes no sense for these sizes


def _fit(
    variant: Variant, failing: list[Observation], passing: list[Observation], tolerance: float
) -> Fit | None:
    worst = 0.0
    for observed in failing:
        answer = _answer(variant, observed.problem)
        if answer is None:
            return None
        gap = gap_where_known(observed.output, answer)
        if gap > tolerance:
            return None
        worst = max(worst, gap)
    for observed in passing:
        answer = _answer(variant, observed.problem)
        if answer is not None and gap_where_known(observed.output, answer) > tolerance:
            return None
    return Fit(variant=variant, error=worst)


def fits(failing: list[Observation], passing: list[Observation], tolerance: float) -> list[Fit]:
    """Readings that reproduce all failing observations and contradict no others, best first.

    Args:
        failing: observations that differ from the formula.
        passing: observations that agree with it.
        tolerance: largest relative difference that counts as equal.
    """
    order = sorted(failing, key=lambda o: o.output.numel())
    candidates = [*softmax.scale_variants(order[0].problem), *all_variants()]
    found = [
        fit
        for variant in candidates
        if (fit := _fit(variant, order, passing, tolerance)) is not None
    ]
    if not found:
        found = list(_numeric_fits(order, passing, tolerance))
    about_masks = _is_about_masks(failing, passing)

    def rank(fit: Fit) -> tuple[int, bool]:
        is_mask_fault = fit.variant.fault.startswith(("mask", "causal"))
        return _bucket(fit.error, tolerance), about_masks and not is_mask_fault

    return sorted(found, key=rank)


def _is_about_masks(failing: list[Observation], passing: list[Observation]) -> bool:
    """Whether only problems with masks or causality differ."""

    def is_masked(observed: Observation) -> bool:
        return bool(observed.problem.masks) or observed.problem.is_causal

    return all(map(is_masked, failing)) and any(not is_masked(observed) for observed in passing)


def _bucket(error: float, tolerance: float) -> int:
    """Errors within rounding of each other are equal: the order of the families decides."""
    return 0 if error <= tolerance * 1e-2 else 1


Named = tuple[str, str, Pipeline]
"""The fault's id (empty for none), what the numbers equal, and the changed steps."""


def _numeric_fits(
    failing: list[Observation], passing: list[Observation], tolerance: float
) -> Iterator[Fit]:
    """A scale, rotary base or mask value that is fitted numerically."""
    first = failing[0]
    for search in (_other_scale, _other_base, _other_fill):
        for fault, says, pipeline in search(first, tolerance):
            is_legal = fault == "scale"
            variant = Variant(
                fault=fault, key="fitted", says=says, pipeline=pipeline, is_legal=is_legal
            )
            fit = _fit(variant, failing, passing, tolerance)
            if fit is not None:
                yield fit


def _other_scale(first: Observation, tolerance: float) -> Iterator[Named]:
    declared = first.problem.scale or 1.0
    grid = [declared * 10 ** (i / 20 - 2) for i in range(81)]
    value = _search(first, softmax.OtherScale, grid, tolerance)
    if value is not None:
        says = (
            f"scores are multiplied by {value:.6g} (divided by {1 / value:.5g}); declared is "
            f"{declared:.6g} (divided by {1 / declared:.5g})"
        )
        yield "scale", says, softmax.OtherScale(value)


def _other_base(first: Observation, tolerance: float) -> Iterator[Named]:
    declared = first.problem.rotary
    if declared is None:
        return
    grid = [10 ** (i / 20) for i in range(10, 141)]
    base = _search(first, lambda b: positions.OtherRotary(base=b), grid, tolerance)
    if base is not None:
        says = (
            f"the output equals the formula with the rotary base {base:.6g} instead of "
            f"{declared.base:g}"
        )
        yield "", says, positions.OtherRotary(base=base)


def _other_fill(first: Observation, tolerance: float) -> Iterator[Named]:
    if not first.problem.masks:
        return
    grid = [i / 2 for i in range(-80, 41)]
    for scope in ("masks", "all"):
        make = partial(_filled, scope)
        value = _search(first, make, grid, tolerance)
        if value is not None:
            says = f"the output equals the formula with hidden scores set to {value:.6g}"
            yield "mask-value", says, make(value)


def _filled(scope: str, value: float) -> Pipeline:
    return masking.SoftlyHidden(masking.filled(value), scope)


def _search(
    observed: Observation, make: Callable[[float], Pipeline], grid: list[float], tolerance: float
) -> float | None:
    """The parameter that gives the observed numbers, by a grid and golden section."""

    def gap(value: float) -> float:
        with torch.no_grad():
            return gap_where_known(observed.output, make(value).run(observed.problem).output)

    gaps = [gap(value) for value in grid]
    best = min(range(len(grid)), key=lambda i: gaps[i])
    if not gaps[best] < 0.6:  # the grid is close enough for a fit to show by then
        return None
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if gap(left) < gap(right):
            high = right
        else:
            low = left
    value = (low + high) / 2
    return value if gap(value) <= max(tolerance, 1e-7) else None


_ON_A_PATH = {"mask-ignored": "mask-lost-on-path", "scale": "scale-option-ignored"}
_MOST = 3
_HALF_ROUNDING = 0.03
_FLOAT32 = 3e-5


def explain_values(ctx: Context) -> None:
    """Diagnose the cases that differ from the formula, path by path."""
    if ctx.located is None:
        return
    failing = [c for c in ctx.cases if c.gap is not None and c.gap > ctx.tolerance]
    if not failing:
        return
    raised = [c for c in failing if c.outcome.output is None]
    failing = [c for c in failing if c.outcome.output is not None]
    if not failing:
        _refusals(ctx, raised)
        return
    failed_paths = {c.path for c in failing}
    passed_names = {
        (c.path, c.name) for c in ctx.cases if c.gap is not None and c.gap <= ctx.tolerance
    }
    names = {c.name for c in failing}
    is_partial = any(
        (path, name) in passed_names for path in {c.path for c in ctx.cases} for name in names
    )
    path = "" if "" in failed_paths else sorted(failed_paths)[0]
    group = [c for c in failing if c.path == path]
    rest = [
        c for c in ctx.cases if c.path == path and c not in group and c.outcome.output is not None
    ]
    found_fits = fits(_observations(group), _observations(rest), _fit_tolerance(ctx))
    if not found_fits:
        found_fits = _with_float32_inside(group + rest) or _by_smaller_groups(ctx, group)
    if found_fits:
        _report_fits(ctx, found_fits, group, is_partial)
    else:
        _report_unknown(ctx, group)


def _fit_tolerance(ctx: Context) -> float:
    return max(ctx.tolerance, 1e-9)


def _with_float32_inside(cases: list[Case]) -> list[Fit]:
    """Readings that fit as far as a float32 step inside (a table of angles, say) lets them."""
    far = [c for c in cases if c.gap is not None and c.gap > _FLOAT32]
    near = [c for c in cases if c.gap is not None and c.gap <= _FLOAT32]
    return fits(_observations(far), _observations(near), _FLOAT32) if far else []


def _by_smaller_groups(ctx: Context, group: list[Case]) -> list[Fit]:
    """Where no reading explains every case, one that explains the cases of the same kind may do."""
    groups = [[c for c in group if not c.problem.masks and not c.has_equal_sizes]]
    groups += [
        [c for c in group if c.name == name] for name in dict.fromkeys(c.name for c in group)
    ]
    for same in groups:
        if not same or all(c.has_equal_sizes for c in same):
            continue
        found_fits = fits(_observations(same), [], _fit_tolerance(ctx))
        if found_fits:
            return found_fits
    return []


def _observations(cases: list[Case]) -> list[Observation]:
    return [
        Observation(problem=c.problem, output=c.outcome.output.detach().double())
        for c in cases
        if c.outcome.output is not None
    ]


def _severity(ctx: Context, fit: Fit) -> Severity:
    """Legal for other weights is an error only against a declaration."""
    if not fit.variant.is_legal or ctx.strict:
        return "error"
    declared_scale = fit.variant.fault == "scale" and ctx.subject.spec.scale is not None
    return "error" if declared_scale else "note"


def _masks_work_elsewhere(ctx: Context) -> bool:
    return any(c.problem.masks and c.gap is not None and c.gap <= ctx.tolerance for c in ctx.cases)


def _names(ctx: Context, fit: Fit, is_partial: bool) -> list[str | None]:
    fault = fit.variant.fault or None
    if fault == "mask-ignored" and _masks_work_elsewhere(ctx):
        return ["mask-lost-on-path", fault]
    if is_partial and fault in _ON_A_PATH:
        return [_ON_A_PATH[fault], fault]
    spec = ctx.subject.spec
    used = fit.variant.pipeline
    is_other_declared = spec.scale is not None and abs(spec.scale - spec.d**-0.5) > 1e-12
    if (
        is_other_declared
        and isinstance(used, softmax.OtherScale)
        and math.isclose(used.value, spec.d**-0.5, rel_tol=1e-6)
    ):
        return ["scale-option-ignored", "scale"]
    packed = ctx.subject.params is not None and ctx.subject.params.layout.startswith(
        ("packed", "mha", "args")
    )
    if fault == "unpack-order" and not packed:
        swaps_kv = fit.variant.key == "qvk"
        return (
            ["key-value-swapped", "unpack-order"] if swaps_kv else ["unpack-order", "wrong-tensor"]
        )
    if fault == "mask-ignored" and _mask_shifts_rows(ctx):
        return ["mask-axis", "mask-ignored"]
    return [fault, *fit.variant.also]


def _mask_shifts_rows(ctx: Context) -> bool:
    """Whether a mask laid along the queries shows in float32, where it wipes the scores out."""
    case = next((c for c in ctx.cases if c.problem.masks and c.problem.masks[0].axes == "BS"), None)
    if case is None or ctx.callee.dtype != torch.float64:
        return False
    callee = ctx.callee.in_dtype(torch.float32)
    with torch.no_grad():
        masked, plain = (
            callee.call(case.problem).output,
            callee.call(without_masks(case.problem)).output,
        )
    return masked is not None and plain is not None and not torch.equal(masked, plain)


def _report_fits(ctx: Context, found_fits: list[Fit], group: list[Case], is_partial: bool) -> None:
    worst = max(c.gap for c in group if c.gap is not None)
    named: dict[str | None, Finding] = {}
    where = _where(group, is_partial)
    for fit in found_fits:
        for name in _names(ctx, fit, is_partial):
            if name not in named and len(named) < _MOST:
                says = f"{fit.variant.says}{where}"
                named[name] = found(
                    name,
                    "values",
                    says,
                    severity=_severity(ctx, fit),
                    fit_error=fit.error,
                    difference=_finite(worst),
                    problems=sorted({c.name for c in group}),
                    evidence=_influence(ctx, group),
                )
    findings = list(named.values())
    ctx.failed("values", findings[0], worst)
    ctx.findings.extend(findings[1:])


def _where(group: list[Case], is_partial: bool) -> str:
    if group[0].path:
        return f" (when called with {group[0].path})"
    if is_partial:
        return " (on the plain call; with other flags or modes it is right)"
    return ""


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


def _influence(ctx: Context, group: list[Case]) -> dict[str, object]:
    problem = min((c.problem for c in group), key=lambda p: p.x_q.numel())
    if ctx.subject.call.form in ("cache", "static_cache"):
        return {}
    moved = influence(ctx, problem)
    return {} if moved is None else {"influence": picture(moved, ctx.tolerance * 10)}


def _report_unknown(ctx: Context, group: list[Case]) -> None:
    worst = max(group, key=lambda c: c.gap or 0.0)
    output = worst.outcome.output
    is_finite = output is None or bool(output.isfinite().all())
    behaviour = dependence(ctx) if is_finite else []
    if behaviour and (behaviour[0].fault or not ctx.strict):
        ctx.failed("values", behaviour[0], worst.gap)
        ctx.findings.extend(behaviour[1:])
        return
    gap = worst.gap or 0.0
    if worst.gap is not None and gap < _HALF_ROUNDING and _looks_like_rounding(ctx, worst):
        says = (
            f"the output differs by {gap:.3g} of the largest from the formula, which is the size "
            "of rounding in a half type, though the input is float64: a step inside is computed "
            "in low precision"
        )
        ctx.failed("values", found("low-precision", "values", says, difference=gap), gap)
        return
    ctx.failed("values", _without_name(ctx, group, worst, behaviour), worst.gap)


def _looks_like_rounding(ctx: Context, case: Case) -> bool:
    """Whether the difference has no common sign; a constant offset has one."""
    assert case.outcome.output is not None
    gap = case.outcome.output.detach().double() - ctx.answer(case.problem).output
    return bool(gap.mean().abs() < 0.3 * gap.square().mean().sqrt())


def _without_name(
    ctx: Context, group: list[Case], worst: Case, behaviour: list[Finding]
) -> Finding:
    """A finding for numbers that no known fault gives."""
    gap = worst.gap or 0.0
    size = "is not finite" if gap in (0.0, math.inf) else f"differs by {gap:.3g} of the largest"
    says = (
        f"the output {size} from the formula ({_called(worst)}), and no known fault gives these "
        "numbers"
    )
    if behaviour:
        says += f"; {behaviour[0].says}"
    if ctx.strict:
        fix, evidence = "compare step by step with MultiHeadAttention.trace", _influence(ctx, group)
        return found(None, "values", says, fix=fix, difference=_finite(gap), evidence=evidence)
    says += "; the weights were inferred, so this interpretation may be wrong"
    reason, fix = implausible(ctx), "declare where the weights are"
    says += "" if reason is None else f"; but {reason}"
    severity: Severity = "note" if reason is None else "warning"
    return found(None, "values", says, severity=severity, fix=fix, difference=_finite(gap))


def _called(case: Case) -> str:
    return f"{case.name}, {case.path}" if case.path else case.name


def _refusals(ctx: Context, raised: list[Case]) -> None:
    """Calls that raise where the plain one does not."""
    case = raised[0]
    count = len({c.name for c in raised})
    says = f"the call raises {case.outcome.raised} ({_called(case)}; {count} kinds of problems)"
    is_asked_causal = case.problem.is_causal and ctx.subject.spec.causal != "always"
    is_declared = bool(
        case.problem.masks or case.path or is_asked_causal or len(case.problem.chunks) > 1
    )
    severity: Severity = "error" if is_declared and ctx.strict else "warning"
    ctx.failed(
        "values", found(None, "values", says, severity=severity, fix="accept what is declared")
    )
