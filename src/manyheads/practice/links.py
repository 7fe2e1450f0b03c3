"""The recall card of a mistake.

A table, so that judging does not load the deck, whose numbers take seconds to load. A test compares
it with the deck.
"""

from manyheads.practice.task import Task

CARDS = {
    "causal-alignment": "causality-alignment",
    "dropout-in-eval": "faults-dropout-in-eval",
    "grouped-order": "grouped-which",
    "mask-additive-confusion": "masks-added",
    "mask-axis": "masks-padding-axis",
    "merge-by-view": "faults-merge-by-view",
    "output-projection-missing": "output-concat-and-projection",
    "packed-layout": "layouts-interleaved",
    "rotary-pairing": "positions-pairing",
    "linear-bias-slopes": "positions-slopes",
    "scale": "scale-which-width",
    "softmax-axis": "faults-softmax-axis",
    "split-by-view": "faults-split-by-view",
    "weight-transposed": "layouts-linear",
}
"""Faults, and the card that explains each."""


def card_of(task: Task, fault: str | None) -> str:
    """The id of the card that explains a mistake; that of the task where no card names it."""
    return CARDS.get(fault or "", task.card)
