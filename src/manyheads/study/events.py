"""What a running study tells: one small record whenever there is something to show."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Event:
    """One piece of news from a run."""

    run: str
    """The run's name."""
    kind: str
    """"begin", "step", "validation", "done" (trained), "test" (tested) or "note" (see says)."""
    step: int = 0
    """Steps taken."""
    steps: int = 0
    """Steps of the whole run."""
    train_loss: float | None = None
    """Mean since the last validation, in nats a target."""
    validation_loss: float | None = None
    """On the fixed slice, in nats a target."""
    learning_rate: float | None = None
    """Of the last step."""
    says: str = ""
    """A sentence for the reader."""


Report = Callable[[Event], None]


def nothing(event: Event) -> None:
    """Report to nobody."""
