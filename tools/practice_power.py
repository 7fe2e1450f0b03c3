"""Writes docs/practice-power.md: what the practice judge accepts, beside a plain allclose.

    python -m tools.practice_power

The plain test is the usual one: one call with one sample and T = S, and the outputs compared. The
number of its call is one whose masks hide something.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from manyheads.practice.case import Case
from manyheads.practice.difference import is_close
from manyheads.practice.judging import judged_here
from manyheads.practice.running import Ran, load_code, pair, run
from manyheads.practice.task import Task, task, task_names

PAGE = Path(__file__).resolve().parents[1] / "docs" / "practice-power.md"
_FILES = frozenset({"<answer>"})
_ONE_CALL = Case(number=7, sizes={"B": 1, "H": 4, "G": 2, "T": 4, "S": 4, "d": 4})
_HEAD = """# How strict is the practice judge?

Each task has right answers in several styles, and wrong answers with one mistake each. The judge
must accept all right answers that keep the constraints, and no wrong one. The last column is the
usual test for comparison: one call with one sample and T = S, and `allclose` of the outputs.
`python -m tools.practice_power` writes this page; a slow test makes the table again.

The mistakes were used while the judge was written. So the table shows that it finds known mistakes,
not how it does on others.

| task | right answers | refused | wrong answers | accepted | accepted by one `allclose` |
| --- | ---: | ---: | ---: | ---: | ---: |
"""


def _ran(one: Task, entry: object, reference: object) -> Ran | None:
    try:
        _, made = pair(one, reference, entry, _ONE_CALL)
    except Exception:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(one, made, _ONE_CALL, _FILES)


def passes_allclose(one: Task, code: str) -> bool:
    """Whether the outputs of one call are close to those of the solution."""
    reference = load_code(one.imports + one.solution.code, one.entry, "<solution>")
    entry = load_code(one.imports + code, one.entry, "<answer>")
    want, have = _ran(one, reference, reference), _ran(one, entry, reference)
    if want is None or have is None or len(want.values) != len(have.values):
        return False
    for a, b in zip(want.values, have.values, strict=True):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            if not is_close(a.to(b.dtype), b, 1e-4):
                return False
        elif a != b:
            return False
    return have.raised is None


def _is_right(one: Task, code: str) -> bool:
    return judged_here(one, load_code(one.imports + code, one.entry, "<answer>"), _FILES).solved


def _rows() -> Iterator[tuple[str, int, int, int, int, int]]:
    for name in task_names():
        one = task(name)
        right = [answer.code for answer in one.answers if answer.breaks is None]
        wrong = [a.with_mistake(m) for a in one.answers for m in a.mistakes]
        refused = sum(not _is_right(one, code) for code in right)
        accepted = sum(_is_right(one, code) for code in wrong)
        plain = sum(passes_allclose(one, code) for code in wrong)
        yield name, len(right), refused, len(wrong), accepted, plain


def page() -> str:
    """The text of the page."""
    rows = list(_rows())
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    sums = [sum(column) for column in list(zip(*rows, strict=True))[1:]]
    lines.append(f"| **all** | {' | '.join(f'**{n}**' for n in sums)} |")
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
