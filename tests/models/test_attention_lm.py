"""The studies' attention model: sizes, the last-query path, padding, head masks and patterns."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, ShapeError
from manyheads.models import build_model
from manyheads.models.config import ModelConfig
from manyheads.models.lm import AttentionLM
from tests.factories import FORMS, annotations_unchecked, random_like
from tests.models.drawing import ATTENTION, D, T, V, config_of, ids, model_of, padded

WINDOWS = {
    "full": ids(1, 3, T),
    "short": ids(2, 3, 4),
    "one word": ids(3, 3, 1),
    "padded": padded(ids(4, 3, T), 0, 2, T - 1),
}


def num_stored(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8, 16, 32, 64])
def test_every_head_count_that_divides_64_has_1_321_120_parameters(num_heads: int) -> None:
    model = AttentionLM(num_heads)
    assert num_stored(model) == 1_321_120
    assert model.config.num_parameters == 1_321_120


@pytest.mark.parametrize("kind", ATTENTION)
def test_count_of_the_configuration_is_what_the_model_stores(kind: str) -> None:
    config = config_of(kind)
    assert num_stored(build_model(config)) == config.num_parameters


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("kind", ATTENTION)
def test_last_query_path_equals_the_last_row_of_the_full_causal_pass(
    kind: str, windows: str
) -> None:
    model, tokens = model_of(kind), WINDOWS[windows]
    for form in FORMS:
        model.attention.form = form
        rows = model.all_rows(tokens)
        assert rows.shape == (*tokens.shape, V)
        assert (model(tokens) - rows[:, -1]).abs().max() < 1e-12


@pytest.mark.parametrize("kind", ATTENTION)
def test_gradients_of_the_last_query_path_are_those_of_the_full_causal_pass(kind: str) -> None:
    model, tokens = model_of(kind), WINDOWS["padded"]
    mix = random_like(9, 3, V)
    found, judge = (
        torch.autograd.grad((logits * mix).sum(), list(model.parameters()))
        for logits in (model(tokens), model.all_rows(tokens)[:, -1])
    )
    assert all((a - b).abs().max() < 1e-11 for a, b in zip(found, judge, strict=True))


@pytest.mark.parametrize("kind", ATTENTION)
def test_a_later_word_changes_no_earlier_row(kind: str) -> None:
    model, tokens = model_of(kind), WINDOWS["full"]
    other = tokens.clone()
    other[:, 4] = other[:, 4] % (V - 1) + 1
    gap = (model.all_rows(tokens) - model.all_rows(other)).abs().amax(dim=(0, 2))
    assert not gap[:4].any()
    assert (gap[4:] > 1e-6).all()


@pytest.mark.parametrize("kind", ATTENTION)
def test_padding_never_matters_whatever_its_embedding_is(kind: str) -> None:
    model, tokens = model_of(kind), WINDOWS["padded"]
    before = model(tokens)
    before.sum().backward()
    assert not model.token_embedding.weight.grad[0].any()
    with torch.no_grad():
        model.token_embedding.weight[0] = 1e6
    assert torch.equal(model(tokens), before)


@pytest.mark.parametrize("kind", ATTENTION)
def test_a_short_window_equals_the_same_one_padded_to_the_context(kind: str) -> None:
    model, tokens = model_of(kind), WINDOWS["full"]
    for length in range(1, T):
        long = padded(tokens, *[T - length] * 3)
        assert (model(tokens[:, -length:]) - model(long)).abs().max() < 1e-12


def test_a_window_of_padding_alone_gives_what_its_last_row_says_without_a_message() -> None:
    model, tokens = model_of("three heads"), torch.zeros(2, T, dtype=torch.int64)
    logits, weights = model(tokens, need_weights=True)
    assert not weights.any()
    assert torch.equal(logits, model.predict(model.rows(tokens)[:, -1]))


@pytest.mark.parametrize("kind", ATTENTION)
def test_weights_are_shares_of_the_words_and_none_of_padding(kind: str) -> None:
    model, tokens = model_of(kind), WINDOWS["padded"]
    logits, weights = model(tokens, need_weights=True)
    assert torch.equal(logits, model(tokens))
    assert weights.shape == (3, model.config.num_heads, T)
    assert (weights.sum(dim=-1) - 1.0).abs().max() < 1e-14
    assert not weights.transpose(1, 2)[tokens == 0].any()


def test_uniform_heads_see_all_words_alike() -> None:
    model = model_of("uniform")
    _, weights = model(WINDOWS["padded"], need_weights=True)
    for sample, words in enumerate((T, T - 2, 1)):
        assert torch.allclose(weights[sample, :, -words:], torch.tensor(1.0 / words).double())


def test_shared_heads_have_the_weights_of_one_head_and_messages_of_their_own() -> None:
    model, tokens = model_of("shared"), WINDOWS["full"]
    _, weights = model(tokens, need_weights=True)
    assert torch.equal(weights[:, :1].expand_as(weights), weights)
    assert weights.std(dim=-1).min() > 1e-3  # and they are not all alike
    without = torch.stack([model(tokens, row) for row in 1.0 - torch.eye(3).double()])
    assert min((without[i] - without[j]).abs().max() for i in range(3) for j in range(i)) > 1e-3


def without_head(model: Any, head: int) -> Any:
    """The same model whose output projection does not read one head."""
    other = build_model(model.config).double()
    other.load_state_dict(model.state_dict())
    d = model.config.width_of_head
    with torch.no_grad():
        other.attention.out_proj.weight[:, head * d : (head + 1) * d] = 0.0
    return other


@pytest.mark.parametrize("kind", ["three heads", "shared", "five heads of width 2"])
def test_head_mask_is_a_factor_of_each_message_before_the_output_projection(kind: str) -> None:
    model, tokens = model_of(kind), WINDOWS["padded"]
    ones = torch.ones(model.config.num_heads, dtype=torch.float64)
    assert torch.equal(model(tokens, ones), model(tokens))
    for head in range(len(ones)):
        mask = ones.clone()
        mask[head] = 0.0
        expected = without_head(model, head)(tokens)
        assert (model(tokens, mask) - expected).abs().max() < 1e-12
        assert (expected - model(tokens)).abs().max() > 1e-3


def test_a_head_mask_of_another_length_is_refused() -> None:
    model = model_of("three heads")
    with pytest.raises(ShapeError, match=r"head_mask has shape \(2,\), expected \(H,\) = \(3,\)"):
        model(WINDOWS["full"], torch.ones(2).double())


@pytest.mark.parametrize("length", [0, T + 1])
def test_windows_of_no_word_or_more_than_the_context_are_refused(length: int) -> None:
    with pytest.raises(ShapeError, match=rf"tokens has {length} words, expected 1 to {T}"):
        model_of("three heads")(ids(1, 2, length))


def test_sizes_that_no_model_can_have_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"num_heads \(5\) must divide width \(64\)"):
        AttentionLM(5)
    with annotations_unchecked(), pytest.raises(ConfigError, match=r"pattern \('flat'\)"):
        replace(config_of("three heads"), pattern="flat")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigError, match=r"belong to attention"):
        ModelConfig(kind="fixed-window-mlp", num_heads=2)


def test_against_a_model_written_out_in_words_of_the_issue() -> None:
    model, tokens = model_of("three heads"), WINDOWS["full"]
    w_q, w_k, w_v = model.attention.in_proj_weight.split(D)
    x = model.token_embedding.weight[tokens] + model.position_embedding.weight
    messages: list[Tensor] = []
    for h in (slice(0, 4), slice(4, 8), slice(8, 12)):
        q, k, v = (x @ w[h].T for w in (w_q, w_k, w_v))
        scores = (q[:, -1:] * k).sum(-1) / 2.0  # the root of a head's width, 4
        weights = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
        messages.append((weights[..., None] * v).sum(dim=1))
    row = x[:, -1] + torch.cat(messages, dim=1) @ model.attention.out_proj.weight.T
    hidden = (row @ model.hidden.weight.T + model.hidden.bias).clamp(min=0.0)
    logits = hidden @ model.output.weight.T + model.output.bias
    assert (model(tokens) - logits).abs().max() < 1e-12
