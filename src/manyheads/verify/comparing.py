"""Compares two implementations: same weights, same inputs, the outputs and then the steps."""

import contextlib
import inspect
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ManyHeadsError, SubjectError
from manyheads.verify.calling import Callee, prepared
from manyheads.verify.comparison import ComparedProblem
from manyheads.verify.comparison_report import Comparison
from manyheads.verify.departing import compared_steps, watched
from manyheads.verify.findings import short
from manyheads.verify.infer import Inference, infer
from manyheads.verify.infer_build import built
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.reading import EXACT, SINGLE
from manyheads.verify.same_weights import (
    Held,
    Match,
    copy_weights,
    held,
    matched,
    with_located_weights,
)
from manyheads.verify.settings import Setting, elsewhere
from manyheads.verify.shared_problems import Shared, SharedProblems, plainest
from manyheads.verify.subject import NoSubjectError, Subject
from manyheads.verify.understand import is_single
from manyheads.verify.watch import storage_of
from manyheads.verify.weight_map import conversion, pieces, unmatched


@dataclass(frozen=True, kw_only=True, eq=False)
class Implementation:
    """One of two implementations, built and understood."""

    subject: Subject
    """Its declaration, completed."""
    callee: Callee
    """Calls it."""
    held: Held
    """Its parameters."""
    inference: Inference
    """What was inferred."""

    @property
    def maker(self) -> ProblemMaker:
        """Makes problems with the weights that it has now."""
        try:
            located = self.callee.located()
        except ManyHeadsError:
            located = None
        return ProblemMaker(self.subject, located)


def prepare(target: Any, subject: Subject) -> Implementation:  # noqa: ANN401 - any object
    """Build a target, infer what is not declared, and find its weights.

    Args:
        target: a class, module or function.
        subject: what is declared of it.

    Raises:
        SubjectError: it cannot be built or called, or its declaration does not fit.
    """
    made, subject, _ = built(target, subject)
    if isinstance(made, nn.Module):
        _vary_gains(made)
    known = infer(made, subject)
    callee = prepared(known.made, known.subject)
    with torch.no_grad():
        if callee.call(ProblemMaker(known.subject, None).plain(2, 5)).output is None:
            callee = callee.in_dtype(torch.float32)
    found = with_located_weights(known.understanding, callee, known.subject)
    if found.spec.scale is None and known.understanding.scale is not None:
        found = found.with_spec(scale=known.understanding.scale)
    callee.subject = found
    names = known.understanding.names
    return Implementation(
        subject=found, callee=callee, held=held(callee, found, names), inference=known
    )


def _vary_gains(module: nn.Module) -> None:
    """Give every norm its own gains, so that they can be told apart."""
    generator = torch.Generator().manual_seed(77)
    with torch.no_grad():
        for parameter in module.parameters():
            is_row = parameter.dim() == 1 and parameter.is_floating_point()
            if is_row and parameter.numel() > 1 and bool((parameter == 1).all()):
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)


def prepare_both(
    targets: tuple[Any, Any], subjects: tuple[Subject, Subject]
) -> tuple[Implementation, Implementation]:
    """Prepare two targets; what is built here gets the sizes of what is built already.

    Args:
        targets: as for `prepare`.
        subjects: as for `prepare`.

    Raises:
        SubjectError: one cannot be built or called.
    """
    first, second = sorted((0, 1), key=lambda i: _freedom(targets[i]))
    made = {first: prepare(targets[first], subjects[first])}
    try:
        made[second] = prepare(targets[second], _with_sizes(subjects[second], made[first]))
    except SubjectError:
        made[second] = prepare(targets[second], subjects[second])
        with contextlib.suppress(SubjectError):  # then each has the sizes that it had
            made[first] = prepare(targets[first], _with_sizes(subjects[first], made[second]))
    return made[0], made[1]


def _freedom(target: object) -> int:
    """How many sizes a target can take: modules one, classes those of their arguments."""
    if isinstance(target, nn.Module):
        return 0
    return 1 if inspect.isclass(target) else 2


def _with_sizes(subject: Subject, other: Implementation) -> Subject:
    """A declaration with the sizes of another implementation, where it declares none."""
    known = other.subject.spec
    sizes = {"embed_dim": known.width, "num_heads": known.heads}
    if known.num_kv_heads not in (None, known.num_heads):
        sizes["num_kv_heads"] = known.kv_heads
    return subject.with_spec(
        **{n: size for n, size in sizes.items() if getattr(subject.spec, n) is None}
    )


def compare_prepared(a: Implementation, b: Implementation, setting: Setting) -> Comparison:
    """Give both the same weights and the same problems, and compare what comes out."""
    blank = Comparison(
        a=a.subject.target,
        b=b.subject.target,
        verdict="undetermined",
        says="",
        inferred={"a": a.inference.inferred, "b": b.inference.inferred},
    )
    match = matched(a.held, b.held)
    if match is None:
        return replace(blank, says=_why_unmatched(a, b))
    found = pieces(a.held, b.held, match, _share_weights(a, b, match))
    left = {
        "a": unmatched(a.held, [piece.a for piece in found]),
        "b": unmatched(b.held, [piece.b for piece in found]),
    }
    blank = replace(
        blank,
        matched_by=match.by,
        map=tuple(piece.row for piece in found),
        unmatched=left,
        conversion=conversion((blank.a, blank.b), found, left),
        tolerance=max(_tolerance(a), _tolerance(b)),
    )
    try:
        problems = SharedProblems(a.maker, b.maker)
        every = list(problems.all())
    except SubjectError as error:
        return replace(blank, says=str(error))
    blank = replace(blank, left_out=tuple(dict.fromkeys(problems.left_out)))
    plain = _judged(blank, a, b, every)
    return plain if not plain.is_equal or setting.is_plain else _set(plain, a, b, every, setting)


def _judged(
    blank: Comparison, a: Implementation, b: Implementation, every: Sequence[Shared]
) -> Comparison:
    """The verdict on all problems, and the steps of one."""
    assert blank.tolerance is not None
    results = [(shared, _compared(a.callee, b.callee, shared)) for shared in every]
    measured = [(s, r.gap) for s, r in results if r.gap is not None]
    made = replace(blank, problems=tuple(r for _, r in results))
    if not measured:
        return replace(made, says=f"no problem gave numbers in both: {results[0][1].says}")
    departing = [s for s, gap in measured if gap > blank.tolerance]
    shown = plainest(departing or [s for s, _ in measured])
    at_work = [watched(x.callee, p, blank.tolerance) for x, p in ((a, shown.a), (b, shown.b))]
    if at_work[0] is not None and at_work[1] is not None:
        steps = compared_steps(at_work[0], at_work[1], blank.tolerance, departs=bool(departing))
        made = replace(made, steps=steps)
    made = replace(made, gap=max(gap for _, gap in measured))
    if departing:
        many = f"{len(departing)} of {len(measured)} problems"
        return replace(made, verdict="different", says=f"Their outputs differ in {many}.")
    return replace(made, verdict="equal", says="Their outputs are equal within rounding.")


def _set(
    plain: Comparison,
    a: Implementation,
    b: Implementation,
    every: Sequence[Shared],
    setting: Setting,
) -> Comparison:
    """Compare once more, with the second in another type, on another device or compiled."""
    tolerance = setting.tolerance(plain.tolerance or EXACT)
    given = [s for s in every if not s.is_large] if setting.dtype is not None else list(every)
    try:
        first = a.callee if setting.dtype is None else a.callee.in_dtype(setting.first_dtype)
        second = elsewhere(b.callee, setting)
    except (Exception, SystemExit) as error:
        says = f"the second cannot be run {setting}: {short(error)}"
        return replace(plain, verdict="undetermined", says=says)
    results = [_compared(first, second, shared) for shared in given]
    gaps = [r.gap for r in results if r.gap is not None]
    named = tuple(replace(r, name=f"{r.name} ({setting})") for r in results)
    made = replace(plain, problems=(*plain.problems, *named), tolerance=tolerance)
    if not gaps:
        says = f"the second cannot be run {setting}: {results[0].says}"
        return replace(made, verdict="undetermined", says=says)
    made = replace(made, gap=max(gaps))
    expected = f"the expected rounding is at most {tolerance:.2g} of the largest output"
    if max(gaps) > tolerance:
        says = f"Equal in float64, but not {setting}: {expected}."
        return replace(made, verdict="different", says=says)
    return replace(made, says=f"Equal in float64, and {setting} within rounding: {expected}.")


def _share_weights(a: Implementation, b: Implementation, match: Match) -> tuple[str, ...]:
    """Give the second the weights of the first; the other way round where it has fewer."""
    counts = [len(x.held.places["w_k"].entries) if "w_k" in x.held.places else 0 for x in (a, b)]
    if counts[1] < counts[0]:
        turned = {name: (y, x) for name, (x, y) in match.pairs.items()}
        return copy_weights(b.held, a.held, turned)
    return copy_weights(a.held, b.held, match.pairs)


def _tolerance(x: Implementation) -> float:
    """Largest relative difference of equal outputs, by the types at work."""
    seen = x.inference.understanding.seen
    if x.callee.dtype != torch.float64 or seen is None:
        return SINGLE
    data = seen.structure.data
    of_data = (e for e in seen.structure.events if any(storage_of(y) in data for y in e.out))
    return SINGLE if is_single(of_data) else EXACT


def _why_unmatched(a: Implementation, b: Implementation) -> str:
    for x in (a, b):
        if not {"w_q", "w_k", "w_v"} <= set(x.held.places):
            known = x.inference.understanding
            seen = [d.says for d in known.departures] or [known.reason or "no weights were seen"]
            return f"the weights of {x.subject.target} cannot be read: {seen[0]}"
    return "their weights have other sizes: declare sizes that both can take"


def _compared(a: Callee, b: Callee, shared: Shared) -> ComparedProblem:
    """The outputs of one problem."""
    with torch.no_grad():
        outcomes = [a.call(shared.a), b.call(shared.b)]
    raised = [f"{side}: {o.raised}" for side, o in zip("ab", outcomes, strict=True) if o.raised]
    x, y = (o.output for o in outcomes)
    if x is None or y is None:
        return ComparedProblem(name=shared.name, gap=None, says="; ".join(raised))
    if not bool(x.isfinite().any()) and not bool(y.isfinite().any()):
        return ComparedProblem(name=shared.name, gap=None, says="neither gives a finite number")
    says = "" if x.shape == y.shape else f"shapes {tuple(x.shape)} and {tuple(y.shape)}"
    return ComparedProblem(name=shared.name, gap=output_gap(x, y), says=says)


def output_gap(x: Tensor, y: Tensor) -> float:
    """Largest difference relative to the largest number; infinity where only one is finite."""
    if x.shape != y.shape:
        return math.inf
    x, y = x.detach().double(), y.detach().double()
    same = (x == y) | (x.isnan() & y.isnan())
    difference = torch.where(same, 0.0, (x - y).abs()).nan_to_num(nan=math.inf)
    size = float(torch.where(x.isfinite(), x.abs(), 0.0).max())
    return float(difference.max()) / (size or 1.0)


def compare_targets(
    targets: tuple[Any, Any], subjects: tuple[Subject, Subject], setting: Setting
) -> Comparison:
    """Compare two loaded targets.

    Args:
        targets: classes, modules or functions; the second can be the first.
        subjects: what is declared of each.
        setting: in which the second runs too.

    Raises:
        NoSubjectError: a declaration names something that does not exist or is impossible.
    """
    begun = time.perf_counter()
    setting.check_device()
    try:
        a, b = prepare_both(targets, subjects)
        made = compare_prepared(a, b, setting)
    except NoSubjectError:
        raise
    except (Exception, SystemExit) as error:
        says = str(error) if isinstance(error, ManyHeadsError) else f"it raises {short(error)}"
        made = Comparison(
            a=subjects[0].target, b=subjects[1].target, verdict="undetermined", says=says
        )
    return replace(made, seconds=time.perf_counter() - begun)
