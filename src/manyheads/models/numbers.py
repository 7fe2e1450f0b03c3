"""What a training step works with: parameters, their gradients, and memory that is used again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manyheads.models.candidates import Candidates


class Workspace:
    """Memory for large intermediates, used again in the next step: new pages take time."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """A tensor of this shape, with the dtype and device of `like`; its numbers are any."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.numel() < size or held.dtype != like.dtype:
            held = self._held[name] = like.new_empty(size)
        return held[:size].view(*shape)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Parameters, their gradients, and memory to work in."""

    params: Mapping[str, Tensor]
    """By the names of the model."""
    grads: Mapping[str, Tensor]
    """Of the same names and shapes; steps add to them."""
    space: Workspace = field(default_factory=Workspace)
    """Kept from step to step."""
    candidates: Candidates | None = None
    """The words that are scored; all of them unless given."""

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
