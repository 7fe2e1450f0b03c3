"""Labels: heads that are built to behave are named, and heads without a behaviour never are."""

import pytest
import torch
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.looking.behaviours import BEHAVIOURS, measured, probe_for
from manyheads.looking.copying_heads import OTHERS, _is_first
from manyheads.looking.labels import MARGIN, best_labels, label_heads
from tests.factories import mostly_slow
from tests.looking.conftest import sizes, small_model

HALF, SAMPLES = 16, 3


class Tokens:
    """The ids that a tokeniser names."""

    all_special_ids = (1, 2)
    bos_token_id = 1
    sep_token_id = 2


def probe_and_weights(kind: str) -> tuple[object, Tensor]:
    """The sequences, and weights of two heads: one that behaves as named, one that is uniform."""
    probe = probe_for(
        100,
        tokenizer=Tokens(),
        half=HALF,
        samples=SAMPLES,
        generator=torch.Generator().manual_seed(0),
    )
    B, T = probe.ids.shape
    uniform = torch.ones(B, T, T).tril()
    uniform = uniform / uniform.sum(dim=-1, keepdim=True)
    return probe, torch.stack([uniform, torch.stack([pattern(kind, row) for row in probe.ids])], 1)


def pattern(kind: str, ids: Tensor) -> Tensor:
    """The weights of a head that does one thing, and otherwise looks at its own token."""
    T = len(ids)
    weights = torch.zeros(T, T)
    for t in range(T):
        earlier = [s for s in range(t) if ids[s] == ids[t] and ids[s] > 2]
        marks = [s for s in range(t - 1) if ids[s] == 2]
        source = {
            "previous": max(t - 1, 0),
            "next": min(t + 1, T - 1),
            "self": t,
            "first": 0,
            "positional": max(t - 3, 0),
            "local": max(t - t % 4, 0),
            "duplicate": earlier[-1] if earlier else t,
            "induction": earlier[-1] + 1 if earlier else t,
            "retrieval": earlier[-1] + 1 if earlier else t,
            "separator": marks[-1] if marks else t,
        }[kind]
        weights[t, source] = 1.0
    return weights


@pytest.mark.parametrize("kind", [name for name in BEHAVIOURS if name != "copying"])
def test_a_head_that_behaves_scores_high_and_its_controls_low(kind: str) -> None:
    probe, weights = probe_and_weights(kind)
    found = measured(probe, weights)[kind]
    assert float(found.score[1]) > 0.7
    assert float(found.score[0]) < 0.2
    if len(found.controls):
        assert float(found.controls.max()) + MARGIN < float(found.score[1])


def test_the_sequences_are_what_they_are_called() -> None:
    probe = probe_for(
        100,
        tokenizer=Tokens(),
        half=HALF,
        samples=SAMPLES,
        generator=torch.Generator().manual_seed(4),
    )
    ids = probe.ids
    assert ids.shape == (3 * SAMPLES, 2 * HALF + 1)
    assert bool((ids[:, 0] == 1).all())
    again = ids[SAMPLES : 2 * SAMPLES, 1:]
    assert torch.equal(again[:, :HALF], again[:, HALF:])
    for row, needles in zip(ids[2 * SAMPLES :], probe.needles, strict=True):
        assert torch.equal(row[needles - 1], row[-len(needles) :])
        assert len(set(row.tolist())) == 2 * HALF + 1 - HALF // 2
    assert all(bool((ids[:SAMPLES, place] == 2).all()) for place in probe.separators)


def wired_model() -> nn.Module:
    """A GPT-2 whose head 0.1 looks at the token before, by its position embeddings alone."""
    model = small_model(
        "GPT2LMHeadModel", vocab_size=90, n_embd=48, n_layer=2, n_head=4, n_positions=64
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.1)
        places = torch.zeros(64, 48, dtype=torch.float64)
        angles = torch.arange(64)[:, None] * torch.tensor([0.1, 0.37, 0.9, 1.7, 2.3, 2.9])
        places[:, 0:12:2], places[:, 1:12:2] = angles.cos(), angles.sin()
        model.transformer.wpe.weight.copy_(places)
        block = model.transformer.h[0]
        block.ln_1.weight.fill_(1.0)
        block.ln_1.bias.zero_()
        matrix, bias = block.attn.c_attn.weight, block.attn.c_attn.bias
        matrix[:, 12:24].zero_()
        matrix[:, 60:72].zero_()
        bias.zero_()
        turn = torch.tensor([0.1, 0.37, 0.9, 1.7, 2.3, 2.9])
        for i in range(6):
            a, b = 2 * i, 2 * i + 1
            matrix[a, 60 + a] = matrix[b, 60 + b] = 8.0
            c, s = 8.0 * turn[i].cos(), 8.0 * turn[i].sin()
            matrix[a, 12 + a], matrix[b, 12 + a] = c, s
            matrix[a, 12 + b], matrix[b, 12 + b] = -s, c
    return model


@pytest.mark.parametrize("seed", mostly_slow([0, 1, 2], 1))
@pytest.mark.parametrize("draws", [0, 8])
def test_the_head_that_is_wired_is_found_and_no_other(seed: int, draws: int) -> None:
    found = label_heads(
        wired_model(), behaviours=["previous", "induction"], draws=draws, half=HALF, seed=seed
    )
    assert [(one.layer, one.head, one.behaviour) for one in found] == [(0, 1, "previous")]
    assert found[0].score > found[0].null_greatest + MARGIN
    assert found[0].p == pytest.approx(1 / (1 + found[0].draws))
    tested = {one.behaviour: one for one in found.tested}
    assert tested["previous"].num_labelled == 1
    assert tested["induction"].num_labelled == 0
    assert best_labels(found)[0, 1] is found[0]


def test_random_models_get_no_label() -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        model = small_model("LlamaForCausalLM", **sizes(num_key_value_heads=2, vocab_size=90))
        assert list(label_heads(model, draws=3, half=HALF, seed=seed)) == []
        assert list(label_heads(model, draws=0, half=HALF, seed=seed)) == []


def test_the_same_seed_gives_the_same_labels() -> None:
    model = wired_model()
    assert list(label_heads(model, draws=2, half=HALF, seed=3)) == list(
        label_heads(model, draws=2, half=HALF, seed=3)
    )


def test_an_unknown_behaviour_and_a_model_without_tokens_are_refused() -> None:
    with pytest.raises(LookError, match="is unknown"):
        label_heads(wired_model(), behaviours=["thinking"])
    with pytest.raises(LookError, match="vocabulary"):
        label_heads(nn.Linear(2, 2))
    with pytest.raises(LookError, match=r"half \(10\).*at least 11"):
        label_heads(wired_model(), half=10)


def test_few_other_tokens_first_give_the_same_heads_as_all_at_once() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(600, 8, generator=generator)
    tokens = torch.randint(600, (2, 5), generator=generator)
    others = torch.randperm(600, generator=generator)[:OTHERS]
    raised = matrix[tokens][:, :, None] * torch.tensor([1.0, 0.3, -1.0])[:, None]
    raised = raised + torch.randn(raised.shape, generator=generator)
    logits = raised @ matrix.T  # (N, T, H, 600)
    mine = logits.gather(-1, tokens[:, :, None, None].expand(-1, -1, 3, 1))
    is_other = (tokens[..., None] != others)[:, :, None]
    expected = ((logits[..., others] < mine) | ~is_other).all(dim=-1)
    assert 0 < int(expected.sum()) < expected.numel()
    assert torch.equal(_is_first(raised, tokens, matrix, others), expected)
