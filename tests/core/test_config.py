"""Sizes and flags: defaults, and every refusal with the argument, its value and a remedy."""

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

import manyheads as mh
from manyheads.core.config import AttentionConfig
from manyheads.core.errors import ConfigError
from tests.factories import annotations_unchecked

NAN, INF = float("nan"), float("inf")


def test_defaults_are_filled_in() -> None:
    config = AttentionConfig.of(embed_dim=12, num_heads=3)
    assert (config.num_kv_heads, config.head_dim, config.v_head_dim) == (3, 4, 4)
    assert (config.kdim, config.vdim, config.scale) == (12, 12, 0.5)
    assert (config.bias, config.out_bias, config.window, config.positions) == (
        True,
        True,
        None,
        None,
    )
    assert config.has_one_input_width
    assert config.projection_widths == (12, 12, 12)
    assert config.concat_dim == 12
    assert not AttentionConfig.of(embed_dim=12, num_heads=3, bias=False).out_bias


def test_given_sizes_win_over_defaults() -> None:
    config = AttentionConfig.of(
        embed_dim=7, num_heads=6, num_kv_heads=3, head_dim=4, v_head_dim=5, kdim=8, vdim=9,
        bias=False, out_bias=True, scale=0.0, window=2, dropout=0.5,
    )  # fmt: skip
    assert config.projection_widths == (24, 12, 15)
    assert config.concat_dim == 30
    assert not config.has_one_input_width
    assert (config.scale, config.window, config.dropout, config.out_bias) == (0.0, 2, 0.5, True)
    for name in ("kdim", "vdim"):
        assert not AttentionConfig.of(embed_dim=4, num_heads=2, **{name: 5}).has_one_input_width


def test_whole_numbers_of_numpy_become_plain_ones() -> None:
    config = AttentionConfig.of(embed_dim=8, num_heads=np.int64(2), window=np.int32(3))
    assert type(config.num_heads) is int
    assert type(config.num_kv_heads) is int
    assert type(config.window) is int


def test_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        AttentionConfig.of(embed_dim=8, num_heads=2).num_heads = 4  # type: ignore[misc]  # on purpose


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"num_heads": 3},
        r"num_heads \(3\) must divide embed_dim \(8\): use 1, 2, 4 or 8, or pass head_dim",
    ),
    (
        {"embed_dim": 7, "num_heads": 2},
        r"num_heads \(2\) must divide embed_dim \(7\): use 1 or 7, or",
    ),
    ({"embed_dim": 10**12 + 1, "num_heads": 2}, r"must divide embed_dim \(1000000000001\)"),
    ({"embed_dim": 720, "num_heads": 7}, r"use 1, 2, 3, 4, 5, ... or 720, or"),
    ({"num_heads": 16}, r"num_heads \(16\) must divide embed_dim \(8\)"),
    (
        {"num_heads": 6, "head_dim": 4, "num_kv_heads": 4},
        r"num_kv_heads \(4\) must divide num_heads \(6\): use 1, 2, 3 or 6",
    ),
    ({"num_kv_heads": 4}, r"num_kv_heads \(4\) must divide num_heads \(2\): use 1 or 2"),
    ({"embed_dim": 0}, r"embed_dim \(0\) must be at least 1"),
    ({"num_heads": 0}, r"num_heads \(0\) must be at least 1"),
    ({"num_heads": -2}, r"num_heads \(-2\) must be at least 1"),
    ({"num_kv_heads": 0}, r"num_kv_heads \(0\) must be at least 1"),
    ({"head_dim": 0}, r"head_dim \(0\) must be at least 1"),
    ({"v_head_dim": -1}, r"v_head_dim \(-1\) must be at least 1"),
    ({"kdim": 0}, r"kdim \(0\) must be at least 1"),
    ({"vdim": 0}, r"vdim \(0\) must be at least 1"),
    ({"window": 0}, r"window \(0\) must be at least 1"),
    ({"window": 2.5}, r"window \(2.5\) must be a whole number"),
    ({"embed_dim": 8.0}, r"embed_dim \(8.0\) must be a whole number: use an int"),
    ({"embed_dim": "8"}, r"embed_dim \('8'\) must be a whole number"),
    ({"num_heads": True}, r"num_heads \(True\) must be a whole number"),
    ({"window": True}, r"window \(True\) must be a whole number"),
    ({"bias": 1}, r"bias \(1\) must be a bool: use True or False"),
    ({"out_bias": "no"}, r"out_bias \('no'\) must be a bool: use True or False"),
    ({"scale": -0.5}, r"scale \(-0.5\) must not be negative: use None for 1/sqrt\(head_dim\)"),
    ({"scale": NAN}, r"scale \(nan\) must be a finite number: use None"),
    ({"scale": INF}, r"scale \(inf\) must be a finite number"),
    ({"scale": -INF}, r"scale \(-inf\) must be a finite number"),
    ({"scale": True}, r"scale \(True\) must be a finite number"),
    ({"embed_dim": 32, "num_heads": 5}, r"use 1, 2, 4, 8, 16 or 32, or pass head_dim"),
    ({"embed_dim": 64, "num_heads": 5}, r"use 1, 2, 4, 8, 16, \.\.\. or 64, or pass head_dim"),
    ({"embed_dim": 1, "num_heads": 2}, r"use 1, or pass head_dim"),
    ({"scale": 2**1024 - 1}, r"scale \(1797.*\d\) must be a finite number"),
    ({"scale": 2**1024}, r"scale \(an int of 1025 bits\) must be a finite number"),
    ({"scale": 10**400}, r"scale \(an int of 1329 bits\) must be a finite number: use None"),
    ({"scale": "0.5"}, r"scale \('0.5'\) must be a finite number"),
    ({"dropout": 1.0}, r"dropout \(1.0\) must be at least 0 and below 1: use a fraction"),
    ({"dropout": -0.1}, r"dropout \(-0.1\) must be at least 0 and below 1"),
    ({"dropout": NAN}, r"dropout \(nan\) must be a finite number"),
    ({"dropout": None}, r"dropout \(None\) must be a finite number"),
    (
        {"positions": "rope"},
        r"positions \('rope'\) must be Rotary\(...\), LinearBias\(...\) or None",
    ),
    ({"positions": mh.Rotary, "head_dim": 4}, r"positions \(<class .*Rotary'>\) must be Rotary"),
    (
        {"positions": mh.Rotary(), "head_dim": 5},
        r"head_dim \(5\) must be even for rotary positions: use 6",
    ),
    ({"positions": mh.Rotary(dim=6)}, r"positions.dim \(6\) must not exceed head_dim \(4\): use 4"),
    (
        {"positions": mh.LinearBias(slopes=(0.5,))},
        r"positions.slopes \(1 values\) must be one per head: give 2",
    ),
]


@pytest.mark.parametrize(("change", "words"), WRONG, ids=lambda value: str(value)[:60])
def test_config_and_layer_refuse(change: dict[str, Any], words: str) -> None:
    options = {"embed_dim": 8, "num_heads": 2} | change
    for make in (AttentionConfig.of, mh.MultiHeadAttention):
        with annotations_unchecked(), pytest.raises(ConfigError, match=words) as caught:
            make(**options)
        assert isinstance(caught.value, mh.ManyHeadsError)
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("make", "change", "words"),
    [
        (mh.Rotary, {"base": 0.0}, r"base \(0.0\) must be positive: use 10000.0"),
        (mh.Rotary, {"base": -1.0}, r"base \(-1.0\) must be positive"),
        (mh.Rotary, {"base": NAN}, r"base \(nan\) must be a finite number"),
        (mh.Rotary, {"style": "whole"}, r"style \('whole'\) is not a rotary pairing: use \"half\""),
        (mh.Rotary, {"dim": 3}, r"dim \(3\) must be even, channels are rotated in pairs: use 2"),
        (mh.Rotary, {"dim": 0}, r"dim \(0\) must be at least 2"),
        (mh.LinearBias, {"slopes": (1.0, INF)}, r"slopes \(inf\) must be a finite number"),
        (mh.LinearBias, {"slopes": 0.5}, r"slopes \(0.5\) must be a tuple: give one per head"),
        (mh.LinearBias, {"slopes": ("a",)}, r"slopes \('a'\) must be a finite number"),
    ],
)
def test_positions_refuse(make: Any, change: dict[str, Any], words: str) -> None:
    with annotations_unchecked(), pytest.raises(ConfigError, match=words):
        make(**change)


def test_positions_may_be_given_by_list_and_by_partial_width() -> None:
    with annotations_unchecked():
        assert mh.LinearBias(slopes=[1, 2]).slopes == (1.0, 2.0)  # type: ignore[arg-type]  # as users do
    assert AttentionConfig.of(embed_dim=10, num_heads=2, positions=mh.Rotary(dim=4)).head_dim == 5
