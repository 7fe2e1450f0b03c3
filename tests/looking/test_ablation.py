"""Ablation is the loss of the model without a head, with an interval and matched controls."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.looking.ablation import Ablator, ablate, ablate_greedily, head_from


def losses(model: nn.Module, ids: Tensor) -> Tensor:
    """The mean loss of the next tokens of each sequence."""
    with torch.no_grad():
        logits = model.eval()(ids).logits[:, :-1].float()
    return F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none").mean(dim=1)


def test_zero_ablation_is_the_model_without_the_heads_columns(
    llama: nn.Module, ids: Tensor
) -> None:
    before = losses(llama, ids)
    found = ablate(llama, ids, ["1.2"])
    with torch.no_grad():
        llama.model.layers[1].self_attn.o_proj.weight[:, 12:18] = 0.0
    change = float((losses(llama, ids) - before).mean())
    assert found.change == pytest.approx(change, abs=1e-6)
    assert found.loss == pytest.approx(float(before.mean()), abs=1e-6)
    assert (found.by, found.heads, found.num_sequences) == ("zero", ((1, 2),), 2)
    assert len(found.controls) == 12
    assert found.interval[0] <= found.change <= found.interval[1]


def test_mean_ablation_puts_the_mean_message_in_place(gpt2: nn.Module, ids: Tensor) -> None:
    rows: list[Tensor] = []
    part = gpt2.eval().transformer.h[0].attn.c_proj
    handle = part.register_forward_pre_hook(lambda m, a: rows.append(a[0]))
    before = losses(gpt2, ids)
    handle.remove()
    mean = rows[0][..., 6:12].mean(dim=(0, 1))

    def put(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        changed = args[0].clone()
        changed[..., 6:12] = mean
        return (changed,)

    handle = part.register_forward_pre_hook(put)
    change = float((losses(gpt2, ids) - before).mean())
    handle.remove()
    found = ablate(gpt2, ids, [(0, 1)], by="mean", controls=0)
    assert found.change == pytest.approx(change, abs=1e-6)


def test_patching_all_heads_of_the_same_inputs_changes_nothing(
    gpt2: nn.Module, ids: Tensor
) -> None:
    heads = [(0, 1), (1, 3)]
    assert ablate(gpt2, ids, heads, by=ids.clone(), controls=0).change == 0.0
    other = ids.flip(1)
    assert abs(ablate(gpt2, ids, heads, by=other, controls=0).change) > 1e-6
    with pytest.raises(LookError, match="shape of data"):
        ablate(gpt2, ids, heads, by=other[:, 1:], controls=0)


def test_controls_are_other_heads_of_the_same_layers(llama: nn.Module, ids: Tensor) -> None:
    ablator = Ablator(llama, ids)
    alone = {head: float(ablator.changes([(1, head)]).mean()) for head in range(4)}
    found = ablate(llama, ids, ["1.2"], controls=30)
    assert len(found.controls) == 30
    assert set(found.controls) == {alone[0], alone[1], alone[3]}
    assert found.change == alone[2]
    with pytest.raises(LookError, match="other heads"):
        ablate(llama, ids, ["1.0", "1.1", "1.2"])


def test_the_same_seed_gives_the_same_ablation(llama: nn.Module, ids: Tensor) -> None:
    assert ablate(llama, ids, ["0.0"], seed=5) == ablate(llama, ids, ["0.0"], seed=5)


def test_greedy_ablation_takes_the_cheapest_head_of_the_choosing_sequences(
    gpt2: nn.Module, ids: Tensor
) -> None:
    ablator = Ablator(gpt2, ids)
    candidates = [(0, 0), (0, 3), (1, 1)]
    alone = {head: ablator.changes([head]) for head in candidates}
    found = ablate_greedily(gpt2, ids, ["0.0", "0.3", "1.1"])
    assert found.order[0] == min(candidates, key=lambda head: float(alone[head][0]))
    assert found.changes[0] == float(alone[found.order[0]][1])
    most = ablate_greedily(gpt2, ids, candidates, most=1, costliest=True)
    assert most.order == (max(candidates, key=lambda head: float(alone[head][0])),)
    assert sorted(found.order) == sorted(candidates)


def test_an_encoder_needs_labels(bert: nn.Module, ids: Tensor) -> None:
    with pytest.raises(LookError, match="not causal"):
        ablate(bert, ids, ["0.0"])
    labels = torch.where(torch.arange(11) % 3 == 0, ids, -100)
    found = ablate(bert, {"input_ids": ids, "labels": labels}, ["0.0"], controls=2)
    with torch.no_grad():
        logits = bert.eval()(ids).logits.float()
    expected = F.cross_entropy(logits.transpose(1, 2), labels)
    assert found.loss == pytest.approx(float(expected), abs=1e-6)


def test_padding_is_neither_predicted_nor_in_the_mean(gpt2: nn.Module, ids: Tensor) -> None:
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    data = {"input_ids": ids, "attention_mask": mask}
    changed = ids.clone()
    changed[1, 8:] = 7
    other = {"input_ids": changed, "attention_mask": mask}
    for by in ("zero", "mean"):
        a, b = (ablate(gpt2, one, ["0.2"], by=by, controls=0) for one in (data, other))
        assert a.change == pytest.approx(b.change, abs=1e-12)


@pytest.mark.parametrize("name", ["3", "a.b", "1.2.3", "-1.0"])
def test_a_head_that_is_written_wrongly_is_refused(name: str) -> None:
    with pytest.raises(LookError, match="head"):
        head_from(name)


def test_heads_that_do_not_exist_and_single_sequences_are_refused(
    llama: nn.Module, ids: Tensor
) -> None:
    for heads in (["2.0"], ["0.4"], [], ["0.1", "0.1"]):
        with pytest.raises(LookError, match="head"):
            ablate(llama, ids, heads)
    with pytest.raises(LookError, match="one sequence"):
        ablate(llama, ids[:1], ["0.0"])
