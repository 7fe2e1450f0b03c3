"""GPTConfig: counts of parameters, JSON, and sizes that no model can have."""

from typing import Any

import pytest

from manyheads.core.errors import ConfigError
from manyheads.models.config import GPTConfig
from manyheads.models.gpt import TinyGPT
from tests.factories import annotations_unchecked
from tests.models.test_gpt import CONFIGS


@pytest.mark.parametrize("name", CONFIGS)
def test_count_of_the_configuration_is_what_the_model_stores(name: str) -> None:
    model = TinyGPT(CONFIGS[name])
    assert model.num_parameters == CONFIGS[name].num_parameters


def test_gpt_2_of_the_paper_has_124_439_808_parameters() -> None:
    sizes = GPTConfig(vocab_size=50257, context=1024, width=768, num_layers=12, num_heads=12)
    assert sizes.num_parameters == 124_439_808


def test_configuration_survives_json() -> None:
    for config in CONFIGS.values():
        assert GPTConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ConfigError, match=r"config \(depth\) has unknown fields: use vocab_size"):
        GPTConfig.from_dict({"depth": 3})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_heads": 5}, r"num_heads \(5\) must divide embed_dim \(64\)"),
        ({"num_kv_heads": 3}, r"num_kv_heads \(3\) must divide num_heads \(4\)"),
        ({"num_layers": 0}, r"num_layers \(0\) must be at least 1"),
        ({"hidden": 0}, r"hidden \(0\) must be at least 1"),
        ({"width": 2.5}, r"width \(2.5\) must be a whole number"),
        ({"vocab_size": None}, r"vocab_size \(None\) must be a whole number"),
        ({"dropout": 1.0}, r"dropout \(1.0\) must be at least 0 and below 1"),
        ({"bias": 1}, r"bias \(1\) must be a bool"),
        ({"positions": "sine"}, r"positions \('sine'\) is not known"),
        ({"positions": "rotary", "num_heads": 64}, r"head_dim \(1\) must be even"),
    ],
)
def test_sizes_that_no_model_can_have_are_refused(fields: dict[str, Any], words: str) -> None:
    with annotations_unchecked(), pytest.raises(ConfigError, match=words):
        GPTConfig(**fields)
