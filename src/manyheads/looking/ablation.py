"""Removing heads: the change of the loss, with an interval and matched controls.

A head's message is replaced before the output projection, by zero, by its mean over the data, or by
its message on other inputs. The change is compared with that of other heads, as many in the same
layers: what they cost says what removing any heads there costs.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.looking.losses import Loss, calls_from, loss_for, losses_of
from manyheads.looking.subject import Call, Subject
from manyheads.looking.watching import Site

RESAMPLES = 10_000
CONTROLS = 12
BATCH_SIZE = 4
Head = tuple[int, int]
"""Layer and head, from 0."""


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """The change of the loss when heads are removed, nats per predicted token."""

    change: float
    """Mean over sequences; positive if the loss rises."""
    interval: tuple[float, float]
    """95 % bootstrap interval of the mean over sequences."""
    controls: tuple[float, ...]
    """The change for each draw of as many other heads in the same layers."""
    heads: tuple[Head, ...]
    """The removed heads."""
    by: str
    """"zero", "mean" or "other inputs"."""
    loss: float
    """Mean loss with all heads, nats per predicted token."""
    num_sequences: int
    """Sequences in the mean."""

    def to_dict(self) -> dict[str, Any]:
        """The ablation as JSON holds it."""
        found = asdict(self)
        heads = [f"{layer}.{head}" for layer, head in self.heads]
        return found | {"interval": [*self.interval], "controls": [*self.controls], "heads": heads}

    def __str__(self) -> str:
        low, high = self.interval
        names = ", ".join(f"{layer}.{head}" for layer, head in self.heads)
        text = f"{names} by {self.by}: {self.change:+.4f} nats ({low:+.4f} to {high:+.4f})"
        if not self.controls:
            return text
        most = max(self.controls)
        return f"{text}, {len(self.controls)} controls at most {most:+.4f}"


@dataclass(frozen=True, kw_only=True)
class GreedyAblation:
    """Heads removed one by one, each time the one whose removal costs least or most."""

    order: tuple[Head, ...]
    """The heads in the order of their removal."""
    changes: tuple[float, ...]
    """The change after each removal, nats, on sequences that did not choose."""
    num_choosing: int
    """Sequences that chose."""
    num_measuring: int
    """Other sequences, on which the changes were measured."""


def head_from(name: str | Head) -> Head:
    """Read a head such as "18.6" or (18, 6).

    Raises:
        LookError: it is neither.
    """
    parts = name.split(".") if isinstance(name, str) else list(name)
    try:
        layer, head = (int(part) for part in parts)
    except (ValueError, TypeError) as error:
        raise LookError(f"head ({name!r}) must be layer.head, such as 18.6: write it so") from error
    if layer < 0 or head < 0:
        raise LookError(f"head ({name!r}) must count layer and head from 0: write for instance 0.0")
    return layer, head


class Ablator:
    """Measures the loss of a model without some of its heads, on fixed data."""

    def __init__(
        self,
        model: nn.Module,
        data: Any,  # noqa: ANN401 - as in `calls_from`
        by: Any = "zero",  # noqa: ANN401 - "zero", "mean" or other inputs
        *,
        tokenizer: Any = None,  # noqa: ANN401 - of transformers, or our own
        loss: Loss | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        self.subject = Subject(model)
        self.calls = calls_from(self.subject, data, tokenizer, batch_size)
        self.loss = loss or loss_for(self.subject, self.calls[0])
        self.by = by if isinstance(by, str) else "other inputs"
        if self.by not in ("zero", "mean", "other inputs"):
            raise LookError(f'by ({by!r}) must be "zero", "mean" or other inputs: use one')
        self.heads_of_layers: dict[int, int] = {}
        self.base = losses_of(self.subject, self.calls, self.loss, on_site=self._count)
        self._means: dict[int, Tensor] = self._mean_messages() if self.by == "mean" else {}
        self._donors: list[Call] = []
        if self.by == "other inputs":
            self._donors = calls_from(self.subject, by, tokenizer, batch_size)
            _check_pairs(self.calls, self._donors)

    def _count(self, site: Site) -> None:
        self.heads_of_layers[site.index] = site.num_heads

    def check(self, heads: Sequence[Head]) -> None:
        """Raise unless every head exists, and is named once.

        Raises:
            LookError: a head does not exist, or none or a double one is given.
        """
        if not heads or len(set(heads)) != len(heads):
            raise LookError("heads must name at least one head, and each once: change the list")
        for layer, head in heads:
            if head >= self.heads_of_layers.get(layer, 0):
                raise LookError(
                    f"head ({layer}.{head}) does not exist: the model has "
                    f"{len(self.heads_of_layers)} layers, and layer {layer} "
                    f"{self.heads_of_layers.get(layer, 0)} heads"
                )

    def changes(self, heads: Sequence[Head]) -> Tensor:
        """The change of each sequence's loss without the heads, (N,), nats."""
        if self._donors:
            parts = [self._patched(call, donor, heads) for call, donor in self._pairs()]
            return torch.cat(parts) - self.base
        edit = self._edit(heads, lambda site, message: self._means.get(site.index))
        return losses_of(self.subject, self.calls, self.loss, edit=edit) - self.base

    def _pairs(self) -> list[tuple[Call, Call]]:
        return list(zip(self.calls, self._donors, strict=True))

    def _patched(self, call: Call, donor: Call, heads: Sequence[Head]) -> Tensor:
        layers, given = {layer for layer, _ in heads}, {}

        def keep(site: Site, message: Tensor) -> Tensor:
            if site.index in layers:
                given[site.index] = message.clone()
            return message

        self.subject.watch(donor, keep_weights=False, edit=keep)
        edit = self._edit(heads, lambda site, message: given.get(site.index))
        return losses_of(self.subject, [call], self.loss, edit=edit)

    def _edit(
        self, heads: Sequence[Head], replacement: Callable[[Site, Tensor], Tensor | None]
    ) -> Callable[[Site, Tensor], Tensor]:
        """An edit that replaces the messages of heads, by zero where there is no replacement."""
        by_layer: dict[int, list[int]] = {}
        for layer, head in heads:
            by_layer.setdefault(layer, []).append(head)

        def edit(site: Site, message: Tensor) -> Tensor:
            mine = by_layer.get(site.index)
            if mine is None:
                return message
            changed = message.clone()
            new = replacement(site, message)
            changed[:, :, mine] = 0.0 if new is None else new[..., mine, :].to(message.dtype)
            return changed

        return edit

    def _mean_messages(self) -> dict[int, Tensor]:
        """The mean message of each head over all positions that are not padding, (H, v)."""
        sums: dict[int, Tensor] = {}
        counts: dict[int, float] = {}
        for call in self.calls:
            mask = call.kwargs.get("attention_mask")

            def add(site: Site, message: Tensor, mask: Tensor | None = mask) -> Tensor:
                kept = message.double()
                if mask is not None and mask.shape == message.shape[:2]:
                    kept = kept[mask.bool()]
                kept = kept.reshape(-1, *message.shape[2:])
                sums[site.index] = sums.get(site.index, 0) + kept.sum(0)
                counts[site.index] = counts.get(site.index, 0) + len(kept)
                return message

            self.subject.watch(call, keep_weights=False, edit=add)
        return {layer: total / counts[layer] for layer, total in sums.items()}


def ablate(
    model: nn.Module,
    data: Any,  # noqa: ANN401 - as in `calls_from`
    heads: Sequence[str | Head],
    by: Any = "zero",  # noqa: ANN401 - "zero", "mean" or other inputs
    controls: int = CONTROLS,
    seed: int = 0,
    *,
    tokenizer: Any = None,  # noqa: ANN401 - of transformers, or our own
    loss: Loss | None = None,
) -> Ablation:
    """Remove heads, and measure the change of the loss.

    Args:
        model: a language model, or any model with `loss`.
        data: token ids (N, T) of at least two sequences, a mapping of tensors (N, ...), or texts.
        heads: such as ["18.6", (3, 0)]; layers in the order of calls, both counted from 0.
        by: "zero", "mean" over the data, or other inputs of the same shape as `data`, whose
            messages take the place of the heads' own.
        controls: draws of as many other heads in the same layers.
        seed: random seed of the interval and the controls.
        tokenizer: turns texts into ids.
        loss: takes the output and the arguments of a pass, and returns one loss per sequence; the
            mean over predicted tokens unless given.

    Raises:
        LookError: a head does not exist, there are too few sequences, or a layer has too few other
            heads for controls.
    """
    chosen = [head_from(head) for head in heads]
    ablator = Ablator(model, data, by, tokenizer=tokenizer, loss=loss)
    return ablation_of(ablator, chosen, controls=controls, seed=seed)


def ablation_of(
    ablator: Ablator, heads: Sequence[Head], *, controls: int = CONTROLS, seed: int = 0
) -> Ablation:
    """Measure one set of heads with a prepared `Ablator`; arguments as in `ablate`."""
    ablator.check(heads)
    if len(ablator.base) < 2:
        raise LookError(
            "data has one sequence: give at least 2, so that the interval has a meaning"
        )
    generator = np.random.default_rng(seed)
    changes = ablator.changes(heads)
    drawn = [_drawn(ablator.heads_of_layers, heads, generator) for _ in range(controls)]
    costs = {one: float(ablator.changes(one).mean()) for one in dict.fromkeys(drawn)}
    return Ablation(
        change=float(changes.mean()),
        interval=_interval(changes.numpy(), generator),
        controls=tuple(costs[one] for one in drawn),
        heads=tuple(heads),
        by=ablator.by,
        loss=float(ablator.base.mean()),
        num_sequences=len(ablator.base),
    )


def ablate_greedily(
    model: nn.Module,
    data: Any,  # noqa: ANN401 - as in `calls_from`
    candidates: Sequence[str | Head],
    by: Any = "zero",  # noqa: ANN401 - as in `ablate`
    *,
    most: int | None = None,
    costliest: bool = False,
    tokenizer: Any = None,  # noqa: ANN401 - of transformers, or our own
    loss: Loss | None = None,
) -> GreedyAblation:
    """Remove heads one by one; half of the sequences choose, the others measure.

    Args:
        model: as in `ablate`.
        data: as in `ablate`.
        candidates: the heads among which the next one is chosen.
        by: as in `ablate`.
        most: number of removals; all candidates unless given.
        costliest: take the head whose removal costs most each time, not least.
        tokenizer: turns texts into ids.
        loss: as in `ablate`.

    Raises:
        LookError: as in `ablate`.
    """
    left = [head_from(head) for head in candidates]
    ablator = Ablator(model, data, by, tokenizer=tokenizer, loss=loss)
    ablator.check(left)
    choosing = len(ablator.base) // 2
    if choosing < 1:
        raise LookError("data has one sequence: give at least 2, one to choose on")
    order: list[Head] = []
    changes: list[float] = []
    pick = max if costliest else min
    for _ in range(min(most or len(left), len(left))):
        costs = {head: ablator.changes([*order, head]) for head in left}
        best = pick(left, key=lambda head: float(costs[head][:choosing].mean()))
        order.append(best)
        left.remove(best)
        changes.append(float(costs[best][choosing:].mean()))
    return GreedyAblation(
        order=tuple(order),
        changes=tuple(changes),
        num_choosing=choosing,
        num_measuring=len(ablator.base) - choosing,
    )


def _check_pairs(calls: Sequence[Call], donors: Sequence[Call]) -> None:
    shapes = [[_shape(call) for call in group] for group in (calls, donors)]
    if shapes[0] != shapes[1]:
        raise LookError("by (other inputs) must have the shape of data: give as many and as long")


def _shape(call: Call) -> list[tuple[int, ...]]:
    return [tuple(v.shape) for v in (*call.args, *call.kwargs.values()) if isinstance(v, Tensor)]


def _drawn(
    heads_of_layers: dict[int, int], heads: Sequence[Head], generator: np.random.Generator
) -> tuple[Head, ...]:
    """As many other heads in the same layers."""
    found: list[Head] = []
    for layer in sorted({layer for layer, _ in heads}):
        mine = {head for at, head in heads if at == layer}
        others = [head for head in range(heads_of_layers[layer]) if head not in mine]
        if len(others) < len(mine):
            raise LookError(
                f"layer {layer} has {len(others)} other heads for {len(mine)} removed ones: ablate "
                "fewer, or pass controls=0"
            )
        chosen = generator.choice(others, size=len(mine), replace=False)
        found += [(layer, int(head)) for head in sorted(chosen)]
    return tuple(found)


def _interval(changes: np.ndarray, generator: np.random.Generator) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean over sequences."""
    picks = generator.integers(0, len(changes), size=(RESAMPLES, len(changes)))
    low, high = np.quantile(changes[picks].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
