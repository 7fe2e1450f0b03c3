"""The counting and the places that exercises use, against torch, our masks and layouts."""

from itertools import product

import pytest
import torch
from torch import nn

from manyheads.attention.cache import KVCache
from manyheads.attention.module import MultiHeadAttention
from manyheads.core.config import AttentionConfig
from manyheads.core.masks import causal_mask, window_mask
from manyheads.core.shapes import repeat_kv
from manyheads.core.weights import HeadWeights
from manyheads.layouts import (
    from_torch,
    interleaved_rows_from_heads,
    stacked_columns_from_heads,
    stacked_rows_from_heads,
)
from manyheads.learn.exercises.counting import Run, stored_parts
from manyheads.learn.exercises.grouped import group_of
from manyheads.learn.exercises.layout import TARGETS, Entry, place_in
from manyheads.learn.exercises.mask_rows import Sight, visible


@pytest.mark.parametrize("bias", [True, False])
def test_parameters_against_torch_mha(bias: bool) -> None:
    module = nn.MultiheadAttention(12, 3, bias=bias)
    config = AttentionConfig.of(embed_dim=12, num_heads=3, bias=bias)
    expected = [module.in_proj_weight.numel(), sum(p.numel() for p in module.parameters())]
    assert list(stored_parts(config).asked) == expected


def test_parameters_against_a_grouped_layer_with_heads_of_their_own_width() -> None:
    layer = MultiHeadAttention(22, 6, num_kv_heads=2, head_dim=5)
    parts = stored_parts(layer.config)
    assert parts.inputs == layer.in_proj_weight.numel()
    assert parts.asked[1] == sum(p.numel() for p in layer.parameters())


def test_bytes_against_real_scores_and_a_real_cache() -> None:
    run = Run(batch=2, layers=3, heads=6, groups=2, width=5, length=7, item=4)
    scores = torch.zeros(2, 6, 7, 7)
    keys = torch.zeros(2, 2, 7, 5)
    cache = KVCache(k=keys, v=keys.clone())
    assert cache.k is not None and cache.v is not None
    assert list(run.asked) == [scores.nbytes, 3 * (cache.k.nbytes + cache.v.nbytes)]


@pytest.mark.parametrize(("heads", "groups"), [(8, 2), (6, 3), (12, 4), (5, 1), (4, 4)])
def test_groups_against_repeat_kv(heads: int, groups: int) -> None:
    read = repeat_kv(torch.arange(float(groups))[None, :, None, None], heads).flatten().tolist()
    assert [group_of(head, heads, groups) for head in range(heads)] == read


@pytest.mark.parametrize(("num_queries", "num_keys", "window"), [(2, 5, 2), (4, 6, 3), (3, 3, 1)])
def test_sight_against_masks(num_queries: int, num_keys: int, window: int) -> None:
    masks = {
        "cached": causal_mask(num_queries, num_keys),
        "window": window_mask(num_queries, num_keys, window),
    }
    for form, receiver in product(masks, range(num_queries)):
        sight = Sight(
            form=form, num_queries=num_queries, num_keys=num_keys, receiver=receiver,
            window=window, padding=(),
        )  # fmt: skip
        assert list(visible(sight)) == masks[form][receiver].tolist()


def marked(entry: Entry) -> HeadWeights:
    """Weights of zeros but for one entry."""
    shape = (entry.num_heads, entry.dim, entry.width)
    tensors = {f"w_{name}": torch.zeros(shape) for name in "qkv"}
    tensors[f"w_{'qkv'[entry.part]}"][entry.head, entry.feature, entry.column] = 1
    return HeadWeights(**tensors, w_o=torch.zeros(entry.num_heads, entry.width, entry.dim))


@pytest.mark.parametrize("part", [0, 1, 2])
def test_places_against_layouts(part: int) -> None:
    writers = {
        "torch": stacked_rows_from_heads,
        "nanogpt": stacked_rows_from_heads,
        "gpt2": stacked_columns_from_heads,
        "interleaved": interleaved_rows_from_heads,
    }
    assert set(writers) == set(TARGETS)
    for head, feature, column in ((0, 0, 0), (2, 7, 3), (1, 11, 0)):
        entry = Entry(part=part, head=head, feature=feature, column=column, num_heads=3, width=4)
        for target, write in writers.items():
            found = write(marked(entry)).qkv.nonzero().tolist()
            assert found == [list(place_in(target, entry))], target


def test_place_against_a_real_torch_mha() -> None:
    module = nn.MultiheadAttention(15, 3)
    heads = from_torch(module).head_weights()
    for part, name in enumerate("qkv"):
        entry = Entry(part=part, head=2, feature=13, column=4, num_heads=3, width=5)
        stored = module.in_proj_weight[place_in("torch", entry)]
        assert getattr(heads, f"w_{name}")[2, 13, 4] == stored
