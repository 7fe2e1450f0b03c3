"""Fills in what a subject does not declare: how it is built, called, and where its weights are."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from manyheads.core.config import Rotary
from manyheads.core.errors import ManyHeadsError, SubjectError
from manyheads.verify.calling import Callee, prepared
from manyheads.verify.infer_build import (
    built,
    check_divides,
    dropout_rates,
    plain_kwargs,
    with_context_width,
    with_sizes,
    with_weight_arguments,
)
from manyheads.verify.infer_call import (
    call_words,
    find_causal_argument,
    find_order,
    find_returned,
    infer_masks,
)
from manyheads.verify.infer_fit import (
    Chosen,
    choose,
    observe,
    reconsider,
    runs_elsewhere,
    spec_words,
)
from manyheads.verify.infer_form import FORM_WORDS, Form, find_form
from manyheads.verify.infer_names import Target
from manyheads.verify.infer_params import Reading, params_words, readings, take_inventory
from manyheads.verify.infer_trial import Argument, arguments_of
from manyheads.verify.parameters import Located
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import ParamSpec, Subject


def note_on_reading(inferred: dict[str, Any], chosen: Chosen, subject: Subject) -> None:
    """What is legal but unusual, with the fault that it would be against another declaration."""
    if not chosen.is_exact:
        return
    if chosen.reading.fault is not None:
        add_note(inferred, chosen.reading.fault, chosen.reading.says)
    position = subject.spec.position
    if isinstance(position, Rotary) and position.style == "interleaved":
        says = (
            "rotary positions turn channel 2i with 2i + 1 (interleaved); weights made for halves "
            "need the other pairing"
        )
        add_note(inferred, "rotary-pairing", says)
    if chosen.scale_says:
        value, usual = subject.spec.factor, subject.spec.d**-0.5
        add_note(
            inferred,
            "scale",
            f"scores are multiplied by {value:.6g} = {chosen.scale_says} (divided by "
            f"{1 / value:.5g}); usual is {usual:.6g} (divided by {1 / usual:.5g})",
        )


def add_note(inferred: dict[str, Any], fault: str | None, says: str) -> None:
    """Keep a note for the report."""
    inferred.setdefault("notes", []).append({"fault": fault, "says": says})


def note_on_order(subject: Subject, inferred: dict[str, Any]) -> None:
    """That positions come first, which another declaration would call a fault."""
    if inferred.get("call.layout") == "TBE" and "call.form" in inferred:
        says = (
            "attention runs over the first axis of the input, so it is interpreted as (positions, "
            "samples, channels); if (samples, positions, channels) is meant, samples see each "
            "other and no token sees its own sequence"
        )
        add_note(inferred, "batch-first-confusion", says)


def note_on_masks(subject: Subject, inferred: dict[str, Any]) -> None:
    """Mask names that mean the opposite in the libraries where they come from."""
    for mask in subject.call.masks or ():
        low = mask.arg.lower()
        if "padding_mask" in low and mask.convention in ("allowed", "one_zero"):
            usual = "true means hidden, as in nn.MultiheadAttention"
        elif low == "attention_mask" and mask.convention == "blocked":
            usual = "1 means visible, as in transformers"
        else:
            continue
        says = (
            f"{mask.arg} is interpreted as {mask.convention}, by what it hides; its name suggests "
            f"that {usual}"
        )
        add_note(inferred, "mask-polarity", says)


_EXACT = {torch.float64: 1e-6, torch.float32: 3e-5}


@dataclass(frozen=True, kw_only=True)
class Inference:
    """A built subject with nothing left open, and what was guessed of it."""

    made: Target
    """What is called: the built subject, in an adapter where a call needs more than its inputs."""
    subject: Subject
    """Every field filled in that could be."""
    inferred: dict[str, Any]
    """Each guess, in words that JSON can hold, by the field of the declaration."""


def infer(target: Target, subject: Subject) -> Inference:
    """Build a target and fill in every field that is not declared, by names and by trial.

    Args:
        target: what `load_target` gave, or a living module or function.
        subject: what is declared.

    Returns:
        the built subject, its completed declaration, and the guesses.

    Raises:
        SubjectError: it can't be built or called in any manner that was tried; the message says
            what was tried and which field declares it.
    """
    state = torch.random.get_rng_state()
    try:
        found = _infer(target, subject)
        check_divides(found.subject)
        return found
    except SubjectError:
        check_divides(subject)  # the likelier reason
        raise
    finally:
        torch.random.set_rng_state(state)


def _infer(target: Target, subject: Subject) -> Inference:
    inferred: dict[str, Any] = {}
    made, subject, kwargs = built(target, subject)
    if kwargs:
        inferred["build.kwargs"] = plain_kwargs(kwargs)
    if subject.call.form is not None and subject.params is not None:
        return Inference(made=made, subject=subject, inferred=inferred)
    subject = with_sizes(made, subject, inferred)
    arguments = arguments_of(made)
    subject = with_weight_arguments(made, subject, arguments, inferred)
    subject = with_context_width(made, subject)
    if subject.call.form is None:
        form = find_form(made, subject)
        made, subject = form.made, _with_form(subject, form, inferred)
        callee = _callee(made, subject)
        subject = _with_behaviour(callee, subject, arguments, inferred)
    else:
        callee = _callee(made, subject)
    callee.subject = subject
    return _with_weights(made, callee, subject, arguments, inferred)


def _with_form(subject: Subject, form: Form, inferred: dict[str, Any]) -> Subject:
    inferred["call.form"] = FORM_WORDS[form.form]
    if form.form != "heads" and subject.call.layout is None:
        inferred["call.layout"] = form.layout
    if form.filled:
        inferred["call.filled"] = dict(form.filled)
    return subject.with_call(
        form=form.form, layout=subject.call.layout or form.layout, extra=form.extra
    )


def _callee(made: Target, subject: Subject) -> Callee:
    """In float64, or in float32 where the call works in that only."""
    callee = prepared(made, subject)
    problem = ProblemMaker(subject, None).plain(2, 5)
    with torch.no_grad():
        outcome = callee.call(problem)
    return callee if outcome.output is not None else callee.in_dtype(torch.float32)


def _with_behaviour(
    callee: Callee, subject: Subject, arguments: list[Argument], inferred: dict[str, Any]
) -> Subject:
    """Causality and what comes back."""
    call = subject.call
    causal = call.causal_arg or find_causal_argument(callee, subject, arguments)
    subject = subject.with_call(causal_arg=causal)
    callee.subject = subject
    if (
        subject.spec.causal is None
        and subject.spec.window is None
        and call.form not in ("cross", "heads")
    ):
        order = find_order(callee, subject)
        if order.causal is not None:
            inferred["spec"] = (
                inferred.get("spec", {})
                | {"causal": "always"}
                | ({"window": order.window} if order.window else {})
            )
            subject = subject.with_spec(causal=order.causal, window=order.window)
    returned = find_returned(callee, subject, arguments)
    axes = returned.weights_axes if call.returns is None else call.weights_axes
    return subject.with_call(
        returns=call.returns or returned.returns,
        flags=call.flags or returned.flags,
        weights_axes=axes,
    )


def _with_weights(
    made: Target,
    callee: Callee,
    subject: Subject,
    arguments: list[Argument],
    inferred: dict[str, Any],
) -> Inference:
    """Where the weights are, then what is inferred with their help: masks and dropout."""
    before = subject
    subject, located = _with_reading(callee, subject, inferred)
    words = spec_words(before.spec, subject.spec)
    if words:
        inferred["spec"] = inferred.get("spec", {}) | words
    if "call.form" in inferred:
        subject = _with_masks(callee, subject, located, arguments, inferred)
        inferred |= {f"call.{n}": v for n, v in call_words(subject.call).items()}
    note_on_order(subject, inferred)
    note_on_masks(subject, inferred)
    subject = _with_dropout(made, subject, inferred)
    return Inference(made=made, subject=subject, inferred=inferred)


def _with_reading(
    callee: Callee, subject: Subject, inferred: dict[str, Any]
) -> tuple[Subject, Located | None]:
    """The reading of the weights, and the weights where it gives the subject's own numbers."""
    if subject.params is not None and "params" not in inferred:
        return subject, _located(callee, subject)
    subject, chosen = _chosen(callee, subject, inferred)
    if chosen is None:
        return subject, None
    subject = replace(subject, spec=chosen.reading.spec, params=chosen.reading.params)
    inferred["params"] = params_words(chosen.reading.params) | {"is_exact": chosen.is_exact}
    note_on_reading(inferred, chosen, subject)
    return subject, _located(callee, subject) if chosen.is_exact else None


def _with_masks(
    callee: Callee,
    subject: Subject,
    located: Located | None,
    arguments: list[Argument],
    inferred: dict[str, Any],
) -> Subject:
    if subject.call.masks is not None:
        return subject
    callee.subject = subject
    masks, notes, additive = infer_masks(callee, subject, located, arguments)
    for says in notes:
        add_note(inferred, None, says)
    for name in additive:
        says = (
            f"{name} hides keys only where it is -inf: a boolean mask is accepted too, but "
            "only added to the scores"
        )
        add_note(inferred, "mask-additive-confusion", says)
    return subject.with_call(masks=masks)


def _with_dropout(made: Target, subject: Subject, inferred: dict[str, Any]) -> Subject:
    """The rate of dropout, where the subject holds just one that is not zero."""
    if subject.spec.dropout is not None or not isinstance(made, nn.Module):
        return subject
    rates = dropout_rates(made)
    if len(rates) != 1:
        return subject
    rate = rates.pop()
    inferred["spec"] = inferred.get("spec", {}) | {"dropout": rate}
    return subject.with_spec(dropout=rate)


def _chosen(
    callee: Callee, subject: Subject, inferred: dict[str, Any]
) -> tuple[Subject, Chosen | None]:
    """The reading of the weights, with causality and order of axes reconsidered where none fits."""
    options = _options(callee, subject)
    tolerance = _EXACT.get(callee.dtype, 3e-5)
    chosen = choose(callee, subject, options, observe(callee, subject), tolerance)
    if chosen is None or chosen.is_exact:
        return subject, chosen
    doubt = reconsider(callee, subject, options, tolerance)
    if doubt is None:
        is_self = subject.call.form == "self"
        if (
            is_self
            and not _attends(callee, subject)
            and not runs_elsewhere(callee, subject, chosen.reading, tolerance)
        ):
            raise SubjectError(
                "target: no position of the input reaches any other position of the output, and "
                "no known fault explains it: this is not attention over positions; declare "
                "call.form and params if it is"
            )
        return subject, chosen
    subject, chosen, is_other = doubt
    if is_other and "call.form" in inferred:
        inferred["call.layout"] = subject.call.layout
        kept = {n: v for n, v in inferred.get("spec", {}).items() if n not in ("causal", "window")}
        inferred["spec"] = kept | ({"causal": "always"} if subject.spec.causal else {})
    callee.subject = subject
    return subject, chosen


def _options(callee: Callee, subject: Subject) -> list[Reading]:
    if subject.params is not None:
        return [Reading(params=subject.params, spec=subject.spec)]
    if subject.call.form == "heads":
        return [Reading(params=ParamSpec(layout="identity"), spec=subject.spec)]
    inventory = take_inventory(callee.made, subject.spec.heads, subject.spec.num_kv_heads)
    return readings(callee.made, inventory, subject.spec)


def _attends(callee: Callee, subject: Subject) -> bool:
    """Whether any place of the input has influence on another place of the output."""
    problem = ProblemMaker(subject, None).plain(3, 5, 5, seed=240)
    moved = replace(problem, x_k=problem.x_k.clone())
    moved.x_k[0, ..., 1, :] += 2.0
    moved = replace(
        moved,
        x_q=moved.x_k if problem.x_q is problem.x_k else problem.x_q,
        x_v=moved.x_k if problem.x_v is problem.x_k else problem.x_v,
    )
    with torch.no_grad():
        before, after = callee.call(problem).output, callee.call(moved).output
    if before is None or after is None or before.shape != after.shape or before.dim() != 3:
        return True
    gap = (after - before).abs().nan_to_num(nan=1.0).amax(dim=-1)
    gap[0, 1] = 0.0
    return float(gap.max()) > 1e-9 * float(before.abs().nan_to_num(nan=0.0).max() + 1e-30)


def _located(callee: Callee, subject: Subject) -> Located | None:
    if subject.params is None:
        return None
    callee.subject = subject
    try:
        found = callee.located()
    except ManyHeadsError:
        return None
    if found is None or found.heads is None:
        return found
    heads = type(found.heads)(**{n: t.detach().double() for n, t in found.heads.tensors().items()})
    return replace(found, heads=heads)
