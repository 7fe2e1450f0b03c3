"""Compares outputs with every variant of the formula that a known mistake makes."""

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
    options,
    positions,
    projections,
    softmax,
    sources,
)
from manyheads.faults.catalogue import Variant

_CHANGES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("heads", "inputs", "project", "split", "cached"), ("q", "k", "v")),
    **dict.fromkeys(("turn", "rotate", "turn_piece"), ("q", "k")),
    "weights": ("q", "k", "v", "output"),
    "group": ("k", "v", "scores", "head_outputs"),
    **dict.fromkeys(("scores", "cap", "add_bias"), ("scores",)),
    **dict.fromkeys(("allowed", "ordered", "masks", "hide"), ("masked_scores", "attn_weights")),
    "softmax": ("attn_weights", "head_outputs"),
    "weigh": ("head_outputs",),
    "merge": ("head_outputs", "concat", "output"),
    **dict.fromkeys(("join", "project_out"), ("concat", "output")),
}
"""The steps at which a change of each method of `Pipeline` can be seen first."""


def changes_step(pipeline: Pipeline, step: str) -> bool:
    """Whether a variant of the formula can depart at a step."""
    changed = {
        name
        for cls in type(pipeline).__mro__
        if issubclass(cls, Pipeline) and cls is not Pipeline
        for name in vars(cls)
        if name in vars(Pipeline) and not name.startswith("_")
    }
    return any(name not in _CHANGES or step in _CHANGES[name] for name in changed)


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
    families = (options, head_layout, sources, projections, masking, softmax, positions, caching)
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


def fits(
    failing: list[Observation],
    passing: list[Observation],
    tolerance: float,
    step: str | None = None,
) -> list[Fit]:
    """Readings that reproduce all failing observations and contradict no others, best first.

    Args:
        failing: observations that differ from the formula.
        passing: observations that agree with it.
        tolerance: largest relative difference that counts as equal.
        step: where the subject departs, if that is known; its variants are tried first.
    """
    order = sorted(failing, key=lambda o: o.output.numel())
    every = [*softmax.scale_variants(order[0].problem), *all_variants()]
    at_step = [v for v in every if step is None or changes_step(v.pipeline, step)]
    found = _fitting(at_step, order, passing, tolerance)
    if not found and step is not None:
        rest = [v for v in every if not changes_step(v.pipeline, step)]
        found = _fitting(rest, order, passing, tolerance)
    if not found:
        found = list(_numeric_fits(order, passing, tolerance))
    about_masks = _is_about_masks(failing, passing)

    def rank(fit: Fit) -> tuple[int, bool]:
        is_mask_fault = fit.variant.fault.startswith(("mask", "causal"))
        return _bucket(fit.error, tolerance), about_masks and not is_mask_fault

    return sorted(found, key=rank)


def _fitting(
    variants: list[Variant], order: list[Observation], passing: list[Observation], tolerance: float
) -> list[Fit]:
    tried = (_fit(variant, order, passing, tolerance) for variant in variants)
    return [fit for fit in tried if fit is not None]


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
        says = f"scores are multiplied by {value:.6g}; expected is a factor of {declared:.6g}"
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
