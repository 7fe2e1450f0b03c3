"""Small models with drawn weights, and windows of ids, for tests of the models."""

from typing import Any

import torch
from torch import Tensor, nn

from manyheads.models import ModelConfig, build_model
from tests.factories import random_like

V, T, D, U = 17, 7, 12, 10  # vocabulary, context, width, hidden

KINDS: dict[str, dict[str, Any]] = {
    "mlp": {"kind": "fixed-window-mlp"},
    "one head": {"kind": "attention", "num_heads": 1},
    "three heads": {"kind": "attention", "num_heads": 3},
    "five heads of width 2": {"kind": "attention", "num_heads": 5, "head_dim": 2},
    "uniform": {"kind": "attention", "num_heads": 3, "pattern": "uniform"},
    "shared": {"kind": "attention", "num_heads": 3, "pattern": "shared"},
    "shared, wide heads": {
        "kind": "attention",
        "num_heads": 2,
        "head_dim": 9,
        "pattern": "shared",
    },
}
ATTENTION = [name for name in KINDS if name != "mlp"]


def config_of(kind: str, **sizes: int) -> ModelConfig:
    """A small configuration of one of `KINDS`."""
    return ModelConfig(
        **KINDS[kind], **({"vocab_size": V, "context": T, "width": D, "hidden": U} | sizes)
    )


def model_of(kind: str, seed: int = 0) -> Any:
    """A small model in float64, all its numbers drawn, but for what its kind keeps at zero."""
    model = build_model(config_of(kind)).double()
    draw(model, seed)
    if kind == "uniform":
        with torch.no_grad():
            model.query_rows.zero_()
    return model


@torch.no_grad()
def draw(model: nn.Module, seed: int = 0, size: float = 0.5) -> None:
    """Draw all parameters, so that none is zero."""
    for index, parameter in enumerate(model.parameters()):
        parameter.copy_(size * random_like(seed + index, *parameter.shape))


def ids(seed: int, batch: int, length: int, low: int = 1) -> Tensor:
    """Random ids without padding, (B, T)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, V, (batch, length), generator=generator)


def padded(tokens: Tensor, *counts: int) -> Tensor:
    """The first `count` ids of each sample replaced by padding, (B, T)."""
    return tokens.masked_fill(torch.arange(tokens.shape[1]) < torch.tensor(counts)[:, None], 0)
