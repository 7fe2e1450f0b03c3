"""Where no sound reading fits: the circumstances in which a known fault gives the numbers."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import torch

from manyheads.attention.problem import Problem
from manyheads.core.config import Rotary
from manyheads.core.errors import ManyHeadsError
from manyheads.faults.catalogue import Variant
from manyheads.verify.calling import Callee
from manyheads.verify.context import relative_gap
from manyheads.verify.diagnose import all_variants
from manyheads.verify.infer_fit import Chosen, Observed, observe, weights_of
from manyheads.verify.infer_params import Reading
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import Subject

_MOST_READINGS = 2
_SECONDS = 2.0


def explaining(
    subject: Subject,
    problems: list[Problem],
    outputs: list[torch.Tensor],
    variants: tuple[Variant, ...],
    tolerance: float,
) -> Variant | None:
    """The first variant that is no attention for any weights and gives all the outputs."""
    for variant in variants:
        if not variant.is_legal and _gives(variant, problems, outputs, tolerance):
            return variant
    return None


def _gives(
    variant: Variant, problems: list[Problem], outputs: list[torch.Tensor], tolerance: float
) -> bool:
    for problem, output in zip(problems, outputs, strict=True):
        try:
            if not variant.applies(problem):
                return False
            with torch.no_grad():
                answer = variant.pipeline.run(problem).output
        except (RuntimeError, IndexError, ValueError, ManyHeadsError):
            return False
        if not relative_gap(output, answer) <= tolerance:
            return False
    return True


def _circumstances(
    callee: Callee, subject: Subject
) -> Iterator[tuple[Subject, tuple[Variant, ...]]]:
    """With positions, then with the first two axes exchanged, then causal or not."""
    form, layout = subject.call.form, subject.call.layout
    if subject.spec.position is None:
        for position in (Rotary(), Rotary(style="interleaved"), "alibi"):
            yield subject.with_spec(position=position), _named("rotary", "linear-bias")
    moved = ("merge", "split", "view", "folded")
    if layout in ("BTE", "TBE") and form in ("self", "cross", "qkv"):
        swapped = subject.with_call(layout="TBE" if layout == "BTE" else "BTE")
        yield swapped.with_spec(causal=None, window=None), _named(*moved)
    if form in ("self", "qkv", "cache"):
        other = None if subject.spec.causal == "always" else "always"
        turned = subject.with_spec(causal=other, window=None)
        yield turned, _named("causal", *moved, "head-order")


def reconsider(
    callee: Callee, subject: Subject, options: list[Reading], tolerance: float
) -> tuple[Subject, Chosen, bool] | None:
    """The circumstances and reading under which a known fault gives the subject's numbers exactly.

    Args:
        callee: with fixed weights; its subject is changed for the trials and set back.
        subject: as understood.
        options: readings of the weights, the most usual first.
        tolerance: largest relative difference that counts as equal.

    Returns:
        the subject, the reading, and whether anything differs from what was understood; None where
        no known fault explains the numbers.
    """
    deadline = time.perf_counter() + _SECONDS
    for changed, variants in list(_circumstances(callee, subject)):
        callee.subject = changed
        observed = observe(callee, changed)
        for reading in options[:_MOST_READINGS] if observed else []:
            if time.perf_counter() > deadline:
                break
            own = _under(reading, changed)
            if _is_explained(callee, changed, own, observed, variants, tolerance):
                callee.subject = subject
                return (
                    changed,
                    Chosen(reading=own, is_exact=False, gap=float("inf")),
                    changed is not subject,
                )
    callee.subject = subject
    return None


def runs_elsewhere(callee: Callee, subject: Subject, reading: Reading, tolerance: float) -> bool:
    """Whether it is attention, but over heads or samples instead of positions."""
    observed = observe(callee, subject)
    variants = _named("attends", "batch")
    return bool(observed) and _is_explained(callee, subject, reading, observed, variants, tolerance)


@cache
def _named(*beginnings: str) -> tuple[Variant, ...]:
    return tuple(variant for variant in all_variants() if variant.fault.startswith(beginnings))


def _under(reading: Reading, subject: Subject) -> Reading:
    spec = subject.spec
    return replace(
        reading,
        spec=replace(reading.spec, causal=spec.causal, window=spec.window, position=spec.position),
    )


def _is_explained(
    callee: Callee,
    subject: Subject,
    reading: Reading,
    observed: list[Observed],
    variants: tuple[Variant, ...],
    tolerance: float,
) -> bool:
    weights = weights_of(callee, reading)
    if weights is None:
        return False
    maker = ProblemMaker(replace(subject, spec=reading.spec, params=reading.params), weights)
    problems = []
    for one in observed:
        given = one.problem
        problem = maker.plain(given.batch, given.x_q.shape[-2], given.x_k.shape[-2])
        problems.append(replace(problem, x_q=given.x_q, x_k=given.x_k, x_v=given.x_v))
    return (
        explaining(subject, problems, [one.output for one in observed], variants, tolerance)
        is not None
    )
