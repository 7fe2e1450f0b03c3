"""The form of a call and the order of its axes."""

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import SubjectError
from manyheads.verify.calling import Callee
from manyheads.verify.infer_names import Target, bias_role, role_of
from manyheads.verify.infer_trial import (
    MANNERS,
    Adapter,
    Argument,
    Filler,
    Reply,
    Trials,
    arguments_of,
    fillers_for,
    trials_of,
)
from manyheads.verify.subject import ParamSpec, Subject

INPUTS = {"self": 1, "cross": 2, "qkv": 3, "heads": 3, "cache": 1, "static_cache": 1}
"""How many tensors each form takes."""


def ask(
    trials: Trials,
    subject: Subject,
    form: str,
    layout: str,
    shapes: list[tuple[int, ...]],
    extra: dict[str, Any],
) -> Reply:
    """Call with random inputs of the given shapes.

    Args:
        trials: what is called.
        subject: with width and heads.
        form: as in a declaration.
        layout: as in a declaration.
        shapes: of the inputs.
        extra: keywords of every call.
    """
    inputs: list[Any] = [trials.draw(*shape, seed=i) for i, shape in enumerate(shapes)]
    return _answer(trials, subject, form, layout, inputs, extra)


def _answer(
    trials: Trials,
    subject: Subject,
    form: str,
    layout: str,
    inputs: list[Any],
    extra: dict[str, Any],
) -> Reply:
    keywords = {**extra, **_drawn(trials, subject)}
    if form == "cache":
        return _cached(trials, layout, inputs[0], keywords)
    if form == "static_cache":
        return _static(trials, layout, inputs[0], keywords)
    return trials.call(*inputs, **keywords)


def _drawn(trials: Trials, subject: Subject) -> dict[str, Tensor]:
    """Weights for a function that takes them as arguments."""
    if subject.params is None or subject.params.layout != "args":
        return {}
    return Callee(trials.made, subject, trials.dtype).arguments


def _cached(trials: Trials, layout: str, x: Tensor, keywords: dict[str, Any]) -> Reply:
    """Two pieces through a cache, which must make a difference."""
    axis = 2 if layout == "BET" else 1
    for along in (axis, 0) if layout == "BTE" else (axis,):
        cut = x.shape[along] // 2
        if cut == 0:
            continue
        first, second = (
            x.narrow(along, 0, cut).clone(),
            x.narrow(along, cut, x.shape[along] - cut).clone(),
        )
        begun = trials.call(first, None, **keywords)
        if (
            begun.output is None
            or not isinstance(begun.raw, tuple | list)
            or len(begun.raw) < 2
            or begun.raw[1] is None
        ):
            return Reply(raised=begun.raised or "no cache is returned")
        going, alone = (
            trials.call(second, begun.raw[1], **keywords),
            trials.call(second, None, **keywords),
        )
        if going.output is None or alone.output is None or going.output.shape != alone.output.shape:
            continue
        if not torch.allclose(going.output, alone.output):
            return trials.call(x, None, **keywords)
    return Reply(raised="the cache has no effect")


def _static(trials: Trials, layout: str, x: Tensor, keywords: dict[str, Any]) -> Reply:
    """Two pieces through the subject's own cache, the second of which must see the first."""
    axis = 2 if layout == "BET" else 1
    cut = x.shape[axis] // 2
    second = x.narrow(axis, cut, x.shape[axis] - cut).clone()
    begun = trials.call(x.narrow(axis, 0, cut).clone(), 0, **keywords)
    going = trials.call(second, cut, **keywords)
    if begun.output is None or going.output is None:
        return Reply(raised=begun.raised or going.raised)
    alone = trials.call(second, 0, **keywords)
    if (
        alone.output is not None
        and alone.output.shape == going.output.shape
        and torch.allclose(going.output, alone.output)
    ):
        return Reply(raised="the cache has no effect")
    return trials.call(x, 0, **keywords)


def order_of_axes(
    trials: Trials,
    subject: Subject,
    form: str,
    layout: str,
    extra: dict[str, Any],
    reply: Reply,
    made: Target,
) -> str:
    """Which of the first two axes counts positions: the one along which a change spreads."""
    if layout == "BET" or form == "heads":
        return layout
    shape = tuple(reply.output.shape[:2]) if reply.output is not None else (2, 5)
    rows, columns = shape
    width = subject.spec.width
    inputs = [trials.draw(rows, columns, width, seed=9)]
    if form in ("cross", "qkv"):
        kdim, vdim = subject.spec.kdim or width, subject.spec.vdim or subject.spec.kdim or width
        inputs += [
            trials.draw(rows, columns, w, seed=10 + i)
            for i, w in enumerate((kdim, vdim)[: INPUTS[form] - 1])
        ]
    spread = _spread(trials, subject, form, extra, inputs)
    said = _said_order(made)
    if spread == (False, True, False):  # along the first axis only
        return said or "TBE"
    if spread == (True, False, False):
        return "BTE"
    return said or "BTE"


def _spread(
    trials: Trials, subject: Subject, form: str, extra: dict[str, Any], inputs: list[Tensor]
) -> tuple[bool, bool, bool]:
    """Whether a change of one place reaches others along the second axis, the first, elsewhere."""
    base = _answer(trials, subject, form, "BTE", list(inputs), extra).output
    moved = [x.clone() for x in inputs]
    for x in moved[1:] or moved:
        x[0, 0] += 3.0
    other = _answer(trials, subject, form, "BTE", list(moved), extra).output
    if base is None or other is None or base.shape != other.shape:
        return False, False, False
    reached = (other - base).abs().nan_to_num(nan=1.0).amax(dim=-1) > 1e-6 * float(
        base.abs().max().nan_to_num() + 1e-30
    )
    return bool(reached[0, 1:].any()), bool(reached[1:, 0].any()), bool(reached[1:, 1:].any())


_UNPACKED = re.compile(r"(\w+)\s*,\s*(\w+)\s*,\s*\w+\s*=\s*\w+\.(?:shape|size\(\))")


_BATCH = {"b", "bs", "bsz", "batch", "batch_size", "bz", "n_batch", "num_batches", "batchsize"}


_LENGTH = {
    "t",
    "l",
    "s",
    "seq",
    "seq_len",
    "length",
    "tgt_len",
    "seqlen",
    "time",
    "len",
    "num_tokens",
}


def _said_order(made: Target) -> str | None:
    """The order that the author's own words for the axes say, such as B, T, C = x.shape."""
    inner = made.inner if isinstance(made, Adapter) else made
    try:
        source = inspect.getsource(type(inner).forward if isinstance(inner, nn.Module) else inner)
    except (OSError, TypeError):
        return None
    for match in _UNPACKED.finditer(source):
        first, second = match.group(1).lower(), match.group(2).lower()
        if first in _BATCH and second not in _BATCH:
            return "BTE"
        if first in _LENGTH and second in _BATCH:
            return "TBE"
    return None


FORM_WORDS = {
    "self": "self f(x)",
    "cross": "cross f(x, context)",
    "qkv": "qkv f(query, key, value)",
    "heads": "heads f(q, k, v) on (B, H, T, d)",
    "cache": "cache f(x, cache) -> (y, cache)",
    "static_cache": "static_cache f(x, start)",
}


@dataclass(frozen=True, kw_only=True)
class Form:
    """A manner of calling that works."""

    form: str
    """As in a declaration."""
    layout: str
    """As in a declaration."""
    made: Target
    """What is called: the subject, or an adapter around it."""
    is_square: bool = False
    """Whether there must be as many keys as queries."""
    kdim: int | None = None
    """Width of the context, where it is another."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Keywords of every call."""
    filled: dict[str, str] = field(default_factory=dict)
    """What arguments an adapter fills in, in words."""


def free_sizes(subject: Subject, count: int) -> list[int]:
    """Small sizes that differ from each other and from everything that the subject declares."""
    spec = subject.spec
    taken = {spec.heads, spec.kv_heads, spec.width, spec.d, spec.dv, 1}
    return list(
        itertools.islice(
            (n for n in (2, 5, 7, 3, 9, 11, 6, 13, 10, 14, 15) if n not in taken), count
        )
    )


def weight_arguments(arguments: list[Argument]) -> ParamSpec | None:
    """Where a function takes its weights as arguments, their names."""
    names: dict[str, str] = {}
    biases: dict[str, str] = {}
    for argument in arguments[1:]:
        bias, role = bias_role(argument.name), role_of(argument.name)
        if bias in ("q", "k", "v", "o"):
            biases.setdefault(bias, argument.name)
        elif role in ("q", "k", "v", "o") and argument.role == "other":
            names.setdefault(role, argument.name)
    if {"q", "k", "v"} <= names.keys():
        return ParamSpec(layout="args", names=names, biases=biases, is_guessed=True)
    return None


def find_forms(made: Target, subject: Subject) -> Iterator[Form]:
    """Manners of calling that run and keep the shape, the likeliest first; all of one form.

    Args:
        made: the built subject.
        subject: with width and number of heads.

    Raises:
        SubjectError: nothing ran; the message says what was tried and what it raised.
    """
    arguments = arguments_of(made)
    raised: list[str] = []
    for dtype in (torch.float64, torch.float32):
        trials = trials_of(made, dtype)
        for form in _forms(made, arguments):
            count = 0
            for found in _with_fillers(trials, made, subject, form, arguments):
                count += 1
                yield found
            if count:
                return
        raised += trials.raised
    shown = (
        "; ".join(dict.fromkeys(raised[:1] + raised[-1:]))
        or "the output has another shape than the input"
    )
    required = ", ".join(a.name for a in arguments if a.required)
    raise SubjectError(
        f"call: no way of calling f({required}) gave an output of the input's shape ({shown}): "
        "declare call.form, call.layout and call.extra"
    )


_SETTINGS: tuple[str, ...] = (
    "mask",
    "rotary",
    "ids",
    "window",
    "scale",
    "num_heads",
    "dropout",
    "flag",
    "flag?",
)
_SETTINGS += ("cumulative", "longest", "documents")
"""Roles of arguments that are no inputs."""


def _forms(made: Target, arguments: list[Argument]) -> list[str]:
    """Forms to try, likeliest first."""
    roles = [a.role for a in arguments if not a.is_keyword]
    required = [a for a in arguments if a.required and a.role not in _SETTINGS]
    has_weights = isinstance(made, nn.Module) and any(p.dim() > 1 for p in made.parameters())
    looks_qkv = sorted(roles[:3]) == ["k", "q", "v"] or (
        len(roles) > 2 and roles[1:3] == ["k", "v"]
    )
    if looks_qkv:
        return ["qkv", "self", "heads"] if has_weights else ["heads", "qkv"]
    second = roles[1] if len(roles) > 1 else ""
    found = ["self"]
    if second == "cache":
        found = ["cache", "self"]
    elif second == "start" and len(required) == 2:
        found = ["static_cache", "self"]
    elif len(required) == 2 and required[1].role in ("context", "other", "k", "v", "x", "q"):
        found = ["cross", "self"]
    elif len(required) == 3 and all(
        a.role in ("other", "q", "k", "v", "context") for a in required
    ):
        found = ["qkv", "self"] if has_weights else ["heads", "qkv", "self"]
    return [*found, *(f for f in ("self", "cross", "qkv") if f not in found)]


def _shapes(form: str, subject: Subject) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Layout and shapes of the inputs to try."""
    spec = subject.spec
    batch, length, keys = free_sizes(subject, 3)
    if form == "heads":
        q, k = (batch, spec.heads, length, spec.d), (batch, spec.kv_heads, keys, spec.d)
        yield "BTE", [q, k, (batch, spec.kv_heads, keys, spec.dv)]
        yield "BTE", [q, (*k[:2], length, spec.d), (batch, spec.kv_heads, length, spec.dv)]
        return
    widths = [spec.width, spec.kdim or spec.width, spec.vdim or spec.kdim or spec.width][
        : INPUTS[form]
    ]
    lengths = [length, keys, keys]
    for other in (lengths, [length] * 3) if len(widths) > 1 else (lengths,):
        yield "BTE", [(batch, n, e) for n, e in zip(other, widths, strict=False)]
    for wide in subject.extras.widths if len(widths) > 1 and spec.kdim is None else ():
        if wide != spec.width:
            others = [widths[0], wide, wide][: len(widths)]
            yield "BTE", [(batch, n, e) for n, e in zip(lengths, others, strict=False)]
    yield "BET", [(batch, e, n) for n, e in zip(lengths, widths, strict=False)]


def _with_fillers(
    trials: Trials, made: Target, subject: Subject, form: str, arguments: list[Argument]
) -> Iterator[Form]:
    """The form with every further required argument filled in, in each way that runs."""
    weights = (
        subject.params if subject.params is not None and subject.params.layout == "args" else None
    )
    taken = {a.name for a in arguments[: INPUTS[form] + (form in ("cache", "static_cache"))]}
    if weights is not None:
        taken |= {*weights.names.values(), *weights.biases.values()}
    needed = [a for a in arguments if a.required and a.name not in taken]
    extra: dict[str, Any] = {a.name: None for a in needed if a.role == "mask"}
    extra |= {a.name: False for a in needed if a.role in ("flag", "flag?")}
    extra |= {a.name: subject.spec.heads for a in needed if a.role == "num_heads"}
    extra |= dict(subject.call.extra)
    optional = [
        a
        for a in arguments
        if not a.required and a.role in ("rotary", "ids") and a.name not in taken
    ]
    wanted = {a.name: a.role for a in needed if a.name not in extra and a.role != "causal"}
    for names in (wanted, {**wanted, **{a.name: a.role for a in optional}}):
        for combined in itertools.islice(itertools.product(*fillers_for(names)), 24):
            for manner in _manners(form, names.values(), arguments):
                found = _try(trials, made, subject, form, extra, combined, manner)
                if found is not None:
                    yield found
        if not optional:
            break


def _manners(form: str, roles: Iterable[str], arguments: list[Argument]) -> tuple[str, ...]:
    """How inputs may be laid out before the call, the usual one first."""
    order = "".join(argument.role[:1] for argument in arguments[:3])
    if form == "qkv" and order in MANNERS:
        return (order,)
    if "cumulative" in roles:
        return ("packed",)
    if form == "heads":
        return ("", "BTHD")
    return ("", "by_sample") if form in ("self", "cross", "qkv") else ("",)


def _try(
    trials: Trials,
    made: Target,
    subject: Subject,
    form: str,
    extra: dict[str, Any],
    fillers: tuple[Filler, ...],
    manner: str,
) -> Form | None:
    makers = {name: make for filler in fillers for name, make in filler.make.items()}
    is_plain = not makers and not manner
    called = trials.made if is_plain else Adapter(trials.made, makers, subject.spec.d, 1, manner)
    asked = replace(trials, made=called)
    for layout, shapes in _shapes(form, subject):
        if manner and layout == "BET":
            continue
        reply = ask(asked, subject, form, layout, shapes, extra)
        if not _fits(reply, shapes[0], form, subject):
            continue
        kdim = shapes[1][-1] if form in ("cross", "qkv") else subject.spec.kdim
        sized = subject.with_spec(kdim=kdim)
        layout = order_of_axes(asked, sized, form, layout, extra, reply, made)
        axis = {"BTE": 1, "TBE": 0, "BET": 2}[layout]
        kdim = shapes[1][-1] if form in ("cross", "qkv") else None
        return Form(
            form=form,
            is_square=manner == "packed",
            kdim=kdim if kdim != subject.spec.width else None,
            layout=layout,
            made=made if is_plain else Adapter(made, makers, subject.spec.d, axis, manner),
            extra=extra,
            filled={name: filler.says for filler in fillers for name in filler.make}
            | ({"inputs": MANNERS[manner]} if manner else {}),
        )
    return None


def _fits(reply: Reply, shape: tuple[int, ...], form: str, subject: Subject) -> bool:
    """Whether an output has the axes of its input; its width may be that of the joined heads."""
    if reply.output is None or reply.output.dim() != len(shape):
        return False
    have, spec = tuple(reply.output.shape), subject.spec
    if form == "heads":
        return have[:3] == shape[:3]
    if have == shape:
        return True
    joined = spec.heads * spec.dv
    return (have[:2] == shape[:2] and have[2] % spec.heads == 0) or have == (
        shape[0],
        joined,
        shape[2],
    )
