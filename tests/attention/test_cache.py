"""A cache is passed in and handed back: pieces of any size equal one full pass, in float64."""

from typing import Any

import pytest
import torch

import manyheads as mh
from manyheads.core.errors import ConfigError, ShapeError
from tests.factories import FORMS, LAYERS, B, G, annotations_unchecked, inputs_of, layer_of

CACHED = {
    name: LAYERS[name]
    for name in ("grouped heads", "window", "rotary half", "rotary interleaved", "linear bias")
} | {"rotary and window": {"positions": mh.Rotary(dim=2), "window": 3, "num_kv_heads": 1}}
PIECES = ((9,), (4, 1, 1, 1, 1, 1), (1,) * 9, (2, 3, 4), (7, 2))


def in_pieces(layer: Any, x: torch.Tensor, pieces: tuple[int, ...], padding: Any = None) -> Any:
    """Outputs of all pieces joined, the weights of the last, and the cache."""
    cache, outputs, weights, seen = mh.KVCache(), [], None, 0
    for piece in pieces:
        now = slice(seen, seen + piece)
        seen += piece
        hidden = None if padding is None else padding[:, :seen]
        output, weights, cache = layer(
            x[:, now], is_causal=True, key_padding_mask=hidden, need_weights=True, kv_cache=cache
        )
        outputs.append(output)
    return torch.cat(outputs, dim=1), weights, cache


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", CACHED)
def test_pieces_of_any_size_equal_one_full_pass(options: str, form: str) -> None:
    layer = layer_of(**CACHED[options], form=form)
    x = inputs_of(layer, 9, 9)[0]
    full, full_weights = layer(x, is_causal=True, need_weights=True)
    for pieces in PIECES:
        output, weights, cache = in_pieces(layer, x, pieces)
        assert (output - full).abs().max() < 1e-12
        assert (weights - full_weights[:, :, -pieces[-1] :]).abs().max() < 1e-12
        assert cache.seq_len == 9


@pytest.mark.parametrize("form", FORMS)
def test_pieces_with_padding_equal_one_full_pass(form: str) -> None:
    layer = layer_of(num_kv_heads=G, positions=mh.Rotary(dim=4), form=form)
    x = inputs_of(layer, 9, 9)[0]
    padding = torch.zeros(B, 9, dtype=torch.bool)
    padding[1, :5] = True
    full = layer(x, is_causal=True, key_padding_mask=padding)
    for pieces in PIECES:
        assert (in_pieces(layer, x, pieces, padding)[0] - full).abs().max() < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_without_causality_a_piece_sees_all_that_is_cached_and_all_of_itself(form: str) -> None:
    layer = layer_of(form=form)
    x = inputs_of(layer, 5, 5)[0]
    _, cache = layer(x[:, :2], kv_cache=mh.KVCache())
    output, cache = layer(x[:, 2:], kv_cache=cache)
    assert (output - layer(x)[:, 2:]).abs().max() < 1e-12
    assert cache.k.shape == (B, 6, 5, 5)


@pytest.mark.parametrize("form", FORMS)
def test_two_continuations_start_from_one_cache_that_never_changes(form: str) -> None:
    layer = layer_of(form=form, positions=mh.Rotary(dim=2))
    x = inputs_of(layer, 6, 6)[0]
    _, cache = layer(x[:, :4], is_causal=True, kv_cache=mh.KVCache())
    k, v = cache.k, cache.v
    copies = k.clone(), v.clone()
    for token in (4, 5):
        output, longer = layer(x[:, token : token + 1], is_causal=True, kv_cache=cache)
        branch = torch.cat((x[:, :4], x[:, token : token + 1]), dim=1)
        assert (output - layer(branch, is_causal=True)[:, -1:]).abs().max() < 1e-12
        assert longer is not cache
        assert longer.seq_len == 5
    assert cache.k is k
    assert cache.v is v
    assert torch.equal(k, copies[0])
    assert torch.equal(v, copies[1])
    assert cache.seq_len == 4


def test_result_holds_weights_and_cache_only_where_asked_for() -> None:
    layer = layer_of()
    x = inputs_of(layer, 2, 2)[0]
    assert isinstance(layer(x), torch.Tensor)
    assert isinstance(layer(x, need_weights=True)[1], torch.Tensor)
    output, cache = layer(x, kv_cache=mh.KVCache())
    assert isinstance(cache, mh.KVCache)
    assert torch.equal(output, layer(x))
    assert len(layer(x, need_weights=True, kv_cache=mh.KVCache())) == 3


def test_gradients_flow_through_cached_keys() -> None:
    layer = layer_of()
    x = inputs_of(layer, 4, 4)[0].requires_grad_()
    in_pieces(layer, x, (3, 1))[0].sum().backward()
    pieces = x.grad.clone()
    x.grad = None
    layer(x, is_causal=True).sum().backward()
    assert (pieces - x.grad).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("options", "batch", "dtype", "words"),
    [
        ({}, 3, torch.float64, r"kv_cache.k has shape \(3, 6, 2, 5\).*\(2, 6, 1, 5\)"),
        ({"head_dim": 4}, 2, torch.float64, r"\(2, 6, 2, 4\).*\(2, 6, 1, 5\)"),
        ({"v_head_dim": 4}, 2, torch.float64, r"kv_cache.v has shape \(2, 6, 2, 4\)"),
        ({"num_kv_heads": 3}, 2, torch.float64, r"\(2, 3, 2, 5\).*\(2, 6, 1, 5\)"),
        ({}, 2, torch.float32, r"dtype torch.float32.*torch.float64: pass the cache of this layer"),
    ],
)
def test_cache_of_another_layer_or_batch_is_refused(
    options: dict[str, Any], batch: int, dtype: torch.dtype, words: str
) -> None:
    other, layer = layer_of(**options, dtype=dtype), layer_of()
    _, cache = other(inputs_of(other, 2, 2, batch=batch)[0], kv_cache=mh.KVCache())
    with pytest.raises(ShapeError, match=words):
        layer(inputs_of(layer, 1, 1)[0], kv_cache=cache)


def test_half_a_cache_is_refused() -> None:
    k = torch.zeros(2, 3, 4, 5)
    with pytest.raises(ShapeError, match="k and v must be given together"):
        mh.KVCache(k=k)
    words = r"k has shape \(2, 3, 4, 5\) and v \(2, 3, 6, 5\)"
    with annotations_unchecked(), pytest.raises(ShapeError, match=words):
        mh.KVCache(k=k, v=torch.zeros(2, 3, 6, 5))
    with (
        annotations_unchecked(),
        pytest.raises(ShapeError, match=r"k has shape \(2, 3\), expected"),
    ):
        mh.KVCache(k=k[..., 0, 0], v=k[..., 0, 0])


def test_cache_of_lists_is_refused() -> None:
    with annotations_unchecked(), pytest.raises(ShapeError, match=r"^k \(list\) must be a tensor"):
        mh.KVCache(k=[1], v=[1])  # type: ignore[arg-type]  # on purpose


def test_pair_of_tensors_is_no_cache() -> None:
    layer = layer_of()
    k = torch.zeros(2, 6, 4, 5)
    with (
        annotations_unchecked(),
        pytest.raises(ShapeError, match=r"kv_cache \(tuple\) must be a KVCache"),
    ):
        layer(inputs_of(layer, 1, 1)[0], kv_cache=(k, k))


def test_mask_counts_cached_keys_too() -> None:
    layer = layer_of()
    x = inputs_of(layer, 4, 4)[0]
    _, cache = layer(x[:, :3], kv_cache=mh.KVCache())
    short = torch.ones(1, 1, dtype=torch.bool)
    layer(x[:, 3:], kv_cache=cache, attn_mask=torch.ones(1, 4, dtype=torch.bool))
    with pytest.raises(
        ShapeError, match=r"\(1, 3\), expected \(T, S\) = \(1, 4\): with a cache, S"
    ):
        layer(x[:, 3:], kv_cache=cache, attn_mask=short.expand(1, 3))
    with (
        annotations_unchecked(),
        pytest.raises(ShapeError, match=r"\(2, 1\), expected \(B, S\) = \(2, 4\)"),
    ):
        layer(x[:, 3:], kv_cache=cache, key_padding_mask=short.expand(2, 1))


def cache_of(batch: int, length: int) -> mh.KVCache:
    """A cache whose numbers tell sample and position: 10 b + s."""
    numbers = 10.0 * torch.arange(batch)[:, None] + torch.arange(length)
    return mh.KVCache(
        k=numbers[:, None, :, None].expand(-1, G, -1, 5),
        v=-numbers[:, None, :, None].expand(-1, G, -1, 2),
    )


def numbers_of(cache: mh.KVCache) -> Any:
    """The numbers of `cache_of`, after checking that keys and values moved together."""
    assert cache.k is not None
    assert cache.v is not None
    assert torch.equal(cache.k[:, 0, :, 0], -cache.v[:, -1, :, -1])
    return cache.k[:, 0, :, 0].tolist()


def test_cropping_a_cache_goes_back_to_an_earlier_position() -> None:
    layer = layer_of(positions=mh.Rotary(dim=4), num_kv_heads=G)
    x = inputs_of(layer, 9, 9)[0]
    full = layer(x, is_causal=True)
    _, cache = layer(x[:, :7], is_causal=True, kv_cache=mh.KVCache())
    again, _ = layer(x[:, 4:], is_causal=True, kv_cache=cache.crop(4))
    assert (again - full[:, 4:]).abs().max() < 1e-12
    assert cache.seq_len == 7, "the cache that was cropped stays as it is"
    assert cache.crop(0).seq_len == 0
    assert cache.crop(7).seq_len == 7
    for wrong in (-1, 8):
        with pytest.raises(ShapeError, match=rf"seq_len \({wrong}\) must be from 0 to 7"):
            cache.crop(wrong)


def test_reordering_and_selecting_move_samples_of_keys_and_values_together() -> None:
    cache = cache_of(3, 2)
    assert numbers_of(cache.reorder(torch.tensor([2, 0, 2]))) == [[20, 21], [0, 1], [20, 21]]
    assert numbers_of(cache.select(torch.tensor([1]))) == [[10, 11]]
    assert numbers_of(cache.select(torch.tensor([True, False, True]))) == [[0, 1], [20, 21]]
    assert numbers_of(cache) == [[0, 1], [10, 11], [20, 21]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda c: c.reorder(torch.tensor([0, 1])), r"beams has shape \(2,\).*each of the 3 rows"),
        (lambda c: c.reorder(torch.tensor([True] * 3)), r"beams has .* dtype torch.bool"),
        (lambda c: c.select(torch.tensor([3])), r"rows \(3 to 3\) must be .* from 0 to 2"),
        (lambda c: c.select(torch.tensor([-1, 0])), r"rows \(-1 to 0\) must be"),
        (lambda c: c.select(torch.tensor([True])), r"rows has shape \(1,\), expected \(B,\)"),
        (lambda c: c.select(torch.tensor([1.0])), r"rows has shape \(1,\) and dtype torch.float32"),
        (lambda c: c.select([0]), r"rows \(list\) must be a tensor of indices"),
        (lambda c: c.reorder([2, 1, 0]), r"beams \(list\) must be a tensor of indices"),
    ],
)
def test_rows_that_a_cache_does_not_have_are_refused(wrong: Any, message: str) -> None:
    with annotations_unchecked(), pytest.raises(ShapeError, match=message):
        wrong(cache_of(3, 2))


@pytest.mark.parametrize("wrong", [2.5, "3", None, True])
def test_a_cache_is_cropped_to_a_whole_number_only(wrong: Any) -> None:
    with annotations_unchecked(), pytest.raises(ConfigError, match=r"seq_len \(.*whole number"):
        cache_of(3, 2).crop(wrong)


def test_a_cache_changes_dtype_and_an_empty_one_stays_empty() -> None:
    moved = cache_of(3, 2).to("meta", torch.float64)
    assert moved.k is not None
    half = cache_of(3, 2).to(torch.float16)
    assert half.k is not None and half.k.dtype == torch.float16
    assert (moved.k.dtype, moved.k.device.type) == (torch.float64, "meta")
    empty, rows = mh.KVCache(), torch.tensor([0])
    assert not any(
        c.seq_len for c in (empty.crop(0), empty.reorder(rows), empty.select(rows), empty.to("cpu"))
    )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_rows_are_indices_in_every_integer_type(dtype: torch.dtype) -> None:
    cache, beams = cache_of(3, 2), torch.tensor([2, 0, 0])
    for move in (cache.reorder, cache.select):
        moved, expected = move(beams.to(dtype)), move(beams)
        assert moved.k is not None and expected.k is not None
        assert torch.equal(moved.k, expected.k)
