"""Statistics in blocks equal those of whole patterns, and a run that was killed continues."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import manyheads as mh
from manyheads.core.errors import LookError
from manyheads.heads.measures import entropy, mean_by_head, mean_distance
from manyheads.looking import row_blocks
from manyheads.looking.row_blocks import LazyMask
from manyheads.looking.streaming import (
    WINDOW,
    corpus_statistics,
    load_statistics,
    merged,
)
from tests.looking.conftest import sizes, small_model


@pytest.fixture
def long_ids() -> Tensor:
    """Token ids (2, 150)."""
    return torch.randint(3, 60, (2, 150), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
@pytest.mark.parametrize("block", [32, 64, 1000])
def test_blocks_give_the_statistics_of_whole_patterns(
    name: str, block: int, long_ids: Tensor, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    found = corpus_statistics(model, [long_ids], block)
    seen = mh.look(model, inputs=long_ids)
    for layer in range(2):
        weights = seen.weights(layer)
        back = torch.arange(150)[:, None] - torch.arange(150)
        near = weights[..., :] * ((back >= 0) & (back < WINDOW))
        expected = {
            "entropy": mean_by_head(entropy(weights), weights),
            "distance": mean_by_head(mean_distance(weights), weights),
            "sink_mass": weights[..., 0].mean(dim=(0, 2)),
            "window_mass": near.sum(dim=-1).mean(dim=(0, 2)),
        }
        for measure, values in expected.items():
            torch.testing.assert_close(getattr(found, measure)(layer), values, rtol=1e-5, atol=1e-6)
    assert found.whole_gap is not None
    assert found.whole_gap < 1e-6
    assert found.num_tokens == 300


def test_effective_rank_is_that_of_the_messages(llama: nn.Module, long_ids: Tensor) -> None:
    found = corpus_statistics(llama, [long_ids], 64)
    attention = llama.model.layers[0].self_attn.o_proj
    rows: list[Tensor] = []
    attention.register_forward_pre_hook(lambda m, a: rows.append(a[0]))
    with torch.no_grad():
        llama.eval()(long_ids)
    values = torch.linalg.svdvals(rows[0][..., 6:12].flatten(0, 1)) ** 2
    shares = values / values.sum()
    expected = float(torch.special.entr(shares).sum().exp())
    assert float(found.effective_rank(0)[1]) == pytest.approx(expected, rel=1e-4)


def test_padding_is_hidden_in_blocks_too(long_ids: Tensor) -> None:
    # In float64 these models give NaN with padding on the left: they compute norms in float32.
    llama = small_model("LlamaForCausalLM", torch.float32, **sizes(num_key_value_heads=2))
    mask = torch.ones_like(long_ids)
    mask[1, :40] = 0
    inputs = {"input_ids": long_ids, "attention_mask": mask}
    found = corpus_statistics(llama, [inputs], 32)
    weights = mh.look(llama, inputs=inputs).weights(0)
    expected = weights[..., 0].double().mean(dim=(0, 2))
    torch.testing.assert_close(found.sink_mass(0), expected, rtol=1e-5, atol=1e-6)


def test_a_window_shortens_the_keys_of_a_block(long_ids: Tensor) -> None:
    model = small_model(
        "MistralForCausalLM", **sizes(num_key_value_heads=2, sliding_window=10, head_dim=6)
    )
    found = corpus_statistics(model, [long_ids], 16)
    weights = mh.look(model, inputs=long_ids).weights(0)
    expected = mean_by_head(mean_distance(weights), weights)
    torch.testing.assert_close(found.distance(0), expected, rtol=1e-5, atol=1e-6)


def test_a_run_that_was_stopped_continues_to_the_same_numbers(
    llama: nn.Module, long_ids: Tensor, tmp_path: Path
) -> None:
    batches = [long_ids, long_ids.flip(0), long_ids.flip(1)]
    whole = corpus_statistics(llama, batches, 64)
    path = tmp_path / "state.json"

    class StoppedError(Exception):
        """In place of a kill."""

    def stop(found: object) -> None:
        if load_statistics(path).num_batches == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        corpus_statistics(llama, batches, 64, path, on_batch=stop)
    resumed = corpus_statistics(llama, batches, 64, path)
    assert resumed.to_dict() == whole.to_dict()
    with pytest.raises(LookError, match="must be 64"):
        corpus_statistics(llama, batches, 32, path)
    path.write_text("{}")
    with pytest.raises(LookError, match="no state"):
        corpus_statistics(llama, batches, 64, path)


def test_processes_share_the_batches_and_their_parts_join(
    llama: nn.Module, long_ids: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [long_ids, long_ids.flip(0), long_ids.flip(1)]
    whole = corpus_statistics(llama, batches, 64)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        corpus_statistics(llama, batches, 64, tmp_path / "state")
    parts = [load_statistics(tmp_path / f"state.{rank}") for rank in range(2)]
    total = merged(parts)
    assert (total.num_batches, total.num_tokens) == (3, whole.num_tokens)
    torch.testing.assert_close(total.entropy(1), whole.entropy(1), rtol=1e-12, atol=0)


def test_a_lazy_mask_gives_the_rows_of_the_whole_mask() -> None:
    whole = torch.randn(2, 1, 9, 9)

    def make(**given: int) -> Tensor:
        start = given["q_offset"]
        return whole[:, :, start : start + given["q_length"]]

    mask = LazyMask(make, {"batch_size": 2, "q_length": 9, "kv_length": 9, "q_offset": 0})
    assert tuple(mask.shape) == (2, 1, 9, 9)
    assert torch.equal(mask.rows(3, 7), whole[:, :, 3:7])
    assert torch.equal(mask[:, :, :, :5].rows(3, 7), whole[:, :, 3:7, :5])
    with pytest.raises(TypeError):
        mask[:, :, 2:4]


def test_no_batches_and_a_wrong_block_are_refused(llama: nn.Module) -> None:
    with pytest.raises(LookError, match="batches"):
        corpus_statistics(llama, [])
    with pytest.raises(LookError, match="block"):
        corpus_statistics(llama, [], 0)


def test_long_texts_need_no_logits(llama: nn.Module, long_ids: Tensor) -> None:
    counts: list[int] = []
    llama.lm_head.register_forward_hook(lambda _, __, out: counts.append(out.shape[1]))
    corpus_statistics(llama, [long_ids])
    assert counts[-1] == 1


def test_a_block_of_a_long_text_has_a_limit_of_weights(
    gpt2: nn.Module, long_ids: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = corpus_statistics(gpt2, [long_ids], 64)
    monkeypatch.setattr(row_blocks, "MOST_WEIGHTS", 150 * 2 * 4 * 7)
    few = corpus_statistics(gpt2, [long_ids], 64)
    assert torch.allclose(few.entropy(1), whole.entropy(1), atol=1e-6)
    assert few.layers[0].num_queries == whole.layers[0].num_queries
