"""What a fault does to the numbers of a worksheet: each example compared with the sound module."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.verify.calling import prepared
from manyheads.verify.subject import Subject
from manyheads.worksheets.library import worksheet
from manyheads.worksheets.tensors import input_from_sheet
from tools.museum.examples import FaultExample
from tools.museum.module import FaultyAttention
from tools.museum.own import load_heads, sound_module
from tools.museum.popular import on_sheet, sheet_subject

SHEET = "three-heads"
_PIECES = (2, 1, 1)


@dataclass(frozen=True, kw_only=True)
class BeforeAfter:
    """A quantity before and after."""

    what: str
    """What is shown, and where."""
    before: str
    """As the sound module gives it."""
    after: str
    """As the fault gives it."""


def _hidden(kind: str, batch: int, length: int) -> Tensor:
    """Some keys of each sample; all of the first where zeros are declared."""
    padding = torch.zeros(batch, length, dtype=torch.bool)
    padding[0, 1] = padding[1, 2] = True
    padding[0, 3:-1] = True
    if kind == "padding, zero":
        padding[0] = True
    return padding


def _keywords(kind: str, x: Tensor) -> dict[str, Any]:
    found: dict[str, Any] = {"is_causal": True} if "asked" in kind else {}
    if "padding" in kind:
        found["padding"] = _hidden(kind, *x.shape[:2])
    return found


def _output(module: nn.Module, kind: str, x: Tensor) -> Tensor:
    """The output for two samples in the manner of the declaration."""
    if "cache" in kind:
        return _in_pieces(module, x)
    places: tuple[Tensor, ...] = (x,)
    if kind in ("cross", "asked, context"):
        places = (x[:, 2:], x)
    elif kind == "qkv":
        places = (x, x, x.flip(1))
    torch.manual_seed(0)
    answer = module(*places, **_keywords(kind, x))
    output: Tensor = answer[0] if isinstance(answer, tuple) else answer
    return output


def _in_pieces(module: nn.Module, x: Tensor) -> Tensor:
    cache, parts = None, []
    for piece in x.split([*_PIECES, *[1] * (x.shape[1] - sum(_PIECES))], dim=1):
        part, cache = module(piece, cache)
        parts.append(part)
    return torch.cat(parts, dim=1)


def _text(numbers: Tensor) -> str:
    """Four digits each, without a minus before zero."""
    exact = (numbers.detach().double() * 1e9).round() / 1e9
    return ", ".join(f"{float(n) + 0.0:.4g}" for n in exact)


def _rows(
    sound: nn.Module, faulty: nn.Module, example: FaultExample, x: Tensor
) -> BeforeAfter | None:
    """The last row of the first sample that differs, None where none does."""
    is_dropped = "dropout" in example.kind and example.fault != "dropout-in-eval"
    for module in (sound, faulty):
        module.train(is_dropped)
    with torch.no_grad():
        right, wrong = (_output(module, example.kind, x) for module in (sound, faulty))
    differs = ~torch.isclose(right[0], wrong[0], rtol=1e-6, atol=1e-9).all(dim=-1)
    if not bool(differs.any()):
        return None
    place = int(differs.nonzero()[-1])
    first = place + 1 + x.shape[1] - right.shape[1]
    what = f"output at position {first}"
    if is_dropped:
        what += ", in training with dropout 0.3 (both with the same random seed)"
    if "padding" in example.kind:
        what += ", all keys hidden" if "zero" in example.kind else ", key 2 hidden"
    if "cache" in example.kind:
        what += ", decoded in pieces"
    return BeforeAfter(
        what=what, before=_text(right[0, place, :6]), after=_text(wrong[0, place, :6])
    )


Probe = Callable[[nn.Module, Tensor], str]


def _shape(module: nn.Module, x: Tensor) -> str:
    return str(tuple(module(x[:1]).shape))


def _input_after(module: nn.Module, x: Tensor) -> str:
    given = x.clone()
    module(given)
    return _text(given[0, -1])


def _third_call(module: nn.Module, x: Tensor) -> str:
    return _text([module(x) for _ in range(3)][-1][0, -1])


def _other_memory(module: nn.Module, x: Tensor) -> str:
    return _text(module(x.mT.contiguous().mT)[0, -1])


def _stored(module: nn.Module, x: Tensor) -> str:
    return f"{len(module.state_dict())} tensors"


def _key_gradient(module: nn.Module, x: Tensor) -> str:
    with torch.enable_grad():
        module(x).square().sum().backward()
    gradient = dict(module.named_parameters())["k.weight"].grad
    return "none" if gradient is None else f"{float(gradient.abs().max()):.4g}"


def _mask_after(module: nn.Module, x: Tensor) -> str:
    blocked = torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool)
    module(x, blocked=blocked, is_causal=True)
    return " / ".join("".join("1" if b else "0" for b in row) for row in blocked)


def _weights_in_training(module: nn.Module, x: Tensor) -> str:
    torch.manual_seed(0)
    return _text(module.train()(x)[1][0, 0, -1])


def _in_half(module: nn.Module, x: Tensor) -> str:
    keywords = {"padding": _hidden("padding", *x.shape[:2])} if _takes_padding(module) else {}
    try:
        module.half()(x.half(), **keywords)
    except RuntimeError:
        return "the call raises a RuntimeError"
    return "an output"


def _takes_padding(module: nn.Module) -> bool:
    assert isinstance(module, FaultyAttention)
    return bool(module.subject.call.masks)


def _not_finite(module: nn.Module, x: Tensor) -> str:
    output = module.half()((200 * x).half())
    return f"{int((~output.isfinite()).sum())} of {output.numel()} numbers"


def _long_sum(module: nn.Module, x: Tensor) -> str:
    assert isinstance(module, FaultyAttention)
    count = 4096
    weights = torch.full((1, 1, 1, count), 1 / count, dtype=torch.bfloat16)
    ones = torch.ones(1, 1, count, 1, dtype=torch.bfloat16)
    return _text(module.pipeline.weigh(module.template, weights, ones).flatten())


_PROBES: dict[str, tuple[str, Probe]] = {
    "shape-at-size-one": ("shape of the output for a batch of one", _shape),
    "input-mutated": ("row 4 of the caller's input after the call", _input_after),
    "state-mutated": ("output at position 4, third call with the same input", _third_call),
    "strides-ignored": ("output at position 4, the input in transposed memory", _other_memory),
    "unregistered-parameters": ("in `state_dict()`", _stored),
    "gradient-cut": ("largest gradient of W_K", _key_gradient),
    "mask-mutated": ("the caller's mask after the call, empty before it; 1 = blocked", _mask_after),
    "returned-weights": ("weights of head 1 at position 4, in training", _weights_in_training),
    "dtype-mismatch": ("in float16", _in_half),
    "mask-value-in-half": ("in float16", _in_half),
    "half-overflow": (
        "numbers that are not finite, in float16, for 200 times the input",
        _not_finite,
    ),
    "low-precision": ("the mean of 4,096 ones in bfloat16", _long_sum),
}


def _on_sheet(example: FaultExample) -> tuple[nn.Module, nn.Module, Tensor]:
    """Sound and faulty module with the worksheet's weights, and its sentence both ways."""
    sheet = worksheet(SHEET)
    subject = sheet_subject(example.subject, sheet)
    if example.subject.spec.scale is not None:
        subject = subject.with_spec(scale=example.subject.spec.scale)
    if "asked" in example.kind:
        subject = subject.with_spec(causal=None)
    x = input_from_sheet(sheet)
    sound, faulty = (
        on_sheet(made, sheet) for made in (sound_module(subject), example.make(subject))
    )
    return sound, faulty, torch.cat((x, x.flip(1)))


def _on_random(example: FaultExample) -> tuple[nn.Module, nn.Module, Tensor]:
    subject: Subject = example.subject
    callee = prepared(example.make(subject), subject)
    located, faulty = callee.located(), callee.module
    assert faulty is not None and located is not None and located.heads is not None
    sound = sound_module(subject).double()
    load_heads(sound, located.heads)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2, 5, subject.spec.width, generator=generator, dtype=torch.float64)
    return sound, faulty, x


def shown(example: FaultExample) -> tuple[bool, BeforeAfter]:
    """What an example does to numbers.

    Returns:
        Whether the worksheet shows it, and a quantity before and after; where the worksheet
        cannot show it, of random weights.
    """
    sound, faulty, x = _on_sheet(example)
    if example.fault in _PROBES:
        what, probe = _PROBES[example.fault]
        return True, BeforeAfter(what=what, before=probe(sound, x), after=probe(faulty, x))
    found = _rows(sound, faulty, example, x)
    if found is not None:
        return True, found
    sound, faulty, x = _on_random(example)
    found = _rows(sound, faulty, example, x)
    assert found is not None, example.fault
    return False, found


def spoiled_gradients(example: FaultExample) -> dict[str, str]:
    """Weights that training cannot move as it should, with "no" or "a NaN" for a gradient."""
    _, faulty, x = _on_random(example)
    faulty.train()
    _output(faulty, example.kind, x).square().sum().backward()
    found = {}
    for name, parameter in faulty.named_parameters():
        if name.endswith("weight"):
            size = 0.0 if parameter.grad is None else float(parameter.grad.abs().max())
            if not size > 1e-12:
                found[name] = "a NaN" if size != size else "no"
    return found
