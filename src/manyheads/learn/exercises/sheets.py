"""The worksheets that exercises are drawn as: small whole numbers, weights that are fractions."""

from dataclasses import dataclass
from typing import Any

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Table
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.sheet import Matrix

Texts = list[list[str]]
SMALL = (0, 0, 1, -1, 2)
"""Entries of projections: often nothing, so that a sum stays short."""


@dataclass(frozen=True, kw_only=True)
class Solved:
    """A drawn worksheet and every number of it."""

    document: dict[str, Any]
    """The worksheet file."""
    sheet: Worksheet
    """The same, read."""
    steps: Steps
    """Its numbers by field, exact."""

    def again(self, sheet: Worksheet) -> Steps:
        """The numbers of a changed worksheet."""
        return solve_exact(sheet)


def solved(document: dict[str, Any]) -> Solved:
    """Let the engine work a drawn worksheet out."""
    sheet = Worksheet.from_document(document)
    return Solved(document=document, sheet=sheet, steps=solve_exact(sheet))


def texts(rows: tuple[tuple[int, ...], ...], factor: str = "") -> Texts:
    """Whole numbers as a worksheet file has them, each times a factor such as `*sqrt(2)`."""
    return [[f"{n}{factor}" if n else "0" for n in row] for row in rows]


def head(w_q: Texts, w_k: Texts, w_v: Texts) -> dict[str, Any]:
    """One head of a worksheet file."""
    return {"W_Q": w_q, "W_K": w_k, "W_V": w_v}


def document(
    name: str, x: Texts, heads: list[dict[str, Any]], w_o: Texts, is_causal: bool
) -> dict[str, Any]:
    """A worksheet file with one sentence; its tokens are the numbers of the positions."""
    return {
        "name": name,
        "title": f"Exercise: {name}",
        "features": [f"feature {i + 1}" for i in range(len(x[0]))],
        "sequences": {"main": {"tokens": [str(t + 1) for t in range(len(x))], "X": x}},
        "is_causal": is_causal,
        "residual": False,
        "heads": heads,
        "W_O": w_o,
    }


POSITIONS, FEATURES, KEY_FACTORS = 4, 6, (1, 2, 3, 4)
"""T and D of a mixing sheet, and the numbers whose logarithms are its key features."""


def mixing_sheet(draws: Draws, name: str, has_bias: bool) -> Solved:
    """Draw a causal worksheet of two or three heads with rational weights.

    T = 4 positions, D = 6 features, joined value width 6. Feature 1 is the query's sign, features 2
    and 3 are logarithms of small whole numbers, features 4 to 6 are values. Queries and keys are
    one number wide, so that a score is plus or minus such a logarithm.
    """
    num_heads = draws.choose((2, 3))
    width = FEATURES // num_heads
    x = [_position(draws) for _ in range(POSITIONS)]
    heads = [_mixing_head(draws, width) for _ in range(num_heads)]
    w_o = draws.matrix(FEATURES, FEATURES, (0, 0, 0, 1, -1, 2))
    sheet = document(name, x, heads, texts(w_o), is_causal=True)
    if has_bias:
        sheet["b_O"] = [str(n) for n in draws.row(FEATURES, (1, -1, 2, -2, 3))]
    return solved(sheet)


def _position(draws: Draws) -> list[str]:
    sign = draws.choose((1, 1, -1))
    logs = draws.row(2, KEY_FACTORS)
    values = draws.row(3, (-2, -1, 0, 1, 2, 3, 4, 5, 6))
    return [str(sign), *(f"ln({n})" if n > 1 else "0" for n in logs), *map(str, values)]


def _mixing_head(draws: Draws, width: int) -> dict[str, Any]:
    feature, sign = draws.between(1, 2), draws.choose((1, -1))
    w_q = [["1"]] + [["0"]] * (FEATURES - 1)
    w_k = [[str(sign) if i == feature else "0"] for i in range(FEATURES)]
    values = draws.matrix(3, width, SMALL)
    return head(w_q, w_k, [["0"] * width] * 3 + texts(values))


def table(name: str, rows: Matrix, row_word: str, column_word: str) -> Table:
    """A given table whose rows and columns are counted from 1."""
    return Table(
        name=name,
        rows=tuple(tuple(row) for row in rows),
        row_labels=labels(row_word, len(rows)),
        column_labels=labels(column_word, len(rows[0])),
    )


def labels(word: str, count: int) -> tuple[str, ...]:
    """`word 1`, `word 2`, ..."""
    return tuple(f"{word} {i + 1}" for i in range(count))
