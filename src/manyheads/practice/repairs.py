"""Repair tasks: an answer with one mistake, drawn by a seed, with names that vary."""

import re
from dataclasses import replace

from manyheads.core.errors import LearnError
from manyheads.core.pcg32 import PCG32
from manyheads.practice.task import REPAIR, Answer, Mistake, Task, task, task_names

_NAMES = {
    "scores": ("scores", "att", "logits", "sim", "dots"),
    "weights": ("weights", "probs", "attn", "p", "alpha"),
    "mixed": ("mixed", "y", "context", "z", "heads"),
    "mask": ("mask", "hidden", "keep_out", "blocked"),
    "allowed": ("allowed", "visible", "keep", "ok"),
    "top": ("top", "peak", "largest", "m"),
    "total": ("total", "norm", "denominator", "s"),
}
"""Local names that answers use, and what they may be called instead."""


def any_task(name: str, seed: int | None = None) -> Task:
    """A task of the ladder, or a repair task.

    Args:
        name: one of `task_names()`, or `repair-` and one of them.
        seed: of a repair task, 1 if None.

    Raises:
        LearnError: there is no such task, or it takes no seed.
    """
    if not name.startswith(REPAIR):
        if seed is not None:
            raise LearnError(f"--seed ({seed}) belongs to repair tasks: leave it out for {name}")
        return task(name)
    base = task(name.removeprefix(REPAIR))
    drawn = replace(
        base,
        name=name,
        title=f"Repair: {base.title}",
        constraints=(),
        seed=1 if seed is None else seed,
    )
    mistake, _ = drawn_mistake(drawn)
    return replace(
        drawn,
        hints=(
            "Judge the file: the table shows the first step whose numbers are not right.",
            f"{mistake.says[:1].upper()}{mistake.says[1:]}.",
            f"The right code: {mistake.old}",
        ),
    )


def repair_names() -> tuple[str, ...]:
    """The names of all repair tasks, in the order of the ladder."""
    return tuple(f"{REPAIR}{name}" for name in task_names())


def broken_code(repair: Task) -> str:
    """The code that a repair task starts with; the same seed always gives the same code."""
    _, code = drawn_mistake(repair)
    return code


def drawn_mistake(repair: Task) -> tuple[Mistake, str]:
    """The mistake of a repair task, and the code that has it."""
    stream = PCG32(repair.seed or 0, 77)
    pairs: list[tuple[Answer, Mistake]] = [
        (answer, mistake) for answer in repair.answers for mistake in answer.mistakes
    ]
    answer, mistake = pairs[_below(stream, len(pairs))]
    code = answer.with_mistake(mistake)
    for name, choices in _NAMES.items():
        chosen = choices[_below(stream, len(choices))]
        if _can_rename(code, name, chosen):
            code = re.sub(rf"(?<![\w.]){name}(?!\w)", chosen, code)
    return mistake, code


def _below(stream: PCG32, count: int) -> int:
    """A whole number from 0 to count - 1."""
    return int(stream.uniform() * count)


def _can_rename(code: str, name: str, chosen: str) -> bool:
    """Whether a name is local, and the other one is free."""
    is_local = re.search(rf"^ +{name} =", code, re.M) is not None
    is_free = re.search(rf"(?<!\w){chosen}(?!\w)", code) is None
    return is_local and is_free and re.search(rf"\b{name}=|def .*\b{name}\b", code) is None
