"""A problem is handed over in the callee's own manner, and its answer is read in ours."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.attention.problem import GivenMask
from manyheads.core.errors import SubjectError
from manyheads.verify.calling import (
    Callee,
    from_callee,
    mask_for_callee,
    prepared,
    read_answer,
    to_callee,
)
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import CONVENTIONS
from tests.factories import random_like
from tests.verify.faulty_modules import Listed, Packed, Plain
from tests.verify.faulty_positions import Cached
from tests.verify.handmade import ASKED, CACHED, LISTED, PACKED, PADDED, SEPARATE, STEPS, declared

ALLOWED = torch.tensor([[[1, 1, 0], [1, 0, 1]], [[0, 1, 1], [1, 1, 1]]], dtype=torch.bool)
B, T, S, H = 2, 2, 3, 2


def given(axes: str, convention: str, allowed: Tensor = ALLOWED) -> Tensor:
    mask = GivenMask(allowed=allowed, axes=axes, convention=convention)
    return mask_for_callee(mask, B, T, H, torch.float32)


SHAPED: dict[str, tuple[Tensor, Tensor]] = {
    "BS": (ALLOWED[:, :1], ALLOWED[:, 0]),
    "TS": (ALLOWED[:1], ALLOWED[0]),
    "BTS": (ALLOWED, ALLOWED),
    "B1TS": (ALLOWED, ALLOWED[:, None]),
    "(BH)TS": (ALLOWED, ALLOWED[[0, 0, 1, 1]]),
}


@pytest.mark.parametrize("axes", SHAPED)
@pytest.mark.parametrize("convention", sorted(CONVENTIONS.keys() - {"lengths", "documents"}))
def test_mask_is_handed_over_in_its_axes_and_convention(axes: str, convention: str) -> None:
    ours, shaped = SHAPED[axes]
    zeros = torch.zeros(shaped.shape)
    wanted = {
        "allowed": shaped,
        "blocked": ~shaped,
        "additive": zeros.masked_fill(~shaped, -math.inf),
        "one_zero": shaped.float(),
    }
    handed = given(axes, convention, ours)
    assert handed.dtype == wanted[convention].dtype
    assert torch.equal(handed, wanted[convention])


def test_mask_for_all_samples_is_widened_where_the_axes_want_samples() -> None:
    assert torch.equal(given("BTS", "allowed", ALLOWED[:1]), ALLOWED[:1].expand(2, -1, -1))
    assert given("TS", "allowed", ALLOWED[:1, :1]).shape == (T, S)


@pytest.mark.parametrize("axes", ["B", "BS"])
def test_lengths_count_the_valid_keys_of_a_sample(axes: str) -> None:
    allowed = torch.tensor([[[1, 1, 0]], [[1, 1, 1]]], dtype=torch.bool)
    assert given(axes, "lengths", allowed).tolist() == [2, 3]


def test_positions_of_one_document_share_a_number() -> None:
    ids = torch.tensor([[0, 0, 1], [0, 1, 1]])
    mask = GivenMask(allowed=ids[:, :, None] == ids[:, None], axes="BTS", convention="documents")
    handed = mask_for_callee(mask, B, S, H, torch.float32)
    assert torch.equal(handed[:, :, None] == handed[:, None], mask.allowed)


def test_handed_mask_is_a_tensor_of_its_own() -> None:
    kept = ALLOWED.clone()
    given("BTS", "allowed").zero_()
    assert torch.equal(ALLOWED, kept)


@pytest.mark.parametrize("layout", ["BTE", "TBE", "BET"])
def test_axes_are_turned_and_turned_back(layout: str) -> None:
    x = random_like(1, 2, 3, 5)
    turned = to_callee(x, layout)
    assert [turned.shape["BTE".index(a)] for a in "BTE"] == [
        x.shape[layout.index(a)] for a in "BTE"
    ]
    assert turned.is_contiguous()
    assert turned.data_ptr() != x.data_ptr()
    assert torch.equal(from_callee(turned, layout), x)


Y, W = torch.zeros(2, 3, 4), torch.zeros(2, 1, 3, 3)


@pytest.mark.parametrize(
    ("answer", "output", "weights"),
    [
        (Y, Y, None),
        ((Y, W), Y, W),
        ([Y, None, W], Y, W),
        ((Y, None), Y, None),
        ({"hidden": Y, "attentions": W}, Y, W),
        (SimpleNamespace(last=Y, attentions=W), Y, W),
        ((None, 3), None, None),
        ("nothing", None, None),
        (None, None, None),
    ],
)
def test_answers_of_every_kind_are_read(answer: Any, output: Any, weights: Any) -> None:
    have, found, _ = read_answer(answer)
    assert have is output
    assert found is weights


def test_cache_is_handed_from_piece_to_piece() -> None:
    subject = declared(STEPS, CACHED, SEPARATE)
    callee = prepared(Cached(), subject)
    maker = ProblemMaker(subject, callee.located())
    whole, pieces = (maker.plain(2, 5, chunks=chunks) for chunks in ((5,), (2, 1, 1, 1)))
    with torch.no_grad():
        first, second = callee.call(whole).output, callee.call(pieces).output
    assert first is not None
    assert second is not None
    assert torch.allclose(first, second, atol=1e-6)  # float32 angles


def test_one_tensor_given_thrice_is_handed_over_as_one() -> None:
    seen: list[tuple[Tensor, ...]] = []

    def listening(*tensors: Tensor) -> Tensor:
        seen.append(tensors)
        return tensors[0]

    subject = declared({}, {"form": "qkv"}, {"layout": "identity"})
    callee = Callee(listening, subject, torch.float64)
    maker = ProblemMaker(subject, None)
    problem = maker.plain(2, 4)
    callee.call(problem)
    own = problem.__class__(**{**vars(problem), "x_k": problem.x_q, "x_v": problem.x_q})
    callee.call(own)
    assert [len({id(t) for t in tensors}) for tensors in seen] == [3, 1]


def test_exception_becomes_part_of_the_outcome() -> None:
    def raising(x: Tensor) -> Tensor:
        raise ValueError("first line\nsecond line")

    subject = declared({}, {}, {"layout": "identity"})
    outcome = Callee(raising, subject, torch.float64).call(ProblemMaker(subject, None).plain())
    assert outcome.output is None
    assert outcome.raised == "ValueError: first line"


def test_masks_and_causality_go_to_their_keywords() -> None:
    seen: dict[str, Any] = {}

    def listening(x: Tensor, **keywords: Any) -> Tensor:
        seen.update(keywords)
        return x

    subject = declared({}, {**PADDED, **ASKED, "extra": {"more": 5}}, {"layout": "identity"})
    maker = ProblemMaker(subject, None)
    problem = maker.masked(maker.plain(2, 4, causal=True), subject.call.masks or ())
    Callee(listening, subject, torch.float64).call(problem, flag=1)
    assert seen["more"] == 5
    assert seen["flag"] == 1
    assert seen["causal"] is True
    assert torch.equal(seen["padding"], ~problem.masks[0].allowed[:, 0])


def test_prepared_module_is_a_drawn_copy_in_float64() -> None:
    module = Packed()
    before = module.qkv.weight.detach().clone()
    callee = prepared(module, declared({}, {}, PACKED))
    assert callee.module is not module
    assert torch.equal(module.qkv.weight, before)
    parameters = dict(callee.module.named_parameters())  # type: ignore[union-attr]
    assert all(p.dtype == torch.float64 and bool((p != 0).all()) for p in parameters.values())
    again = prepared(module, declared({}, {}, PACKED))
    other = prepared(module, declared({}, {}, PACKED), seed=1)
    assert torch.equal(parameters["qkv.bias"], dict(again.module.named_parameters())["qkv.bias"])  # type: ignore[union-attr]
    assert not torch.equal(
        parameters["qkv.bias"], dict(other.module.named_parameters())["qkv.bias"]
    )  # type: ignore[union-attr]


def test_layers_that_torch_does_not_see_are_brought_to_the_dtype_too() -> None:
    callee = prepared(Listed(), declared({}, {}, LISTED))
    located = callee.located()
    assert located is not None
    assert {t.dtype for t in located.tensors.values()} == {torch.float64}


class Stubborn(nn.Module):
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("cannot be copied\nat all")


def test_module_that_cannot_be_copied_is_named() -> None:
    with pytest.raises(SubjectError, match="cannot be copied or converted: RuntimeError: cannot"):
        prepared(Stubborn(), declared({}, {}, SEPARATE))


def test_half_copy_shares_nothing_with_the_first() -> None:
    callee = prepared(Plain(), declared({}, {}, SEPARATE))
    half = callee.in_dtype(torch.float16)
    assert {p.dtype for p in half.module.parameters()} == {torch.float16}  # type: ignore[union-attr]
    assert {p.dtype for p in callee.module.parameters()} == {torch.float64}  # type: ignore[union-attr]
