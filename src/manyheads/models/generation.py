"""Text from a trained model, word by word, with a fast way to compute the next word.

A cache of keys and values would be wrong here. The last word always has the last position, so each
new word changes the position, key and value of all others. But keys and values are sums: x W_K =
word W_K + position W_K. The first part is a table with one row per word, the second with one row
per position. A step looks rows up and adds them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.core.errors import ConfigError, ShapeError
from manyheads.core.pcg32 import PCG32
from manyheads.models.config import BOS_ID, EOS_ID, ModelConfig
from manyheads.models.lm import AttentionLM
from manyheads.models.sampling import Sampling, choose_word, probability_of_word


class WordTables:
    """Queries, keys and values of every word and of every position, of the model as it is now.

    Later changes of the model's weights have no effect. For V = 4,000 words and width 64 the
    tables take 9 MB in float32.

    Args:
        model: the model; the tests compare every result with `model.forward`.
    """

    def __init__(self, model: AttentionLM) -> None:
        self._num_heads = model.config.num_heads or 0
        self._context = model.config.context
        with torch.no_grad():
            weights = model.attention.head_weights()
            words, places = model.token_embedding.weight, model.position_embedding.weight
            self._last_rows = words + places[-1]  # (V, D): as the last word
            scale = model.attention.config.scale
            self._queries = torch.einsum("VD,hDd->Vhd", self._last_rows, weights.w_q) * scale
            self._key_sizes = weights.w_k.shape[0], weights.w_k.shape[2]
            self._value_sizes = weights.w_v.shape[0], weights.w_v.shape[2]
            # (D, H*d) and (D, H*v) in one table, so that one look-up gives keys and values
            parts = (weights.w_k, weights.w_v)
            both = torch.cat([part.transpose(0, 1).flatten(1) for part in parts], dim=1)
            self._word_sources = words @ both  # (V, H*d + H*v)
            self._place_sources = places @ both  # (T, H*d + H*v)
        self._joining = model.attention.out_proj.weight.detach().clone()
        hidden = model.hidden.bias, model.hidden.weight
        self._hidden = hidden[0].detach().clone(), hidden[1].detach().clone()
        # Transposed in memory, which makes the product with a single row a third faster.
        turned = model.output.weight.detach().t().contiguous().t()
        self._output = model.output.bias.detach().clone(), turned

    def logits(self, ids: Sequence[int]) -> Float[Tensor, " V"]:
        """Logits of the next word, (V,).

        Args:
            ids: the words so far, from 1 to `context`, without padding.

        Raises:
            ShapeError: no word, or more than the model can see.
        """
        attn_weights, values = self._ask(ids)
        mixed = attn_weights @ values  # (H, 1, S) @ (H, S, v)
        row = torch.addmv(self._last_rows[ids[-1]], self._joining, mixed.flatten())
        hidden = F.relu(torch.addmv(*self._hidden, row))
        return torch.addmv(*self._output, hidden)

    def head_weights(self, ids: Sequence[int]) -> Float[Tensor, "H S"]:
        """Attention weights of the last word, (H, S); arguments and errors as in `logits`."""
        attn_weights, _ = self._ask(ids)
        return attn_weights[:, 0].expand(self._num_heads, -1)

    def _ask(self, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Weights (H, 1, S) of the last word's query, and all values (H, S, v)."""
        S, context = len(ids), self._context
        if not 1 <= S <= context:
            raise ShapeError(f"ids has {S} words, expected 1 to {context}: use the last {context}")
        looked_up = torch.tensor(ids, device=self._word_sources.device)
        sources = self._word_sources[looked_up] + self._place_sources[context - S :]
        H, d = self._key_sizes
        keys = sources[:, : H * d].unflatten(1, (H, d)).transpose(0, 1)  # (S, H*d) to (H, S, d)
        values = sources[:, H * d :].unflatten(1, self._value_sizes).transpose(0, 1)  # (H, S, v)
        scores = keys @ self._queries[ids[-1]].unsqueeze(2)  # (H, S, d) @ (H, d, 1)
        return torch.softmax(scores.transpose(1, 2), dim=2), values


MAX_TOKENS = 100_000
"""Largest allowed number of words; a larger one is probably a mistake."""
Ending = Literal["end of story", "stop", "max tokens"]


@runtime_checkable
class Joiner(Protocol):
    """Puts words together; see `manyheads.data.tokens.Joiner`."""

    def piece(self, word: str) -> str:
        """The text that a word adds."""


@runtime_checkable
class Tokenizer(Protocol):
    """The part of `manyheads.data.tokens.WordTokenizer` that generation needs."""

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each id."""

    def split(self, text: str) -> list[str]:
        """Cut text into words."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text's words."""

    def joiner(self) -> Joiner:
        """Begin a text."""


@runtime_checkable
class Predictor(Protocol):
    """Computes the logits of the next word."""

    def logits(self, ids: Sequence[int]) -> Float[Tensor, " V"]:
        """One logit per word, (V,)."""

    def head_weights(self, ids: Sequence[int]) -> Float[Tensor, "H S"]:
        """Attention weights of the last word, (H, S)."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One generated word and how it was chosen."""

    word_id: int
    """Its id."""
    word: str
    """The word in the vocabulary."""
    piece: str
    """The text that it adds, with a space before it if needed; "" for the end."""
    probability: float
    """Probability among all words at temperature 1, 0 to 1."""
    context: tuple[int, ...]
    """The ids that the model saw, without padding; the query is the last one."""
    ended_by: Ending | None
    """Why the story ends with this word; None if it continues."""
    predictor: Predictor
    """What computed the logits."""

    def head_weights(self) -> Float[Tensor, "H S"]:
        """Attention weights of each head, (H, S), S words of `context`; computed on each call.

        Raises:
            ConfigError: the model has no heads.
        """
        return self.predictor.head_weights(self.context)


class ForwardPass:
    """Any model's own forward pass, without a cache.

    Args:
        model: called with ids (1, S) for logits (1, V).
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._device = next(model.parameters()).device

    @torch.no_grad()
    def logits(self, ids: Sequence[int]) -> Float[Tensor, " V"]:
        """One logit per word, (V,)."""
        logits: Tensor = self._model(torch.tensor([ids], device=self._device))
        return logits[0]

    @torch.no_grad()
    def head_weights(self, ids: Sequence[int]) -> Float[Tensor, "H S"]:
        """Attention weights of the last word, (H, S).

        Raises:
            ConfigError: the model has no heads.
        """
        if not isinstance(self._model, AttentionLM):
            raise ConfigError(
                f"model ({type(self._model).__name__}) has no heads to look at: use an attention "
                "model, such as four-heads"
            )
        weights: Tensor = self._model(torch.tensor([ids], device=self._device), need_weights=True)[
            1
        ]
        return weights[0]


def predictor_of(model: nn.Module) -> Predictor:
    """The fastest predictor for this model: tables for attention models, else `forward`."""
    return WordTables(model) if isinstance(model, AttentionLM) else ForwardPass(model)


def generate(
    model: nn.Module,
    tokenizer: Tokenizer,
    prompt: str,
    *,
    max_tokens: int = 100,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int = 0,
    stop: str | None = None,
) -> Iterator[Step]:
    """Continue a text word by word; the same arguments give the same words.

    The model sees `[BOS]` and all words so far, the last `context` of them. Settings are checked by
    the call, not at the first word.

    Args:
        model: an `AttentionLM` or a `FixedWindowMLP`.
        tokenizer: the one that the model was trained with.
        prompt: beginning of the text; "" starts a new story.
        max_tokens: maximum number of words, 1 to 100,000; the end of the story counts as one.
        temperature: as in `Sampling`.
        top_k: as in `Sampling`.
        seed: as in `Sampling`.
        stop: stop after the word that completes this text; case is ignored.

    Raises:
        ConfigError: a setting is out of range.
    """
    config = getattr(model, "config", None)
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            f"model ({type(model).__name__}) cannot continue a text here: use an AttentionLM or a "
            "FixedWindowMLP"
        )
    sampling = Sampling(temperature=temperature, top_k=top_k, seed=seed)
    if len(tokenizer.words) > config.vocab_size:
        raise ConfigError(
            f"tokenizer ({len(tokenizer.words)} words) must fit the model's {config.vocab_size}: "
            "use the one that it was trained with"
        )
    story = Story(tokenizer, prompt, config.context, max_tokens, stop)
    sampling.num_candidates(len(tokenizer.words))
    return story.steps(predictor_of(model), sampling)


class Story:
    """A text that is being continued.

    Args:
        tokenizer: cuts text into words, and puts words together.
        prompt: beginning of the text.
        context: T, number of words that a prediction sees.
        max_tokens: maximum number of words to add.
        stop: stop after this text; None for no stop text.

    Raises:
        ConfigError: max_tokens or stop cannot be used.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt: str,
        context: int,
        max_tokens: int,
        stop: str | None = None,
    ) -> None:
        if not 1 <= max_tokens <= MAX_TOKENS:
            raise ConfigError(
                f"max_tokens ({max_tokens}) must be from 1 to {MAX_TOKENS:,}: use a number in "
                "this range"
            )
        if stop is not None and not stop.strip():
            raise ConfigError(f"stop ({stop!r}) must not be empty: give a text, or leave it out")
        self._tokenizer, self._prompt = tokenizer, prompt
        self._context, self._max_tokens = context, max_tokens
        self._stop = None if stop is None else stop.casefold()

    def steps(self, predictor: Predictor, sampling: Sampling) -> Iterator[Step]:
        """Add words until the story ends, the stop text appears, or `max_tokens` is reached.

        Args:
            predictor: gives the logits of the next word.
            sampling: how a word is chosen.
        """
        words, ids = self._tokenizer.words, [BOS_ID, *self._tokenizer.encode(self._prompt)]
        joiner, draws, tail = self._joiner(), PCG32(sampling.seed), ""
        for number in range(1, self._max_tokens + 1):
            context = tuple(ids[-self._context :])
            logits = predictor.logits(context)
            chosen = choose_word(logits, sampling, draws, len(words))
            ids.append(chosen)
            piece = "" if chosen == EOS_ID else joiner.piece(words[chosen])
            if self._stop is not None:
                tail = tail[-len(self._stop) :] + piece.casefold()
            ended_by = self._ending(chosen, tail, number)
            yield Step(
                word_id=chosen,
                word=words[chosen],
                piece=piece,
                probability=probability_of_word(logits, chosen),
                context=context,
                ended_by=ended_by,
                predictor=predictor,
            )
            if ended_by:
                return

    def _joiner(self) -> Joiner:
        """A joiner that continues the prompt, for example inside quotation marks."""
        joiner = self._tokenizer.joiner()
        for word in self._tokenizer.split(self._prompt):
            joiner.piece(word)
        return joiner

    def _ending(self, chosen: int, tail: str, number: int) -> Ending | None:
        if chosen == EOS_ID:
            return "end of story"
        if self._stop is not None and self._stop in tail:
            return "stop"
        return "max tokens" if number == self._max_tokens else None


def unknown_words(tokenizer: Tokenizer, prompt: str) -> list[str]:
    """The words of a prompt that are not in the vocabulary, each once, in order.

    Args:
        tokenizer: the one that the model was trained with.
        prompt: the text.
    """
    known = set(tokenizer.words)
    return [word for word in dict.fromkeys(tokenizer.split(prompt)) if word not in known]
