"""The five parts in order, the experiment of each, and the function that runs them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from manyheads.core.errors import LabError
from manyheads.learn.lab.part_costs import try_heads_4, write_costs
from manyheads.learn.lab.part_forms import try_swap_heads, write_forms
from manyheads.learn.lab.record import Record
from manyheads.learn.lab.report import LabReport
from manyheads.learn.lab.two_routes import (
    try_ablate_head_1,
    try_change_first_input,
    try_zero_query,
    write_interventions,
    write_output,
    write_routes,
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the lab and its experiment."""

    title: str
    """One line."""
    write: Callable[[Record], None]
    """Computes the part and adds it to a record."""
    prediction: str
    """A question that a reader can answer before the experiment runs."""
    try_name: str
    """The experiment's name on the command line."""
    attempt: Callable[[Record], None]
    """Computes the experiment and adds it to a record."""

    def record(self, number: int) -> Record:
        """An empty record of this part."""
        return Record(
            part=number, title=self.title, prediction=self.prediction, try_name=self.try_name
        )


PARTS = (
    Part(
        title="Two hand-chosen routes",
        write=write_routes,
        prediction="if every query is zero, which weights does each head have at position 3, "
        "and which outputs become zero?",
        try_name="zero-query",
        attempt=try_zero_query,
    ),
    Part(
        title="From two heads to one output",
        write=write_output,
        prediction="if the output of head 1 becomes zero, which numbers remain at position 2, and "
        "which outputs change their sign?",
        try_name="ablate-head-1",
        attempt=try_ablate_head_1,
    ),
    Part(
        title="Change one input",
        write=write_interventions,
        prediction="a change of the last input changed only the output at its own position. Which "
        "outputs change if only the first input changes, and which changes most?",
        try_name="change-first-input",
        attempt=try_change_first_input,
    ),
    Part(
        title="Four implementations, the same numbers and gradients",
        write=write_forms,
        prediction="if you swap two heads together with their rows of W_O, does the output change? "
        "And if you leave W_O as it is?",
        try_name="swap-heads",
        attempt=try_swap_heads,
    ),
    Part(
        title="Parameters and score storage",
        write=write_costs,
        prediction="which layer has more parameters, and which larger scores: two heads over the "
        "longer input, or four heads over the shorter one? By which factor?",
        try_name="heads-4",
        attempt=try_heads_4,
    ),
)
NUMBERS = tuple(range(1, len(PARTS) + 1))
TRY_NAMES = tuple(part.try_name for part in PARTS)


def run_lab(parts: Sequence[int] | None = None, tries: Sequence[str] = ()) -> LabReport:
    """Run parts of the lab, and experiments.

    Every number is computed and compared with an independent source. A failed assertion is kept in
    the report, and the others still run.

    Args:
        parts: numbers from 1 to 5; None runs all, or none where experiments are given.
        tries: names of experiments, such as "zero-query".

    Raises:
        LabError: no such part or experiment.
    """
    numbers = (() if tries else NUMBERS) if parts is None else tuple(parts)
    check_names(numbers, tries)
    written = [(PARTS[number - 1].record(number), PARTS[number - 1].write) for number in numbers]
    attempts = [
        (part.record(number), part.attempt)
        for name in tries
        for number, part in enumerate(PARTS, start=1)
        if part.try_name == name
    ]
    with torch.random.fork_rng(devices=[]), torch.enable_grad():  # keep the caller's random state
        for record, write in (*written, *attempts):
            record.write(write)
    return LabReport(
        parts=tuple(record for record, _ in written), tries=tuple(record for record, _ in attempts)
    )


def check_names(numbers: Sequence[int], tries: Sequence[str]) -> None:
    """Raise unless the lab has these parts and experiments.

    Args:
        numbers: parts, from 1.
        tries: names of experiments.

    Raises:
        LabError: no such part or experiment.
    """
    for number in numbers:
        if number not in NUMBERS:
            raise LabError(
                f"part ({number}) must be {NUMBERS[0]} to {NUMBERS[-1]}: use one of them"
            )
    for name in tries:
        if name not in TRY_NAMES:
            raise LabError(f"experiment ({name}) does not exist: use {', '.join(TRY_NAMES)}")
