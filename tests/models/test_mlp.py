"""The fixed-window model: its size, its sum, and short windows."""

import pytest
import torch

from manyheads.core.errors import ShapeError
from manyheads.models import build_model
from manyheads.models.lm import FixedWindowMLP
from tests.models.drawing import D, T, V, config_of, ids, model_of, padded


def test_it_has_2_332_832_parameters_at_vocabulary_4_000() -> None:
    model = FixedWindowMLP()
    assert sum(parameter.numel() for parameter in model.parameters()) == 2_332_832
    assert model.config.num_parameters == 2_332_832


def test_count_of_the_configuration_is_what_a_small_model_stores() -> None:
    config = config_of("mlp")
    stored = sum(parameter.numel() for parameter in build_model(config).parameters())
    assert stored == config.num_parameters


def test_against_the_sum_written_out_place_by_place() -> None:
    model, tokens = model_of("mlp"), ids(1, 3, T)
    hidden = model.hidden.bias.expand(3, -1)
    for place in range(T):
        columns = model.hidden.weight[:, place * D : (place + 1) * D]
        hidden = hidden + model.token_embedding.weight[tokens[:, place]] @ columns.T
    logits = hidden.clamp(min=0.0) @ model.output.weight.T + model.output.bias
    assert logits.shape == (3, V)
    assert (model(tokens) - logits).abs().max() < 1e-12


def test_a_short_window_equals_the_same_one_padded_on_the_left() -> None:
    model, tokens = model_of("mlp"), ids(2, 3, T)
    for length in range(1, T):
        assert torch.equal(model(tokens[:, -length:]), model(padded(tokens, *[T - length] * 3)))


def test_every_place_of_the_window_matters() -> None:
    model, tokens = model_of("mlp"), ids(3, 3, T)
    for place in range(T):
        other = tokens.clone()
        other[:, place] = other[:, place] % (V - 1) + 1
        assert ((model(other) - model(tokens)).abs().amax(dim=1) > 1e-6).all()


@pytest.mark.parametrize("length", [0, T + 1])
def test_windows_of_no_word_or_more_than_the_context_are_refused(length: int) -> None:
    with pytest.raises(ShapeError, match=rf"tokens has {length} words, expected 1 to {T}"):
        model_of("mlp")(ids(1, 2, length))
