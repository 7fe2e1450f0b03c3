"""What a call takes and returns: causality, weights, caches and masks."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.problem import GivenMask, Problem
from manyheads.core.errors import ManyHeadsError
from manyheads.faults.catalogue import Variant
from manyheads.verify.calling import Callee, Outcome
from manyheads.verify.context import RIGHT
from manyheads.verify.gaps import relative_gap
from manyheads.verify.infer_form import free_sizes
from manyheads.verify.infer_trial import Argument
from manyheads.verify.parameters import Located
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import CONVENTIONS, CallSpec, MaskSpec, Subject
from manyheads.verify.variants import all_variants


def find_causal_argument(callee: Callee, subject: Subject, arguments: list[Argument]) -> str | None:
    """The flag that asks for causality, if the call takes one."""
    problem = ProblemMaker(subject, None).plain(2, 5, 5, seed=231)
    for argument in arguments:
        if argument.role == "causal":
            with torch.no_grad():
                outcomes = [
                    callee.call(problem, **{argument.name: value}) for value in (False, True)
                ]
            if all(outcome.output is not None for outcome in outcomes):
                return argument.name
    return None


@dataclass(frozen=True, kw_only=True)
class Returned:
    """What comes back."""

    returns: str
    """As in a declaration."""
    weights_axes: str = "BHTS"
    """As in a declaration."""
    flags: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Flags that may take either value."""


def find_returned(callee: Callee, subject: Subject, arguments: list[Argument]) -> Returned:
    """Whether attention weights come back, with which axes, and which flags the call has."""
    maker = ProblemMaker(subject, None)
    heads = subject.spec.heads
    queries = next(n for n in (5, 7, 9) if n != heads)
    problem = maker.plain(next(n for n in (2, 3) if n != heads), queries, queries + 1, seed=232)
    flags: dict[str, tuple[Any, ...]] = {}
    outcomes: list[Outcome] = []
    with torch.no_grad():
        outcomes.append(callee.call(problem))
        for argument in arguments:
            if argument.role == "flag":
                both = [callee.call(problem, **{argument.name: value}) for value in (False, True)]
                if all(outcome.output is not None for outcome in both):
                    flags[argument.name] = (False, True)
                    outcomes += both
    if subject.call.form == "cache":
        return Returned(returns="out,cache", flags=flags)
    axes = next(
        (a for outcome in outcomes if (a := _weights_axes(outcome, problem, heads)) is not None),
        None,
    )
    if axes is None:
        return Returned(returns="out", flags=flags)
    return Returned(returns="out,weights", weights_axes=axes, flags=flags)


def _weights_axes(outcome: Outcome, problem: Problem, heads: int) -> str | None:
    """Axes of a second tensor that holds probabilities of the right shape, else None."""
    weights = outcome.attn_weights
    if weights is None or not weights.is_floating_point():
        return None
    batch, queries, keys = problem.batch, problem.x_q.shape[-2], problem.x_k.shape[-2]
    axes = {(batch, heads, queries, keys): "BHTS", (batch, queries, keys): "BTS"}.get(
        tuple(weights.shape)
    )
    is_positive = bool((weights >= -1e-9).all())
    sums_to_one = bool(((weights.double().sum(-1) - 1.0).abs() < 1e-3).all())
    return axes if is_positive and sums_to_one else None


def call_words(call: CallSpec) -> dict[str, Any]:
    """What was filled in beyond form and order of axes, in words that JSON can hold."""
    found: dict[str, Any] = {"returns": call.returns}
    if call.causal_arg is not None:
        found["causal_arg"] = call.causal_arg
    if call.masks:
        found["masks"] = [
            {"arg": m.arg, "axes": m.axes, "convention": m.convention} for m in call.masks
        ]
    if call.flags:
        found["flags"] = {name: list(values) for name, values in call.flags.items()}
    if call.returns == "out,weights":
        found["weights_axes"] = call.weights_axes
    return found


_OTHERS = ("context", "memory", "encoder", "cross", "mem_")
_PADDING = ("pad", "key", "context", "memory", "valid", "input_mask", "len")


_SAME = 2e-5
"""Largest relative difference from the formula of a mask that is read right, in float32 too."""


@dataclass(kw_only=True)
class Masks:
    """The masks that a call takes."""

    specs: list[MaskSpec] = field(default_factory=list)
    """Those that can be checked."""
    notes: list[str] = field(default_factory=list)
    """What is to be said of the others."""
    replacing: list[str] = field(default_factory=list)
    """Names of those that take the place of causality."""
    dtype: torch.dtype | None = None
    """The type in which masks are to be given, where it is another than that of the input."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A way to hand a mask over that runs."""

    spec: MaskSpec
    """Axes and convention."""
    leak: float
    """What a hidden key still changes, as a share of what it changes unmasked; 0 hides it."""
    effect: float
    """How far the mask moves the output at all, relative to the largest."""


def infer_masks(
    callee: Callee, subject: Subject, located: Located | None, arguments: list[Argument]
) -> Masks:
    """The mask arguments, with axes and convention.

    Args:
        callee: form and layout known; its subject is set back afterwards.
        subject: as far as it is known.
        located: the weights where a reading reproduces the subject's numbers, else None.
        arguments: of the call.
    """
    found = Masks()
    for argument in arguments:
        if argument.role != "mask":
            continue
        is_for_others = any(word in argument.name.lower() for word in _OTHERS)
        if is_for_others and subject.call.form in ("self", "cache", "static_cache"):
            continue
        _infer_mask(callee, subject, located, argument.name, found)
    callee.subject = subject
    return found


def _infer_mask(
    callee: Callee, subject: Subject, located: Located | None, name: str, found: Masks
) -> None:
    """Put what is known of one mask argument into what was found."""
    if located is not None:
        single = _in_float32(callee, subject, located, name)
        if single is not None:
            found.dtype = torch.float32
            found.specs.append(single)
            return
        special = _special(callee, subject, located, name)
        if isinstance(special, MaskSpec):
            found.specs.append(special)
            found.replacing.append(special.arg)
            return
        if special is not None:
            found.notes.append(special)
            return
    chosen = _one(callee, subject, located, name)
    if chosen is not None:
        found.specs.append(chosen)


def find_documents(callee: Callee, arguments: list[Argument]) -> tuple[MaskSpec, ...]:
    """Arguments that say to which document each position belongs."""
    problem = ProblemMaker(callee.subject, None).plain(2, 6, 6, seed=233)
    found = []
    for argument in arguments:
        if argument.role == "documents":
            ids = torch.zeros(2, 6, dtype=torch.int64)
            with torch.no_grad():
                if callee.call(problem, **{argument.name: ids}).output is not None:
                    found.append(MaskSpec(arg=argument.name, axes="BTS", convention="documents"))
    return tuple(found)


def find_corner(callee: Callee, subject: Subject, located: Located | None) -> str | None:
    """To which key causality is aligned, where more keys than queries show it."""
    is_asked = subject.call.causal_arg is not None
    if located is None or subject.extras.is_square or subject.spec.causal_corner is not None:
        return None
    if subject.call.form not in ("cross", "qkv", "heads"):
        return None
    if not is_asked and subject.spec.causal != "always":
        return None
    gaps = []
    for corner in ("bottom_right", "top_left"):
        callee.subject = subject.with_spec(causal_corner=corner)
        maker = ProblemMaker(callee.subject, located)
        problem = maker.plain(2, 4, 9, seed=234, causal=True)
        with torch.no_grad():
            outcome = callee.call(problem)
            if outcome.output is None:
                return None
            gaps.append(relative_gap(outcome.output, RIGHT.run(problem).output))
    callee.subject = subject
    return "top_left" if gaps[1] <= 1e-6 < gaps[0] else None


def exclusive_masks(callee: Callee, subject: Subject, located: Located | None) -> tuple[str, ...]:
    """Masks of queries and keys that are refused or not applied where causality is asked for.

    A mask of padding is not among them: causality says nothing about padded keys.
    """
    if located is None or subject.call.causal_arg is None:
        return ()
    found = []
    for spec in subject.call.masks or ():
        if spec.axes in ("BS", "B"):
            continue
        callee.subject = subject
        maker = ProblemMaker(subject, located)
        problem = maker.masked(maker.plain(2, 7, seed=235, causal=True), (spec,), seed=5)
        with torch.no_grad():
            output = callee.call(problem).output
            answers = [RIGHT.run(p).output for p in (problem, replace(problem, masks=()))]
        both, alone = (output is not None and relative_gap(output, a) <= _SAME for a in answers)
        if not both and (output is None or alone):
            found.append(spec.arg)
    return tuple(found)


def _in_float32(callee: Callee, subject: Subject, located: Located, name: str) -> MaskSpec | None:
    """An additive mask that a subject takes in float32 only, whatever the type of its input."""
    if callee.dtype == torch.float32:
        return None
    for axes, convention in _ways(name):
        spec = MaskSpec(arg=name, axes=axes, convention=convention)
        if convention != "additive" or _parity(callee, subject, located, spec) is not None:
            continue
        single = subject.with_extras(mask_dtype=torch.float32)
        gap = _parity(callee, single, located, spec)
        if gap is not None and gap <= 1e-5:
            return spec
    return None


def _special(
    callee: Callee, subject: Subject, located: Located, name: str
) -> MaskSpec | str | None:
    """A mask that takes the place of causality, or a sentence on one that the formula lacks."""
    ways = [
        MaskSpec(arg=name, axes=axes, convention=convention) for axes, convention in _ways(name)
    ]
    gaps = [_parity(callee, subject, located, spec) for spec in ways]
    if any(gap is not None and gap <= _SAME for gap in gaps):
        return None
    for spec in ways:
        if subject.spec.causal == "always":
            gap = _parity(callee, subject.with_spec(causal=None, window=None), located, spec)
            if gap is not None and gap <= _SAME:
                return spec
        if spec.axes == "BS" and subject.call.form == "self":
            gap = _parity(callee, subject, located, spec, only_visible=True)
            if gap is not None and gap <= _SAME:
                return (
                    f"{name} hides keys ({spec.convention}) and changes outputs at their positions"
                )
    return None


def _ways(name: str) -> Iterator[tuple[str, str]]:
    """Axes and conventions to try, the likeliest first."""
    low = name.lower()
    if "len" in low:
        yield "B", "lengths"
    padding = any(word in low for word in _PADDING)
    axes = (
        ["BS", "B1TS", "BTS", "TS", "(BH)TS"] if padding else ["TS", "B1TS", "BTS", "BS", "(BH)TS"]
    )
    if low in ("attention_mask",):
        axes = ["B1TS", "BTS", "TS", "BS", "(BH)TS"]
    first = "blocked" if "padding" in low else "allowed"
    for convention in sorted(CONVENTIONS, key=lambda name: name != first):
        if convention in ("lengths", "documents"):
            continue
        for axis in axes:
            yield axis, convention


def _one(callee: Callee, subject: Subject, located: Located | None, name: str) -> MaskSpec | None:
    tried: list[Tried] = []
    for axes, convention in _ways(name):
        spec = MaskSpec(arg=name, axes=axes, convention=convention)
        if located is not None:
            gap = _parity(callee, subject, located, spec)
            if gap is not None and gap <= _SAME:
                return spec
        found = _try(callee, subject, spec)
        if found is not None:
            tried.append(found)
    moving = [t for t in tried if t.effect > 1e-6]
    for one in moving if located is not None else []:
        if _is_explained(callee, subject, located, one.spec):
            return one.spec
    return _by_effect(tried, name)


def _by_effect(tried: list[Tried], name: str) -> MaskSpec | None:
    """The way that hides a key, else the one that comes closest to it."""
    hiding = [t for t in tried if t.leak < 1e-4]
    if hiding:
        return hiding[0].spec
    moving = [t for t in tried if t.effect > 1e-6]
    if moving:
        least = min(moving, key=lambda t: t.leak)
        return least.spec if least.leak < 0.7 else moving[0].spec
    return tried[0].spec if tried and _is_plain_name(name) else None


def _is_explained(
    callee: Callee, subject: Subject, located: Located | None, spec: MaskSpec
) -> bool:
    """Whether a known fault of masks gives the subject's numbers, with masks of that kind."""
    callee.subject = subject.with_call(masks=(spec,))
    maker = ProblemMaker(callee.subject, located)
    batch, queries, keys = free_sizes(subject, 3)
    problems, outputs = [], []
    for i, size in enumerate((batch, batch + 1)):
        problem = maker.masked(maker.plain(size, queries, keys, seed=222 + i), (spec,), seed=4 + i)
        with torch.no_grad():
            outcome = callee.call(problem)
        if outcome.output is None:
            return False
        problems.append(problem)
        outputs.append(outcome.output.double())
    return explaining(subject, problems, outputs, _mask_variants(), 1e-9) is not None


@cache
def _mask_variants() -> tuple[Variant, ...]:
    left_out = ("mask-polarity", "mask-ignored")
    return tuple(
        v for v in all_variants() if v.fault.startswith("mask") and v.fault not in left_out
    )


def _is_plain_name(name: str) -> bool:
    """Names that promise that a mask is applied to this call's keys."""
    return name.lower() in (
        *("mask", "attn_mask", "attention_mask", "key_padding_mask", "padding_mask", "src_mask"),
        *("key_mask", "pad_mask", "src_key_padding_mask", "lengths", "seq_lens", "valid_lens"),
    )


def _base(subject: Subject, batch_seed: int = 220) -> Problem:
    batch, queries, keys = free_sizes(subject, 3)
    maker = ProblemMaker(subject, None)
    return maker.plain(batch, queries, keys, seed=batch_seed)


def _parity(
    callee: Callee,
    subject: Subject,
    located: Located,
    spec: MaskSpec,
    *,
    only_visible: bool = False,
) -> float | None:
    """Largest difference from the formula with such a mask; None where the call raises."""
    callee.subject = subject.with_call(masks=(spec,))
    maker = ProblemMaker(callee.subject, located)
    batch, queries, keys = free_sizes(subject, 3)
    problem = maker.masked(maker.plain(batch, queries, keys, seed=221), (spec,), seed=3)
    with torch.no_grad():
        outcome = callee.call(problem)
        if outcome.output is None:
            return None
        output, expected = outcome.output, RIGHT.run(problem).output
        if output.shape != expected.shape:
            return None
        if only_visible:
            visible = problem.masks[0].allowed[:, 0]
            output, expected = output[visible], expected[visible]
        return relative_gap(output, expected)


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


def _try(callee: Callee, subject: Subject, spec: MaskSpec) -> Tried | None:
    """Hide one key from every query, and see whether a change of that key still arrives."""
    callee.subject = subject.with_call(masks=(spec,))
    base = _base(subject)
    place, other = 1, 0
    allowed = _allowed(base, spec, place)
    if allowed is None:
        return None
    masked = replace(
        base, masks=(GivenMask(allowed=allowed, axes=spec.axes, convention=spec.convention),)
    )
    with torch.no_grad():
        plain, hidden = callee.call(base).output, callee.call(masked).output
        if plain is None or hidden is None or plain.shape != hidden.shape:
            return None
        size = float(plain.abs().max()) or 1.0
        unmasked = _change(callee, base, place, plain)
        through = _change(callee, masked, place, hidden)
        seen = _change(callee, masked, other, hidden)
    effect = float((plain - hidden).abs().nan_to_num(nan=size).max()) / size
    leak = through / unmasked if unmasked > 0 else 1.0
    if seen <= 1e-6 * size or not torch.isfinite(hidden).all():  # everything is hidden
        leak = max(leak, 1.0)
    return Tried(spec=spec, leak=leak, effect=effect)


def _allowed(problem: Problem, spec: MaskSpec, place: int) -> Tensor | None:
    """A mask that hides one key, in sample 0 only where samples may differ."""
    queries, keys = problem.x_q.shape[-2], problem.x_k.shape[-2]
    if spec.convention == "lengths":
        lengths = torch.tensor([place, *([keys] * (problem.batch - 1))])
        return torch.arange(keys)[None, None, :] < lengths[:, None, None]
    rows = 1 if spec.axes in ("BS", "B") else queries
    allowed = torch.ones(1 if spec.axes == "TS" else problem.batch, rows, keys, dtype=torch.bool)
    allowed[0, :, place] = False
    return allowed


def _change(callee: Callee, problem: Problem, place: int, before: Tensor) -> float:
    """How far sample 0's outputs at other positions move when one key position changes."""
    x_k = problem.x_k.clone()
    x_k[0, ..., place, :] += 1.5 * torch.randn(
        x_k.shape[-1], generator=torch.Generator().manual_seed(7), dtype=x_k.dtype
    )
    x_q = x_k if problem.x_q is problem.x_k else problem.x_q
    x_v = x_k if problem.x_v is problem.x_k else problem.x_v.clone()
    if x_v is not x_k:
        x_v[0, ..., place, :] += 1.5
    after = callee.call(replace(problem, x_q=x_q, x_k=x_k, x_v=x_v)).output
    if after is None or after.shape != before.shape:
        return 1.0
    gap = (after - before)[0].abs().nan_to_num(nan=1.0)
    gap = gap.amax(dim=0) if gap.dim() == 3 else gap  # (T, D)
    rows = gap.amax(dim=-1)
    if problem.x_q is problem.x_k:
        rows = torch.cat((rows[:place], rows[place + 1 :]))
    return float(rows.max()) if rows.numel() else 0.0
