"""Other weights that compute the same."""

import torch

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.compare import check_close
from manyheads.layouts.limits import fill_biases, fill_input_biases, repeat_kv_heads
from tests.layouts.random_heads import random_heads


def test_missing_biases_become_zeros_and_others_stay() -> None:
    heads = random_heads(biases=("b_v",))
    filled = fill_input_biases(heads)
    assert filled.b_q is not None
    assert filled.b_k is not None
    assert filled.b_q.tolist() == [[0.0] * 5] * 6
    assert filled.b_k.tolist() == [[0.0] * 5] * 3
    assert filled.b_v is heads.b_v
    assert filled.b_o is None
    assert torch.equal(fill_biases(heads).b_o, torch.zeros(10, dtype=torch.float64))


def test_repeated_heads_follow_the_queries_that_shared_them_and_compute_the_same() -> None:
    heads = random_heads()
    repeated = repeat_kv_heads(heads)
    assert torch.equal(repeated.w_k, heads.w_k[[0, 0, 1, 1, 2, 2]])
    assert torch.equal(repeated.w_v, heads.w_v[[0, 0, 1, 1, 2, 2]])
    assert torch.equal(repeated.b_k, heads.b_k[[0, 0, 1, 1, 2, 2]])
    assert torch.equal(repeated.b_v, heads.b_v[[0, 0, 1, 1, 2, 2]])
    x = torch.randn(2, 7, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    both = [MultiHeadAttention.from_weights(weights)(x) for weights in (heads, repeated)]
    check_close("output", both[1], both[0], allowed=1e-12)
    assert repeat_kv_heads(random_heads(biases=())).b_k is None
