"""Heads are found in code of every manner, and what is no attention is named with its line."""

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from manyheads.verify.assembly import Core, NotSeenError
from manyheads.verify.structure import Structure
from manyheads.verify.watch import watch
from tests.verify.written import (
    WEIGHTS,
    WRITTEN,
    B,
    H,
    T,
    Weights,
    X,
    batched,
    d,
    expected,
    heads,
)

Form = Callable[[Tensor, Weights], Tensor]


def structure_of(form: Form) -> Structure:
    watched = watch(lambda: form(X, WEIGHTS))
    assert watched.raised is None, watched.raised
    structure = Structure(batch=B, lengths=(T, T), events=watched.events)
    where = torch.arange(B * T).view(B, T, 1).expand(X.shape)
    structure.begin([X], [where])
    structure.run()
    return structure


def core_of(form: Form) -> Core:
    return structure_of(form).core()


@pytest.mark.parametrize("form", WRITTEN)
def test_every_manner_computes_the_same(form: Form) -> None:
    assert torch.allclose(form(X, WEIGHTS), batched(X, WEIGHTS), atol=1e-12)


@pytest.mark.parametrize("form", WRITTEN)
def test_heads_are_found_in_order(form: Form) -> None:
    core = core_of(form)
    q, k, v, weights = expected()
    factor = float((core.q * core.k).sum() / (q * k).sum())  # the scale may be in q and k already
    assert torch.allclose(core.q @ core.k.mT, q @ k.mT * factor, atol=1e-12)
    assert torch.allclose(core.v, v, atol=1e-12)
    assert torch.allclose(core.weights, weights, atol=1e-12)
    assert torch.allclose(core.messages, weights @ v, atol=1e-12)
    assert core.sources == (0, 0, 0)
    assert not core.has_more


def test_lines_of_the_products_are_kept() -> None:
    core, first = core_of(batched), inspect.getsourcelines(batched)[1]
    lines = {step: line.number - first for step, line in core.lines.items() if line is not None}
    assert lines == {"scores": 2, "head_outputs": 3}


def without_product(x: Tensor, w: Weights) -> Tensor:
    return x @ w.q


def without_values(x: Tensor, w: Weights) -> Tensor:
    return (heads(x, w.q) @ heads(x, w.k).mT).softmax(-1).sum(1) @ x.new_ones(T, 1)


def split_by_view(x: Tensor, w: Weights) -> Tensor:
    q, k, v = ((x @ m).view(B, H, T, d) for m in (w.q, w.k, w.v))
    return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)


def across_samples(x: Tensor, w: Weights) -> Tensor:
    q, k, v = heads(x, w.q), heads(x, w.k), heads(x, w.v)
    return ((q @ k.flip(0).mT).softmax(-1) @ v).transpose(1, 2).flatten(2)


def twice(x: Tensor, w: Weights) -> Tensor:
    y = batched(x, w)
    return y @ x.mT @ x


BROKEN: dict[Form, tuple[str, str, int | None]] = {
    without_product: ("no product of queries and keys", "scores", None),
    without_values: ("no product of weights and values", "head_outputs", None),
    split_by_view: ("multiplies a position with itself several times", "q", 2),
    across_samples: ("one sample", "scores", 2),
    twice: ("messages are multiplied with input again", "", 2),
}


@pytest.mark.parametrize("form", BROKEN)
def test_what_is_seen_instead_is_said(form: Form) -> None:
    said, step, offset = BROKEN[form]
    with pytest.raises(NotSeenError, match=said) as caught:
        core_of(form)
    assert caught.value.step == step
    line = caught.value.line
    if offset is None:
        assert line is None
    else:
        assert line is not None
        assert line.number == inspect.getsourcelines(form)[1] + offset


def test_a_zero_key_more_is_no_more_and_a_value_more_is() -> None:
    def with_one_more(value: float) -> Form:
        def form(x: Tensor, w: Weights) -> Tensor:
            q, k, v = heads(x, w.q), heads(x, w.k), heads(x, w.v)
            k = torch.cat((k, k.new_zeros(B, H, 1, d)), 2)
            v = torch.cat((v, v.new_full((B, H, 1, d), value)), 2)
            return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)

        return form

    assert not core_of(with_one_more(0.0)).has_more
    assert core_of(with_one_more(1.0)).has_more


def test_results_from_which_something_was_made_are_its_ancestors() -> None:
    structure = structure_of(batched)
    factor = structure.factor_of("v")
    assert factor is not None
    values, keys = factor[0], structure.factor_of("k")
    assert keys is not None
    ancestors = structure.ancestors(values, factor[1])
    read = {
        x.untyped_storage()._cdata
        for number, _ in ancestors
        for x in structure.events[number].args
        if isinstance(x, Tensor)
    }
    assert WEIGHTS.v.untyped_storage()._cdata in read
    assert WEIGHTS.k.untyped_storage()._cdata not in read


def test_a_softmax_is_found_before_what_is_done_to_it_later() -> None:
    def form(x: Tensor, w: Weights) -> Tensor:
        q, k, v = heads(x, w.q), heads(x, w.k), heads(x, w.v)
        return ((q @ k.mT).softmax(-1) ** 2 @ v).transpose(1, 2).flatten(2)

    raw, weights = next(structure_of(form).softmaxes())
    assert torch.allclose(weights, raw.softmax(-1))
