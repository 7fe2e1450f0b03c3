"""What a module does is read off it at work: norms, rotation, caps, sinks, biases, orders."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.core.config import Rotary
from manyheads.verify.fitting import (
    Scores,
    explained,
    fitted_norm,
    fitted_scores,
    solved,
)
from manyheads.verify.gaps import relative_gap
from manyheads.verify.infer import Inference, infer
from manyheads.verify.reading import EXACT, Reading
from manyheads.verify.subject import Spec, Subject
from tests.factories import annotations_unchecked, random_like
from tests.verify import kinds
from tests.verify.kinds import E, H, d

Made = nn.Module | Callable[..., Any]


def inferred(made: Made, **spec: Any) -> Inference:
    with annotations_unchecked():
        return infer(made, Subject(target="t", spec=Spec(**spec)))


def drawn(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(4)
    made = kind()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(parameter + 0.3 * torch.randn_like(parameter))
    return made


def reading_of(kind: type[nn.Module]) -> tuple[Inference, Reading]:
    known = inferred(drawn(kind))
    reading = known.understanding.reading
    assert reading is not None
    assert known.understanding.departures == []
    return known, reading


def scores_of(kind: type[nn.Module]) -> Scores:
    scores = reading_of(kind)[1].scores
    assert scores is not None
    return scores


@pytest.mark.parametrize(
    ("kind", "norm"),
    [
        (kinds.HeadNorm, ("rms", "head", 1e-6)),
        (kinds.LayerNorms, ("layer", "head", 1e-5)),
        (kinds.WholeNorm, ("rms", "all", 1e-5)),
    ],
)
def test_norms_of_queries_and_keys_are_read(
    kind: type[nn.Module], norm: tuple[str, str, float]
) -> None:
    known, reading = reading_of(kind)
    for rows in (reading.q, reading.k):
        assert rows is not None
        assert rows.norm is not None
        assert (rows.norm.kind, rows.norm.over, rows.norm.eps) == norm
    assert reading.v is not None
    assert reading.v.norm is None
    assert set(known.subject.extras.norms) == {"q", "k"}


def test_length_one_is_a_norm_too() -> None:
    _, reading = reading_of(kinds.UnitLength)
    assert reading.q is not None
    assert reading.q.norm is not None
    made = reading.q.norm.of(random_like(1, 5, d))
    assert torch.allclose(made.norm(dim=-1), torch.ones(5).double())


def test_a_norm_of_the_input_is_read() -> None:
    known, reading = reading_of(kinds.InputNorm)
    assert list(reading.input_norms) == [0]
    assert reading.input_norms[0].kind == "layer"
    assert set(known.subject.extras.norms) == {"input"}


@pytest.mark.parametrize(
    ("kind", "rotary"),
    [
        (kinds.Rotary, Rotary(style="half", base=10000.0)),
        (kinds.Neighbours, Rotary(style="interleaved", base=500.0)),
        (
            kinds.PartRotary,
            Rotary(base=10000.0, dim=2),
        ),  # one pair has one speed, whatever the base
    ],
)
def test_rotation_is_read(kind: type[nn.Module], rotary: Rotary) -> None:
    found = reading_of(kind)[0].subject.spec.position
    assert isinstance(found, Rotary)
    assert (found.dim, found.base) == (rotary.dim, pytest.approx(rotary.base))
    if kind is not kinds.PartRotary:
        assert found.style == rotary.style


def test_a_soft_cap_is_read() -> None:
    scores = scores_of(kinds.Capped)
    assert scores.softcap == pytest.approx(5.0)


def test_a_cap_that_is_none_is_a_mistake_with_its_line() -> None:
    known = inferred(drawn(kinds.WronglyCapped))
    (departure,) = [x for x in known.understanding.departures if x.is_mistake]
    assert "s tanh(s / 5)" in departure.says
    assert departure.step == "scores"
    assert departure.line is not None


def test_sinks_are_read_for_each_head() -> None:
    made = drawn(kinds.Sinks)
    found = inferred(made).subject.extras.sinks
    assert found is not None
    assert found.shape == (H,)


def test_a_key_of_zeros_is_a_sink_of_zero() -> None:
    sinks = scores_of(kinds.ZeroKey).sinks
    assert sinks is not None
    assert sinks.abs().max() < 1e-8


def test_a_table_of_biases_is_read() -> None:
    known, reading = reading_of(kinds.Table)
    bias = known.subject.extras.bias
    assert bias is not None
    assert bias.shape[0] == H
    assert bias.shape[1] >= 13
    assert reading.scores is not None
    assert reading.scores.factor == pytest.approx(d**-0.5)


def test_linear_biases_with_the_published_slopes_are_named() -> None:
    assert reading_of(kinds.Alibi)[0].subject.spec.position == "alibi"


@pytest.mark.parametrize(
    ("kind", "causal", "window", "ahead"),
    [
        (kinds.Causal, "always", None, None),
        (kinds.Window, "always", 3, None),
        (kinds.BothSides, None, 3, 2),
    ],
)
def test_order_is_read_off_the_keys_that_are_seen(
    kind: type[nn.Module], causal: str | None, window: int | None, ahead: int | None
) -> None:
    subject = reading_of(kind)[0].subject
    assert (subject.spec.causal, subject.spec.window) == (causal, window)
    assert subject.extras.ahead == ahead


def heads_of(known: Inference, named: dict[str, Tensor]) -> Any:
    assert known.subject.params is not None
    assert known.subject.params.found is not None
    return known.subject.params.found.read(named)


def parameters_of(made: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in made.named_parameters()}


@pytest.mark.parametrize("order", ["".join(o) for o in itertools.permutations("qkv")])
def test_packed_weights_are_read_in_every_order(order: str) -> None:
    kind = type("InOrder", (kinds.Packed,), {"order": order})
    known, made = reading_of(kind)[0], drawn(kind)
    heads = heads_of(known, parameters_of(made))
    blocks = dict(zip(order, parameters_of(made)["qkv.weight"].chunk(3), strict=True))
    for name in "qkv":
        assert torch.equal(getattr(heads, f"w_{name}"), blocks[name].unflatten(0, (H, d)).mT)


def test_weights_packed_head_by_head_are_read() -> None:
    known, made = reading_of(kinds.HeadByHead)[0], drawn(kinds.HeadByHead)
    heads = heads_of(known, parameters_of(made))
    rows = parameters_of(made)["qkv.weight"].unflatten(0, (H, 3, d))
    for i, name in enumerate("qkv"):
        assert torch.equal(getattr(heads, f"w_{name}"), rows[:, i].mT)


def test_weights_of_other_arrangements_are_read_bit_for_bit() -> None:
    def check(kind: type[nn.Module], wanted: Callable[[Tensor], Tensor], name: str) -> None:
        known, made = reading_of(kind)[0], drawn(kind)
        named = parameters_of(made)
        heads = heads_of(known, named)
        assert torch.equal(heads.w_k, wanted(named[name]))
        assert heads.w_o.flatten(0, 1).shape == (E, E)

    check(kinds.HeadMinor, lambda w: w.unflatten(0, (d, H)).permute(1, 2, 0), "wk.weight")
    check(kinds.InOut, lambda w: w.unflatten(1, (H, d)).transpose(0, 1), "wk")


def test_groups_are_read() -> None:
    known, reading = reading_of(kinds.Grouped)
    assert (known.subject.spec.num_heads, known.subject.spec.num_kv_heads) == (4, 2)
    assert reading.k is not None
    assert reading.k.order.tolist() == [0, 0, 1, 1]


def test_a_scale_before_the_product_is_the_same_scale() -> None:
    for kind in (kinds.Plain, kinds.ScaledBefore):
        assert reading_of(kind)[0].understanding.scale == pytest.approx(d**-0.5)


def test_weights_that_are_arguments_are_read() -> None:
    known = inferred(kinds.with_arguments, embed_dim=E, num_heads=H)
    assert known.understanding.departures == []
    assert known.inferred["params"] == {"q": "w_q", "k": "w_k", "v": "w_v", "o": "w_o"}


def test_what_the_layer_of_torch_holds_is_read() -> None:
    known = inferred(nn.MultiheadAttention(E, H, batch_first=True))
    assert known.understanding.departures == []
    assert known.inferred["params"]["k"] == "in_proj_weight, rows 13 to 24"


# the parts


def test_solving_gives_weight_and_bias() -> None:
    x, weight, bias = random_like(1, 20, 5), random_like(2, 5, 3), random_like(3, 3)
    found = solved(x, x @ weight + bias, EXACT)
    assert found is not None
    assert torch.allclose(found[0], weight)
    assert torch.allclose(found[1], bias)
    assert solved(x, (x @ weight).tanh(), EXACT) is None
    assert solved(x, (x @ weight).fill_(torch.inf), EXACT) is None


@pytest.mark.parametrize(("gap", "is_solved"), [(0.5e-9, True), (2e-9, False)])
def test_solving_keeps_its_tolerance(gap: float, is_solved: bool) -> None:
    x = random_like(1, 20, 3)
    y = x @ random_like(2, 3, 2)
    ones = torch.cat((x, torch.ones(20, 1)), 1).double()
    rest = random_like(3, 20, 2)
    rest -= ones @ torch.linalg.lstsq(ones, rest).solution  # what no weight can explain
    y = y + rest * (gap * y.abs().max() / rest.abs().max())
    assert (solved(x, y, EXACT) is not None) == is_solved


def test_gap_is_infinite_for_other_shapes_and_numbers_that_are_none() -> None:
    x = random_like(1, 3)
    assert relative_gap(x, x) == 0.0
    assert relative_gap(x[:2], x) == torch.inf
    assert relative_gap(x * torch.nan, x) == torch.inf
    assert relative_gap(torch.tensor([1.0, 5.0]), torch.tensor([1.0, 4.0])) == 0.25


def test_only_a_norm_is_fitted_as_one() -> None:
    x = random_like(1, 3, 5, 4)
    norm = fitted_norm(x, x / x.square().mean(-1, keepdim=True).sqrt() * 1.5, "head", EXACT)
    assert norm is not None
    assert norm.kind == "rms"
    assert torch.allclose(norm.gain, torch.tensor(1.5).double())
    assert fitted_norm(x, x * 1.5, "head", EXACT) is None
    assert fitted_norm(x, x.tanh(), "head", EXACT) is None


def test_heads_in_another_order_repeated_and_with_one_factor_are_explained() -> None:
    projected = random_like(1, 2, 2, 5, 4)
    found = explained(projected, projected[:, [1, 0, 0]] * 0.5, EXACT, iter(()))
    assert found is not None
    assert (found.order.tolist(), found.factor) == ([1, 0, 0], pytest.approx(0.5))
    two_factors = torch.stack((projected[:, 0], 2 * projected[:, 1]), 1)
    assert explained(projected, two_factors, EXACT, iter(())) is None
    assert explained(projected, projected + 0.1, EXACT, iter(())) is None


RAW = random_like(7, 3, 2, 4, 4)


def fitted(weights: Tensor, caps: tuple[float, ...] = ()) -> Scores | None:
    return fitted_scores(RAW, weights, EXACT, list(caps))


def test_factor_mask_and_bias_are_fitted() -> None:
    plain = fitted((0.3 * RAW).softmax(-1))
    assert plain is not None
    assert (plain.factor, plain.bias, plain.sinks) == (pytest.approx(0.3), None, None)
    hidden = torch.ones(4, 4).triu(1).bool()
    causal = fitted((0.3 * RAW).masked_fill(hidden, -torch.inf).softmax(-1))
    assert causal is not None
    assert torch.equal(causal.allowed, ~hidden)
    table = random_like(8, 2, 4, 4)
    biased = fitted((0.3 * RAW + table).softmax(-1))
    assert biased is not None
    assert biased.factor == pytest.approx(0.3)
    assert biased.bias is not None
    assert torch.allclose(biased.bias, table - table[..., :1])


@pytest.mark.parametrize(
    "weights",
    [
        RAW.softmax(-2),
        RAW.softmax(1),
        RAW.sigmoid(),
        RAW.softmax(-1) ** 2,
        RAW.softmax(-1) * 1.01,
        RAW.log_softmax(-1),
        torch.cat((RAW[:1].softmax(-1), RAW[1:].mul(2).softmax(-1))),
        torch.full_like(RAW, torch.nan),
        RAW.softmax(-1) * torch.ones(4, 4).double().tril(),
    ],
    ids=[
        *("over queries", "over heads", "sigmoid", "squared", "too large", "logarithms"),
        *("by sample", "no number", "hidden afterwards"),
    ],
)
def test_what_is_no_softmax_of_the_products_over_keys_is_not_fitted(weights: Tensor) -> None:
    assert fitted(weights) is None


def test_a_cap_is_fitted_only_among_the_numbers_at_work() -> None:
    weights = (3.0 * (RAW / 3.0).tanh()).softmax(-1)
    found = fitted(weights, (3.0,))
    assert found is not None
    assert (found.softcap, found.factor) == (3.0, 1.0)
    assert fitted(weights) is None
