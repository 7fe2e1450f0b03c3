"""Small language models, all built on the package's own attention."""

from typing import TYPE_CHECKING

from manyheads.models.config import ModelConfig

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ModelConfig", "build_model"]


def build_model(config: ModelConfig) -> "nn.Module":
    """Build a model, with initial values from torch's global generator.

    Args:
        config: its kind and sizes.
    """
    sizes = {name: getattr(config, name) for name in ("vocab_size", "context", "width", "hidden")}
    if config.num_heads is None:
        from manyheads.models.lm import FixedWindowMLP

        return FixedWindowMLP(**sizes)
    from manyheads.models.lm import AttentionLM

    return AttentionLM(config.num_heads, head_dim=config.head_dim, pattern=config.pattern, **sizes)
