"""Problems leave every query a key, hide something, and have the declared sizes."""

import itertools
from typing import Any

import pytest
import torch

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.positions import published_slopes
from manyheads.attention.problem import allowed_by_order
from manyheads.core.config import Rotary
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.subject import AXES, MaskSpec
from tests.verify.handmade import CACHED, SEPARATE, STEPS, declared

SIZES = [(1, 2, 2), (2, 7, 7), (3, 5, 5), (3, 3, 3), (2, 4, 9), (4, 1, 3), (2, 6, 2)]
ORDERS: dict[str, tuple[dict[str, Any], bool]] = {
    "free": ({}, False),
    "asked": ({}, True),
    "always causal": ({"causal": "always"}, False),
    "window": ({"window": 2}, False),
    "causal window": ({"causal": "always", "window": 3}, False),
}

# with more queries than keys, causality leaves the first ones none
SIZED = [(*size, name) for size in SIZES for name in ORDERS if size[1] <= size[2] or name == "free"]


def maker_of(spec: dict[str, Any], call: dict[str, Any]) -> ProblemMaker:
    return ProblemMaker(declared(spec, call, SEPARATE), None)


@pytest.mark.parametrize("axes", AXES)
def test_every_query_keeps_a_key_that_it_may_see(axes: str) -> None:
    mask_spec = MaskSpec(arg="m", axes=axes, convention="lengths" if axes == "B" else "allowed")
    for (batch, queries, keys, order), seed in itertools.product(SIZED, range(3)):
        if axes == "B" and order != "free":
            continue  # the first keys are the valid ones: a window can be past them
        spec, causal = ORDERS[order]
        maker = maker_of(spec, {"form": "cross"})
        problem = maker.plain(batch, queries, keys, causal=causal)
        masked = maker.masked(problem, (mask_spec,), seed)
        allowed = masked.masks[0].allowed & allowed_by_order(problem, queries, keys)
        assert bool(allowed.any(dim=-1).all()), (batch, queries, keys, order, seed)


@pytest.mark.parametrize("axes", AXES)
def test_mask_hides_something_and_differs_between_samples(axes: str) -> None:
    maker = maker_of({}, {})
    spec = MaskSpec(arg="m", axes=axes, convention="lengths" if axes == "B" else "blocked")
    for seed in range(8):
        allowed = maker.mask(spec, maker.plain(3, 6), seed).allowed
        assert not bool(allowed.all())
        if axes != "TS":
            assert not bool((allowed == allowed[:1]).all())


@pytest.mark.parametrize("causal", [False, True])
def test_two_masks_together_leave_every_query_a_key(causal: bool) -> None:
    maker = maker_of({}, {})
    specs = tuple(MaskSpec(arg=a, axes=a, convention="allowed") for a in ("BS", "TS", "BTS"))
    for seed in range(8):
        problem = maker.masked(maker.plain(2, 7, causal=causal), specs, seed)
        allowed = Pipeline().allowed(problem, 7, 7, 0)
        assert bool(allowed.any(dim=-1).all())


def test_sizes_are_the_declared_ones() -> None:
    spec = {"embed_dim": 10, "num_heads": 4, "num_kv_heads": 2, "head_dim": 3, "kdim": 5, "vdim": 6}
    problem = maker_of(spec, {"form": "qkv"}).plain(2, 4, 9)
    assert [tuple(x.shape) for x in (problem.x_q, problem.x_k, problem.x_v)] == [
        (2, 4, 10),
        (2, 9, 5),
        (2, 9, 6),
    ]
    assert (problem.num_heads, problem.num_kv_heads) == (4, 2)
    assert problem.scale == 3**-0.5


def test_heads_come_as_heads() -> None:
    spec = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 3, "v_head_dim": 5}
    problem = maker_of(spec, {"form": "heads"}).plain(2, 4, 9)
    assert problem.x_q.shape == (2, 4, 4, 3)
    assert problem.x_k.shape == (2, 2, 9, 3)
    assert problem.x_v.shape == (2, 2, 9, 5)


def test_positions_are_the_declared_ones() -> None:
    rope = {"position": {"type": "rope", "style": "interleaved", "base": 7.0}}
    assert maker_of(rope, {}).plain().rotary == Rotary(style="interleaved", base=7.0)
    assert maker_of({"position": {"type": "alibi"}}, {}).plain().slopes == published_slopes(3)


def test_self_attention_has_one_tensor_and_cross_attention_two() -> None:
    assert maker_of({}, {}).plain().is_self
    crossed = maker_of({}, {"form": "cross"}).plain()
    assert crossed.x_v is crossed.x_k
    assert crossed.x_k is not crossed.x_q


def test_cached_problems_have_pieces_and_others_have_none() -> None:
    assert maker_of(STEPS, CACHED).plain(2, 5).chunks == (5,)
    assert maker_of(STEPS, CACHED).plain(2, 5, chunks=(2, 3)).chunks == (2, 3)
    assert maker_of({}, {}).plain(2, 5, chunks=(2, 3)).chunks == ()


def test_numbers_depend_on_the_seed_alone() -> None:
    maker = maker_of({}, {})
    assert torch.equal(maker.plain(seed=3).x_q, maker.plain(seed=3).x_q)
    assert not torch.equal(maker.plain(seed=3).x_q, maker.plain(seed=4).x_q)
