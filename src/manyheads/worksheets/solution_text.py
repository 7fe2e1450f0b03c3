"""A solution as tables for a reader: receivers, sources and heads count from 1."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from manyheads.core.tables import Table, html_from_tables, shortened, text_from_table, wrapped
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.sheet import Sheet

_TOP_WORDS = 5
_LONGEST = 10
_KINDS = (
    "Solved in float64, rounded to read.",
    "Solved exactly; what has no short exact form is rounded to read.",
)


@runtime_checkable
class Solved(Protocol):
    """What is needed of a solution."""

    @property
    def sheet(self) -> Sheet:
        """What was given."""

    @property
    def sequence(self) -> str:
        """Which sentence."""

    @property
    def exact(self) -> bool:
        """Whether fractions were kept."""

    @property
    def numbers(self) -> Mapping[str, npt.NDArray[Any]]:
        """Arrays by field name."""

    @property
    def receiver(self) -> int | None:
        """The one receiver kept, from 1."""


def text_from_solution(solved: Solved) -> str:
    """Write a solution as tables in 80 columns."""
    heading = f"{solved.sheet.name}: {solved.sheet.title}"
    parts = ["\n".join([heading, "=" * min(len(heading), 80), *_lines(solved)])]
    return "\n\n".join([*parts, *(text_from_table(table) for table in _tables(solved))])


def html_from_solution(solved: Solved) -> str:
    """Write the same tables as HTML."""
    return html_from_tables(solved.sheet.title, _lines(solved), _tables(solved))


def _lines(solved: Solved) -> list[str]:
    sheet, sequence = solved.sheet, solved.sheet.sequence(solved.sequence)
    seen = "each receiver sees itself and earlier sources" if sheet.is_causal else "all see all"
    kind = _KINDS[solved.exact]
    lines = [f"Sequence {sequence.name}: {' '.join(sequence.tokens)}"]
    if solved.receiver is not None:
        lines.append(f"Receiver {solved.receiver}: {sequence.tokens[solved.receiver - 1]}")
    lines.append(f"{sheet.num_heads} heads; {seen}.")
    return [*chain.from_iterable(map(wrapped, lines)), kind]


def _tables(solved: Solved) -> Iterable[Table]:
    return _receiver_tables(solved) if solved.receiver else _full_tables(solved)


def _cells(numbers: Iterable[Any], longest: int = 16) -> tuple[str, ...]:
    return tuple(fraction_text(number, longest) for number in numbers)


def token_names(solved: Solved) -> list[tuple[str, str]]:
    """The position, from 1, and the shortened text of each token."""
    tokens = solved.sheet.sequence(solved.sequence).tokens
    return [(str(i + 1), shortened(token, 12)) for i, token in enumerate(tokens)]


def feature_columns(sheet: Sheet) -> tuple[str, ...]:
    """The features' names as columns."""
    return tuple(shortened(name, 14) for name in sheet.features)


def head_title(sheet: Sheet, index: int) -> str:
    """The head's number from 1, and its label if it has one."""
    plain, label = f"Head {index + 1}", sheet.heads[index].label
    return plain if label.lower() == plain.lower() else f"{plain}, {label}"


def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i + 1}" for i in range(count))


def _full_tables(solved: Solved) -> Iterable[Table]:
    sheet, numbers = solved.sheet, solved.numbers
    features = feature_columns(sheet)
    yield _by_token(solved, "Input x", features, numbers["x"])
    for h in range(sheet.num_heads):
        yield from _head_tables(solved, h)
    joined = _joined_columns(sheet)
    yield _by_token(solved, "Head outputs joined (concat)", joined, numbers["concat"])
    for h, contribution in enumerate(numbers["head_contributions"]):
        title = f"{head_title(sheet, h)}: contribution to the output"
        yield _by_token(solved, title, features, contribution)
    end = "joined heads W_O" if sheet.b_o is None else "joined heads W_O + b_O"
    yield _by_token(solved, f"Output = {end}", features, numbers["output"])
    if "updated" in numbers:
        yield _by_token(solved, "Updated row = x + output", features, numbers["updated"])
    if "probabilities" in numbers:
        yield _words_by_receiver(solved)


def _joined_columns(sheet: Sheet) -> tuple[str, ...]:
    heads, width = range(sheet.num_heads), range(sheet.v_head_dim)
    return tuple(f"h{h + 1}.{i + 1}" for h in heads for i in width)


def _head_tables(solved: Solved, h: int) -> Iterable[Table]:
    sheet, numbers, title = solved.sheet, solved.numbers, head_title(solved.sheet, h)
    d, width, names = sheet.head_dim, sheet.v_head_dim, token_names(solved)
    rows = zip(names, numbers["q"][h], numbers["k"][h], numbers["v"][h], strict=True)
    yield Table(
        title=f"{title}: query q, key k and value v of each token",
        columns=("", "token", *_numbered("q", d), *_numbered("k", d), *_numbered("v", width)),
        rows=tuple((*name, *_cells((*q, *k, *v))) for name, q, k, v in rows),
        names=2,
    )
    sources = tuple(n if n == token else f"{n} {shortened(token, 7)}" for n, token in names)
    for field, text in (
        ("masked_scores", "scores, -inf where blocked"),
        ("attn_weights", "weights"),
    ):
        shown = f"{title}: {text} (receivers down, sources across)"
        yield _by_token(solved, shown, sources, numbers[field][h])
    columns = _numbered("v", width)
    yield _by_token(solved, f"{title}: head output", columns, numbers["head_outputs"][h])


def _by_token(
    solved: Solved, title: str, columns: tuple[str, ...], numbers: npt.NDArray[Any]
) -> Table:
    rows = zip(token_names(solved), numbers, strict=True)
    return Table(
        title=title,
        columns=("", "token", *columns),
        rows=tuple((*name, *_cells(row, _LONGEST)) for name, row in rows),
        names=2,
    )


def _ranked(probabilities: npt.NDArray[Any]) -> list[int]:
    return sorted(range(len(probabilities)), key=lambda w: (-float_of_any(probabilities[w]), w))


def float_of_any(number: Any) -> float:  # noqa: ANN401 - a float or an exact number
    """A float of any number in a solution."""
    return float(number) if isinstance(number, float) else float_of(number)


def _words_by_receiver(solved: Solved) -> Table:
    rows = []
    for name, row in zip(token_names(solved), solved.numbers["probabilities"], strict=True):
        best = [
            f"{solved.sheet.vocabulary[w]} {float_of_any(row[w]):.3f}" for w in _ranked(row)[:3]
        ]
        rows.append((*name, *best, *[""] * (3 - len(best))))
    return Table(
        title="Next word: the three most probable",
        columns=("", "after", "first", "second", "third"),
        rows=tuple(rows),
        names=2,
    )


def _receiver_tables(solved: Solved) -> Iterable[Table]:
    sheet, numbers = solved.sheet, solved.numbers
    for h in range(sheet.num_heads):
        yield _sources_table(solved, h)
    yield _output_table(solved)
    if "hidden" in numbers:
        pairs = zip(numbers["hidden_pre"], numbers["hidden"], strict=True)
        yield Table(
            title="Hidden units: the sum, and 0 where it is negative",
            columns=("unit", "sum", "hidden"),
            rows=tuple((str(j + 1), *_cells(pair)) for j, pair in enumerate(pairs)),
        )
        yield _words_table(solved)


def _sources_table(solved: Solved, h: int) -> Table:
    sheet, numbers = solved.sheet, solved.numbers
    names = token_names(solved)
    columns = [numbers[name][h] for name in ("dots", "masked_scores", "exp_scores", "attn_weights")]
    rows = [
        (*names[s], *_cells(column[s] for column in columns), *_cells(numbers["v"][h][s]))
        for s in range(len(names))
    ]
    total = ("", "sum", "", "", fraction_text(numbers["exp_sum"][h]), "1")
    query = ", ".join(_cells(numbers["q"][h]))
    return Table(
        title=f"{head_title(sheet, h)}: q = ({query}); last line: weight times v, summed",
        columns=(
            "",
            "source",
            "q.k",
            "score",
            "e^score",
            "weight",
            *_numbered("v", sheet.v_head_dim),
        ),
        rows=(*rows, (*total, *_cells(numbers["head_outputs"][h]))),
        names=2,
        has_total=True,
    )


def _output_table(solved: Solved) -> Table:
    sheet, numbers = solved.sheet, solved.numbers
    named = {f"head {h + 1}": row for h, row in enumerate(numbers["head_contributions"])}
    if sheet.b_o is not None:
        named["b_O"] = np.array(sheet.b_o, dtype=object)
    named["output"] = numbers["output"]
    if "updated" in numbers:
        named |= {"x": numbers["x"], "updated": numbers["updated"]}
    rows = zip(feature_columns(sheet), *named.values(), strict=True)
    return Table(
        title="Output: the heads' contributions, added up",
        columns=("feature", *named),
        rows=tuple((name, *_cells(row)) for name, *row in rows),
    )


def _words_table(solved: Solved) -> Table:
    sheet, numbers = solved.sheet, solved.numbers
    chosen = _ranked(numbers["probabilities"])[:_TOP_WORDS]
    target = sheet.sequence(solved.sequence).target
    return Table(
        title=f"Next word: the most probable of {len(sheet.vocabulary)}"
        + (f" (wanted: {target})" if target else ""),
        columns=("", "word", "logit", "probability"),
        rows=tuple(
            (
                str(rank + 1),
                shortened(sheet.vocabulary[w], 20),
                *_cells((numbers["logits"][w], numbers["probabilities"][w])),
            )
            for rank, w in enumerate(chosen)
        ),
        names=2,
    )
