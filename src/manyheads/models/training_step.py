"""One training step with hand-written gradients: the losses of a batch and their gradients.

Each function adds to the gradients it is given. One window has a block of n neighbouring targets.
Target i reads ids i to i + T - 1, and positions are counted back from the last word. So a block
gives the same losses as n separate windows.

A step may score all frequent words and a sample of the rare ones. Subtracting the logarithm of each
word's probability to be in the sample makes the gradients right on average. Validation and test
always score every word.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manyheads.core.errors import ConfigError
from manyheads.models.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The words that one step scores."""

    ids: Int64[Tensor, " C"]
    """(C,), in increasing order."""
    log_chance: Float[Tensor, " C"]
    """(C,), logarithm of the probability that the word is among them."""
    places: Int64[Tensor, " V"]
    """(V,), index of each word in `ids`; any number for words that are not in it."""


@dataclass(frozen=True, kw_only=True)
class CandidateSampler:
    """Draws candidates; the same step and seed always give the same ones.

    Args:
        counts: (V,), how often each word is a target of the training split.
        head: the most frequent words that every step scores.
        tail: probability that each other word is drawn, in addition to the targets, 0 to 1.
        seed: random seed, 0 to 4095.
        device: where the candidates are used; they are drawn on the CPU.

    Raises:
        ConfigError: a probability or seed out of range, a negative head, or counts that are all 0.
    """

    counts: Float[Tensor, " V"]
    head: int
    tail: float
    seed: int
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        if not 0 <= self.tail <= 1:
            raise ConfigError(f"tail ({self.tail}) must be from 0 to 1: give a probability")
        if not 0 <= self.seed < 1 << 12:
            raise ConfigError(
                f"seed ({self.seed}) must be from 0 to 4095: use a number in this range"
            )
        if self.head < 0:
            raise ConfigError(f"head ({self.head}) must not be negative: give a number of words")
        if self.counts.sum() <= 0:
            raise ConfigError("counts (all 0) must not be all 0: give the counts of the targets")

    @cached_property
    def _head_words(self) -> Tensor:
        return torch.argsort(self.counts, descending=True, stable=True)[: self.head]

    def choose(self, step: int, targets: Int64[Tensor, "B n"]) -> Candidates:
        """The candidates of one step.

        Args:
            step: counted from 0.
            targets: (B, n) of the whole batch; all of them are candidates. 0 = none.
        """
        num_targets = int((targets != 0).sum())
        # torch's CPU generator reads 32 bits: 12 for the seed and 20 for the step.
        generator = torch.Generator().manual_seed((self.seed << 20) + step)
        chosen = torch.rand(len(self.counts), generator=generator) < self.tail
        chosen[self._head_words] = True
        chosen[targets[targets != 0]] = True
        ids = chosen.nonzero()[:, 0]
        places = torch.zeros(len(self.counts), dtype=torch.int64)
        places[ids] = torch.arange(len(ids))
        log_chance = self._chances(num_targets)[ids].log().float()
        there = self.device
        return Candidates(
            ids=ids.to(there), log_chance=log_chance.to(there), places=places.to(there)
        )

    def _chances(self, num_targets: int) -> Tensor:
        """Probability (V,) that each word is drawn, or is one of that many targets."""
        frequency = self.counts.double() / self.counts.sum()
        missed = (1 - frequency) ** num_targets * (1 - self.tail)
        missed[self._head_words] = 0.0
        return (1 - missed).clamp_min(1e-9)


class Workspace:
    """Memory for large intermediates, reused in the next step: allocating new pages takes time."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """An uninitialised tensor of this shape, with the dtype and device of `like`."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.numel() < size or held.dtype != like.dtype:
            held = self._held[name] = like.new_empty(size)
        return held[:size].view(*shape)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Parameters, their gradients, and working memory."""

    params: Mapping[str, Tensor]
    """By parameter name."""
    grads: Mapping[str, Tensor]
    """Of the same names and shapes; steps add to them."""
    space: Workspace = field(default_factory=Workspace)
    """Reused from step to step."""
    candidates: Candidates | None = None
    """The words to score; all unless given."""

    def words(self, tokens: Int64[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """The embedding rows (B, S, D) of ids (B, S)."""
        table = self.params["token_embedding.weight"]
        rows = self.space.take("words", (tokens.numel(), table.shape[1]), table)
        torch.index_select(table, 0, tokens.flatten(), out=rows)
        return rows.view(*tokens.shape, -1)

    def add_words(self, tokens: Int64[Tensor, "B S"], to_words: Float[Tensor, "B S D"]) -> None:
        """Add gradients (B, S, D) of the rows of ids (B, S) to the embedding's."""
        rows = to_words.flatten(0, 1)
        self.grads["token_embedding.weight"].index_add_(0, tokens.flatten(), rows)


_ROWS_AT_ONCE = 512  # logits of this many targets are in memory at a time


def vocabulary_step(
    numbers: Numbers, units: Float[Tensor, "N U"], targets: Int64[Tensor, " N"]
) -> tuple[Float[Tensor, ""], Float[Tensor, "N U"]]:
    """Logits, loss and gradients of the vocabulary layer, some rows at a time.

    Args:
        numbers: with `output.weight` and `output.bias`; of their candidates, where there are some.
        units: (N, U).
        targets: (N,); 0 = none.

    Returns:
        the sum of the losses in nats, and its gradient for the units (N, U).
    """
    weight, bias = numbers.params["output.weight"], numbers.params["output.bias"]
    to_weight, to_bias = numbers.grads["output.weight"], numbers.grads["output.bias"]
    given, some = (targets != 0).to(units.dtype)[:, None], numbers.candidates
    if some is None:
        return _scored(numbers.space, (weight, bias), (to_weight, to_bias), (units, targets, given))
    weight, bias = weight[some.ids], bias[some.ids] - some.log_chance
    backs = (torch.zeros_like(weight), torch.zeros_like(bias))
    found = (units, some.places[targets], given)
    loss, back = _scored(numbers.space, (weight, bias), backs, found)
    to_weight.index_add_(0, some.ids, backs[0])
    to_bias.index_add_(0, some.ids, backs[1])
    return loss, back


def _scored(
    space: Workspace,
    layer: tuple[Tensor, Tensor],
    to_layer: tuple[Tensor, Tensor],
    asked: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Loss and gradients of a layer (weight, bias) for (units, targets, 1 where there is one)."""
    (weight, bias), (units, targets, given) = layer, asked
    loss = units.new_zeros(())
    back = torch.empty_like(units)
    for low in range(0, len(units), _ROWS_AT_ONCE):
        part = slice(low, low + _ROWS_AT_ONCE)
        rows, wanted = units[part], targets[part, None]
        logits = space.take("logits", (len(rows), len(weight)), weight)
        torch.addmm(bias, rows, weight.T, out=logits)
        chosen, largest = logits.gather(1, wanted), logits.amax(dim=1, keepdim=True)
        wrong = torch.softmax(logits, dim=1, out=logits)  # each row is read before it is written
        log_total = largest - wrong.amax(dim=1, keepdim=True).log()
        loss += ((log_total - chosen) * given[part]).sum()
        if not given.all():
            wrong *= given[part]  # no gradient where there is no target
        wrong.scatter_add_(1, wanted, -given[part])
        torch.mm(wrong, weight, out=back[part])
        to_layer[0].addmm_(wrong.T, rows)
        to_layer[1].add_(wrong.sum(dim=0))
    return loss, back


_BLOCKED = -1e30  # finite, so that a row without any key, which is no target, makes no NaN


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """The layer before the vocabulary, and its gradient."""

    rows: Float[Tensor, "N R"]
    """Input of the hidden layer, (N, R)."""
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
        made: result of `hidden_units`.
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

    W_K is folded into the query rows and W_V is applied to the weighted rows, so keys and values
    are never computed for all rows. Arguments as in `mlp_step`.
    """
    block = _AttentionBlock(config, numbers, tokens, targets.shape[1])
    made = hidden_units(numbers, block.forward())
    loss, back = vocabulary_step(numbers, made.units, targets.flatten())
    block.backward(hidden_back(numbers, made, back))
    return loss


class _AttentionBlock:
    """One attention block with a residual, forward and backward, for n queries per window.

    Query i uses the T rows from i on of the window's S rows, always with the same T position rows.
    With one query, the position rows are added to the words once. With more, scores and messages
    are split into a part of the word and a part of the position. The part of the word is one
    product for all queries of a window.
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
        """The updated rows of the query words, (B*n, D)."""
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
        """Add the gradients, given the gradient (B*n, D) of the updated rows."""
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
        """The inverse of `_band`: (B, n, H, T) into (B, n*H, S), zero at keys that are not seen."""
        if self.n == 1:
            return band.view(self.B, self.H, self.S)
        full = self.numbers.space.take(name, (self.B, self.n * self.H, self.S), band).zero_()
        self._band(full).copy_(band)
        return full
