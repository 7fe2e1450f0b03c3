"""The loss of a language model without some of its heads.

A head is removed before W_O: its output becomes zero, everything else stays, without retraining. A
loss that hardly changes shows that the others compensate for the head, not that the head learned
nothing. Use windows of the validation split, never of the test split. A model, such as
`models.AttentionLM`, returns logits (B, V) for windows (B, T) and takes a `head_mask` (H,). With
`need_weights` it also returns its last query's weights (B, H, T).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from manyheads.core.errors import ShapeError, StudyError
from manyheads.models.config import PAD_ID

BATCH_SIZE = 512


@dataclass(frozen=True, kw_only=True)
class HeadRemoval:
    """The loss with each head alone removed, in nats per target."""

    loss: float
    """With all heads, nats."""
    losses: tuple[float, ...]
    """Without head h, nats, one per head."""
    num_windows: int
    """Number of targets in the mean."""

    @property
    def changes(self) -> tuple[float, ...]:
        """Increase of the loss when each head is removed, nats; negative if the loss falls."""
        return tuple(loss - self.loss for loss in self.losses)

    def to_dict(self) -> dict[str, Any]:
        """The removal as JSON holds it."""
        return {**asdict(self), "losses": [*self.losses], "changes": [*self.changes]}


@dataclass(frozen=True, kw_only=True)
class GreedyRemoval:
    """The loss as heads are removed one by one, each time the one whose removal costs least.

    Separate windows choose the head and measure the loss, so that the choice does not bias the
    curve.
    """

    order: tuple[int, ...]
    """Heads in the order of their removal, counted from 0."""
    losses: tuple[float, ...]
    """With H, H - 1, ..., 0 heads left, nats per target, H + 1 of them."""
    num_choosing: int
    """Windows on which the next head was chosen."""
    num_windows: int
    """Other windows, on which the losses were measured."""

    def to_dict(self) -> dict[str, Any]:
        """The removal as JSON holds it."""
        return {**asdict(self), "order": [*self.order], "losses": [*self.losses]}


def mean_loss(
    model: nn.Module,
    tokens: Int64[Tensor, "B T"],
    targets: Int64[Tensor, " B"],
    head_mask: Float[Tensor, " H"] | None = None,
    *,
    batch_size: int = BATCH_SIZE,
) -> float:
    """The mean loss of a model's predictions, in nats per target.

    Args:
        model: takes windows and a head mask.
        tokens: windows, (B, T).
        targets: the word after each window, (B,).
        head_mask: (H,), multiplies each head's output before W_O; None keeps all.
        batch_size: windows at a time.

    Raises:
        ShapeError: no window, another number of targets, or a target that is padding.
        StudyError: the loss is not finite.
    """
    _check(tokens, targets, batch_size)
    total = 0.0
    with torch.no_grad():
        for part, wanted in zip(tokens.split(batch_size), targets.split(batch_size), strict=True):
            logits = model(part, head_mask=head_mask)  # (b, V)
            total += float(F.cross_entropy(logits.float(), wanted, reduction="sum"))
    mean = total / len(targets)
    if not abs(mean) < float("inf"):
        raise StudyError(f"loss ({mean}) must be finite: use another checkpoint")
    return mean


def remove_each(
    model: nn.Module,
    tokens: Int64[Tensor, "B T"],
    targets: Int64[Tensor, " B"],
    *,
    batch_size: int = BATCH_SIZE,
) -> HeadRemoval:
    """Remove each head alone, and measure the loss.

    Args:
        model: takes windows and a head mask.
        tokens: windows, (B, T).
        targets: the word after each window, (B,).
        batch_size: windows at a time.
    """
    H = num_heads_of(model, tokens)
    losses = [
        mean_loss(model, tokens, targets, _without(H, [h]), batch_size=batch_size) for h in range(H)
    ]
    loss = mean_loss(model, tokens, targets, batch_size=batch_size)
    return HeadRemoval(loss=loss, losses=tuple(losses), num_windows=len(targets))


def remove_greedily(
    model: nn.Module,
    tokens: Int64[Tensor, "B T"],
    targets: Int64[Tensor, " B"],
    *,
    num_choosing: int = 256,
    batch_size: int = BATCH_SIZE,
) -> GreedyRemoval:
    """Remove heads one by one, the cheapest first, and measure the loss at each count.

    Args:
        model: takes windows and a head mask.
        tokens: windows, (B, T); those of one story next to each other, so that the two parts share
            almost no story.
        targets: the word after each window, (B,).
        num_choosing: number of windows, from the first, that choose the head; the others measure.
        batch_size: windows at a time.

    Raises:
        ShapeError: there are no windows left to measure on, or none to choose on.
    """
    if not 0 < num_choosing < len(tokens):
        raise ShapeError(
            f"num_choosing ({num_choosing}) must be from 1 to {len(tokens) - 1}, so that some of "
            f"the {len(tokens)} windows are left to measure on: use a number in this range"
        )
    H = num_heads_of(model, tokens)

    def loss_of(removed: Sequence[int], part: slice) -> float:
        mask = _without(H, removed)
        return mean_loss(model, tokens[part], targets[part], mask, batch_size=batch_size)

    choosing, measuring = slice(0, num_choosing), slice(num_choosing, None)
    order: list[int] = []
    losses = [loss_of(order, measuring)]
    while len(order) < H:
        left = [h for h in range(H) if h not in order]
        order.append(min(left, key=lambda h: loss_of([*order, h], choosing)))
        losses.append(loss_of(order, measuring))
    return GreedyRemoval(
        order=tuple(order),
        losses=tuple(losses),
        num_choosing=num_choosing,
        num_windows=len(tokens) - num_choosing,
    )


def num_heads_of(model: nn.Module, tokens: Int64[Tensor, "B T"]) -> int:
    """The number of heads of a model, from the weights that it returns.

    Args:
        model: returns weights on request.
        tokens: windows, (B, T), at least one.
    """
    with torch.no_grad():
        _, weights = model(tokens[:1], need_weights=True)  # (1, H, T)
    return int(weights.shape[1])


def _without(num_heads: int, removed: Sequence[int]) -> Float[Tensor, " H"]:
    mask = torch.ones(num_heads)
    mask[list(removed)] = 0.0
    return mask


def _check(tokens: Tensor, targets: Tensor, batch_size: int) -> None:
    if not len(tokens) or len(tokens) != len(targets):
        raise ShapeError(
            f"tokens has {len(tokens)} windows and targets {len(targets)}: give one target per "
            "window"
        )
    if batch_size < 1:
        raise ShapeError(f"batch_size ({batch_size}) must be at least 1: use for instance 512")
    if bool((targets == PAD_ID).any()):
        raise ShapeError("targets has padding (id 0): keep the windows that have a target")
