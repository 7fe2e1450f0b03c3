"""Head measures: by hand, against SciPy, and for queries that see nothing."""

import math

import pytest
import torch
from scipy.spatial.distance import jensenshannon

import manyheads as mh
from manyheads.core.errors import ShapeError
from manyheads.heads.measures import (
    entropy,
    largest_weight,
    mass_at_offset,
    mass_on_keys,
    mean_by_head,
    mean_distance,
    measures_from_trace,
    pattern_distances,
    pattern_diversity,
)

B, H, T, S = 2, 3, 4, 5


def weights_of(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(B, H, T, S, generator=generator, dtype=torch.float64).softmax(dim=-1)


def rows(*weights: list[float]) -> torch.Tensor:
    """One sample and one query, a row a head."""
    return torch.tensor([[[row] for row in weights]], dtype=torch.float64)


def test_entropy_is_zero_for_one_key_and_log_of_their_number_for_all() -> None:
    found = entropy(rows([1.0, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0]))
    expected = torch.tensor([0.0, math.log(4), math.log(2)], dtype=torch.float64)
    torch.testing.assert_close(found[0, :, 0], expected)


def test_distance_counts_from_a_query_that_is_aligned_to_the_last_key() -> None:
    # two queries, at the third and the fourth of four keys
    weights = torch.tensor([[[[0.5, 0.0, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0]]]])
    assert mean_distance(weights).tolist() == [[[1.0, 3.0]]]


def test_distance_to_later_keys_counts_too() -> None:
    weights = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])
    assert mean_distance(weights).tolist() == [[[1.0, 0.0]]]


def test_mass_lies_on_the_chosen_keys_of_each_sample() -> None:
    weights = weights_of()
    keys = torch.zeros(B, S, dtype=torch.bool)
    keys[0, 1] = keys[1, 3] = keys[1, 4] = True
    found = mass_on_keys(weights, keys)
    torch.testing.assert_close(found[0], weights[0, ..., 1])
    torch.testing.assert_close(found[1], weights[1, ..., 3] + weights[1, ..., 4])


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_mass_at_an_offset_is_the_weight_of_that_key(offset: int) -> None:
    weights = weights_of()
    found = mass_at_offset(weights, offset)
    for t in range(T):
        s = t + S - T - offset
        expected = weights[..., t, s] if s >= 0 else torch.zeros(B, H, dtype=torch.float64)
        torch.testing.assert_close(found[..., t], expected)


def test_a_negative_offset_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"offset \(-1\)"):
        mass_at_offset(weights_of(), -1)


def test_largest_weight_by_hand() -> None:
    assert largest_weight(rows([0.25, 0.75], [1.0, 0.0])).tolist() == [[[0.75], [1.0]]]


def test_pattern_distances_against_scipy() -> None:
    weights = weights_of()
    found = pattern_distances(weights)
    for i in range(H):
        for j in range(H):
            pairs = [
                jensenshannon(weights[b, i, t], weights[b, j, t], base=2)
                for b in range(B)
                for t in range(T)
            ]
            assert found[i, j].item() == pytest.approx(sum(pairs) / len(pairs), abs=1e-7)
    off_diagonal = found.sum().item() / (H * (H - 1))
    assert pattern_diversity(weights) == pytest.approx(off_diagonal)


def test_equal_heads_have_distance_zero_and_disjoint_heads_one() -> None:
    found = pattern_distances(rows([1.0, 0, 0], [1.0, 0, 0], [0, 0.5, 0.5]))
    assert found[:2, :2].tolist() == [[0, 0], [0, 0]]
    assert found[2, 2] == 0
    # The logarithm of 2 is rounded differently on different processors.
    assert found[2, :2].tolist() == found[:2, 2].tolist() == pytest.approx([1, 1], abs=1e-15)


def test_a_single_head_has_no_diversity() -> None:
    assert pattern_diversity(rows([0.5, 0.5])) is None


def test_queries_that_see_nothing_are_left_out_of_means() -> None:
    weights = weights_of()
    weights[0, :, 0] = 0.0
    weights[1, :, 2:] = 0.0
    seen = torch.cat([weights[0, :, 1:], weights[1, :, :2]], dim=1)[None]
    torch.testing.assert_close(
        mean_by_head(entropy(weights), weights), mean_by_head(entropy(seen), seen)
    )
    torch.testing.assert_close(pattern_distances(weights), pattern_distances(seen))


@pytest.mark.parametrize("measure", [pattern_distances, pattern_diversity])
def test_weights_of_nothing_at_all_are_refused(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(ShapeError, match=r"\(1, 2, 1, 3\) has no query that sees a key"):
        measure(torch.zeros(1, 2, 1, 3))


def test_measures_of_a_trace_are_those_of_its_weights() -> None:
    layer = mh.MultiHeadAttention(6, 2, dtype=torch.float64)
    x = torch.rand(B, T, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    trace = layer.trace(x, is_causal=True)
    found = measures_from_trace(trace)
    assert list(found) == sorted(found)
    expected = entropy(trace.attn_weights).mean(dim=(0, 2))
    torch.testing.assert_close(found["entropy"], expected)
    torch.testing.assert_close(
        found["mass_on_self"],
        trace.attn_weights.diagonal(dim1=2, dim2=3).mean(dim=(0, 2)),
    )
