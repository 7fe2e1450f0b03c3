"""Steps that score some words only: which words, at which chance, and their exact gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.core.errors import ConfigError
from manyheads.models.training_step import Candidates, CandidateSampler
from tests.factories import assert_same, random_like
from tests.models.drawing import KINDS, T, V, ids
from tests.models.test_training import N, batch_of, trainable_of

COUNTS = torch.tensor([0.0, 2, 0, 9, 1, 1, 9, 30, 4, 4, 2, 1, 0, 6, 3, 1, 8])


def sampler_of(**changes: Any) -> CandidateSampler:
    return CandidateSampler(**({"counts": COUNTS, "head": 3, "tail": 0.25, "seed": 5} | changes))


def candidates_of(words: list[int]) -> Candidates:
    """Candidates with drawn chances, in float64."""
    chosen, places = torch.tensor(words), torch.zeros(V, dtype=torch.int64)
    places[chosen] = torch.arange(len(chosen))
    return Candidates(ids=chosen, log_chance=-random_like(4, len(words)).abs(), places=places)


@pytest.mark.parametrize("num_targets", [1, N])
@pytest.mark.parametrize("kind", ["mlp", "three heads"])
def test_gradients_by_hand_equal_autograd_over_the_candidates(kind: str, num_targets: int) -> None:
    made, (tokens, targets) = trainable_of(kind), batch_of(num_targets)
    words = sorted({*targets.flatten().tolist(), 2, 11, 16} - {0})
    some = candidates_of(words)
    windows = torch.cat([tokens[:, i : i + T] for i in range(num_targets)])
    logits = made.model(windows)[:, some.ids] - some.log_chance
    wanted = targets.T.flatten()
    places = some.places[wanted].masked_fill(wanted == 0, -1)
    loss = F.cross_entropy(logits, places, reduction="sum", ignore_index=-1)
    slopes = torch.autograd.grad(loss, list(made.model.parameters()))
    found = made.accumulate(tokens, targets, some)
    assert abs(found - loss.detach()) < 1e-11
    judge = made.parts(torch.cat([slope.flatten() for slope in slopes]))
    judge["token_embedding.weight"][0] = 0.0  # [PAD] is never trained
    assert_same(made.parts(made.grad), judge, allowed=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_all_words_as_candidates_give_the_plain_step(kind: str) -> None:
    plain, some = trainable_of(kind), trainable_of(kind)
    tokens, targets = batch_of(N)
    chosen = sampler_of(tail=1.0).choose(0, targets)
    assert torch.equal(chosen.ids, torch.arange(V))
    assert not chosen.log_chance.any()
    assert abs(plain.accumulate(tokens, targets) - some.accumulate(tokens, targets, chosen)) < 1e-11
    assert_same({"grad": some.grad}, {"grad": plain.grad}, allowed=1e-11)


def test_frequent_words_and_all_targets_are_candidates() -> None:
    targets = torch.tensor([[4, 12], [0, 15]])
    chosen = sampler_of(tail=0.0).choose(3, targets).ids.tolist()
    assert {3, 6, 7, 4, 12, 15} == set(chosen) - {0}
    assert chosen == sorted(chosen)


def test_places_lead_back_to_the_words() -> None:
    some = sampler_of().choose(1, ids(1, 3, 2))
    assert torch.equal(some.places[some.ids], torch.arange(len(some.ids)))
    assert len(some.log_chance) == len(some.ids) < V


def drawn(seed: int, step: int) -> Tensor:
    """The candidates among 400 words that are alike."""
    return sampler_of(counts=torch.ones(400), seed=seed).choose(step, ids(1, 3, 2)).ids


def test_a_step_always_draws_the_same_and_another_step_something_else() -> None:
    assert torch.equal(drawn(5, 8), drawn(5, 8))
    assert not torch.equal(drawn(5, 8), drawn(5, 9))


def test_another_seed_draws_something_else() -> None:
    assert not torch.equal(drawn(11, 8), drawn(29, 8))


def test_chances_are_how_often_words_are_candidates() -> None:
    sampler, num_steps, num_targets = sampler_of(), 4000, 4
    generator = torch.Generator().manual_seed(1)
    seen, said = torch.zeros(V), torch.ones(V)
    for step in range(num_steps):
        targets = torch.multinomial(COUNTS, num_targets, True, generator=generator)[None]
        some = sampler.choose(step, targets)
        seen[some.ids] += 1
        said[some.ids] = some.log_chance.exp()
    assert (seen / num_steps - said).abs().max() < 0.03  # four standard errors
    assert torch.equal(said[[3, 6, 7]], torch.ones(3))
    assert said[12] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tail": 1.5}, r"tail \(1.5\) must be from 0 to 1"),
        ({"tail": -0.1}, r"tail \(-0.1\) must be from 0 to 1"),
        ({"head": -1}, r"head \(-1\) must not be negative"),
        ({"counts": torch.zeros(V)}, r"counts \(all 0\) must not be all 0"),
    ],
)
def test_settings_that_cannot_be_drawn_from_are_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        sampler_of(**changes)
