"""Circuits are the model's own matrices, and their numbers those of the whole products."""

import pytest
import torch
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.looking.qk_ov import circuits, composition


def test_factors_are_the_models_matrices(gpt2: nn.Module) -> None:
    found = circuits(gpt2, 1, 2)
    attention = gpt2.transformer.h[1].attn
    matrix, out = attention.c_attn.weight.detach(), attention.c_proj.weight.detach()
    assert torch.equal(found.w_q, matrix[:, 12:18])
    assert torch.equal(found.w_k, matrix[:, 36:42])
    assert torch.equal(found.w_v, matrix[:, 60:66])
    assert torch.equal(found.w_o, out[12:18])
    assert found.error < 1e-12


def test_singular_values_and_copying_are_those_of_the_whole_products(gpt2: nn.Module) -> None:
    found = circuits(gpt2, 0, 1)
    ov, qk = found.w_v @ found.w_o, found.w_q @ found.w_k.T
    torch.testing.assert_close(found.ov_singular_values, torch.linalg.svdvals(ov)[:6])
    torch.testing.assert_close(found.qk_singular_values, torch.linalg.svdvals(qk)[:6])
    values = torch.linalg.eigvals(ov)
    expected = float(values.real.sum() / values.abs().sum())
    assert found.copying_score == pytest.approx(expected, abs=1e-6)


def test_a_head_with_rotary_positions_has_no_single_qk_product(llama: nn.Module) -> None:
    found = circuits(llama, 0, 3)
    assert found.w_q is None
    assert found.qk_singular_values is None
    value = llama.model.layers[0].self_attn.v_proj.weight.detach()
    assert torch.equal(found.w_v, value[6:12].T)  # head 3 reads group 1


def test_composition_is_the_norm_of_the_product(gpt2: nn.Module) -> None:
    first, second = circuits(gpt2, 0, 1), circuits(gpt2, 1, 0)
    found = composition(first, second)
    ov = first.w_v @ first.w_o

    def overlap(other: Tensor) -> float:
        return float((ov @ other).norm() / ov.norm() / other.norm())

    assert found["v"] == pytest.approx(overlap(second.w_v @ second.w_o), rel=1e-9)
    assert found["q"] == pytest.approx(overlap(second.w_q @ second.w_k.T), rel=1e-9)
    assert found["k"] == pytest.approx(overlap(second.w_k @ second.w_q.T), rel=1e-9)
    with pytest.raises(LookError, match="must be after"):
        composition(second, first)


def test_heads_that_do_not_exist_are_refused(gpt2: nn.Module) -> None:
    for layer, head in ((2, 0), (0, 4), (-1, 0)):
        with pytest.raises(LookError, match="must be from 0"):
            circuits(gpt2, layer, head)
