"""Fills in what a subject does not declare: how it is built, called, and where its weights are."""

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from manyheads.core.errors import ManyHeadsError, SubjectError
from manyheads.verify.calling import Callee, prepared
from manyheads.verify.infer_build import (
    built,
    check_divides,
    dropout_rates,
    materialised,
    plain_kwargs,
    widths_of,
    with_context_width,
    with_sizes,
    with_weight_arguments,
)
from manyheads.verify.infer_call import (
    call_words,
    exclusive_masks,
    find_causal_argument,
    find_corner,
    find_documents,
    find_returned,
    infer_masks,
)
from manyheads.verify.infer_form import FORM_WORDS, Form, find_forms
from manyheads.verify.infer_names import Target
from manyheads.verify.infer_trial import WINDOW, Argument, arguments_of
from manyheads.verify.parameters import Located
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import Subject
from manyheads.verify.understand import understand
from manyheads.verify.understanding import Understanding


def add_note(
    inferred: dict[str, Any], fault: str | None, says: str, *, is_reading: bool = False
) -> None:
    """Keep a note for the report, or a reading that must be declared."""
    note = {"fault": fault, "says": says, "is_reading": is_reading}
    inferred.setdefault("notes", []).append(note)


def note_on_order(subject: Subject, inferred: dict[str, Any]) -> None:
    """That positions come first, which another declaration would call a fault."""
    if inferred.get("call.layout") == "TBE" and "call.form" in inferred:
        says = (
            "attention runs over the first axis of the input, so it is interpreted as (positions, "
            "samples, channels); if (samples, positions, channels) is meant, samples see each "
            "other and no token sees its own sequence"
        )
        add_note(inferred, None, says)


def note_on_masks(subject: Subject, inferred: dict[str, Any]) -> None:
    """Mask names that mean the opposite in the libraries where they come from."""
    for mask in subject.call.masks or ():
        low, convention = mask.arg.lower(), mask.convention
        fault = None
        if "padding_mask" in low and convention in ("allowed", "one_zero", "additive"):
            usual = "true means hidden, as in nn.MultiheadAttention"
            if "key_padding_mask" in low:
                is_added = convention == "additive"
                fault = "mask-additive-confusion" if is_added else "mask-polarity"
        elif low == "attention_mask" and convention == "blocked":
            usual, fault = "1 means visible, as in transformers", "mask-polarity"
        else:
            continue
        says = (
            f"{mask.arg} is interpreted as {convention}, by what it hides; its name suggests "
            f"that {usual}"
        )
        add_note(inferred, fault, says, is_reading=fault is not None)


def note_on_slopes(made: Target, subject: Subject, inferred: dict[str, Any]) -> None:
    """A linear bias with other slopes than the published ones, unless they are learned."""
    bias = subject.extras.bias
    if bias is None or bias.shape[-1] < 3:
        return
    inner = getattr(made, "inner", made)
    held = inner.parameters() if isinstance(inner, nn.Module) else ()
    if any(p.numel() == bias.shape[0] for p in held):
        return
    steps = bias[:, -1].diff(dim=-1)  # of the last query, which sees all keys
    slopes = steps.mean(-1)
    is_linear = float((steps - slopes[:, None]).abs().max()) < 1e-6 * float(slopes.abs().max())
    if is_linear:
        shown = ", ".join(f"{float(m):.4g}" for m in slopes[:4])
        says = f"a linear bias is added to the scores, with slopes {shown}: not the published ones"
        add_note(inferred, "linear-bias-slopes", says, is_reading=True)


@dataclass(frozen=True, kw_only=True)
class Inference:
    """A built subject with nothing left open, and what was guessed of it."""

    made: Target
    """What is called: the built subject, in an adapter where a call needs more than its inputs."""
    subject: Subject
    """Every field filled in that could be."""
    inferred: dict[str, Any]
    """Each guess, in words that JSON can hold, by the field of the declaration."""
    understanding: Understanding
    """What was seen of it at work."""


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
    made = materialised(made)
    if kwargs:
        inferred["build.kwargs"] = plain_kwargs(kwargs)
    declared = subject.spec.num_heads
    subject = with_sizes(made, subject, inferred)
    knows_heads = declared is not None or "num_heads" in inferred.get("spec", {})
    arguments = arguments_of(made)
    subject = with_weight_arguments(made, subject, arguments, inferred)
    subject = with_context_width(made, subject)
    if subject.call.form is not None:
        callee = _callee(made, subject)
        known = understand(callee, subject, made, knows_heads=knows_heads)
        return _with_rest(made, callee, known, arguments, inferred)
    known, form, callee = _chosen_form(made, subject, knows_heads=knows_heads)
    _say_form(form, known.subject, inferred)
    return _with_rest(form.made, callee, known, arguments, inferred)


_MOST_FORMS = 10


def _chosen_form(
    made: Target, subject: Subject, *, knows_heads: bool
) -> tuple[Understanding, Form, Callee]:
    """The first manner of calling under which all is understood, else the first that runs."""
    widths = tuple(widths_of(made))
    arguments = arguments_of(made)
    wide = subject.with_extras(widths=widths)
    first: tuple[Understanding, Form, Callee] | None = None
    for form in itertools.islice(find_forms(made, wide), _MOST_FORMS):
        formed = _with_form(subject, form)
        if any(a.role == "window" and a.name in form.filled for a in arguments):
            formed = formed.with_extras(asked_window=WINDOW)
        callee = _callee(form.made, formed)
        known = understand(callee, formed, form.made, knows_heads=knows_heads)
        if first is None:
            first = known, form, callee
        if not known.departures and not known.reason:
            return known, form, callee
    assert first is not None
    return first


def _say_form(form: Form, subject: Subject, inferred: dict[str, Any]) -> None:
    inferred["call.form"] = FORM_WORDS[form.form]
    if form.form != "heads":
        inferred["call.layout"] = form.layout
    if form.filled:
        inferred["call.filled"] = dict(form.filled)
    if form.kdim is not None:
        inferred["spec"] = inferred.get("spec", {}) | {"kdim": subject.spec.kdim}


def _with_form(subject: Subject, form: Form) -> Subject:
    if form.kdim is not None and subject.spec.kdim is None:
        subject = subject.with_spec(kdim=form.kdim)
    if form.is_square:
        subject = subject.with_extras(is_square=True)
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


def _with_behaviour(callee: Callee, subject: Subject, arguments: list[Argument]) -> Subject:
    """The argument for causality, and what comes back."""
    call = subject.call
    causal = call.causal_arg or find_causal_argument(callee, subject, arguments)
    subject = subject.with_call(causal_arg=causal)
    callee.subject = subject
    returned = find_returned(callee, subject, arguments)
    axes = returned.weights_axes if call.returns is None else call.weights_axes
    return subject.with_call(
        returns=call.returns or returned.returns,
        flags=call.flags or returned.flags,
        weights_axes=axes,
    )


def _with_rest(
    made: Target,
    callee: Callee,
    known: Understanding,
    arguments: list[Argument],
    inferred: dict[str, Any],
) -> Inference:
    """What is inferred once the weights are known: causality, results, masks and dropout."""
    subject = known.subject
    inferred |= known.words
    callee.subject = subject
    if "call.form" in inferred:
        subject = _with_behaviour(callee, subject, arguments)
        callee.subject = subject
        located = _located(callee, subject)
        corner = find_corner(callee, subject, located)
        if corner is not None:
            subject = subject.with_spec(causal_corner=corner)
            inferred["spec.causal_corner"] = "top left: causality is aligned to the first key"
            callee.subject = subject
        subject = _with_masks(callee, subject, located, arguments, inferred)
        inferred |= {f"call.{n}": v for n, v in call_words(subject.call).items()}
    left_out = _left_out(subject, arguments, inferred)
    if left_out:
        inferred["call.left_out"] = left_out
    note_on_order(subject, inferred)
    note_on_masks(subject, inferred)
    note_on_slopes(made, subject, inferred)
    subject = _with_dropout(made, subject, inferred)
    return Inference(made=made, subject=subject, inferred=inferred, understanding=known)


def _left_out(subject: Subject, arguments: list[Argument], inferred: dict[str, Any]) -> list[str]:
    """Optional arguments whose purpose no name says, so that no call gives them."""
    filled = inferred.get("call.filled", {})
    given = {*filled, *(mask.arg for mask in subject.call.masks or ()), *subject.call.extra}
    unknown = [a for a in arguments if a.role == "other" and not a.required and a.default is None]
    return [a.name for a in unknown if a.name not in given]


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
    masks = infer_masks(callee, subject, located, arguments)
    if masks.dtype is not None:
        subject = subject.with_extras(mask_dtype=masks.dtype)
    if masks.replacing:
        subject = subject.with_spec(mask_replaces_causal=True)
        inferred["spec.mask_replaces_causal"] = ", ".join(masks.replacing)
    for says in masks.notes:
        add_note(inferred, None, says)
    subject = subject.with_call(masks=(*masks.specs, *find_documents(callee, arguments)))
    exclusive = exclusive_masks(callee, subject, located)
    for name in exclusive:
        says = f"{name} is refused or has no effect with {subject.call.causal_arg}=True"
        add_note(inferred, None, says)
    return subject.with_extras(exclusive=exclusive)


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


def _located(callee: Callee, subject: Subject) -> Located | None:
    """The weights in float64; None where they are not known."""
    if subject.params is None:
        return None
    callee.subject = subject
    try:
        found = callee.located()
    except ManyHeadsError:
        return None
    return None if found is None else found.in_float64()
