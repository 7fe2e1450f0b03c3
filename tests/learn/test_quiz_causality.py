"""The quiz's test of causality: it passes a causal layer and fails each kind of leak."""

import pytest
import torch
from torch import Tensor

from manyheads.attention.module import MultiHeadAttention
from manyheads.learn.quiz import computed
from manyheads.learn.quiz.computed import causality_numbers, measured_leaks


def test_a_causal_layer_leaks_nothing_to_the_last_bit() -> None:
    leaks = measured_leaks(is_causal=True)
    assert (leaks.move, leaks.gradient) == (0, 0)
    assert leaks.own_move > 1


def test_the_negative_control_fails_in_value_and_gradient() -> None:
    leaks = measured_leaks(is_causal=False)
    assert leaks.move > 1
    assert leaks.gradient > 0.1


def planted(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Let the layer leak, or ignore its input."""

    def output(layer: MultiHeadAttention, x: Tensor, is_causal: bool) -> Tensor:
        y = layer(x, is_causal=is_causal)
        assert isinstance(y, Tensor)
        later = x.flip(1).cumsum(1).flip(1) - x
        leaks = {
            "off by one": layer(x, attn_mask=torch.ones(4, 4, dtype=torch.bool).tril(1)),
            "cut off from the graph": y + later.detach().sign() * 1e-3,
            "only the last position": torch.cat([y[:, :2], y[:, 2:3] + later[:, 2:3], y[:, 3:]], 1),
            "input ignored": y.detach() * 0 + x.sum() * 0,
        }
        leaked = leaks[kind]
        assert isinstance(leaked, Tensor)
        return leaked

    monkeypatch.setattr(computed, "_output", output)


@pytest.mark.parametrize(
    ("kind", "by_move", "by_gradient"),
    [
        ("off by one", True, True),
        ("cut off from the graph", True, False),
        ("only the last position", True, True),
    ],
)
def test_planted_leaks_are_seen(
    kind: str, by_move: bool, by_gradient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, kind)
    leaks = measured_leaks(is_causal=True)
    assert (leaks.move > 0, leaks.gradient > 0) == (by_move, by_gradient)


def test_a_layer_that_ignores_its_input_is_seen_by_its_own_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted(monkeypatch, "input ignored")
    leaks = measured_leaks(is_causal=True)
    assert (leaks.move, leaks.gradient, leaks.own_move) == (0, 0, 0)


def test_the_experiment_by_hand_moves_the_control_only() -> None:
    numbers = causality_numbers()
    assert numbers["no-leak"] == 0
    assert numbers["leak"] == numbers["leak-after"] - numbers["leak-before"] != 0
