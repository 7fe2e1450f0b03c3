"""What a call takes and returns: causality, weights, caches and masks."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.problem import GivenMask, Problem
from manyheads.faults.catalogue import Variant
from manyheads.verify.calling import Callee, Outcome
from manyheads.verify.context import RIGHT, relative_gap
from manyheads.verify.diagnose import all_variants
from manyheads.verify.infer_fit import explaining
from manyheads.verify.infer_form import free_sizes
from manyheads.verify.infer_trial import Argument
from manyheads.verify.parameters import Located
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import CONVENTIONS, CallSpec, MaskSpec, Subject

_LENGTH = 9


def reached_keys(callee: Callee, problem: Problem) -> Tensor | None:
    """(T, S): whether outputs of sample 0 move when a key changes; None where a call raises."""
    with torch.no_grad():
        base = callee.call(problem).output
        if base is None:
            return None
        size = float(base.abs().nan_to_num(nan=0.0).max()) or 1.0
        columns = []
        for s in range(problem.x_k.shape[-2]):
            after = callee.call(_moved(problem, s)).output
            if after is None or after.shape != base.shape:
                return None
            gap = (after - base)[0].abs()
            gap = torch.where(
                base[0].isnan() & after[0].isnan(), torch.zeros_like(gap), gap
            ).nan_to_num(nan=size)
            gap = gap.amax(dim=0) if gap.dim() == 3 else gap
            columns.append(gap.amax(dim=-1) > 1e-6 * size)
    return torch.stack(columns, dim=1)


def _moved(problem: Problem, s: int) -> Problem:
    x_k = problem.x_k.clone()
    x_k[0, ..., s, :] += 2.0 * torch.randn(
        x_k.shape[-1], generator=torch.Generator().manual_seed(s), dtype=x_k.dtype
    )
    x_q = x_k if problem.x_q is problem.x_k else problem.x_q
    x_v = x_k if problem.x_v is problem.x_k else problem.x_v.clone()
    if x_v is not x_k:
        x_v[0, ..., s, :] += 2.0
    return replace(problem, x_q=x_q, x_k=x_k, x_v=x_v)


@dataclass(frozen=True, kw_only=True)
class Order:
    """Causality and window, by behaviour."""

    causal: str | None = None
    """"always" where later keys have no influence."""
    window: int | None = None
    """Keys a query sees, where earlier ones have no influence either."""


def find_order(callee: Callee, subject: Subject) -> Order:
    """Whether a subject is causal or windowed without being asked."""
    queries = _LENGTH
    problem = ProblemMaker(subject, None).plain(2, queries, queries, seed=230)
    reached = reached_keys(callee, problem)
    if reached is None or reached.shape != (queries, queries):
        return Order()
    later = torch.ones(queries, queries, dtype=torch.bool).triu(2)
    later[0] = False  # where a token does not see itself, the first has no key left and may see all
    earlier = torch.ones(queries, queries, dtype=torch.bool).tril(-1)
    if bool(reached[later].any()) or not bool(reached[earlier].any()):
        return Order()
    band = int((reached & (earlier | torch.eye(queries, dtype=torch.bool))).sum(dim=1).max())
    distance = torch.arange(queries)[:, None] - torch.arange(queries)[None, :]
    expected = (distance >= 0) & (distance < band)
    is_window = band < queries and bool((reached == expected).all())
    return Order(causal="always", window=band if is_window and band > 1 else None)


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


Masks = tuple[tuple[MaskSpec, ...], list[str], list[str]]


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

    Returns:
        the mask arguments that can be checked, what is to be said of the others, and which of them
        add a boolean mask to the scores where one is given.
    """
    found: list[MaskSpec] = []
    notes: list[str] = []
    additive: list[str] = []
    for argument in arguments:
        if argument.role != "mask":
            continue
        is_for_others = any(word in argument.name.lower() for word in _OTHERS)
        if is_for_others and subject.call.form in ("self", "cache", "static_cache"):
            continue
        special = None if located is None else _special(callee, subject, located, argument.name)
        chosen = None if special is not None else _one(callee, subject, located, argument.name)
        if special is not None:
            notes.append(special)
        elif chosen is not None:
            found.append(chosen)
            if chosen.convention == "additive" and _runs(callee, subject, chosen):
                additive.append(chosen.arg)
    callee.subject = subject
    return tuple(found), notes, additive


def _runs(callee: Callee, subject: Subject, chosen: MaskSpec) -> bool:
    """Whether a boolean mask is taken where an additive one is meant."""
    return _try(callee, subject, replace(chosen, convention="allowed")) is not None


def _special(callee: Callee, subject: Subject, located: Located, name: str) -> str | None:
    """What a mask does that is legal and yet not in the formula; None where it does not."""
    ways = [
        MaskSpec(arg=name, axes=axes, convention=convention) for axes, convention in _ways(name)
    ]
    gaps = [_parity(callee, subject, located, spec) for spec in ways]
    if any(gap is not None and gap <= 1e-6 for gap in gaps):
        return None
    for spec in ways:
        if subject.spec.causal == "always":
            gap = _parity(callee, subject.with_spec(causal=None, window=None), located, spec)
            if gap is not None and gap <= 1e-6:
                return f"a mask given as {name} replaces causality"
        if spec.axes == "BS" and subject.call.form == "self":
            gap = _parity(callee, subject, located, spec, only_visible=True)
            if gap is not None and gap <= 1e-6:
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
        if convention == "lengths":
            continue
        for axis in axes:
            yield axis, convention


def _one(callee: Callee, subject: Subject, located: Located | None, name: str) -> MaskSpec | None:
    tried: list[Tried] = []
    for axes, convention in _ways(name):
        spec = MaskSpec(arg=name, axes=axes, convention=convention)
        if located is not None:
            gap = _parity(callee, subject, located, spec)
            if gap is not None and gap <= 1e-6:
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
