"""The museum of faults: the code of each, its effect on numbers, and the checks that find it.

`python -m tools.museum.pages docs` writes docs/museum.md and docs/fault-grid.md from the catalogue
and the examples.
"""

import sys
from pathlib import Path

import torch

from manyheads.faults import FAULT_KINDS
from manyheads.verify.variants import all_variants
from tools.museum import grid
from tools.museum.examples import FaultExample, fault_examples
from tools.museum.grid import row_of
from tools.museum.popular import POPULAR
from tools.museum.showcase import SHEET, shown, spoiled_gradients

_INTRO = f"""# The museum of attention faults

Each section shows one mistake that occurs in public code: the wrong and the right lines, its
effect on numbers, and the checks that find it. The numbers come from a module that has the weights
of the worksheet `{SHEET}` and this one mistake (run `manyheads worksheet show {SHEET}` to see the
worksheet). The second sample of the batch is the same sentence in reverse order.
[The grid](fault-grid.md) shows the result of every check for the same modules.

Sizes: B samples, T queries, S keys, H heads of width d, G key/value heads, D = H * d.

`python -m tools.museum.pages docs` writes this page, and a test fails when it is out of date.
"""

_LEGAL = (
    "Its outputs equal those of correct attention with other weights. A model that is trained "
    "with it from the start learns. Only pretrained weights or a reference show the mistake."
)
_TRAINS = "Every weight gets a gradient, so training continues without an error."


def _shape(example: FaultExample) -> str:
    """Whether the shape is right, by the popular shape test and at sizes of one."""
    row = row_of(example.fault)
    if "size one" in row.caught and "values" not in row.caught:
        return "The shape is wrong if a size is 1, and right otherwise."
    return "The output has the right shape." if "shape only" in row.let_through else ""


def is_legal(fault: str) -> bool:
    """Whether its outputs are those of correct attention with other weights."""
    return fault == "scale" or any(v.fault == fault and v.is_legal for v in all_variants())


def _training(example: FaultExample) -> str:
    if is_legal(example.fault):
        return _LEGAL
    spoiled = spoiled_gradients(example)
    if not spoiled:
        return _TRAINS
    named = ", ".join(f"{what} gradient for `{name}`" for name, what in spoiled.items())
    return f"Training has {named}, and no error is raised."


def _numbers(example: FaultExample) -> str:
    is_on_sheet, numbers = shown(example)
    where = (
        f"On `{SHEET}`"
        if is_on_sheet
        else f"`{SHEET}` cannot show it. With random weights (width 12, the first six numbers)"
    )
    return (
        f"{where}, {numbers.what}:\n\n"
        f"| right | with the fault |\n| --- | --- |\n| {numbers.before} | {numbers.after} |\n"
    )


def _found_by(example: FaultExample) -> str:
    row = row_of(example.fault)
    through = [name for name in POPULAR if name in row.let_through]
    text = f"- Found by: {', '.join(row.caught)}"
    if through:
        text += f"\n- Popular tests that pass: {', '.join(through)}"
    return text


def example_text(example: FaultExample) -> str:
    """One example of the page."""
    kind = FAULT_KINDS[example.fault]
    parts = (
        f"## {example.fault}",
        f"{kind.what[0].upper()}{kind.what[1:]}.",
        f"```py\n# wrong\n{kind.wrong.strip()}\n\n# right\n{kind.right.strip()}\n```",
        f"{_shape(example)} {_training(example)}",
        _numbers(example),
        f"{_found_by(example)}\n- Fix: {kind.fix}",
    )
    return "\n\n".join(parts)


def page() -> str:
    """The page docs/museum.md."""
    return "\n\n".join((_INTRO, *map(example_text, fault_examples().values()))) + "\n"


def main(folder: Path) -> None:
    """Write both pages into a folder."""
    torch.set_num_threads(1)  # small sums: more threads only wait for each other
    (folder / "museum.md").write_text(page(), encoding="utf-8")
    (folder / "fault-grid.md").write_text(grid.page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
