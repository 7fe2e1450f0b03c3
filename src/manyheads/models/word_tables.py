"""The attention model's next word, fast: what depends on the word alone is worked out beforehand.

A cache of keys and values would be wrong here. The last word always has the last position row, so
with each new word all others move to another position, and their keys and values change. Both are
sums, though: x W_K = word W_K + position W_K. The first part is a table with one row a word, the
second with one row a position, and a step only looks rows up and adds them.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from manyheads.core.errors import ShapeError
from manyheads.models.attention_lm import AttentionLM


class WordTables:
    """Queries, keys and values of every word and of every position, of the model as it is now.

    A change of the model's weights afterwards is not seen. For V = 4,000 words and width 64 the
    tables take 9 MB in float32.

    Args:
        model: the model; `model.forward` is the judge of every number that comes out here.
    """

    def __init__(self, model: AttentionLM) -> None:
        self._num_heads = model.config.num_heads or 0
        self._context = model.config.context
        with torch.no_grad():
            weights = model.attention.head_weights()
            words, places = model.token_embedding.weight, model.position_embedding.weight
            self._last_rows = words + places[-1]  # (V, D): as the asking word
            scale = model.attention.config.scale
            self._queries = torch.einsum("VD,hDd->Vhd", self._last_rows, weights.w_q) * scale
            self._key_sizes = weights.w_k.shape[0], weights.w_k.shape[2]
            self._value_sizes = weights.w_v.shape[0], weights.w_v.shape[2]
            # (D, H*d) and (D, H*v) side by side, so that one look-up gives keys and values
            parts = (weights.w_k, weights.w_v)
            both = torch.cat([part.transpose(0, 1).flatten(1) for part in parts], dim=1)
            self._word_sources = words @ both  # (V, H*d + H*v)
            self._place_sources = places @ both  # (T, H*d + H*v)
        self._joining = model.attention.out_proj.weight.detach().clone()
        hidden = model.hidden.bias, model.hidden.weight
        self._hidden = hidden[0].detach().clone(), hidden[1].detach().clone()
        # Turned in memory, so that a single row passes it a third faster.
        turned = model.output.weight.detach().t().contiguous().t()
        self._output = model.output.bias.detach().clone(), turned

    def logits(self, ids: Sequence[int]) -> Float[Tensor, " V"]:
        """What may follow, (V,).

        Args:
            ids: the words so far, 1 to `context` of them, without padding.

        Raises:
            ShapeError: no word, or more than the model can see.
        """
        attn_weights, values = self._ask(ids)
        mixed = attn_weights @ values  # (H, 1, S) @ (H, S, v)
        row = torch.addmv(self._last_rows[ids[-1]], self._joining, mixed.flatten())
        hidden = F.relu(torch.addmv(*self._hidden, row))
        return torch.addmv(*self._output, hidden)

    def head_weights(self, ids: Sequence[int]) -> Float[Tensor, "H S"]:
        """Where each head of the last word looks, (H, S); arguments and errors as in `logits`."""
        attn_weights, _ = self._ask(ids)
        return attn_weights[:, 0].expand(self._num_heads, -1)

    def _ask(self, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Weights (H, 1, S) of the last word's query, and all values (H, S, v)."""
        S, context = len(ids), self._context
        if not 1 <= S <= context:
            raise ShapeError(f"ids has {S} words, expected 1 to {context}: cut on the left")
        looked_up = torch.tensor(ids, device=self._word_sources.device)
        sources = self._word_sources[looked_up] + self._place_sources[context - S :]
        H, d = self._key_sizes
        keys = sources[:, : H * d].unflatten(1, (H, d)).transpose(0, 1)  # (S, H*d) to (H, S, d)
        values = sources[:, H * d :].unflatten(1, self._value_sizes).transpose(0, 1)  # (H, S, v)
        scores = keys @ self._queries[ids[-1]].unsqueeze(2)  # (H, S, d) @ (H, d, 1)
        return torch.softmax(scores.transpose(1, 2), dim=2), values
