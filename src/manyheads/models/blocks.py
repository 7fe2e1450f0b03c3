"""Pre-norm transformer blocks: attention and a feed-forward net, each added to the stream.

What comes before the first block and after the last is left to the models.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.attention.cache import KVCache
from manyheads.attention.module import Form, MultiHeadAttention
from manyheads.core.config import Rotary
from manyheads.core.trace import AttentionTrace


class FeedForward(nn.Module):
    """Two linear maps with a GELU between, at each position alone.

    Args:
        width: D.
        hidden: units between the two maps.
        bias: whether both maps have one.
        dropout: share of outputs dropped in training, a fraction from 0 to 1.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3; GELU as in Radford et al. 2019.
    """

    def __init__(self, width: int, hidden: int, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(width, hidden, bias=bias)
        self.activation = nn.GELU(approximate="tanh")
        self.contract = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Map each position.

        Args:
            x: (B, T, D).
        """
        hidden: Tensor = self.activation(self.expand(x))  # (B, T, hidden)
        result: Tensor = self.dropout(self.contract(hidden))
        return result


class Block(nn.Module):
    """Causal attention, then a feed-forward net; each reads a normalised stream and adds to it.

    Args:
        width: D.
        num_heads: H.
        num_kv_heads: G, H unless given.
        hidden: units of the feed-forward net.
        bias: whether projections, maps and norms have one.
        dropout: share of weights and of outputs dropped in training, a fraction from 0 to 1.
        positions: turning of q and k, or None.
        form: as in `MultiHeadAttention`.

    Source: pre-norm as in Radford et al. 2019, section 2.3, and Xiong et al. 2020,
    arXiv:2002.04745.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        *,
        hidden: int,
        num_kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        positions: Rotary | None = None,
        form: Form = "fused",
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, bias=bias)
        self.attention = MultiHeadAttention(
            embed_dim=width,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            bias=bias,
            dropout=dropout,
            positions=positions,
            form=form,
        )
        self.dropout = nn.Dropout(dropout)
        self.feed_forward_norm = nn.LayerNorm(width, bias=bias)
        self.feed_forward = FeedForward(width, hidden, bias=bias, dropout=dropout)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        kv_cache: KVCache,
        key_padding_mask: Bool[Tensor, "B S"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"] | None, KVCache]:
        """Add what attention and the feed-forward net say.

        Args:
            x: the stream, (B, T, D).
            kv_cache: keys and values of earlier positions; `KVCache()` where there are none.
            key_padding_mask: (B, S), True = padding, S counting cached keys too.
            need_weights: whether to return the weights.

        Returns:
            the stream (B, T, D), the weights (B, H, T, S) if asked for, and the longer cache.
        """
        message, *rest, cache = self.attention(
            self.attention_norm(x),
            is_causal=True,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            kv_cache=kv_cache,
        )
        return self._after(x, message), rest[0] if rest else None, cache

    def trace(
        self, x: Float[Tensor, "B T D"], *, key_padding_mask: Bool[Tensor, "B S"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], AttentionTrace]:
        """The stream (B, T, D) after the block, and every intermediate of its attention.

        Args:
            x: the stream, (B, T, D).
            key_padding_mask: (B, S), True = padding.

        Raises:
            ConfigError: dropout is active.
        """
        trace = self.attention.trace(
            self.attention_norm(x), is_causal=True, key_padding_mask=key_padding_mask
        )
        return self._after(x, trace.output), trace

    def _after(self, x: Tensor, message: Tensor) -> Tensor:
        x = x + self.dropout(message)
        result: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return result
