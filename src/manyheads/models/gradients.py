"""Losses and their gradients by hand: what a training step computes, and nothing else.

Each function adds to gradients that are handed in. One window serves a block of n neighbouring
targets: target i of a window reads its ids i to i + T - 1, and positions are counted from the
asking word, so a block gives exactly what n windows of their own would give.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manyheads.models.config import ModelConfig
from manyheads.models.numbers import Numbers
from manyheads.models.vocabulary import vocabulary_step

_BLOCKED = -1e30  # finite, so that a row without any key, which is no target, makes no NaN


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """The layer before the vocabulary, and the gradient that comes back to it."""

    rows: Float[Tensor, "N R"]
    """What enters the hidden layer, (N, R)."""
    units: Float[Tensor, "N U"]
    """After ReLU, (N, U)."""


def hidden_units(numbers: Numbers, rows: Float[Tensor, "N R"]) -> Hidden:
    """Compute the hidden layer of rows (N, R)."""
    weight, bias = numbers.params["hidden.weight"], numbers.params["hidden.bias"]
    units = torch.addmm(bias, rows, weight.T)
    return Hidden(rows=rows, units=units.relu_())


def hidden_back(numbers: Numbers, made: Hidden, back: Float[Tensor, "N U"]) -> Float[Tensor, "N R"]:
    """Gradient for the rows (N, R) that entered the hidden layer.

    Args:
        numbers: with `hidden.weight` and `hidden.bias`.
        made: what `hidden_units` gave.
        back: gradient for the units (N, U); overwritten.
    """
    back.mul_(made.units > 0)
    numbers.grads["hidden.weight"].addmm_(back.T, made.rows)
    numbers.grads["hidden.bias"].add_(back.sum(dim=0))
    weight = numbers.params["hidden.weight"]
    to_rows = numbers.space.take("to_rows", made.rows.shape, weight)
    return torch.mm(back, weight, out=to_rows)


def mlp_step(
    config: ModelConfig,
    numbers: Numbers,
    tokens: Int64[Tensor, "B S"],
    targets: Int64[Tensor, "B n"],
) -> Float[Tensor, ""]:
    """Loss of the fixed-window MLP, summed over targets, in nats; gradients are added.

    Args:
        config: sizes.
        numbers: of the model.
        tokens: (B, S), S = T + n - 1.
        targets: (B, n); 0 = none.
    """
    (B, n), (T, D) = targets.shape, (config.context, config.width)
    words = numbers.words(tokens)  # (B, S, D)
    rows = words.flatten(1).unfold(1, T * D, D).reshape(B * n, T * D)
    made = hidden_units(numbers, rows)
    loss, back = vocabulary_step(numbers, made.units, targets.flatten())
    to_rows = hidden_back(numbers, made, back).view(B, n, T * D)
    if n == 1:
        to_words = to_rows
    else:
        to_words = torch.zeros_like(words).flatten(1)  # (B, S*D)
        for i in range(n):
            to_words[:, i * D : (i + T) * D] += to_rows[:, i]
    numbers.add_words(tokens, to_words.view(words.shape))
    return loss


def attention_step(
    config: ModelConfig,
    numbers: Numbers,
    tokens: Int64[Tensor, "B S"],
    targets: Int64[Tensor, "B n"],
) -> Float[Tensor, ""]:
    """Loss of the attention model, summed over targets, in nats; gradients are added.

    W_K is folded into the asking rows and W_V is applied to the mixed rows, so neither keys nor
    values of all rows are formed. Arguments as in `mlp_step`.
    """
    block = _AttentionBlock(config, numbers, tokens, targets.shape[1])
    made = hidden_units(numbers, block.forward())
    loss, back = vocabulary_step(numbers, made.units, targets.flatten())
    block.backward(hidden_back(numbers, made, back))
    return loss


class _AttentionBlock:
    """One attention block with a residual, forwards and backwards, for n queries a window.

    Of a window's S rows, query i uses the T from i on, in each case with the same T position rows.
    With one query the position rows are added to the words once; with more, scores and messages
    are split into what depends on the word, which is one product for all queries of a window, and
    what depends on the place.
    """

    def __init__(self, config: ModelConfig, numbers: Numbers, tokens: Tensor, n: int) -> None:
        self.numbers, self.tokens, self.n = numbers, tokens, n
        self.params, self.grads = numbers.params, numbers.grads
        self.places = self.params["position_embedding.weight"]
        self.B, self.S = tokens.shape
        self.T, self.D = config.context, config.width
        joined = (config.num_heads or 0) * config.width_of_head
        self.H = 1 if config.pattern == "shared" else config.num_heads or 0
        self.d, self.v = config.width_of_head, joined // self.H
        self.scale = 1.0 / math.sqrt(self.d)
        self.sizes = [self.H * self.d, self.H * self.d, self.H * self.v]
        self.is_frozen = config.pattern == "uniform"

    def forward(self) -> Tensor:
        """The updated rows of the asking words, (B*n, D)."""
        B, T, n, H, D = self.B, self.T, self.n, self.H, self.D
        w_q, w_k, w_v = self.params["attention.in_proj_weight"].split(self.sizes)
        self.w_k, self.w_v = w_k.view(H, self.d, D), w_v.view(H, self.v, D)
        self.words = self.numbers.words(self.tokens)  # (B, S, D)
        if n == 1:
            self.words += self.places
            self.asking = self.words[:, -1].contiguous()
        else:
            self.asking = (self.words[:, T - 1 :] + self.places[T - 1]).view(B * n, D)
        self.q = self._by_head(self.asking @ w_q.T, self.d)  # (H, N, d)
        self.asked = self._by_window(torch.bmm(self.q, self.w_k).mul_(self.scale))  # (B, n*H, D)
        padding = (self.tokens == 0).unfold(1, T, 1)  # (B, n, T)
        scores = self._products(self.asked).masked_fill_(padding[:, :, None], _BLOCKED)
        self.weights = torch.softmax(scores, dim=-1)  # (B, n, H, T)
        self.spread = self._spread("weights", self.weights)  # (B, n*H, S)
        mixed = self._mixture(self.spread, self.weights)
        self.mixed = self._by_head(mixed.view(B * n, H * D), D)  # (H, N, D)
        messages = torch.bmm(self.mixed, self.w_v.transpose(1, 2))  # (H, N, v)
        self.concat = messages.transpose(0, 1).reshape(B * n, H * self.v)
        return torch.addmm(self.asking, self.concat, self.params["attention.out_proj.weight"].T)

    def backward(self, back: Tensor) -> None:
        """Add the gradients, given the one (B*n, D) for the updated rows."""
        B, T, n, H, D = self.B, self.T, self.n, self.H, self.D
        w_q = self.params["attention.in_proj_weight"][: self.sizes[0]]
        g_q, g_k, g_v = self.grads["attention.in_proj_weight"].split(self.sizes)
        self.grads["attention.out_proj.weight"].addmm_(back.T, self.concat)
        to_messages = self._by_head(back @ self.params["attention.out_proj.weight"], self.v)
        g_v.view(H, self.v, D).baddbmm_(to_messages.transpose(1, 2), self.mixed)
        to_mixed = self._by_window(torch.bmm(to_messages, self.w_v))  # (B, n*H, D)
        to_weights = self._products(to_mixed)  # (B, n, H, T)
        inner = (to_weights * self.weights).sum(dim=-1, keepdim=True)
        to_scores = to_weights.sub_(inner).mul_(self.weights)
        spread = self._spread("scores", to_scores)
        to_asked = self._mixture(spread, to_scores)
        heads = self._by_head(to_asked.view(B * n, H * D), D).mul_(self.scale)  # (H, N, D)
        g_k.view(H, self.d, D).baddbmm_(self.q.transpose(1, 2), heads)
        to_q = torch.bmm(heads, self.w_k.transpose(1, 2)).transpose(0, 1).reshape(B * n, -1)
        if not self.is_frozen:
            g_q.addmm_(to_q.T, self.asking)
        to_asking = back.addmm_(to_q, w_q).view(B, n, D)
        to_words = self.numbers.space.take("to_words", self.words.shape, self.words)
        both = torch.cat([self.spread, spread], dim=1)  # (B, 2*n*H, S)
        torch.bmm(both.transpose(1, 2), torch.cat([to_mixed, self.asked], dim=1), out=to_words)
        to_words[:, T - 1 :] += to_asking
        self._add_places(to_words, to_asking, [(self.weights, to_mixed), (to_scores, self.asked)])
        self.numbers.add_words(self.tokens, to_words)

    def _products(self, rows: Tensor) -> Tensor:
        """Each of the rows (B, n*H, D) times the T rows that its query uses: (B, n, H, T)."""
        band = self._band(torch.bmm(rows, self.words.transpose(1, 2)))
        if self.n == 1:
            return band
        return band + (rows @ self.places.T).view(band.shape)

    def _mixture(self, spread: Tensor, band: Tensor) -> Tensor:
        """Sums (B, n*H, D) of the rows that the queries use, with the factors (B, n, H, T)."""
        mixed = torch.bmm(spread, self.words)
        if self.n > 1:
            mixed += (band.view(-1, self.T) @ self.places).view(mixed.shape)
        return mixed

    def _add_places(
        self, to_words: Tensor, to_asking: Tensor, pairs: Sequence[tuple[Tensor, Tensor]]
    ) -> None:
        to_places = self.grads["position_embedding.weight"]
        if self.n == 1:
            to_places += to_words.sum(dim=0)
            return
        for band, rows in pairs:
            to_places.addmm_(band.view(-1, self.T).T, rows.view(-1, self.D))
        to_places[-1] += to_asking.sum(dim=(0, 1))

    def _by_head(self, rows: Tensor, width: int) -> Tensor:
        """From (N, H*width) to (H, N, width), copied."""
        return rows.view(-1, self.H, width).transpose(0, 1).contiguous()

    def _by_window(self, heads: Tensor) -> Tensor:
        """From (H, B*n, D) to (B, n*H, D), copied."""
        return heads.transpose(0, 1).contiguous().view(self.B, self.n * self.H, self.D)

    def _band(self, full: Tensor) -> Tensor:
        """Of (B, n*H, S) the part that query i sees, keys i to i + T - 1: a view (B, n, H, T)."""
        H, S = self.H, self.S
        strides = (self.n * H * S, H * S + 1, S, 1)
        return full.as_strided((self.B, self.n, H, self.T), strides)

    def _spread(self, name: str, band: Tensor) -> Tensor:
        """The opposite of `_band`: (B, n, H, T) into (B, n*H, S), zero where nothing is seen."""
        if self.n == 1:
            return band.view(self.B, self.H, self.S)
        full = self.numbers.space.take(name, (self.B, self.n * self.H, self.S), band).zero_()
        self._band(full).copy_(band)
        return full
