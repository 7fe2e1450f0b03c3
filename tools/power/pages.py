"""How many faults each way to test attention accepts.

`python -m tools.power.pages docs` writes docs/power.md. It measures every row, which takes minutes.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from manyheads.verify.findings import VERDICTS
from manyheads.verify.report import VerifyReport
from tools.museum.examples import FaultExample, fault_examples
from tools.museum.module import SUBJECTS
from tools.museum.pages import is_legal
from tools.power.ways import WAYS, accepts, judged, sound_example

_DECLARATIONS = {"check, sizes only": False, "check, declared": True}
"""The ways of this verifier, and whether the whole declaration is given."""
COLUMNS = (*WAYS, *_DECLARATIONS)
"""The ways that are compared, in the order of the columns."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What every way makes of one module."""

    accepted: dict[str, bool | None]
    """By column: whether it accepts the module; None where it refuses the sound one too."""
    said: dict[str, str]
    """By column of this verifier: the verdict, and the fault that it names."""


def _said(report: VerifyReport, fault: str) -> str:
    """The verdict, with the name of the first finding where it is another one."""
    first = report.findings[0].fault if report.findings else None
    if report.verdict == "sound" or first == fault:
        return report.verdict
    return f"{report.verdict}, `{first}`" if first else f"{report.verdict}, no name"


def _row(example: FaultExample) -> Row:
    accepted = {name: accepts(name, example) for name in WAYS}
    said = {}
    for name, is_declared in _DECLARATIONS.items():
        report = judged(example, is_declared=is_declared)
        accepted[name], said[name] = report.verdict == "sound", _said(report, example.fault)
    return Row(accepted=accepted, said=said)


@cache
def row_of(fault: str) -> Row:
    """Put one fault to every way."""
    return _row(fault_examples()[fault])


@cache
def sound_row_of(kind: str) -> Row:
    """Put the sound module of one declaration to every way."""
    return _row(sound_example(kind))


_INTRO = """# Power of the checks

How many faulty modules does each way to test attention accept? Every fault of the
[catalogue](museum.md) is built as one small module with random weights. The same modules are put to
five popular tests, and to `manyheads check`.

- **output shape**: the output has the shape of the input.
- **rows sum to one**: each row of attention weights sums to one. Two samples of length 5.
- **one allclose**: the output equals that of a reference with the same weights. One call, one
  sample, T = S = 5, no mask, tolerance 1e-5.
- **exercise judge**: the same for the one call that an exercise describes. One sample, T = S = 6,
  numbers between 0 and 1, causal if the call can ask for it, tolerance 1e-4. This is none of the
  public judges: it is written after a description of what they compare.
- **trains**: 100 training steps lower the loss by a quarter, at least. The task is to copy a marked
  position.
- **check, sizes only**: `manyheads check` with the width and the numbers of heads.
- **check, declared**: `manyheads check` with the complete [declaration](check.md#a-subject-file).

`python -m tools.power.pages docs` measures these numbers and writes this page.

## Share of faults accepted

A test *accepts* a module if it passes. `manyheads check` accepts it if the verdict is sound. If a
test also rejects the correct module of the same declaration, that fault is not counted for it.
"""

_ROWS = """## By fault

`accepts` means that the test passes although the fault is present. The last two columns have the
verdict. A name follows if the first finding does not name the fault of the row.
"""

_EXPLAINED = """With sizes only, `manyheads check` accepts these faults, because their outputs are
those of correct attention with other weights: {legal}. Only a declaration of the weights shows
them. It also accepts these: {other}. Some of them are in what the sizes leave open, such as the
order of axes or the polarity of a mask. The others are missed: declare what matters to you.
"""

_REFUSED = """## Correct modules that are rejected

For each declaration of the examples there is also one module without a fault. These are rejected:
"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def counts(column: str, rows: Sequence[Row]) -> tuple[int, int]:
    """How many rows a way accepts, and for how many it was asked."""
    answers = [row.accepted[column] for row in rows if row.accepted[column] is not None]
    return sum(map(bool, answers)), len(answers)


def _share(column: str, rows: Sequence[Row], sound: Sequence[Row]) -> list[str]:
    through, asked = counts(column, rows)
    refused = sum(not row.accepted[column] for row in sound)
    share = f"{100 * through / asked:.0f} %"
    return [column, f"{through} of {asked}", share, f"{refused} of {len(sound)}"]


def _verdicts(column: str, rows: Sequence[Row]) -> list[str]:
    said = [row.said[column].split(", ")[0] for row in rows]
    named = sum(row.said[column] in ("faulty", "nonstandard") for row in rows)
    return [column, *(str(said.count(verdict)) for verdict in VERDICTS), str(named)]


def _explained(rows: dict[str, Row]) -> str:
    """Why check accepts faults if only the sizes are declared."""
    kept = [fault for fault, row in rows.items() if row.accepted["check, sizes only"]]
    legal = [f"`{fault}`" for fault in kept if is_legal(fault)]
    other = [f"`{fault}`" for fault in kept if not is_legal(fault)]
    return _EXPLAINED.format(legal=", ".join(legal), other=", ".join(other))


def line_of(fault: str) -> str:
    """The line of one fault in the last table."""
    row = row_of(fault)
    marks = {True: "accepts", False: "", None: "–"}
    cells = [row.said.get(name, marks[row.accepted[name]]) for name in COLUMNS]
    return "| " + " | ".join((f"`{fault}`", *cells)) + " |"


def sound_line_of(kind: str) -> str:
    """The line of one correct module."""
    row = sound_row_of(kind)
    refused = [row.said.get(n, "rejects") if not row.accepted[n] else "" for n in COLUMNS]
    return "| " + " | ".join((kind, *refused)) + " |"


def _lines(first: str, names: Sequence[str], line: Callable[[str], str]) -> str:
    return _table([first, *COLUMNS], []) + "\n".join(map(line, names)) + "\n"


def page() -> str:
    """The page docs/power.md."""
    faults, kinds = tuple(fault_examples()), tuple(SUBJECTS)
    rows, sound = [row_of(f) for f in faults], [sound_row_of(k) for k in kinds]
    head = ("test", "faults accepted", "share", "correct modules rejected")
    shares = _table(head, [_share(column, rows, sound) for column in COLUMNS])
    verdicts = _table(
        ("verdicts on faults", *VERDICTS, "named right first"),
        [_verdicts(column, rows) for column in _DECLARATIONS],
    )
    refused = [k for k in kinds if not all(sound_row_of(k).accepted.values())]
    explained = _explained(dict(zip(faults, rows, strict=True)))
    parts = [_INTRO, shares, verdicts, explained, _ROWS, _lines("fault", faults, line_of)]
    if refused:
        parts += [
            "## Correct modules that are rejected\n",
            _lines("declared as", refused, sound_line_of),
        ]
    return "\n".join(parts)


def main(folder: Path) -> None:
    """Write the page into a folder."""
    torch.set_num_threads(1)  # small sums: more threads only wait for each other
    (folder / "power.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
