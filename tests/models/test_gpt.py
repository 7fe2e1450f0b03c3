"""TinyGPT: causality, padding, caches, forms, sizes and start values; in float64."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.attention.cache import KVCache
from manyheads.core.errors import ConfigError, ShapeError
from manyheads.models.config import GPTConfig
from manyheads.models.gpt import TinyGPT
from tests.factories import FORMS, annotations_unchecked, random_like
from tests.models.drawing import draw, ids, padded

V, CONTEXT, WIDTH, LAYERS, HEADS, LENGTH = 17, 11, 12, 3, 2, 7
SMALL = GPTConfig(
    vocab_size=V, context=CONTEXT, width=WIDTH, num_layers=LAYERS, num_heads=HEADS, hidden=10
)
CONFIGS = {
    "learned, tied": SMALL,
    "rotary": replace(SMALL, positions="rotary"),
    "untied, no biases": replace(SMALL, tie_weights=False, bias=False),
    "grouped heads": replace(SMALL, num_heads=6, num_kv_heads=3, positions="rotary", bias=False),
    "one layer": replace(SMALL, num_layers=1, hidden=None),
}


def gpt_of(name: str, **options: Any) -> TinyGPT:
    """A small model in float64, all its numbers drawn."""
    model = TinyGPT(CONFIGS[name], **options).double()
    draw(model)
    return model


def logits_of(model: TinyGPT, tokens: Tensor, **call: Any) -> Tensor:
    """Logits of a call that asks for nothing else."""
    logits = model(tokens, **call)
    assert isinstance(logits, Tensor)
    return logits


def stream_gradient(model: TinyGPT, tokens: Tensor, row: int) -> Tensor:
    """By how much the logits of one row move with each token's embedding, (B, T)."""
    kept: list[Tensor] = []

    def keep(_module: object, _inputs: object, embedded: Tensor) -> None:
        embedded.retain_grad()
        kept.append(embedded)

    handle = model.token_embedding.register_forward_hook(keep)
    (logits_of(model, tokens)[:, row] * random_like(1, V)).sum().backward()
    handle.remove()
    grad = kept[0].grad
    assert grad is not None
    return grad.abs().amax(dim=-1)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_later_token_matters_neither_in_value_nor_in_gradient(name: str) -> None:
    model, tokens = gpt_of(name), ids(1, 2, LENGTH)
    logits = logits_of(model, tokens)
    assert logits.shape == (2, LENGTH, V)
    for place in range(LENGTH):
        other = tokens.clone()
        other[:, place] = (other[:, place] + 1) % V
        gap = (logits_of(model, other) - logits).abs().amax(dim=(0, 2))
        assert not gap[:place].any()
        assert (gap[place:] > 1e-9).all()
        gradient = stream_gradient(model, tokens, place)
        assert not gradient[:, place + 1 :].any()
        assert (gradient[:, : place + 1] > 1e-9).all()


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_never_matters(name: str) -> None:
    model, tokens = gpt_of(name), ids(2, 3, LENGTH)
    counts = (0, 2, 5)
    padding = torch.arange(LENGTH) < torch.tensor(counts)[:, None]
    left = padded(tokens, *counts)
    logits = logits_of(model, left, key_padding_mask=padding)
    other = logits_of(model, left.masked_fill(padding, V - 1), key_padding_mask=padding)
    alone = [logits_of(model, tokens[i : i + 1, n:])[0] for i, n in enumerate(counts)]
    for i, n in enumerate(counts):
        assert torch.equal(logits[i, n:], other[i, n:])
        assert (logits[i, n:] - alone[i]).abs().max() < 1e-12


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_on_the_right_changes_nothing_before_it(name: str) -> None:
    model, tokens = gpt_of(name), ids(3, 2, LENGTH)
    padding = torch.arange(LENGTH).expand(2, -1) >= 4
    logits = logits_of(model, tokens, key_padding_mask=padding)
    assert (logits[:, :4] - logits_of(model, tokens[:, :4])).abs().max() < 1e-12


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_gets_no_gradient_and_none_is_nan(name: str) -> None:
    model = gpt_of(name)
    if model.config.tie_weights:  # the row of id 0 would get one as an output word
        model = gpt_of("untied, no biases")
    tokens, padding = padded(ids(4, 2, LENGTH), 3, LENGTH), torch.zeros(2, LENGTH).bool()
    padding[0, :3], padding[1] = True, True
    logits = logits_of(model, tokens, key_padding_mask=padding)
    (logits * random_like(5, *logits.shape))[0, 3:].sum().backward()
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert not grads["token_embedding.weight"][0].any()
    assert all(torch.isfinite(g).all() for g in grads.values())


@pytest.mark.parametrize("pieces", [(LENGTH,), (1,) * LENGTH, (3, 1, 3)])
@pytest.mark.parametrize("name", CONFIGS)
def test_cached_pieces_equal_one_full_pass(name: str, pieces: tuple[int, ...]) -> None:
    model, tokens = gpt_of(name), padded(ids(6, 2, LENGTH), 0, 2)
    padding = tokens == 0
    full = logits_of(model, tokens, key_padding_mask=padding)
    caches, found, seen = model.new_caches(), [], 0
    for piece in pieces:
        part = tokens[:, seen : seen + piece]
        seen += piece
        logits, caches = model(part, kv_caches=caches, key_padding_mask=padding[:, :seen])
        found.append(logits)
    joined = torch.cat(found, dim=1)
    assert (joined[0] - full[0]).abs().max() < 1e-12
    assert (joined[1, 2:] - full[1, 2:]).abs().max() < 1e-12
    assert [cache.seq_len for cache in caches] == [LENGTH] * model.config.num_layers


def test_greedy_generation_with_caches_gives_the_same_tokens() -> None:
    model = gpt_of("learned, tied")
    plain = tokens = ids(7, 2, 3)
    logits, caches = model(tokens, kv_caches=model.new_caches())
    for _ in range(CONTEXT - 3):
        plain = torch.cat((plain, logits_of(model, plain)[:, -1:].argmax(-1)), dim=1)
        chosen = logits[:, -1:].argmax(-1)
        tokens = torch.cat((tokens, chosen), dim=1)
        logits, caches = model(chosen, kv_caches=caches)
    assert torch.equal(tokens, plain)
    assert len(set(tokens[0].tolist())) > 2


@pytest.mark.parametrize("name", CONFIGS)
def test_forms_agree_in_values_and_gradients(name: str) -> None:
    tokens, found = padded(ids(8, 2, LENGTH), 0, 2), {}
    model = gpt_of(name)
    for form in FORMS:
        model.form = form  # type: ignore[assignment]  # one of the three
        assert {block.attention.form for block in model.blocks} == {form}
        model.zero_grad()
        logits = logits_of(model, tokens, key_padding_mask=tokens == 0)
        (logits * random_like(9, *logits.shape)).sum().backward()
        slopes = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        found[form] = torch.cat([logits.detach().flatten(), *slopes])
    assert (found["packed"] - found["loop"]).abs().max() < 1e-10
    assert (found["fused"] - found["loop"]).abs().max() < 1e-10


def test_weights_and_traces_of_every_layer_are_those_of_the_pass() -> None:
    model, tokens = gpt_of("rotary"), padded(ids(10, 2, LENGTH), 0, 2)
    padding = tokens == 0
    logits, weights = model(tokens, key_padding_mask=padding, need_weights=True)
    assert (logits - logits_of(model, tokens, key_padding_mask=padding)).abs().max() < 1e-12
    traces = model.traces(tokens, key_padding_mask=padding)
    assert len(weights) == len(traces) == LAYERS
    for seen, trace in zip(weights, traces, strict=True):
        assert seen.shape == (2, HEADS, LENGTH, LENGTH)
        assert (seen - trace.attn_weights).abs().max() < 1e-12
        assert not seen.triu(1).any()
        assert not seen[1, :, :, :2].any()
    both = model(tokens, need_weights=True, kv_caches=model.new_caches())
    assert [type(part).__name__ for part in both] == ["Tensor", "tuple", "tuple"]
    assert isinstance(both[2][0], KVCache)


def test_blocks_add_what_they_read_normalised() -> None:
    model, tokens = gpt_of("one layer"), ids(11, 2, LENGTH)
    block, places = model.blocks[0], model.position_embedding
    assert places is not None
    x = model.token_embedding.weight[tokens] + places.weight[:LENGTH]
    x = x + block.attention(F.layer_norm(x, (WIDTH,), *block.attention_norm.parameters()),
                            is_causal=True)  # fmt: skip
    read = F.layer_norm(x, (WIDTH,), *block.feed_forward_norm.parameters())
    wide = F.linear(read, *block.feed_forward.expand.parameters())
    x = x + F.linear(F.gelu(wide, approximate="tanh"), *block.feed_forward.contract.parameters())
    rows = F.layer_norm(x, (WIDTH,), *model.final_norm.parameters())
    assert (logits_of(model, tokens) - rows @ model.token_embedding.weight.T).abs().max() < 1e-12


def test_tied_weights_are_one_parameter_and_untied_are_two() -> None:
    tied, untied = gpt_of("learned, tied"), gpt_of("untied, no biases")
    assert tied.output.weight is tied.token_embedding.weight
    assert not torch.equal(untied.output.weight, untied.token_embedding.weight)


def test_start_values_are_small_and_smaller_where_they_add_to_the_stream() -> None:
    config = GPTConfig(vocab_size=500, width=128, num_layers=8)
    model = TinyGPT(config, generator=torch.Generator().manual_seed(1))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif "norm" in name:
            assert (parameter == 1.0).all()
        else:
            adds = name.endswith(("attention.out_proj.weight", "feed_forward.contract.weight"))
            expected = pytest.approx(0.02 / (4.0 if adds else 1.0), rel=0.03)
            assert parameter.std().item() == expected, name
            assert abs(parameter.mean()) < 0.001


def test_a_seed_gives_the_same_start_and_another_one_another() -> None:
    one, same, other = (
        TinyGPT(SMALL, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    pairs = zip(one.parameters(), same.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not torch.equal(one.output.weight, other.output.weight)


def test_dropout_acts_in_training_and_not_in_evaluation() -> None:
    config, tokens = replace(SMALL, dropout=0.4), ids(12, 2, LENGTH)
    model = TinyGPT(config)
    draw(model)
    plain = TinyGPT(SMALL)
    plain.load_state_dict(model.state_dict())
    assert not torch.equal(logits_of(model, tokens), logits_of(model, tokens))
    with pytest.raises(ConfigError, match="dropout"):
        model.traces(tokens)
    model.eval()
    assert torch.equal(logits_of(model, tokens), logits_of(plain, tokens))


@pytest.mark.parametrize("name", ["learned, tied", "rotary"])
def test_a_tiny_batch_can_be_overfitted(name: str) -> None:
    model = TinyGPT(CONFIGS[name], generator=torch.Generator().manual_seed(1))
    # No id twice in a row: without position rows "a" and "a a" are one thing to a causal model.
    tokens = torch.tensor([[1, 5, 2, 7, 5, 3, 9], [2, 8, 4, 8, 1, 6, 2], [3, 1, 4, 1, 5, 9, 2]])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        logits = logits_of(model, tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] > 2.5
    assert losses[-1] < 0.05


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (torch.zeros(2, 0, dtype=torch.int64), r"tokens has shape \(2, 0\)"),
        (torch.zeros(4, dtype=torch.int64), r"tokens has shape \(4,\)"),
        (torch.zeros(2, 3), r"dtype torch.float32, expected \(B, T\) and torch.int64"),
        (torch.zeros(2, CONTEXT + 1, dtype=torch.int64), r"0 cached and 12 new.*context \(11\)"),
        (torch.full((2, 3), V), r"tokens \(ids 17 to 17\) must be from 0 to 16"),
        (torch.full((2, 3), -1), r"tokens \(ids -1 to -1\) must be from 0 to 16"),
    ],
)
def test_tokens_that_the_model_cannot_read_are_refused(tokens: Tensor, words: str) -> None:
    with annotations_unchecked(), pytest.raises(ShapeError, match=words):
        TinyGPT(SMALL)(tokens)


def test_a_cache_that_is_full_or_of_another_depth_is_refused() -> None:
    model = TinyGPT(SMALL)
    _, caches = model(ids(14, 1, CONTEXT), kv_caches=model.new_caches())
    with pytest.raises(ShapeError, match=r"11 cached and 1 new\) must not exceed context \(11\)"):
        model(ids(15, 1, 1), kv_caches=caches)
    with pytest.raises(ShapeError, match=r"kv_caches \(2 of them\) must be one per layer, 3"):
        model(ids(15, 1, 1), kv_caches=model.new_caches()[:2])


def test_a_padding_mask_must_count_cached_tokens_too() -> None:
    model = TinyGPT(SMALL)
    _, caches = model(ids(14, 2, 3), kv_caches=model.new_caches())
    with pytest.raises(ShapeError, match=r"key_padding_mask has shape \(2, 1\)"):
        model(ids(15, 2, 1), kv_caches=caches, key_padding_mask=torch.zeros(2, 1).bool())
