"""The five parts in order, the experiment that each of them leads to, and running them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from manyheads.core.errors import LabError
from manyheads.learn.lab.part_costs import try_heads_4, write_costs
from manyheads.learn.lab.part_forms import try_swap_heads, write_forms
from manyheads.learn.lab.part_interventions import try_change_first_input, write_interventions
from manyheads.learn.lab.part_output import try_ablate_head_1, write_output
from manyheads.learn.lab.part_routes import try_zero_query, write_routes
from manyheads.learn.lab.record import Record
from manyheads.learn.lab.report import LabReport


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the lab and the experiment that it leads to."""

    title: str
    """One line."""
    write: Callable[[Record], None]
    """Computes the part and writes it down."""
    prediction: str
    """A question that a reader can answer before running the experiment."""
    try_name: str
    """The experiment's name on the command line."""
    attempt: Callable[[Record], None]
    """Computes the experiment and writes it down."""

    def record(self, number: int) -> Record:
        """An empty record of this part."""
        return Record(
            part=number, title=self.title, prediction=self.prediction, try_name=self.try_name
        )


PARTS = (
    Part(
        title="Two hand-chosen routes",
        write=write_routes,
        prediction="if every query were zero, which weights would each head give at position 3, "
        "and which outputs would vanish?",
        try_name="zero-query",
        attempt=try_zero_query,
    ),
    Part(
        title="From two heads to one output",
        write=write_output,
        prediction="if head 1 fell silent, which numbers would be left at position 3, and which "
        "outputs would change their sign?",
        try_name="ablate-head-1",
        attempt=try_ablate_head_1,
    ),
    Part(
        title="Change one thing",
        write=write_interventions,
        prediction="the last input moved only its own position. Which positions move when only "
        "the first input changes, and which moves furthest?",
        try_name="change-first-input",
        attempt=try_change_first_input,
    ),
    Part(
        title="Four ways to the same numbers, and to the same gradients",
        write=write_forms,
        prediction="if two heads change places, does the output change? And if their rows of W_O "
        "stay behind?",
        try_name="swap-heads",
        attempt=try_swap_heads,
    ),
    Part(
        title="Parameters against score storage",
        write=write_costs,
        prediction="with twice as many heads at the longer length, what becomes of the number of "
        "parameters, and of the bytes of the score tensor?",
        try_name="heads-4",
        attempt=try_heads_4,
    ),
)
NUMBERS = tuple(range(1, len(PARTS) + 1))
TRY_NAMES = tuple(part.try_name for part in PARTS)


def run_lab(parts: Sequence[int] | None = None, tries: Sequence[str] = ()) -> LabReport:
    """Run parts of the lab, and experiments.

    Every number is computed here and now and held against an independent source; a failed assertion
    is kept in the report, and the others still run.

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
    with torch.random.fork_rng(devices=[]), torch.enable_grad():  # the caller's chance stays put
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
            raise LabError(f"try ({name}) is not known: use {', '.join(TRY_NAMES)}")
