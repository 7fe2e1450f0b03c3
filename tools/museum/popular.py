"""Tests that people write for attention: each asks something true, and most faults pass them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.verify.calling import prepared, read_answer
from manyheads.verify.subject import Subject
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.library import worksheet
from manyheads.worksheets.sheet import Sheet
from manyheads.worksheets.tensors import input_from_sheet, trace_from_sheet, weights_from_sheet
from tools.museum.examples import FaultExample
from tools.museum.module import FaultyAttention
from tools.museum.own import load_heads, sound_module

_CLOSE = 1e-9


def call(module: nn.Module, subject: Subject, x: Tensor, **keywords: Any) -> Tensor:  # noqa: ANN401
    """The output for x in every place, in evaluation mode.

    Args:
        module: to be called.
        subject: how it is declared; only the form is read.
        x: (B, T, D), copied for each place.
        **keywords: masks and flags.
    """
    count = {"cross": 2, "qkv": 3}.get(subject.call.form or "self", 1)
    module.eval()
    with torch.no_grad():
        output, _, _ = read_answer(module(*[x.clone() for _ in range(count)], **keywords))
    assert output is not None
    return output


def _draw(subject: Subject) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(2, 5, subject.spec.width, generator=generator, dtype=torch.float64)


def _padding(subject: Subject) -> dict[str, Tensor]:
    """A padding mask for those who take one: the last key of the first sample."""
    if not any(mask.arg == "padding" for mask in subject.call.masks or ()):
        return {}
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[0, -1] = True
    return {"padding": padding}


Test = Callable[[nn.Module, nn.Module, Subject], bool]


def _keeps_shape(module: nn.Module, sound: nn.Module, subject: Subject) -> bool:
    x = _draw(subject)
    return call(module, subject, x, **_padding(subject)).shape == x.shape


def _rows_sum_to_one(module: nn.Module, sound: nn.Module, subject: Subject) -> bool:
    assert isinstance(module, FaultyAttention)
    call(module, subject, _draw(subject), **_padding(subject))
    assert module.last_weights is not None
    return bool(((module.last_weights.sum(dim=-1) - 1.0).abs() < _CLOSE).all())


def _last_cannot_reach_back(module: nn.Module, sound: nn.Module, subject: Subject) -> bool:
    x = _draw(subject)
    other = x.clone()
    other[:, -1] += 1.0
    before, after = (call(module, subject, given)[:, :-1] for given in (x, other))
    return bool(((before - after).abs() < _CLOSE).all())


def _ones_give_the_value(module: nn.Module, sound: nn.Module, subject: Subject) -> bool:
    ones = torch.ones_like(_draw(subject))
    have, want = call(module, subject, ones), call(sound, subject, ones)
    return have.shape == want.shape and bool(((have - want).abs() < _CLOSE).all())


_TESTS: dict[str, Test] = {
    "shape only": _keeps_shape,
    "rows sum to one": _rows_sum_to_one,
    "last token cannot reach back": _last_cannot_reach_back,
    "all-ones input": _ones_give_the_value,
}
WORKSHEETS = ("two-routes", "river-and-cheque", "three-heads")
POPULAR: tuple[str, ...] = (*_TESTS, *WORKSHEETS)
"""Names of the popular tests."""


def _pair(example: FaultExample, subject: Subject) -> tuple[nn.Module, nn.Module]:
    """The faulty module and a sound one with the same random weights, in float64."""
    callee = prepared(example.make(subject), subject)
    located, module = callee.located(), callee.module
    assert module is not None and located is not None and located.heads is not None
    sound = sound_module(subject).double()
    load_heads(sound, located.heads)
    return module, sound


def _asked(name: str, subject: Subject) -> Subject:
    """The declaration under which a test makes sense: causality only where it is asked about."""
    return subject.with_spec(causal="always") if name.startswith("last") else subject


def sheet_subject(subject: Subject, sheet: Sheet) -> Subject:
    """The declaration in the sizes of a worksheet, causal as the worksheet is."""
    return subject.with_spec(
        embed_dim=sheet.embed_dim,
        num_heads=sheet.num_heads,
        num_kv_heads=None,
        head_dim=sheet.head_dim,
        v_head_dim=sheet.v_head_dim,
        scale=None if sheet.scale is None else float_of(sheet.scale),
        causal="always" if sheet.is_causal else None,
    )


def on_sheet(made: nn.Module, sheet: Sheet) -> nn.Module:
    """A module with the weights of a worksheet, in float64."""
    made = made.double().eval()
    load_heads(made, weights_from_sheet(sheet))
    return made


def _solves(module: nn.Module, subject: Subject, sheet: Sheet) -> bool:
    want = trace_from_sheet(sheet)["output"]
    have = call(module, subject, input_from_sheet(sheet))
    return have.shape == want.shape and bool(((have - want).abs() < _CLOSE).all())


def _passes_sheet(name: str, example: FaultExample) -> bool | None:
    sheet = worksheet(name)
    subject = sheet_subject(example.subject, sheet)
    if not _solves(on_sheet(sound_module(subject), sheet), subject, sheet):
        return None
    return _solves(on_sheet(example.make(subject), sheet), subject, sheet)


def passes(name: str, example: FaultExample) -> bool | None:
    """Whether a popular test is content with a faulty module; None where it can't be asked.

    Args:
        name: one of POPULAR.
        example: the fault.
    """
    try:
        if name in WORKSHEETS:
            return _passes_sheet(name, example)
        subject = _asked(name, example.subject)
        module, sound = _pair(example, subject)
        if not _TESTS[name](sound, sound, subject):
            return None
        return _TESTS[name](module, sound, subject)
    except RuntimeError:
        return False  # the fault makes the call raise, which every test notices


__all__ = ["POPULAR", "WORKSHEETS", "call", "on_sheet", "passes", "sheet_subject"]
