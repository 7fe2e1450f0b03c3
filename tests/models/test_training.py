"""Gradients by hand against autograd, blocks of targets against single windows, and overfitting."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.core.errors import ConfigError
from manyheads.models.training import Trainable
from tests.factories import assert_same, random_like
from tests.models.drawing import ATTENTION, KINDS, T, V, config_of, draw, ids, padded

N = 8


def trainable_of(kind: str, **options: Any) -> Trainable:
    """A small model in float64 with all numbers drawn, but for what its kind keeps at zero."""
    made = Trainable.create(config_of(kind), dtype=torch.float64, **options)
    draw(made.model)
    if kind == "uniform":
        with torch.no_grad():
            made.model.query_rows.zero_()  # type: ignore[operator]  # an attention model has them
    return made


def batch_of(num_targets: int) -> tuple[Tensor, Tensor]:
    """Windows (B, T - 1 + n), some padded, and targets (B, n), some missing, 0 = none."""
    tokens = padded(ids(1, 5, T - 1 + num_targets), 0, 3, T - 1, T - 1, 0)
    tokens[4] = tokens[4, 0]  # one word many times
    targets = ids(2, 5, num_targets)
    targets[1] = 0
    targets[0, num_targets // 2 :] = 0
    return tokens, targets


def by_autograd(made: Trainable, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and gradient by autograd, each target with a window of its own, in the model's words."""
    n = targets.shape[1]
    windows = torch.cat([tokens[:, i : i + T] for i in range(n)])
    made.model.token_embedding.padding_idx = 0  # type: ignore[union-attr]  # so that torch skips it
    logits = made.model(windows)
    loss = F.cross_entropy(logits, targets.T.flatten(), reduction="sum", ignore_index=0)
    parameters = list(made.model.parameters())
    slopes = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    if made.config.pattern == "uniform":  # what is frozen at zero gets no gradient
        frozen = made.model.query_rows.shape[0]  # type: ignore[union-attr]  # as above
        names = [name for name, _ in made.model.named_parameters()]
        slopes[names.index("attention.in_proj_weight")][:frozen] = 0.0
    return loss.detach(), torch.cat([slope.flatten() for slope in slopes])


@pytest.mark.parametrize("num_targets", [1, N])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_hand_equal_autograd(kind: str, num_targets: int) -> None:
    made, (tokens, targets) = trainable_of(kind), batch_of(num_targets)
    loss, slope = by_autograd(made, tokens, targets)
    found = made.accumulate(tokens, targets)
    assert abs(found - loss) < 1e-11
    assert slope.abs().max() > 1e-2
    assert_same(made.parts(made.grad), made.parts(slope), allowed=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_of_targets_equals_as_many_single_windows(kind: str) -> None:
    block, single = trainable_of(kind), trainable_of(kind)
    tokens, targets = batch_of(N)
    loss = block.accumulate(tokens, targets)
    alone = sum(single.accumulate(tokens[:, i : i + T], targets[:, i : i + 1]) for i in range(N))
    assert abs(loss - alone) < 1e-11
    assert_same(block.parts(block.grad), single.parts(single.grad), allowed=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_equal_their_parts_and_gradients_add_up(kind: str) -> None:
    # so many that the vocabulary layer takes them in several parts
    whole, parts = trainable_of(kind), trainable_of(kind)
    tokens, targets = ids(3, 150, T - 1 + N), ids(4, 150, N)
    loss = whole.accumulate(tokens, targets)
    pieces = zip(tokens.split(37), targets.split(37), strict=True)
    assert abs(loss - sum(parts.accumulate(*piece) for piece in pieces)) < 1e-9
    assert_same({"grad": parts.grad}, {"grad": whole.grad}, allowed=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_leaves_anything_to_the_next_of_another_shape(kind: str) -> None:
    used = trainable_of(kind)
    for num_targets, rows in ((N, 5), (1, 5), (2, 3), (N, 2), (1, 1), (N, 5)):
        tokens, targets = (part[:rows] for part in batch_of(num_targets))
        fresh = trainable_of(kind)
        used.grad.zero_()
        assert used.accumulate(tokens, targets) == fresh.accumulate(tokens, targets)
        assert torch.equal(used.grad, fresh.grad)


@pytest.mark.parametrize("kind", ATTENTION)
def test_padding_gets_no_gradient_and_its_embedding_does_not_matter(kind: str) -> None:
    made, (tokens, targets) = trainable_of(kind), batch_of(N)
    loss = made.accumulate(tokens, targets)
    grad = made.grad.clone()
    assert not made.parts(grad)["token_embedding.weight"][0].any()
    made.parts(made.flat)["token_embedding.weight"][0] = 1e3
    made.grad.zero_()
    assert made.accumulate(tokens, targets) == loss
    assert torch.equal(made.grad, grad)


def test_no_target_at_all_gives_no_loss_and_no_gradient() -> None:
    for kind in KINDS:
        made = trainable_of(kind)
        assert made.accumulate(batch_of(N)[0], torch.zeros(5, N, dtype=torch.int64)) == 0.0
        assert not made.grad.any()


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_those_that_accumulate_sums(kind: str) -> None:
    made, tokens, targets = trainable_of(kind), ids(5, 6, T), ids(6, 6, 1)
    losses = made.losses(tokens, targets[:, 0])
    assert losses.shape == (6,)
    assert abs(losses.sum() - made.accumulate(tokens, targets)) < 1e-11


def test_a_model_that_knows_nothing_loses_the_logarithm_of_the_vocabulary() -> None:
    for kind in KINDS:
        made = trainable_of(kind)
        for name, part in made.parts(made.flat).items():
            if name.startswith("output"):
                part.zero_()
        losses = made.losses(ids(5, 6, T), ids(6, 6, 1)[:, 0])
        assert torch.allclose(losses, torch.tensor(float(V)).double().log())


@pytest.mark.parametrize("kind", KINDS)
def test_a_tiny_batch_can_be_overfitted(kind: str) -> None:
    made = Trainable.create(config_of(kind), seed=3)
    tokens, targets = ids(7, 4, T - 1 + 2), ids(8, 4, 2)
    made.flat.grad = made.grad
    optimiser = torch.optim.Adam([made.flat], lr=0.03)
    first = last = made.accumulate(tokens, targets)
    for _ in range(100):
        made.grad.zero_()
        last = made.accumulate(tokens, targets)
        optimiser.step()
    assert first > 8 * 2.0
    assert last < 8 * 0.01
    if kind == "uniform":
        _, weights = made.model(tokens[:, :T], need_weights=True)
        assert torch.allclose(weights, torch.tensor(1.0 / T))


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_reads_the_flat_row_and_no_copy_of_it(kind: str) -> None:
    made, tokens = trainable_of(kind), ids(9, 2, T)
    assert len(made.flat) == len(made.grad) == made.config.num_parameters
    before = made.model(tokens)
    made.flat.mul_(1.1)
    assert (made.model(tokens) - before).abs().max() > 1e-3
    names = [name for name, _ in made.model.named_parameters()]
    assert list(made.parts(made.flat)) == names


def test_a_seed_gives_the_same_start_and_another_one_another() -> None:
    before = torch.random.get_rng_state()
    one, same = (Trainable.create(config_of("three heads"), seed=5) for _ in range(2))
    other = Trainable.create(config_of("three heads"), seed=6)
    assert torch.equal(one.flat, same.flat)
    words = one.config.width  # the row of padding is zero in both
    assert (one.flat != other.flat)[words:].float().mean() > 0.99
    assert torch.equal(torch.random.get_rng_state(), before)


def test_models_of_one_seed_begin_with_equal_numbers_where_their_layers_are_alike() -> None:
    starts = {
        kind: dict(Trainable.create(config_of(kind), seed=5).model.named_parameters())
        for kind in ("mlp", "one head", "three heads", "shared")
    }
    judge = starts["three heads"]
    assert all(torch.equal(judge[name], value) for name, value in starts["one head"].items())
    for name in ("token_embedding.weight", "output.weight", "output.bias"):
        assert torch.equal(judge[name], starts["mlp"][name])
        assert torch.equal(judge[name], starts["shared"][name])


def test_layers_of_one_seed_begin_with_numbers_that_have_nothing_in_common() -> None:
    parts = Trainable.create(config_of("three heads")).model.named_parameters()
    starts = {name: part.detach().flatten()[-T:] for name, part in parts}
    scaled = [start / start.abs().max() for start in starts.values()]
    apart = [(a - b).abs().max() for i, a in enumerate(scaled) for b in scaled[:i]]
    assert min(apart) > 0.1


def test_embeddings_can_start_smaller_and_the_vocabulary_bias_where_it_is_told() -> None:
    config, bias = config_of("three heads"), random_like(1, V, dtype=torch.float32)
    plain = Trainable.create(config)
    made = Trainable.create(config, embedding_scale=0.25, output_bias=bias)
    judge, found = plain.parts(plain.flat), made.parts(made.flat)
    for name, part in found.items():
        factor = 0.25 if "embedding" in name else 1.0
        expected = bias if name == "output.bias" else factor * judge[name]
        assert torch.equal(part, expected), name


def test_a_vocabulary_bias_of_another_length_is_refused() -> None:
    with pytest.raises(ConfigError, match=rf"output_bias has shape \(4,\), expected \({V},\)"):
        Trainable.create(config_of("mlp"), output_bias=torch.zeros(4))


def test_linear_initial_values_are_those_of_a_linear_layer() -> None:
    """Uniform between plus and minus one over the root of the input width."""
    config = config_of("three heads")
    plain, made = (Trainable.create(config, is_linear=flag) for flag in (False, True))
    judge, found = plain.parts(plain.flat), made.parts(made.flat)
    name = "attention.in_proj_weight"
    limit = config.width**-0.5
    assert 0.95 * limit < found[name].abs().max() <= limit
    assert not torch.equal(found[name], judge[name])
    assert all(torch.equal(found[key], judge[key]) for key in found if key != name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_row_of_padding_is_zero_and_has_no_gradient(kind: str) -> None:
    made = Trainable.create(config_of(kind))
    tokens = ids(5, 6, T)
    tokens[:, :2] = 0
    made.accumulate(tokens, ids(6, 6, 1))
    for flat in (made.flat, made.grad):
        assert not made.parts(flat)["token_embedding.weight"][0].any()
    assert made.parts(made.grad)["token_embedding.weight"][1:].any()
