"""Models for the tests of `looking`; those of transformers need the extra `look`."""

import warnings
from typing import Any

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def quiet_transformers() -> None:
    """Transformers warns about small sizes and tokens outside small vocabularies."""
    try:
        from transformers import logging
    except ImportError:
        return
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=DeprecationWarning)


def sizes(**changes: Any) -> dict[str, Any]:
    """Small sizes of a configuration; free axes differ."""
    return {
        "vocab_size": 60,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 20,
        **changes,
    }


def small_model(name: str, dtype: torch.dtype = torch.float64, **changes: Any) -> nn.Module:
    """A model of transformers with random weights; vectors are not left at 0 or 1."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install manyheads[look]"
    )
    kind = getattr(transformers, name)
    torch.manual_seed(3)
    model = kind(kind.config_class(**changes))
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter.data, mean=float(parameter.detach().mean()), std=0.1)
        else:
            parameter.data.mul_(4.0)
    return model.to(dtype)


@pytest.fixture
def ids() -> torch.Tensor:
    """Token ids (2, 11)."""
    return torch.randint(3, 60, (2, 11), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def llama() -> nn.Module:
    """A decoder with groups of heads and rotary positions, as handed over: sdpa, in training."""
    return small_model("LlamaForCausalLM", **sizes(num_key_value_heads=2))


@pytest.fixture
def gpt2() -> nn.Module:
    """A decoder whose matrices are stored the other way round."""
    return small_model("GPT2LMHeadModel", vocab_size=60, n_embd=24, n_layer=2, n_head=4)


@pytest.fixture
def bert() -> nn.Module:
    """An encoder with norms on the stream."""
    return small_model("BertForMaskedLM", **sizes())
