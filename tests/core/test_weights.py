"""HeadWeights: sizes that agree, sizes that do not, and equality to the last bit."""

from typing import Any

import pytest
import torch

from manyheads.core.errors import ShapeError
from manyheads.core.weights import HeadWeights
from tests.factories import annotations_unchecked

SHAPES = {
    "w_q": (6, 13, 5), "w_k": (3, 9, 5), "w_v": (3, 4, 2), "w_o": (6, 2, 13),
    "b_q": (6, 5), "b_k": (3, 5), "b_v": (3, 2), "b_o": (13,),
}  # fmt: skip


def tensors() -> dict[str, Any]:
    """One tensor for each name, all sizes different."""
    return {name: torch.ones(shape) for name, shape in SHAPES.items()}


def test_sizes_are_read_off_the_tensors() -> None:
    weights = HeadWeights(**tensors())
    assert (weights.num_heads, weights.num_kv_heads, weights.embed_dim) == (6, 3, 13)
    assert (weights.head_dim, weights.v_head_dim) == (5, 2)
    assert list(weights.tensors()) == list(SHAPES)


def test_absent_biases_are_left_out() -> None:
    weights = HeadWeights(**{n: t for n, t in tensors().items() if n.startswith("w")})
    assert list(weights.tensors()) == ["w_q", "w_k", "w_v", "w_o"]
    assert weights.b_o is None


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("w_q", (6, 13), r"w_q has shape \(6, 13\), expected \(H, D, d\): give 3 axes"),
        ("w_k", (3, 9, 4), r"w_k has shape \(3, 9, 4\), expected \(G, K, d\) with d = 5 as in w_q"),
        ("w_v", (2, 4, 2), r"w_v has shape \(2, 4, 2\), expected \(G, V, v\) with G = 3 as in w_k"),
        (
            "w_o",
            (6, 3, 13),
            r"w_o has shape \(6, 3, 13\), expected \(H, v, D\) with v = 2 as in w_v",
        ),
        (
            "w_o",
            (6, 2, 12),
            r"w_o has shape \(6, 2, 12\), expected \(H, v, D\) with D = 13 as in w_q",
        ),
        ("b_q", (5, 5), r"b_q has shape \(5, 5\), expected \(H, d\) with H = 6 as in w_q"),
        ("b_k", (3, 2), r"b_k has shape \(3, 2\)"),
        ("b_v", (3, 5), r"b_v has shape \(3, 5\)"),
        ("b_o", (12,), r"b_o has shape \(12,\), expected \(D\) with D = 13 as in w_q"),
    ],
)
def test_tensor_that_does_not_fit_is_refused(name: str, shape: tuple[int, ...], words: str) -> None:
    with annotations_unchecked(), pytest.raises(ShapeError, match=words):
        HeadWeights(**tensors() | {name: torch.ones(shape)})


@pytest.mark.parametrize("groups", [4, 0])
def test_groups_that_do_not_share_heads_evenly_are_refused(groups: int) -> None:
    changed = {n: torch.ones(groups, *SHAPES[n][1:]) for n in ("w_k", "w_v", "b_k", "b_v")}
    with pytest.raises(ShapeError, match=rf"w_k \({groups} heads\) must divide w_q \(6 heads\)"):
        HeadWeights(**tensors() | changed)


def test_equal_means_every_bit() -> None:
    weights = HeadWeights(**tensors())
    assert weights.equal(HeadWeights(**tensors()))
    for name in SHAPES:
        changed = tensors()
        changed[name].view(-1)[-1] += 1e-7
        assert not weights.equal(HeadWeights(**changed)), name
    assert not weights.equal(HeadWeights(**tensors() | {"b_o": None}))
