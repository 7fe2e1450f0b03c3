"""Which reading of the weights gives the subject's own numbers, or a known fault of it."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.core.config import Rotary
from manyheads.core.errors import ManyHeadsError
from manyheads.faults.catalogue import Variant
from manyheads.faults.softmax import scale_candidates
from manyheads.verify.calling import Callee
from manyheads.verify.context import RIGHT, relative_gap
from manyheads.verify.diagnose import all_variants
from manyheads.verify.infer_names import GUESSES, Target
from manyheads.verify.infer_params import Reading
from manyheads.verify.parameters import Located, locate
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import Spec, Subject

_SECONDS = 1.5


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A problem without weights, and what the subject made of it."""

    problem: Problem
    """What was put to it."""
    output: Tensor
    """What it gave."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The reading that was chosen."""

    reading: Reading
    """Where the weights are, and the sizes."""
    is_exact: bool
    """Whether the formula gives the subject's numbers under it."""
    gap: float
    """Largest relative difference."""
    scale_says: str = ""
    """What the scale is, where it is not the usual one."""


def observe(callee: Callee, subject: Subject) -> list[Observed]:
    """Two problems of different sizes and the subject's answers; empty where a call raises."""
    found = []
    maker = ProblemMaker(subject, None)
    form = subject.call.form
    sizes = ((2, 5, 7), (3, 4, 6)) if form in ("cross", "qkv", "heads") else ((2, 5, 5), (3, 7, 7))
    for i, (batch, queries, keys) in enumerate(sizes):
        problem = maker.plain(batch, queries, keys, seed=200 + i)
        with torch.no_grad():
            outcome = callee.call(problem)
        if outcome.output is None:
            return []
        found.append(Observed(problem=problem, output=outcome.output.double()))
    return found


def choose(
    callee: Callee,
    subject: Subject,
    options: list[Reading],
    observed: list[Observed],
    tolerance: float,
) -> Chosen | None:
    """The first reading under which the formula gives the observed numbers, else the usual one.

    Args:
        callee: with fixed weights.
        subject: form and causality known.
        options: readings, the most usual first.
        observed: problems and answers.
        tolerance: largest relative difference that counts as equal.
    """
    located = [(reading, weights_of(callee, reading)) for reading in options]
    usable = [(reading, weights) for reading, weights in located if weights is not None]
    if not usable or not observed:
        return Chosen(reading=usable[0][0], is_exact=False, gap=float("inf")) if usable else None
    deadline = time.perf_counter() + _SECONDS
    first = usable[0][0]
    usual_gap = float("inf")
    for reading, weights, scale_says in _trials(callee, subject, usable, observed[0]):
        gap = _gap(reading, weights, subject, observed[:1])
        if reading.params is first.params and usual_gap == float("inf"):
            usual_gap = gap
        if gap <= tolerance and _gap(reading, weights, subject, observed) <= tolerance:
            return Chosen(reading=reading, is_exact=True, gap=gap, scale_says=scale_says)
        if time.perf_counter() > deadline:
            break
    return Chosen(reading=first, is_exact=False, gap=usual_gap)


def weights_of(callee: Callee, reading: Reading) -> Located | None:
    """The weights under a reading in float64, None where they do not fit together."""
    try:
        found = locate(_root(callee), reading.params, reading.spec)
    except (ManyHeadsError, RuntimeError, AttributeError, ValueError, IndexError):
        return None
    if found.heads is None:
        return found
    heads = type(found.heads)(**{n: t.detach().double() for n, t in found.heads.tensors().items()})
    return replace(found, heads=heads)


def _root(callee: Callee) -> Target:
    from types import SimpleNamespace

    return SimpleNamespace(**callee.arguments) if callee.arguments else callee.made


def _trials(
    callee: Callee, subject: Subject, usable: list[tuple[Reading, Located]], observed: Observed
) -> Iterator[tuple[Reading, Located, str]]:
    """Readings with positions and scales, in the order of how usual they are."""
    is_open = subject.spec.position is None
    positions = (
        list(_positions(callee, subject)) if is_open and has_positions(callee, subject) else []
    )
    for reading, weights in usable:
        yield reading, weights, ""
    for (reading, weights), position in itertools.product(usable[:8], positions):
        yield _with(reading, position=position), weights, ""
    if subject.spec.scale is not None:
        return
    for (reading, weights), position in itertools.product(
        usable[:8], positions or [subject.spec.position]
    ):
        for name, scale in _scales(callee, reading, weights, subject, observed).items():
            yield _with(reading, position=position, scale=scale), weights, name


def _with(reading: Reading, **changes: Target) -> Reading:
    return replace(reading, spec=replace(reading.spec, **changes))


def _positions(callee: Callee, subject: Subject) -> Iterator[Any]:
    """Rotary pairings and bases, and the linear bias."""
    bases = [10000.0, *_attribute_numbers(callee, GUESSES["theta"][0]), 500000.0, 1000000.0]
    d = subject.spec.d
    dims: list[int | None] = [
        None,
        *(int(n) for n in _attribute_numbers(callee, ("rotary_dim", "rotary_ndims", "rot_dim"))),
    ]
    dims += [max(d // 2 // 2 * 2, 2)]
    for base in dict.fromkeys(bases):
        for dim in dims[:-1] if base != 10000.0 else dims:
            for style in ("half", "interleaved"):
                if (dim or d) % 2 == 0 and (dim or d) <= d and base > 0:
                    yield Rotary(base=base, style=style, dim=dim)
        if base == 10000.0:
            yield "alibi"


def _attribute_numbers(callee: Callee, names: tuple[str, ...]) -> list[float]:
    """Numbers that the subject, its parts or its configuration hold under one of the names."""
    if callee.module is None:
        return []
    holders = [
        h for m in callee.module.modules() for h in (m, getattr(m, "config", None)) if h is not None
    ]
    values = [getattr(h, name, None) for h in holders for name in names]
    return [
        float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool) and v > 0
    ]


def _scales(
    callee: Callee, reading: Reading, weights: Located, subject: Subject, observed: Observed
) -> dict[str, float]:
    """Scales that the subject holds, then those that people write."""
    problem = replace(observed.problem, weights=weights.heads, scale=reading.spec.factor)
    held = _attribute_numbers(
        callee,
        (
            "scale",
            "scaling",
            "softmax_scale",
            "sm_scale",
            "temperature",
            "scale_factor",
            "norm_factor",
        ),
    )
    found = {f"{value:.6g}, which it holds": value for value in held}
    found |= {
        f"{1 / value:.6g}, the inverse of a number that it holds": 1 / value for value in held
    }
    return found | scale_candidates(problem)


def _gap(reading: Reading, weights: Located, subject: Subject, observed: list[Observed]) -> float:
    """Largest relative difference between the formula and the subject's numbers."""
    filled = replace(subject, spec=reading.spec, params=reading.params)
    maker, worst = ProblemMaker(filled, weights), 0.0
    for one in observed:
        given = one.problem
        try:
            problem = maker.plain(given.batch, given.x_q.shape[-2], given.x_k.shape[-2], seed=0)
            problem = replace(problem, x_q=given.x_q, x_k=given.x_k, x_v=given.x_v)
            with torch.no_grad():
                expected = RIGHT.run(problem).output
        except (RuntimeError, ManyHeadsError, ValueError, IndexError):
            return float("inf")
        worst = max(worst, relative_gap(one.output, expected))
    return worst


def has_positions(callee: Callee, subject: Subject) -> bool:
    """Whether the last output changes when the earlier positions change places."""
    maker, spec = ProblemMaker(subject, None), subject.spec
    if subject.call.form not in ("self", "cache", "static_cache", "qkv", "cross"):
        return False
    problem = maker.plain(2, 6, 6, seed=210)
    order = torch.tensor([3, 1, 0, 4, 2, 5])
    x_k = problem.x_k[:, order]
    x_q = x_k if problem.x_q is problem.x_k else problem.x_q
    x_v = x_k if problem.x_v is problem.x_k else problem.x_v[:, order]
    with torch.no_grad():
        base, turned = (
            callee.call(problem).output,
            callee.call(replace(problem, x_q=x_q, x_k=x_k, x_v=x_v)).output,
        )
    if base is None or turned is None or base.dim() != 3:
        return False
    return spec.window is None and relative_gap(turned[:, -1], base[:, -1]) > 1e-6


def _usual(name: str, spec: Spec) -> object:
    """The head width and key/value heads that go without saying."""
    usual = {"num_kv_heads": spec.heads, "head_dim": spec.width // spec.heads}
    return usual.get(name)


def spec_words(before: Spec, after: Spec) -> dict[str, Any]:
    """What was filled in, in plain words."""
    from dataclasses import fields

    found: dict[str, Any] = {}
    for name in (f.name for f in fields(Spec)):
        old, new = getattr(before, name), getattr(after, name)
        if old == new or new is None or new == _usual(name, after):
            continue
        if isinstance(new, Rotary):
            found[name] = {"type": "rope", "style": new.style, "base": new.base} | (
                {"dim": new.dim} if new.dim else {}
            )
        else:
            found[name] = {"type": "alibi"} if new == "alibi" else new
    return found


_MOST_READINGS = 2
_DOUBT_SECONDS = 2.0


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
    deadline = time.perf_counter() + _DOUBT_SECONDS
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
