"""The fused form in blocks of queries, and at scales that its kernel does not expect."""

from typing import Any

import pytest
import torch

from manyheads.attention import fused, packed
from tests.factories import (
    FORMS,
    LAYERS,
    MASKS,
    H,
    answers,
    assert_same,
    inputs_of,
    layer_of,
)

BLOCKED = ("grouped heads", "window", "own slopes and window", "wide values, no bias")


@pytest.mark.parametrize("options", BLOCKED)
@pytest.mark.parametrize("shape", [(7, 7), (5, 9), (9, 5)], ids=str)
def test_blocks_of_queries_equal_the_loop(
    shape: tuple[int, int], options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "_MASK_ENTRIES", 2 * H * shape[1])  # two queries at a time, or more
    monkeypatch.setattr(packed, "_BLOCK_ROWS", 2)
    monkeypatch.setattr(packed, "_LARGE_BYTES", range(1 << 26))
    layer = layer_of(**LAYERS[options])
    inputs = inputs_of(layer, *shape)
    for name in ("causal", "bool with empty rows", "padding, causal", "additive, rows of -inf"):
        call = MASKS[name](*shape)
        judge = answers(layer, "loop", inputs, call)
        assert_same(answers(layer, "fused", inputs, call), judge)


def test_masks_are_built_for_some_queries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []
    real = fused.Visibility.rows

    def rows(self: Any, start: int, stop: int, device: torch.device) -> Any:
        built.append((start, stop))
        return real(self, start, stop, device)

    monkeypatch.setattr(fused.Visibility, "rows", rows)
    monkeypatch.setattr(fused, "_MASK_ENTRIES", 3 * 7)
    layer = layer_of(window=2)
    layer(inputs_of(layer, 7, 7)[0])
    assert built == [(0, 2), (0, 3), (3, 6), (6, 7)]
    built.clear()
    layer = layer_of()
    padding = MASKS["padding"](7, 7)
    layer(inputs_of(layer, 7, 7)[0], **padding)  # the same for all queries: one small mask
    assert built == [(0, 2), (0, 7)]


@pytest.mark.parametrize("name", ["none", "causal", "padding, causal", "bool with empty rows"])
@pytest.mark.parametrize("form", FORMS)
def test_scale_of_zero_gives_equal_weights_to_all_that_is_seen(form: str, name: str) -> None:
    layer = layer_of(scale=0.0, form=form)
    inputs, call = inputs_of(layer, 4, 4), MASKS[name](4, 4)
    output, weights = layer(*inputs, need_weights=True, **call)
    seen = (weights > 0).double()
    assert (weights - seen / seen.sum(-1, keepdim=True).clamp(min=1)).abs().max() < 1e-15
    assert (output - layer.trace(*inputs, **call).output).abs().max() < 1e-12
    found = answers(layer, form, inputs, call)
    assert all(torch.isfinite(tensor).all() for tensor in found.values())
