"""From outputs that differ from the formula to a named fault: every variant is compared."""

import math
from dataclasses import replace

import torch

from manyheads.faults import softmax
from manyheads.verify.checks.behaviour import dependence, influence, picture
from manyheads.verify.context import Case, Context, without_masks
from manyheads.verify.findings import READING, Finding, Severity, Where, found
from manyheads.verify.gaps import ROUNDING
from manyheads.verify.locating import locate_case
from manyheads.verify.understand import foreign_operations, is_half, is_single
from manyheads.verify.variants import Fit, Observation, fits

_ON_A_PATH = {"mask-ignored": "mask-lost-on-path", "scale": "scale-option-ignored"}
_MOST = 3
_HALF_ROUNDING = 0.03
_FLOAT32 = ROUNDING["float32"]


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
    place = locate_case(ctx, group)
    step = None if place is None else place.step
    found_fits = fits(_observations(group), _observations(rest), _fit_tolerance(ctx), step)
    if not found_fits:
        found_fits = _with_float32_inside(ctx, group + rest) or _by_smaller_groups(ctx, group, step)
    if found_fits:
        _report_fits(ctx, found_fits, group, is_partial, place)
    else:
        _report_unknown(ctx, group, place)


def _fit_tolerance(ctx: Context) -> float:
    return max(ctx.tolerance, 1e-9)


def _with_float32_inside(ctx: Context, cases: list[Case]) -> list[Fit]:
    """Readings that fit as far as a float32 step inside (a table of angles, say) lets them."""
    seen = ctx.known.seen
    if seen is not None and not is_single(seen.structure.events):
        return []
    far = [c for c in cases if c.gap is not None and c.gap > _FLOAT32]
    near = [c for c in cases if c.gap is not None and c.gap <= _FLOAT32]
    return fits(_observations(far), _observations(near), _FLOAT32) if far else []


def _by_smaller_groups(ctx: Context, group: list[Case], step: str | None) -> list[Fit]:
    """Where no reading explains every case, one that explains the cases without masks may do."""
    same = [c for c in group if not c.problem.masks and not c.has_equal_sizes]
    if not same or len(same) == len(group):
        return []
    return fits(_observations(same), [], _fit_tolerance(ctx), step)


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
    return "error" if declared_scale else "warning"


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


def _report_fits(
    ctx: Context, found_fits: list[Fit], group: list[Case], is_partial: bool, place: Where | None
) -> None:
    worst = max(c.gap for c in group if c.gap is not None)
    named: dict[str | None, Finding] = {}
    where = _where(group, is_partial)
    evidence = {**_influence(ctx, group), **ctx.entry}
    for fit in found_fits:
        for name in _names(ctx, fit, is_partial):
            if name not in named and len(named) < _MOST:
                says = f"{fit.variant.says}{where}"
                severity = _severity(ctx, fit)
                named[name] = found(
                    name,
                    "values" if severity == "error" else READING,
                    says,
                    severity=severity,
                    fix=_fix(fit, severity),
                    where=place,
                    fit_error=fit.error,
                    difference=_finite(worst),
                    problems=sorted({c.name for c in group}),
                    evidence=evidence,
                )
    findings = list(named.values())
    ctx.failed("values", findings[0], worst)
    ctx.findings.extend(findings[1:])


def _fix(fit: Fit, severity: Severity) -> str:
    """How another scale is declared; empty for the remedy of the catalogue."""
    used = fit.variant.pipeline
    if severity != "warning" or not isinstance(used, softmax.OtherScale):
        return ""
    return f"divide by sqrt(head width), or declare scale {used.value:.6g} if it is meant"


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


def _report_unknown(ctx: Context, group: list[Case], place: Where | None) -> None:
    worst = max(group, key=lambda c: c.gap or 0.0)
    output = worst.outcome.output
    is_finite = output is None or bool(output.isfinite().all())
    behaviour = dependence(ctx) if is_finite else []
    if behaviour and behaviour[0].fault and behaviour[0].severity == "error":
        behaviour = [replace(finding, where=place) for finding in behaviour]
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
    ctx.failed("values", _without_name(ctx, group, worst, behaviour, place), worst.gap)


def _looks_like_rounding(ctx: Context, case: Case) -> bool:
    """Whether the difference has no common sign; a constant offset has one."""
    assert case.outcome.output is not None
    seen = ctx.known.seen
    if seen is not None and ctx.known.reading is not None and not is_half(seen.structure.events):
        return False
    gap = case.outcome.output.detach().double() - ctx.answer(case.problem).output
    return bool(gap.mean().abs() < 0.3 * gap.square().mean().sqrt())


def _without_name(
    ctx: Context, group: list[Case], worst: Case, behaviour: list[Finding], place: Where | None
) -> Finding:
    """A finding for numbers that no known fault gives."""
    gap = worst.gap or 0.0
    size = "is not finite" if gap in (0.0, math.inf) else f"differs by {gap:.3g} of the largest"
    says = f"the output {size} from the formula ({_called(worst)})"
    if behaviour:
        says += f"; {behaviour[0].says}"
    mistakes = [d for d in ctx.known.departures if d.is_mistake]
    foreign = "" if mistakes else foreign_words(ctx)
    says += "".join(f"; {d.says}" for d in mistakes)
    severity: Severity = "error" if ctx.strict or not foreign else "warning"
    if severity == "warning":
        says += f"; not understood: {foreign}"
    fix = "compare step by step with MultiHeadAttention.trace"
    if place is not None and place.line is not None:
        fix = f"correct the step {place.step} in line {place.line}"
    return found(
        None,
        "values",
        says,
        fix=fix if severity == "error" else "declare it, or check that part by itself",
        severity=severity,
        where=place,
        difference=_finite(gap),
        evidence={**_influence(ctx, group), **ctx.entry},
    )


def foreign_words(ctx: Context) -> str:
    """What was seen at work that is not understood; empty where there is nothing."""
    said = [d.says for d in ctx.known.departures if d.is_foreign]
    said += foreign_operations(ctx.known)
    return "; ".join(dict.fromkeys(said))


def judge_departures(ctx: Context) -> None:
    """What was seen that is not in the formula, where values could not be compared."""
    if ctx.located is not None:
        return
    foreign = foreign_operations(ctx.known)
    for departure in ctx.known.departures:
        line = departure.line
        where = None if line is None else Where.at(departure.step, "other", line)
        is_open = departure.is_foreign or (bool(foreign) and not departure.is_mistake)
        severity: Severity = "warning" if is_open else "error"
        says = "; ".join(dict.fromkeys([departure.says, *foreign])) if is_open else departure.says
        ctx.failed("structure", found(None, "structure", says, severity=severity, where=where))
    if ctx.known.reason:
        ctx.failed("structure", found(None, "structure", ctx.known.reason, severity="warning"))


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
