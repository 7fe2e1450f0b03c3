"""Runs the checks on a subject, has the observations diagnosed, and writes the report."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import SubjectError
from manyheads.faults.catalogue import FAULT_KINDS
from manyheads.verify.arrays import runs_numpy
from manyheads.verify.calling import prepared
from manyheads.verify.checks.behaviour import check_dependence, check_leak
from manyheads.verify.checks.dropout import check_dropout
from manyheads.verify.checks.gradients import (
    check_gradients,
    check_registration,
    check_sharing,
    check_unused,
)
from manyheads.verify.checks.masking import (
    check_autocast,
    check_empty_rows,
    check_hidden_content,
    check_masks_used,
)
from manyheads.verify.checks.numerics import (
    check_half,
    check_half_range,
    check_large_inputs,
    check_long_rows,
)
from manyheads.verify.checks.shapes import (
    check_size_one,
    check_strides,
    check_unbatched,
    expected_shape,
)
from manyheads.verify.checks.state import (
    check_inputs_kept,
    check_masks_kept,
    check_repeatable,
    check_second_sequence,
)
from manyheads.verify.checks.values import check_returned_weights, check_values, check_weights_state
from manyheads.verify.context import Check, Context
from manyheads.verify.diagnose import explain_values, judge_departures
from manyheads.verify.findings import READING, Finding, Severity, Verdict, found
from manyheads.verify.gaps import ROUNDING
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.report import VerifyReport, undetermined
from manyheads.verify.subject import Subject
from manyheads.verify.understand import is_single
from manyheads.verify.understanding import Understanding

FIRST: tuple[Check, ...] = (
    check_repeatable,
    check_registration,
    check_unused,
    check_sharing,
    check_inputs_kept,
    check_masks_kept,
    check_masks_used,
)
"""Checks that come before values are compared."""
LATER: tuple[Check, ...] = (
    check_leak,
    check_size_one,
    check_unbatched,
    check_strides,
    check_returned_weights,
    check_weights_state,
    check_empty_rows,
    check_hidden_content,
    check_dropout,
    check_gradients,
    check_second_sequence,
    check_half,
    check_long_rows,
    check_large_inputs,
    check_half_range,
    check_autocast,
    check_dependence,
)
"""Checks that come after."""
_OF_TORCH: dict[Check, str] = {
    check_registration: "registration",
    check_gradients: "gradients",
    check_half: "half precision",
    check_long_rows: "long rows",
    check_half_range: "float16 range",
    check_autocast: "autocast",
}
"""Checks of what NumPy does not have, with their names."""

_HOW_TO_CALL = "declare how the subject is built and called"


def completed(subject: Subject) -> Subject:
    """Fill in what a declaration may leave out, by the defaults of the form."""
    spec, call = subject.spec, subject.call
    if spec.num_heads is None:
        raise SubjectError("spec.num_heads is missing: declare it, it cannot be inferred")
    if spec.embed_dim is None and spec.head_dim is None:
        raise SubjectError("spec.embed_dim is missing: declare it, it cannot be inferred")
    call = replace(
        call,
        form=call.form or "self",
        layout=call.layout or "BTE",
        masks=call.masks or (),
        returns=call.returns or "out",
    )
    return replace(subject, spec=spec, call=call)


def verify(
    made: nn.Module | Callable[..., Any],
    subject: Subject,
    inferred: dict[str, Any],
    known: Understanding,
) -> VerifyReport:
    """Check a built subject.

    Args:
        made: the module or function; a module is copied, never changed.
        subject: what is declared of it, completed by inference where needed.
        inferred: what was inferred, for the report.
        known: what was seen of it at work.

    Returns:
        The report; trouble with the subject becomes the verdict `undetermined`.
    """
    start, state = time.perf_counter(), torch.random.get_rng_state()
    inferred = dict(inferred)
    notes = inferred.pop("notes", [])
    found_by_watching = subject.params is not None and subject.params.layout in (
        "found",
        "identity",
    )
    strict = subject.params is not None and "params" not in inferred and not found_by_watching
    try:
        subject = completed(subject)
        ctx = _context(made, subject, strict, known)
        problem = _first_call(ctx)
        if problem is not None:
            return replace(problem, seconds=time.perf_counter() - start, inferred=inferred)
        _run_checks(ctx)
        _add_notes(ctx, notes)
        _name_left_out(ctx, inferred.get("call.left_out", []))
    except SubjectError as error:
        seconds = time.perf_counter() - start
        return undetermined(
            subject, str(error), fix=_HOW_TO_CALL, seconds=seconds, inferred=inferred
        )
    finally:
        torch.random.set_rng_state(state)
    return _report(ctx, inferred, time.perf_counter() - start)


def _add_notes(ctx: Context, notes: list[dict[str, Any]]) -> None:
    """What inference found legal but unusual, unless something worse is the matter."""
    if not any(finding.severity == "error" for finding in ctx.findings):
        known = {finding.fault for finding in ctx.findings}
        fresh = [note for note in notes if note["fault"] not in known]
        ctx.findings += [_noted(note) for note in fresh]


def _noted(note: dict[str, Any]) -> Finding:
    is_reading = note["is_reading"]
    check = READING if is_reading else "inference"
    severity: Severity = "warning" if is_reading else "note"
    fix = "declare the mask under call.masks if it is meant" if is_reading else ""
    return found(note["fault"], check, note["says"], severity=severity, fix=fix)


def _name_left_out(ctx: Context, names: list[str]) -> None:
    """Say which arguments no check used."""
    if names:
        what = "argument" if len(names) == 1 else "arguments"
        ctx.limits.append(
            f"The {what} {', '.join(names)} stayed at the default: what is done with it was not "
            "checked."
        )


def _context(
    made: nn.Module | Callable[..., Any], subject: Subject, strict: bool, known: Understanding
) -> Context:
    callee = prepared(made, subject)
    located = callee.located()
    return Context(
        subject=subject,
        callee=callee,
        maker=ProblemMaker(subject, located),
        located=located,
        strict=strict,
        known=known,
        tolerance=max(1e-11, known.tolerance if known.tolerance > 1e-9 else 0.0),
    )


def _first_call(ctx: Context) -> VerifyReport | None:
    """See that the subject runs at all; falls back to float32 where it does not work in float64."""
    problem = ctx.maker.plain()
    outcome = ctx.put(problem)
    if outcome.raised is not None:
        other = ctx.callee.in_dtype(torch.float32)
        with torch.no_grad():
            again = other.call(problem)
        if again.output is None:
            return undetermined(ctx.subject, f"the call raises {outcome.raised}", fix=_HOW_TO_CALL)
        ctx.callee, ctx.tolerance, outcome = other, ROUNDING["float32"], again
        ctx.located = other.located()
        fixed = None if ctx.located is None else ctx.located.in_float64()
        ctx.maker = ProblemMaker(ctx.subject, fixed)
    assert outcome.output is not None
    have, want = tuple(outcome.output.shape), expected_shape(ctx, problem)
    if have != want:
        finding = found(
            None,
            "shapes",
            f"the output has shape {have}, expected {want}",
            fix="correct how heads are merged",
        )
        ctx.failed("shapes", finding)
        return _report(ctx, {}, 0.0)
    ctx.passed("shapes", f"an input of shape {tuple(problem.x_q.shape)} gives {have}")
    if not outcome.output.is_floating_point() or not torch.isfinite(outcome.output).any():
        ctx.failed("finite", _no_numbers(outcome.output))
        return _report(ctx, {}, 0.0)
    _judge_inner_precision(ctx)
    return None


def _no_numbers(output: Tensor) -> Finding:
    """A finding for an output that holds no usable number at all."""
    if not output.is_floating_point():
        says = f"the output has dtype {output.dtype}, but attention gives floating-point numbers"
        return found(None, "finite", says, fix="return the weighted sums without converting them")
    says = "the output is not finite: every number is NaN or infinite for ordinary input"
    return found(None, "finite", says, fix="find a division by zero or a query without any key")


def _judge_inner_precision(ctx: Context) -> None:
    """Where a narrower step inside is declared or seen at work, compare at that precision."""
    declared = ctx.subject.spec.compute_dtype
    if declared not in (None, "float64"):
        ctx.tolerance = max(ctx.tolerance, ROUNDING[declared])
        return
    seen = ctx.known.seen
    if ctx.tolerance > 1e-9 or seen is None or not is_single(seen.structure.events):
        return
    ctx.tolerance = ROUNDING["float32"]
    line = next((e.line for e in seen.structure.events if is_single([e])), None)
    where = f", line {line.number}" if line is not None else ""
    ctx.limits.append(f"A step inside works in float32, though the input is float64{where}.")


def _run_each(ctx: Context, checks: tuple[Check, ...]) -> None:
    is_numpy = runs_numpy(ctx.callee.made)
    for check in checks:
        if is_numpy and check in _OF_TORCH:
            ctx.skipped(_OF_TORCH[check], "NumPy has no gradients, modules or half-precision sums")
        else:
            check(ctx)


def _run_checks(ctx: Context) -> None:
    _run_each(ctx, FIRST)
    if any(f.fault in ("dropout-in-eval", "state-mutated") for f in ctx.findings):
        ctx.skipped("values", "the same input gives different outputs in every call")
        return
    check_values(ctx)
    explain_values(ctx)
    judge_departures(ctx)
    _run_each(ctx, LATER)


def _with_fix(finding: Finding) -> Finding:
    if finding.fix or finding.fault is None:
        return finding
    return replace(finding, fix=FAULT_KINDS[finding.fault].fix)


def _report(ctx: Context, inferred: dict[str, Any], seconds: float) -> VerifyReport:
    findings = [_with_fix(finding) for finding in _without_repeats(ctx.findings)]
    return VerifyReport(
        id=ctx.subject.id,
        target=ctx.subject.target,
        verdict=_verdict(ctx, findings),
        inferred=inferred,
        findings=tuple(findings),
        checks=tuple(ctx.results),
        seconds=seconds,
        steps=ctx.steps,
        limits=tuple(dict.fromkeys(ctx.limits)),
    )


def _verdict(ctx: Context, findings: list[Finding]) -> Verdict:
    """Sound only where the numbers were reproduced."""
    if any(f.severity == "error" for f in findings):
        return "faulty"
    compared = any(r.name == "values" and r.status == "passed" for r in ctx.results)
    readings = [f for f in findings if f.severity == "warning" and f.check == READING]
    if compared:
        return "nonstandard" if readings else "sound"
    is_explained = bool(readings) and not any(
        f.severity == "warning" and f.check != READING for f in findings
    )
    return "nonstandard" if is_explained else "undetermined"


def _without_repeats(findings: list[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    for finding in findings:
        if not any(
            k.fault == finding.fault and k.severity == finding.severity and finding.fault
            for k in kept
        ):
            kept.append(finding)
    return kept
