"""TinyGPT: a small decoder of pre-norm blocks, each with attention and a feed-forward network.

It returns every layer's weights, traces and caches. Choosing the next token and training are not
part of it.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manyheads.attention.cache import KVCache
from manyheads.attention.module import MultiHeadAttention
from manyheads.core.config import Form, Rotary
from manyheads.core.errors import ShapeError
from manyheads.core.masks import allowed_from_blocked, check_key_padding_mask
from manyheads.core.trace import AttentionTrace
from manyheads.models.config import GPTConfig


class FeedForward(nn.Module):
    """Two linear maps with a GELU between, at each position alone.

    Args:
        width: D.
        hidden: units between the two maps.
        bias: whether both maps have one.
        dropout: fraction of outputs dropped in training, 0 to 1.

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
    """Causal attention, then a feed-forward network, each with a norm and a residual.

    Args:
        width: D.
        num_heads: H.
        num_kv_heads: G, H unless given.
        hidden: units of the feed-forward net.
        bias: whether projections, maps and norms have one.
        dropout: fraction of weights and outputs dropped in training, 0 to 1.
        positions: rotary positions, or None.
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
        """Add the outputs of attention and of the feed-forward network.

        Args:
            x: the stream, (B, T, D).
            kv_cache: keys and values of earlier positions; `KVCache()` if there are none.
            key_padding_mask: (B, S), True = padding, S counting cached keys too.
            need_weights: whether to return the weights.

        Returns:
            the stream (B, T, D), the weights (B, H, T, S) if asked for, and the longer cache.
        """
        result = self.attention(
            self.attention_norm(x),
            is_causal=True,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            kv_cache=kv_cache,
        )
        weights = result[1] if len(result) == 3 else None
        return self._after(x, result[0]), weights, result[-1]

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


Weights = tuple[Float[Tensor, "B H T S"], ...]
Caches = tuple[KVCache, ...]
Result = Tensor | tuple[Tensor, Weights] | tuple[Tensor, Caches] | tuple[Tensor, Weights, Caches]


class TinyGPT(nn.Module):
    """A stack of pre-norm blocks between a token embedding and an output over the vocabulary.

    Args:
        config: sizes and flags.
        form: which form of attention computes the output; `model.form = "loop"` switches it.
        generator: draws the initial values; torch's global one unless given.

    Source: Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.3.
    """

    def __init__(
        self,
        config: GPTConfig,
        *,
        form: Form = "fused",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.width)
        learned = config.positions == "learned"
        self.position_embedding = nn.Embedding(config.context, config.width) if learned else None
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(_block(config, form) for _ in range(config.num_layers))
        self.final_norm = nn.LayerNorm(config.width, bias=config.bias)
        self.output = nn.Linear(config.width, config.vocab_size, bias=False)
        if config.tie_weights:
            self.output.weight = self.token_embedding.weight
        self.form = form
        self.reset_parameters(generator)

    @property
    def form(self) -> Form:
        """Which form of attention computes the output; may be set at any time."""
        return self._form

    @form.setter
    def form(self, form: Form) -> None:
        for block in self._blocks():
            block.attention.form = form
        self._form: Form = form

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw initial values: normal with standard deviation 0.02, biases 0, norms 1.

        Output projections, two per block, are divided by sqrt(2 num_layers), so that the
        residual stream does not grow with depth.

        Args:
            generator: draws the values; torch's global one unless given.

        Source: Radford et al. 2019, section 2.3; 0.02 as in Radford et al. 2018, section 4.1.
        """
        smaller = 0.02 / math.sqrt(2 * self.config.num_layers)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif parameter.dim() == 1:
                parameter.fill_(1.0)
            else:
                adds = name.endswith(("out_proj.weight", "contract.weight"))
                parameter.normal_(0.0, smaller if adds else 0.02, generator=generator)

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters; a tied embedding counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def new_caches(self) -> Caches:
        """One empty cache per layer."""
        return tuple(KVCache() for _ in self.blocks)

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        *,
        key_padding_mask: Bool[Tensor, "B S"] | None = None,
        need_weights: bool = False,
        kv_caches: Sequence[KVCache] | None = None,
    ) -> Result:
        """Logits of the next token after every position.

        Positions are counted from the first token that is not padding, so that padding on either
        side changes nothing. Logits at padding have no meaning.

        Args:
            tokens: ids, (B, T).
            key_padding_mask: (B, S), True = padding, S counting cached tokens too.
            need_weights: return every layer's weights too.
            kv_caches: one cache per layer, `model.new_caches()` to begin with.

        Returns:
            logits (B, T, V), then a tuple of weights (B, H, T, S), one per layer, if asked for,
            then the longer caches if some were given.

        Raises:
            ShapeError: tokens of another shape or dtype or outside the vocabulary, more positions
                than the context, or another number of caches than layers.
        """
        caches = self._checked_caches(kv_caches)
        x = self._embed(tokens, key_padding_mask, caches[0].seq_len)
        weights, longer = [], []
        for block, cache in zip(self._blocks(), caches, strict=True):
            x, seen, cache = block(
                x, key_padding_mask=key_padding_mask, need_weights=need_weights, kv_cache=cache
            )
            weights.append(seen)
            longer.append(cache)
        logits: Tensor = self.output(self.final_norm(x))  # (B, T, V)
        asked = ((tuple(weights), need_weights), (tuple(longer), kv_caches is not None))
        rest = tuple(part for part, is_asked in asked if is_asked)
        return (logits, *rest) if rest else logits  # type: ignore[return-value]  # by what is asked

    def traces(
        self, tokens: Int64[Tensor, "B T"], *, key_padding_mask: Bool[Tensor, "B S"] | None = None
    ) -> tuple[AttentionTrace, ...]:
        """Every intermediate of every layer's attention, first layer first.

        Args:
            tokens: ids, (B, T).
            key_padding_mask: (B, S), True = padding.

        Raises:
            ConfigError: dropout is active: call `model.eval()` first.
            ShapeError: as in `forward`.
        """
        x, traces = self._embed(tokens, key_padding_mask, 0), []
        for block in self._blocks():
            x, trace = block.trace(x, key_padding_mask=key_padding_mask)
            traces.append(trace)
        return tuple(traces)

    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    def _embed(self, tokens: Tensor, padding: Tensor | None, past: int) -> Tensor:
        """The stream before the first block, (B, T, D)."""
        _check_tokens(tokens, past, self.config.context)
        try:
            x: Tensor = self.token_embedding(tokens)
        except IndexError as error:
            raise ShapeError(
                f"tokens (ids {int(tokens.min())} to {int(tokens.max())}) must be from 0 to "
                f"{self.config.vocab_size - 1}: use the tokenizer of this model"
            ) from error
        if self.position_embedding is not None:
            x = x + self.position_embedding(_places(tokens, padding, past))
        result: Tensor = self.dropout(x)
        return result

    def _checked_caches(self, kv_caches: Sequence[KVCache] | None) -> Caches:
        caches = self.new_caches() if kv_caches is None else tuple(kv_caches)
        if len(caches) != len(self.blocks):
            raise ShapeError(
                f"kv_caches ({len(caches)} of them) must be one per layer, {len(self.blocks)}: "
                "start with model.new_caches()"
            )
        return caches


def _block(config: GPTConfig, form: Form) -> Block:
    return Block(
        config.width,
        config.num_heads,
        num_kv_heads=config.num_kv_heads,
        hidden=config.feed_forward_width,
        bias=config.bias,
        dropout=config.dropout,
        positions=config.rotary,
        form=form,
    )


def _check_tokens(tokens: Tensor, past: int, context: int) -> None:
    if tokens.dim() != 2 or tokens.dtype != torch.int64 or tokens.shape[1] == 0:
        raise ShapeError(
            f"tokens has shape {tuple(tokens.shape)} and dtype {tokens.dtype}, expected (B, T) "
            "and torch.int64: give one id or more for each sample"
        )
    if past + tokens.shape[1] > context:
        raise ShapeError(
            f"tokens ({past} cached and {tokens.shape[1]} new) must not exceed context "
            f"({context}): give the last {context} tokens, with new caches"
        )


def _places(tokens: Tensor, padding: Tensor | None, past: int) -> Tensor:
    """Position of each token, (T) or (B, T), counted from the first that is not padding."""
    total = past + tokens.shape[1]
    if padding is None:
        return torch.arange(past, total, device=tokens.device)
    check_key_padding_mask(padding, tokens.shape[0], total)
    counted = allowed_from_blocked(padding).cumsum(1) - 1
    return counted.clamp(min=0)[:, past:]
