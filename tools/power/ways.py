"""Popular ways to test attention, each put to a module and to the same module without the fault."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from inspect import Parameter, Signature
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.verify.api import check
from manyheads.verify.calling import read_answer
from manyheads.verify.parameters import locate
from manyheads.verify.report import VerifyReport
from manyheads.verify.subject import Subject
from tools.museum import popular
from tools.museum.examples import FaultExample
from tools.museum.own import load_heads, sound_module

Way = Callable[[nn.Module, nn.Module, Subject], bool]
"""A test of a module, given the same module without the fault and the declaration of both."""
_INPUTS = {"cross": ("x", "context"), "qkv": ("query", "key", "value"), "cache": ("x", "cache")}
_MASKS = {"padding": "key_padding_mask", "blocked": "attn_mask"}
"""Names of masks by those of the examples; True means hidden in both."""
_EXAMPLE_NAMES = {name: ours for ours, name in _MASKS.items()}


def _arguments(subject: Subject) -> Signature:
    """The arguments of a call as somebody would write them for this declaration."""
    call, named = subject.call, Parameter.KEYWORD_ONLY
    inputs = [
        Parameter(
            name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=None if name == "cache" else Parameter.empty,
        )
        for name in ("self", *_INPUTS.get(call.form or "self", ("x",)))
    ]
    masks = [Parameter(mask.arg, named, default=None) for mask in call.masks or ()]
    flags = [Parameter(name, named, default=values[0]) for name, values in call.flags.items()]
    causal = [Parameter(call.causal_arg, named, default=False)] if call.causal_arg else []
    return Signature([*inputs, *masks, *causal, *flags])


def as_written(example: FaultExample) -> tuple[nn.Module, Subject]:
    """The module as somebody would write it, and its declaration.

    Examples have the arguments of all forms. This one has those of its declaration only, and masks
    have the names of `nn.MultiheadAttention`.
    """
    subject, made = example.subject, example.make(example.subject)
    masks = tuple(replace(m, arg=_MASKS[m.arg]) for m in subject.call.masks or ())
    subject = subject.with_call(masks=masks)
    signature, original = _arguments(subject), type(made).forward

    def forward(self: nn.Module, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - any form
        bound = signature.bind(self, *given, **named)
        return original(
            *bound.args, **{_EXAMPLE_NAMES.get(n, n): x for n, x in bound.kwargs.items()}
        )

    forward.__dict__["__signature__"] = signature
    made.__class__ = type(type(made).__name__, (type(made),), {"forward": forward})
    return made, subject


def pair(example: FaultExample) -> tuple[nn.Module, nn.Module]:
    """The faulty module and a sound one with the same random weights, both in float32."""
    subject = example.subject
    assert subject.params is not None
    torch.manual_seed(0)
    module, sound = example.make(subject), sound_module(subject)
    heads = locate(module, subject.params, subject.spec).heads
    assert heads is not None
    load_heads(sound, heads)
    return module, sound


def _equals_reference(module: nn.Module, sound: nn.Module, subject: Subject) -> bool:
    x = torch.randn(1, 5, subject.spec.width, generator=torch.Generator().manual_seed(1))
    have, want = (popular.call(m, subject, x) for m in (module, sound))
    return have.shape == want.shape and torch.allclose(have, want, rtol=1e-5, atol=1e-5)


def _solves_exercise(module: nn.Module, sound: nn.Module, subject: Subject) -> bool:
    x = torch.rand(1, 6, subject.spec.width, generator=torch.Generator().manual_seed(2))
    asked = {subject.call.causal_arg: True} if subject.call.causal_arg else {}
    have, want = (popular.call(m, subject, x, **asked) for m in (module, sound))
    return have.shape == want.shape and torch.allclose(have, want, rtol=1e-4, atol=1e-4)


_STEPS = 100


def _sentences(width: int) -> Tensor:
    """Random rows, the first of which is marked: the task is to copy it to every position."""
    x = torch.randn(16, 6, width)
    x[..., 0] = 0.0
    x[:, 0, 0] = 4.0
    return x


def _learns(module: nn.Module, sound: nn.Module, subject: Subject) -> bool:
    torch.manual_seed(0)
    count = {"cross": 2, "qkv": 3}.get(subject.call.form or "self", 1)
    optimiser = torch.optim.Adam(module.train().parameters(), lr=0.02)
    losses = []
    for _ in range(_STEPS):
        x = _sentences(subject.spec.width)
        output, _, _ = read_answer(module(*[x.clone() for _ in range(count)]))
        assert output is not None
        loss = (output - x[:, :1])[..., 1:].square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return sum(losses[-10:]) < 0.75 * sum(losses[:10])


_OURS: dict[str, Way] = {
    "one allclose": _equals_reference,
    "exercise judge": _solves_exercise,
    "trains": _learns,
}
_OF_MUSEUM = {"output shape": "shape only", "rows sum to one": "rows sum to one"}
WAYS: tuple[str, ...] = (*_OF_MUSEUM, *_OURS)
"""Names of the popular ways."""


def sound_example(kind: str) -> FaultExample:
    """The module of a declaration without any fault."""
    return FaultExample(fault="", kind=kind, make=sound_module)


@cache
def _accepts_sound(name: str, kind: str) -> bool:
    example = sound_example(kind)
    return _OURS[name](*pair(example), example.subject)


def accepts(name: str, example: FaultExample) -> bool | None:
    """Whether a popular way accepts a faulty module; None if it refuses the sound one too.

    Args:
        name: one of WAYS.
        example: the fault.
    """
    if name in _OF_MUSEUM:
        return popular.passes(_OF_MUSEUM[name], example)
    if not _accepts_sound(name, example.kind):
        return None
    try:
        return _OURS[name](*pair(example), example.subject)
    except RuntimeError:
        return False  # the fault makes the call raise, which every test notices


def sizes(subject: Subject) -> dict[str, Any]:
    """The widths and numbers of heads of a declaration."""
    spec = subject.spec
    known = {"embed_dim": spec.width, "num_heads": spec.heads}
    return known if spec.num_kv_heads is None else {**known, "num_kv_heads": spec.num_kv_heads}


def judged(example: FaultExample, *, is_declared: bool) -> VerifyReport:
    """What this verifier says of an example, with its whole declaration or with its sizes only."""
    torch.manual_seed(0)
    module, subject = as_written(example)
    if is_declared:
        return check(module, subject)
    return check(module, **sizes(subject))
