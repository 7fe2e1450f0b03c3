"""Models without some of their heads: against weights set to zero, and all orders tried."""

import json
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from manyheads.core.errors import ShapeError, StudyError
from manyheads.heads.ablation import mean_loss, remove_each, remove_greedily
from manyheads.heads.analysis import analyse_heads
from manyheads.heads.measures import pattern_diversity
from manyheads.models.config import BOS_ID, PAD_ID
from manyheads.models.lm import AttentionLM
from tests.factories import annotations_unchecked

V, T, H, N = 23, 6, 4, 30


def model_of(num_heads: int = H, **options: Any) -> AttentionLM:
    torch.manual_seed(5)
    model = AttentionLM(num_heads, vocab_size=V, context=T, width=8, hidden=10, **options)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "in_proj" not in name or model.config.pattern != "uniform":
                parameter.mul_(2.0)
    return model


def windows(count: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    """Windows, a third of which are padded and begin with BOS, and their targets."""
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(3, V, (count, T), generator=generator)
    tokens[::3, :2] = torch.tensor([PAD_ID, BOS_ID])
    return tokens, torch.randint(3, V, (count,), generator=generator)


def without_rows(model: AttentionLM, heads: Any) -> AttentionLM:
    """The same model whose output projection ignores these heads."""
    other = model_of()
    d = model.config.width_of_head
    with torch.no_grad():
        for h in heads:
            other.attention.out_proj.weight[:, h * d : (h + 1) * d] = 0.0
    return other


def test_mean_loss_is_the_cross_entropy_whatever_the_batches() -> None:
    model, (tokens, targets) = model_of(), windows()
    expected = F.cross_entropy(model(tokens), targets).item()
    for batch_size in (1, 7, 512):
        found = mean_loss(model, tokens, targets, batch_size=batch_size)
        assert found == pytest.approx(expected, rel=1e-6)


def test_removing_a_head_against_a_projection_that_ignores_it() -> None:
    model, (tokens, targets) = model_of(), windows()
    removal = remove_each(model, tokens, targets)
    for h in range(H):
        expected = mean_loss(without_rows(model, [h]), tokens, targets)
        assert removal.losses[h] == pytest.approx(expected, rel=1e-6)
        assert removal.changes[h] == removal.losses[h] - removal.loss
    assert removal.loss == pytest.approx(mean_loss(model, tokens, targets))
    assert len(set(removal.losses)) == H


def test_greedy_removal_against_all_choices_tried() -> None:
    model, (tokens, targets) = model_of(), windows()
    found = remove_greedily(model, tokens, targets, num_choosing=12)

    def loss(removed: Any, part: slice) -> float:
        return mean_loss(without_rows(model, removed), tokens[part], targets[part])

    removed: list[int] = []
    for step in range(H):
        left = sorted(set(range(H)) - set(removed))
        losses = {h: loss([*removed, h], slice(0, 12)) for h in left}
        assert found.order[step] == min(losses, key=lambda h: losses[h])
        removed.append(found.order[step])
    expected = [loss(found.order[:count], slice(12, None)) for count in range(H + 1)]
    assert found.losses == pytest.approx(expected, rel=1e-6)
    assert (found.num_choosing, found.num_windows) == (12, N - 12)


def test_what_chooses_the_order_does_not_measure_it() -> None:
    model, (tokens, targets) = model_of(), windows()
    found = remove_greedily(model, tokens, targets, num_choosing=12)
    other = targets.clone()
    other[:12] = other[:12].flip(0)
    again = remove_greedily(model, tokens, other, num_choosing=12)
    assert again.losses[0] == found.losses[0]
    assert again.losses[-1] == found.losses[-1]


def test_a_head_that_does_nothing_costs_nothing() -> None:
    model, (tokens, targets) = without_rows(model_of(), [2]), windows()
    assert remove_each(model, tokens, targets).changes[2] == 0.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tokens": torch.zeros(0, T, dtype=torch.int64)}, "0 windows and targets 30"),
        ({"targets": torch.ones(4, dtype=torch.int64)}, "30 windows and targets 4"),
        ({"targets": torch.zeros(N, dtype=torch.int64)}, r"padding \(id 0\)"),
        ({"batch_size": 0}, r"batch_size \(0\)"),
    ],
)
def test_windows_that_do_not_fit_are_refused(change: dict[str, Any], said: str) -> None:
    tokens, targets = windows()
    arguments: dict[str, Any] = {"tokens": tokens, "targets": targets} | change
    with annotations_unchecked(), pytest.raises(ShapeError, match=said):
        mean_loss(model_of(), **arguments)


@pytest.mark.parametrize("number", [0, N])
def test_greedy_removal_needs_windows_for_both(number: int) -> None:
    with pytest.raises(ShapeError, match=rf"num_choosing \({number}\) must be from 1 to 29"):
        remove_greedily(model_of(), *windows(), num_choosing=number)


def test_damaged_weights_are_refused() -> None:
    model = model_of()
    with torch.no_grad():
        model.output.bias[3] = float("nan")
    with pytest.raises(StudyError, match=r"loss \(nan\) must be finite"):
        mean_loss(model, *windows())


def test_analysis_holds_one_number_a_head_and_is_json() -> None:
    found = analyse_heads(model_of(), *windows())
    document = found.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    for name in ("entropy", "mean_distance", "largest_weight", "mass_on_last", "mass_on_bos"):
        assert len(document[name]) == H
    assert document["greedy"]["num_choosing"] == N // 2
    assert document["removal"]["changes"] == list(found.removal.changes)
    assert (document["num_heads"], document["num_windows"]) == (H, N)
    assert document["num_windows_with_bos"] == N // 3


def test_diversity_is_that_of_the_weights() -> None:
    model, (tokens, targets) = model_of(), windows()
    with torch.no_grad():
        _, weights = model(tokens, need_weights=True)
    expected = pattern_diversity(weights.double().unsqueeze(2))
    assert analyse_heads(model, tokens, targets).diversity == pytest.approx(expected)


def test_analysis_does_not_depend_on_batches() -> None:
    model, (tokens, targets) = model_of().double(), windows()
    whole, parts = (analyse_heads(model, tokens, targets, batch_size=n) for n in (512, 7))
    assert whole.entropy == pytest.approx(parts.entropy, rel=1e-12)
    assert whole.mass_on_bos == pytest.approx(parts.mass_on_bos, rel=1e-12)
    assert whole.diversity == pytest.approx(parts.diversity, rel=1e-12)


def test_mass_on_bos_is_the_mean_over_the_windows_that_hold_it() -> None:
    model, (tokens, targets) = model_of(), windows()
    with torch.no_grad():
        _, weights = model(tokens, need_weights=True)
    expected = weights[::3, :, 1].mean(dim=0).tolist()
    assert analyse_heads(model, tokens, targets).mass_on_bos == pytest.approx(expected)
    assert analyse_heads(model, tokens[1::3], targets[1::3]).mass_on_bos is None


@pytest.mark.parametrize("pattern", ["uniform", "shared"])
def test_heads_of_one_pattern_have_no_diversity(pattern: str) -> None:
    found = analyse_heads(model_of(pattern=pattern), *windows())
    assert found.diversity == 0.0


def test_equal_weights_have_the_distance_and_entropy_of_their_number() -> None:
    tokens, targets = windows()
    found = analyse_heads(model_of(pattern="uniform"), tokens[1::3], targets[1::3])
    assert found.entropy == pytest.approx([torch.tensor(float(T)).log().item()] * H, rel=1e-6)
    assert found.mean_distance == pytest.approx([(T - 1) / 2] * H, rel=1e-6)


def test_a_single_head_has_no_diversity() -> None:
    assert analyse_heads(model_of(1), *windows()).diversity is None


def test_the_test_split_and_a_single_window_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"split \('test'\)"):
        analyse_heads(model_of(), *windows(), split="test")
    tokens, targets = windows()
    with pytest.raises(ShapeError, match="1 windows: give at least 2"):
        analyse_heads(model_of(), tokens[:1], targets[:1])


def test_greedy_removal_ends_without_any_head() -> None:
    model, (tokens, targets) = model_of(2), windows()
    found = remove_greedily(model, tokens, targets, num_choosing=3)
    expected = mean_loss(model, tokens[3:], targets[3:], torch.zeros(2))
    assert found.losses[-1] == pytest.approx(expected, rel=1e-6)
