"""Weights are found among the parameters by their numbers, whatever the names are."""

import pytest
import torch
from torch import Tensor

from manyheads.core.weights import HeadWeights
from manyheads.verify.origins import Found, Origin, Parameters, compressed, flat
from tests.factories import random_like

E, H, d = 5, 3, 2
ROWS = random_like(1, H * d, E)  # (out, in)
COLUMNS = random_like(2, E, H * d)  # (in, out)
BIAS = random_like(3, H * d)
NAMED = {"a": random_like(4, 4, 4), "rows": ROWS, "columns": COLUMNS, "bias": BIAS}
PARAMETERS = Parameters(NAMED)


def heads(matrix: Tensor) -> Tensor:
    """(H, E, d) of a matrix (E, H * d)."""
    return matrix.unflatten(1, (H, d)).transpose(0, 1)


def origin_of(weight: Tensor) -> Origin:
    found = PARAMETERS.origin(weight)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "matrix"), [("rows", ROWS.T), ("columns", COLUMNS)])
def test_rows_and_columns_are_found(name: str, matrix: Tensor) -> None:
    origin = origin_of(heads(matrix))
    assert (origin.names, origin.factor) == ((name,), 1.0)
    assert torch.equal(PARAMETERS.flat[origin.entries], heads(matrix))


def test_heads_in_another_order_are_found() -> None:
    turned = heads(ROWS.T)[[2, 0, 0]]
    assert torch.equal(PARAMETERS.flat[origin_of(turned).entries], turned)


@pytest.mark.parametrize("factor", [2.0, -0.25, 1 / 3])
def test_a_factor_is_found(factor: float) -> None:
    assert origin_of(heads(ROWS.T) * factor).factor == pytest.approx(factor)


def test_what_comes_from_two_tensors_names_both() -> None:
    both = torch.cat((heads(ROWS.T)[:1], heads(COLUMNS)[1:]))
    assert origin_of(both).names == ("rows", "columns")


def test_two_factors_other_numbers_and_zeros_have_no_origin() -> None:
    weight = heads(ROWS.T)
    two_factors = weight * torch.tensor([1.0, 1.0, 2.0])[:, None, None]
    for other in (two_factors, random_like(9, H, E, d), weight * 0.0, weight.roll(1, 1)):
        assert PARAMETERS.origin(other) is None


@pytest.mark.parametrize(("noise", "is_found"), [(1e-8, True), (1e-4, False)])
def test_nearness_has_a_limit(noise: float, is_found: bool) -> None:
    other = heads(ROWS.T) * (1 + noise * random_like(8, H, E, d))
    assert (PARAMETERS.origin(other) is not None) == is_found


def test_biases_are_found_by_their_numbers() -> None:
    origin = PARAMETERS.bias_origin(BIAS.view(H, d) * 2.0, 2.0)
    assert origin is not None
    assert origin.names == ("bias",)
    assert torch.equal(PARAMETERS.flat[origin.entries], BIAS.view(H, d))
    assert PARAMETERS.bias_origin(BIAS.view(H, d) + 0.01, 1.0) is None


def test_numbers_that_are_none_are_left_out() -> None:
    odd = {"mask": torch.full((2, 2), -torch.inf), "index": torch.arange(3), "none": torch.empty(0)}
    assert Parameters(odd | {"rows": ROWS}).named.keys() == {"rows"}
    assert Parameters({}).origin(heads(ROWS.T)) is None
    assert flat({}).numel() == 0


def found_in(named: dict[str, Tensor]) -> Found:
    """Weights of which the values are half a parameter, the output has no origin."""
    parameters = Parameters(named)
    values = HeadWeights(
        w_q=heads(ROWS.T), w_k=heads(ROWS.T), w_v=heads(COLUMNS) * 0.5, w_o=random_like(7, H, d, E)
    )
    origins = {}
    for name in ("w_q", "w_k", "w_v"):
        origin = parameters.origin(getattr(values, name))
        assert origin is not None
        origins[name] = origin
    moved, names = compressed(origins, parameters)
    return Found(origins=moved, values=values, names=names)


def test_only_the_tensors_that_are_used_are_kept() -> None:
    found = found_in(NAMED)
    assert found.names == ("rows", "columns")
    assert set(found.tensors) == {"rows", "columns"}
    read = found.read({name: NAMED[name] for name in found.names})
    for name, tensor in read.tensors().items():  # the factor is rounded as the processor does
        torch.testing.assert_close(tensor, found.values.tensors()[name], rtol=4e-16, atol=0)


def test_gradients_flow_to_the_parameters_through_the_factor() -> None:
    named = {n: t.clone().requires_grad_() for n, t in NAMED.items()}
    found_in(NAMED).read(named).w_v.sum().backward()
    grad = named["columns"].grad
    assert grad is not None
    assert torch.equal(grad, torch.full_like(COLUMNS, 0.5))
