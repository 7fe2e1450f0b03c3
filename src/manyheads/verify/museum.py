"""The museum of faults: what each looks like, what it does to numbers, and what finds it.

`python -m manyheads.verify.museum docs/museum.md` writes the page from the catalogue and the
exhibits, so that it cannot drift from what the code does.
"""

import sys
import tomllib
from pathlib import Path

import torch

from manyheads.faults import FAULT_KINDS
from manyheads.verify.diagnose import all_variants
from manyheads.verify.exhibits import Exhibit, exhibits
from manyheads.verify.grid import row_of
from manyheads.verify.popular import POPULAR
from manyheads.verify.showcase import SHEET, shown, spoiled_gradients

_INTRO = f"""# The museum of attention faults

This page is written by `python -m manyheads.verify.museum docs/museum.md`, and a test fails when it
is out of date. Every exhibit is a mistake of a kind that was met in public code. Its numbers are
those of the worksheet `{SHEET}` (see `manyheads worksheet show {SHEET}`), computed by a module that
holds the worksheet's weights and makes that one mistake; the second sample of the batch is the same
sentence backwards. [The grid](fault-grid.md) has the same modules before every check.

Sizes: B samples, T queries, S keys, H heads of width d, G key/value heads, D = H * d.
"""

_LEGAL = (
    "Its outputs are those of sound attention with other weights: a model trained with it from the "
    "start learns, and only weights that were trained elsewhere, or a reference, show the mistake."
)
_TRAINS = "Every weight gets a gradient, so that training goes on without an error."


def snippets() -> dict[str, dict[str, str]]:
    """The wrong and the right lines of every fault."""
    text = Path(__file__).with_name("museum.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _shape(exhibit: Exhibit) -> str:
    """What shapes say, by the popular test that asks only for them and by sizes of one."""
    row = row_of(exhibit.fault)
    if "size one" in row.caught and "values" not in row.caught:
        return "The shape is wrong where a size is one, and right elsewhere."
    return "The output has the right shape." if "shape only" in row.let_through else ""


def _is_legal(fault: str) -> bool:
    return fault == "scale" or any(v.fault == fault and v.is_legal for v in all_variants())


def _training(exhibit: Exhibit) -> str:
    if _is_legal(exhibit.fault):
        return _LEGAL
    spoiled = spoiled_gradients(exhibit)
    if not spoiled:
        return _TRAINS
    named = ", ".join(f"{what} gradient for `{name}`" for name, what in spoiled.items())
    return f"Training has {named}, and nothing raises."


def _numbers(exhibit: Exhibit) -> str:
    is_on_sheet, numbers = shown(exhibit)
    where = (
        f"On `{SHEET}`"
        if is_on_sheet
        else f"`{SHEET}` cannot show it; on random weights (width 12, the first six numbers)"
    )
    return (
        f"{where}, {numbers.what}:\n\n"
        f"| right | with the fault |\n| --- | --- |\n| {numbers.before} | {numbers.after} |\n"
    )


def _found_by(exhibit: Exhibit) -> str:
    row = row_of(exhibit.fault)
    through = [name for name in POPULAR if name in row.let_through]
    text = f"Found by: {', '.join(row.caught)}."
    if through:
        text += f" Content with it: {', '.join(through)}."
    return text


def exhibit_text(exhibit: Exhibit) -> str:
    """One exhibit of the page."""
    kind, code = FAULT_KINDS[exhibit.fault], snippets()[exhibit.fault]
    parts = (
        f"## {exhibit.fault}",
        f"{kind.what[0].upper()}{kind.what[1:]}.",
        f"```py\n# wrong\n{code['wrong'].strip()}\n\n# right\n{code['right'].strip()}\n```",
        f"{_shape(exhibit)} {_training(exhibit)}",
        _numbers(exhibit),
        f"{_found_by(exhibit)} Remedy: {kind.fix}.",
    )
    return "\n\n".join(parts)


def page() -> str:
    """The page docs/museum.md."""
    return "\n\n".join((_INTRO, *map(exhibit_text, exhibits().values()))) + "\n"


if __name__ == "__main__":
    torch.set_num_threads(1)  # small sums: more threads only wait for each other
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
