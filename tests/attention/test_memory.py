"""What a call allocates, in bytes, as torch's profiler and numpy's tracer count it."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd.profiler import profile

import manyheads as mh
from tests.factories import LAYERS, layer_of, random_like


def peak_bytes(call: Callable[[], Any]) -> int:
    """Most bytes that were allocated at one time while `call` ran, on top of those before."""
    call()  # what is allocated once and kept is no part of it
    tracemalloc.start()
    with profile(profile_memory=True) as profiler:
        result = call()
    by_numpy = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del result
    held = most = 0
    events = [e for e in profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()  # negative where memory is given back
        most = max(most, held)
    return most + (by_numpy if by_numpy > 1 << 20 else 0)  # the profiler's own objects are small


def test_the_measure_sees_what_torch_and_numpy_allocate_and_give_back() -> None:
    assert 4_000_000 <= peak_bytes(lambda: torch.zeros(1000, 1000)) < 4_100_000
    assert (
        4_000_000 <= peak_bytes(lambda: torch.from_numpy(np.zeros(10**6, np.float32))) < 4_100_000
    )
    assert 8_000_000 <= peak_bytes(lambda: torch.ones(1000, 1000) + 1 + 1 + 1) < 8_100_000


T, HEADS = 768, 2
MATRIX = HEADS * T * T * 4


def layer_and_input(options: str, length: int) -> tuple[Any, torch.Tensor]:
    """A float32 layer of two heads of width 4, and one sample."""
    given = {n: v for n, v in LAYERS[options].items() if n != "head_dim"}
    sizes = {"embed_dim": 8, "num_heads": HEADS, "head_dim": 4, "dtype": torch.float32}
    layer = layer_of(**sizes, **given)
    return layer, random_like(1, 1, length, 8, dtype=torch.float32)


@pytest.mark.parametrize("options", ["plain", "window", "linear bias", "rotary half"])
def test_asking_for_weights_costs_one_matrix_of_them_and_nothing_more(options: str) -> None:
    layer, x = layer_and_input(options, T)
    with torch.no_grad():
        for call in ({}, {"is_causal": True}):
            plain = peak_bytes(lambda call=call: layer(x, **call))
            asked = peak_bytes(lambda call=call: layer(x, need_weights=True, **call))
            assert asked >= MATRIX
            assert asked < 1.35 * MATRIX + plain, (asked, plain, MATRIX)


def test_asking_for_weights_while_gradients_are_recorded_costs_one_matrix_too() -> None:
    layer, x = layer_and_input("plain", T)
    asked = peak_bytes(lambda: layer(x, is_causal=True, need_weights=True))
    assert MATRIX <= asked < 1.35 * MATRIX + peak_bytes(lambda: layer(x, is_causal=True))


@pytest.mark.parametrize(
    "options", ["plain", "window", "linear bias", "rotary half", "wide values"]
)
def test_fused_form_makes_no_matrix_of_scores(options: str) -> None:
    length = 4096
    layer, x = layer_and_input(options, length)
    padding = torch.zeros(1, length, dtype=torch.bool)
    padding[:, 4000:] = True
    with torch.no_grad():
        for call in ({"is_causal": True}, {"is_causal": True, "key_padding_mask": padding}):
            used = peak_bytes(lambda call=call: layer(x, **call))
            assert used < length * length * 4 / 2, (used, call.keys())


def test_fused_prefill_onto_a_cache_makes_no_matrix_of_scores() -> None:
    layer, x = layer_and_input("plain", 4096)
    with torch.no_grad():
        _, cache = layer(x[:, :64], is_causal=True, kv_cache=mh.KVCache())
        used = peak_bytes(lambda: layer(x[:, 64:], is_causal=True, kv_cache=cache))
    assert used < 4096 * 4032 * 4 / 2


def test_packed_form_does_make_such_a_matrix() -> None:
    layer, x = layer_and_input("plain", 1024)
    layer.form = "packed"
    with torch.no_grad():
        assert peak_bytes(lambda: layer(x)) > HEADS * 1024 * 1024 * 4
