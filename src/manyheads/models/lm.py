"""The studies' language models: one attention block, or an MLP on a fixed window of words."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.attention.last_query import LastQuery, last_query_folded
from manyheads.attention.module import MultiHeadAttention
from manyheads.core.errors import ShapeError
from manyheads.models.config import PAD_ID, ModelConfig, Pattern


class AttentionLM(nn.Module):
    """Predict the next word from the last word, after one attention block.

    Rows are word plus position; heads without biases read them; the last row plus its message goes
    through a hidden ReLU layer to the vocabulary. Words are aligned to the right: the last one has
    the last position row. Padding (id 0) is blocked as a source.

    Args:
        num_heads: H.
        vocab_size: V.
        context: T, number of words that a prediction sees.
        width: D.
        hidden: units of the hidden layer.
        head_dim: d, width / H unless given.
        pattern: as in `ModelConfig`.

    Raises:
        ConfigError: sizes that no model can have.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        vocab_size: int = 4000,
        context: int = 64,
        width: int = 64,
        hidden: int = 256,
        head_dim: int | None = None,
        pattern: Pattern = "learned",
    ) -> None:
        super().__init__()
        self.config = ModelConfig(
            kind="attention",
            num_heads=num_heads,
            head_dim=head_dim,
            pattern=pattern,
            vocab_size=vocab_size,
            context=context,
            width=width,
            hidden=hidden,
        )
        self.token_embedding = nn.Embedding(vocab_size, width)
        self.position_embedding = nn.Embedding(context, width)
        d, joined = self.config.width_of_head, num_heads * self.config.width_of_head
        is_shared = pattern == "shared"
        # All heads sharing one pattern are one head with a narrow query and a wide value.
        self.attention = MultiHeadAttention(
            width,
            1 if is_shared else num_heads,
            head_dim=d,
            v_head_dim=joined if is_shared else d,
            bias=False,
        )
        self.hidden = nn.Linear(width, hidden)
        self.output = nn.Linear(hidden, vocab_size)
        if pattern == "uniform":
            with torch.no_grad():  # scores of zero: equal weights for all visible words
                self.query_rows.zero_()

    @property
    def query_rows(self) -> Float[Tensor, "R D"]:
        """The rows (R, D) of the input projection that make queries, a view."""
        stacked = self.attention.in_proj_weight
        assert stacked is not None
        config = self.attention.config
        return stacked[: config.num_heads * config.head_dim]

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        head_mask: Float[Tensor, " H"] | None = None,
        need_weights: bool = False,
    ) -> Float[Tensor, "B V"] | tuple[Float[Tensor, "B V"], Float[Tensor, "B H T"]]:
        """Predict what follows the last word.

        Args:
            tokens: (B, T), at most `context` ids; padding on the left.
            head_mask: (H,), factor of each head's message before the output projection.
            need_weights: return the last row's weights too.

        Returns:
            logits (B, V), with weights (B, H, T) where they are asked for.

        Raises:
            ShapeError: too many words, or a head_mask of another length.
        """
        x = self.rows(tokens)
        asked = self._ask(x, tokens == PAD_ID)
        outputs = asked.head_outputs  # (B, H, v)
        if self.config.pattern == "shared":
            outputs = outputs.unflatten(2, (self._num_heads, -1))[:, 0]  # (B, H, d)
        if head_mask is not None:
            self._check_head_mask(head_mask)
            outputs = outputs * head_mask[:, None]
        message = self.attention.out_proj(outputs.flatten(1))  # (B, H, d) to (B, D)
        logits = self.predict(x[:, -1] + message)
        if not need_weights:
            return logits
        return logits, asked.attn_weights.expand(-1, self._num_heads, -1)

    def all_rows(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """The full causal pass: logits (B, T, V) of every row of tokens (B, T).

        The last row is what `forward` gives; the others keep the position rows of this window.
        """
        x = self.rows(tokens)
        message = self.attention(x, key_padding_mask=tokens == PAD_ID, is_causal=True)
        return self.predict(x + message)

    def rows(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Word plus position, (B, T, D), of tokens (B, T), aligned to the right.

        Raises:
            ShapeError: more words than the model can see.
        """
        T, context = tokens.shape[1], self.config.context
        if not 1 <= T <= context:
            raise ShapeError(
                f"tokens has {T} words, expected 1 to {context}: use the last {context}"
            )
        words: Tensor = self.token_embedding(tokens)  # (B, T, D)
        return words + self.position_embedding.weight[context - T :]

    def predict(self, rows: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """Logits (..., V) from updated rows (..., D)."""
        logits: Tensor = self.output(F.relu(self.hidden(rows)))
        return logits

    def _ask(self, x: Tensor, blocked: Tensor) -> LastQuery:
        weights, scale = self.attention.head_weights(), self.attention.config.scale
        return last_query_folded(x, weights, scale=scale, blocked=blocked)

    @property
    def _num_heads(self) -> int:
        return self.config.num_heads or 0

    def _check_head_mask(self, head_mask: Tensor) -> None:
        if head_mask.shape != (self._num_heads,):
            raise ShapeError(
                f"head_mask has shape {tuple(head_mask.shape)}, expected (H,) = "
                f"({self._num_heads},): give one factor per head"
            )


class FixedWindowMLP(nn.Module):
    """Predict the next word from the joined rows of a window of fixed length.

    Args:
        vocab_size: V.
        context: T, length of the window.
        width: D, width of a word's embedding.
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
            raise ShapeError(
                f"tokens has {T} words, expected 1 to {context}: use the last {context}"
            )
        window = F.pad(tokens, (context - T, 0), value=PAD_ID)
        joined = self.token_embedding(window).flatten(1)  # (B, T, D) to (B, T*D)
        logits: Tensor = self.output(F.relu(self.hidden(joined)))  # (B, V)
        return logits
