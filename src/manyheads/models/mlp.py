"""The fixed-window language model: all word rows of the window joined, one hidden layer."""

from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.core.errors import ShapeError
from manyheads.models.config import ModelConfig
from manyheads.models.special_ids import PAD_ID


class FixedWindowMLP(nn.Module):
    """Predict the next word from the joined rows of a window of fixed length.

    Args:
        vocab_size: V.
        context: T, length of the window.
        width: D, width of a word's row.
        hidden: units of the hidden layer.

    Raises:
        ConfigError: sizes that no model can have.

    Source: Bengio et al. 2003, A Neural Probabilistic Language Model, section 2.
    """

    def __init__(
        self, *, vocab_size: int = 4000, context: int = 64, width: int = 64, hidden: int = 256
    ) -> None:
        super().__init__()
        self.config = ModelConfig(
            kind="fixed-window-mlp",
            vocab_size=vocab_size,
            context=context,
            width=width,
            hidden=hidden,
        )
        self.token_embedding = nn.Embedding(vocab_size, width)
        self.hidden = nn.Linear(context * width, hidden)
        self.output = nn.Linear(hidden, vocab_size)

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B V"]:
        """Predict what follows the last word.

        Args:
            tokens: (B, T), at most `context` ids; fewer are padded on the left with id 0.

        Returns:
            logits (B, V).

        Raises:
            ShapeError: more words than the window holds.
        """
        T, context = tokens.shape[1], self.config.context
        if not 1 <= T <= context:
            raise ShapeError(f"tokens has {T} words, expected 1 to {context}: cut on the left")
        window = F.pad(tokens, (context - T, 0), value=PAD_ID)
        joined = self.token_embedding(window).flatten(1)  # (B, T, D) to (B, T*D)
        logits: Tensor = self.output(F.relu(self.hidden(joined)))  # (B, V)
        return logits
