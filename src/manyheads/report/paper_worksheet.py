"""A worksheet as printed sheets: the given numbers, then a table of boxes for each step.

The answers in the boxes come from the exact solution, edits included.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from manyheads.core.tables import Table, shortened
from manyheads.report.paper import Band, Cell, Grid, Heading, Part, Row, Sheets, Words, on_paper
from manyheads.worksheets.arithmetic import NEGATIVE_INFINITY, Number, decimal_of
from manyheads.worksheets.display import fraction_text, given_text
from manyheads.worksheets.exact import is_blocked
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.sheet import Sequence as Sentence
from manyheads.worksheets.sheet import Sheet
from manyheads.worksheets.sheet_text import (
    feature_columns,
    head_title,
    output_columns,
    tables_from_sheet,
)
from manyheads.worksheets.solution import Solution

_LONGEST_EXACT = 9
_WORDS_A_COLUMN = 10
_NOISE = Decimal("1e-40")
"""Below this a number of 50 digits may be what is left of larger ones that cancel."""
_SAME = re.compile(r"^\s*(\d+) \1$")
"""A position and a token that is its number."""


def sheets_from_worksheet(
    sheet: Worksheet,
    sequence: str | None = None,
    receiver: int | None = None,
    edits: Sequence[str] = (),
) -> Sheets:
    """Lay a worksheet out for paper, for one receiver of one sentence.

    Args:
        sheet: the worksheet, edits included.
        sequence: the sentence by name; None takes the first.
        receiver: which position, counted from 1; None takes the last, which sees all.
        edits: the changes, for a line on the sheet.

    Raises:
        WorksheetError: no such sentence or receiver.
    """
    sentence = sheet.sequence(sequence)
    chosen = len(sentence.tokens) if receiver is None else receiver
    solution = sheet.solve(sentence.name, exact=True).at(chosen)
    where = f"sequence {sentence.name}, receiver {chosen}"
    return Sheets(
        title=sheet.title or sheet.name,
        label=f"manyheads worksheet {sheet.name}, {where}",
        parts=(
            Words(text=_about(sheet, sentence, chosen)),
            *([_changes(edits)] if edits else []),
            Heading(text="Given"),
            Band(grids=tuple(map(_given_grid, tables_from_sheet(_narrowed(sheet, sentence))))),
            *steps_of(solution, chosen - 1),
        ),
    )


def _about(sheet: Worksheet, sentence: Sentence, receiver: int) -> str:
    count = sheet.num_heads
    seen = "A receiver attends only to itself and to earlier sources." if sheet.is_causal else ""
    token = sentence.tokens[receiver - 1]
    named = f"receiver {receiver}" + ("" if token == str(receiver) else f" ({token})")
    residual = " The input is added to the output." if sheet.has_residual else ""
    return (
        f"Compute the output of attention for {named} of the sequence {sentence.name}: "
        f"{' '.join(shortened(token, 40) for token in sentence.tokens)}. "
        f"There {'is 1 head' if count == 1 else f'are {count} heads'}; "
        f"scores are q·k times {scale_text(sheet)}. "
        f"{seen}{residual} "
        "Vectors are rows: q = x W_Q. Write one number in each box; work on another sheet of paper."
    ).replace("  ", " ")


def _changes(edits: Sequence[str]) -> Words:
    return Words(text=f"Changed from the original: {'; '.join(edits)}.", has_formulas=False)


def _narrowed(sheet: Worksheet, sentence: Sentence) -> Worksheet:
    """Keep of a worksheet what one sentence needs."""
    document, name, keys = sheet.document, sentence.name, sentence.token_keys
    document["sequences"] = {name: document["sequences"][name]}
    rows = document.pop("token_embedding", {})
    positions = document.pop("position_embedding", None)
    if keys is not None:
        document["token_embedding"] = {key: rows[key] for key in dict.fromkeys(keys)}
        if positions is not None:
            document["position_embedding"] = positions[: len(keys)]
    return Worksheet.from_document(document)


def _given_grid(table: Table) -> Grid:
    count = len(table.rows) - 1
    return Grid(
        title=table.title,
        columns=table.columns,
        rows=tuple(
            Row(
                names=tuple(_SAME.sub(r"\1", name) for name in row[: table.names]),
                cells=tuple(Cell(text=on_paper(text)) for text in row[table.names :]),
                is_total=table.has_total and index == count,
            )
            for index, row in enumerate(table.rows)
        ),
    )


def answer_text(number: Any) -> str:  # noqa: ANN401 - any number of a solution
    """Write an answer for a box: the exact form if it is short, else rounded.

    Args:
        number: exact, or a decimal number where no short exact form is left.
    """
    if isinstance(number, Decimal) and number != NEGATIVE_INFINITY and not isfinite(float(number)):
        return f"{number:.2e}"  # an exponential beyond the largest float64
    if isinstance(number, Decimal) and abs(number) < _NOISE:
        return "0.000"
    exact = on_paper(fraction_text(number, 4 * _LONGEST_EXACT))
    is_short = len(exact) <= _LONGEST_EXACT or exact.isdecimal()
    return exact if is_short else on_paper(fraction_text(number, 0))


def scale_text(sheet: Sheet) -> str:
    """The factor of a dot product: 1/√2, or as it is given."""
    if sheet.scale is None:
        return f"1/\N{SQUARE ROOT}{sheet.head_dim}"
    return on_paper(given_text(sheet.scale))


def steps_of(solution: Solution, receiver: int) -> Iterator[Part]:
    """Every step of a sum as tables with boxes, in order.

    Args:
        solution: the exact one of a single receiver.
        receiver: which, counted from 0.
    """
    sheet = solution.sheet
    sentence = sheet.sequence(solution.sequence)
    if sentence.token_keys is not None:
        yield Heading(text="Input rows")
        added = " + position row" if sheet.position_embedding is not None else ""
        rows = [
            _row(name, numbers) for name, numbers in zip(_names(sentence), sentence.x, strict=True)
        ]
        yield Grid(
            title=f"x = token row{added}",
            columns=("", "", *feature_columns(sheet)),
            rows=tuple(rows),
        )
    for head in range(sheet.num_heads):
        yield Heading(text=head_title(sheet, head))
        yield from _head_steps(solution, receiver, head)
    yield Heading(text="Output")
    yield from _output_steps(solution)
    if "probabilities" in solution.numbers:
        yield Heading(text="Prediction")
        yield from _prediction_steps(solution)


def _row(names: tuple[str, ...], numbers: Iterable[Number], is_total: bool = False) -> Row:
    return Row(names=names, cells=tuple(map(_box, numbers)), is_total=is_total)


def _box(number: Any) -> Cell:  # noqa: ANN401 - any number of a solution
    return Cell(text=answer_text(number), is_answer=True)


def _names(sentence: Sentence) -> list[tuple[str, str]]:
    """The position, from 1, and the token if it is not the position."""
    tokens = [(str(i + 1), shortened(token, 16)) for i, token in enumerate(sentence.tokens)]
    return [(number, "" if token == number else token) for number, token in tokens]


def _numbered(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{i + 1}" for i in range(count))


def _head_steps(solution: Solution, receiver: int, head: int) -> Iterator[Part]:
    sheet, numbers = solution.sheet, solution.numbers
    given = sheet.heads[head]
    names = _names(sheet.sequence(solution.sequence))
    q, k, v = (
        f"{part} = x W_{part.upper()}" + ("" if bias is None else f" + b_{part.upper()}")
        for part, bias in (("q", given.b_q), ("k", given.b_k), ("v", given.b_v))
    )
    yield Grid(
        title=f"Query of the receiver: {q}",
        columns=("", "", *_numbered("q", sheet.head_dim)),
        rows=(_row(names[receiver], numbers["q"][head]),),
    )
    pairs = zip(names, numbers["k"][head], numbers["v"][head], strict=True)
    yield Grid(
        title=f"Key and value of each source: {k}; {v}",
        columns=("", "", *_numbered("k", sheet.head_dim), *_numbered("v", sheet.v_head_dim)),
        rows=tuple(_row(name, (*key, *value)) for name, key, value in pairs),
    )
    yield _weights_grid(solution, receiver, head)
    yield Grid(
        title="Message: the sum over the sources of weight times value",
        columns=("", *_numbered("message ", sheet.v_head_dim)),
        rows=(_row((f"head {head + 1}",), numbers["head_outputs"][head]),),
    )


def _weights_grid(solution: Solution, receiver: int, head: int) -> Grid:
    """From dot products to weights; the mask is given."""
    sheet, numbers = solution.sheet, solution.numbers
    fields = ["dots", "scores", "masked_scores", "exp_scores", "attn_weights"]
    titles = ["q·k", "score", "masked score", "e^score", "weight"]
    if not sheet.is_causal:
        del fields[2], titles[2]
    rows = []
    for source, name in enumerate(_names(sheet.sequence(solution.sequence))):
        mask = "hidden" if is_blocked(sheet, receiver, source) else "seen"
        boxes = [_box(numbers[field][head][source]) for field in fields]
        rows.append(Row(names=(*name, mask), cells=tuple(boxes)))
    total = [None] * (len(fields) - 2)
    last = Row(
        names=("", "sum", ""),
        cells=(*total, _box(numbers["exp_sum"][head]), Cell(text="1")),
        is_total=True,
    )
    return Grid(
        title=f"From q·k to weights: score = q·k times {scale_text(sheet)}",
        columns=("", "", "mask", *titles),
        rows=(*rows, last),
    )


def _output_steps(solution: Solution) -> Iterator[Part]:
    sheet, numbers = solution.sheet, solution.numbers
    joined = [f"h{h + 1}.{i + 1}" for h in range(sheet.num_heads) for i in range(sheet.v_head_dim)]
    yield Grid(
        title="Concatenation: the messages of all heads, in order",
        columns=("", *joined),
        rows=(_row(("concat",), numbers["concat"]),),
    )
    rows = [_row((f"head {h + 1}",), row) for h, row in enumerate(numbers["head_contributions"])]
    if sheet.b_o is not None:
        rows.append(_given_row("b_O", sheet.b_o))
    rows.append(_row(("output",), numbers["output"], is_total=True))
    if "updated" in numbers:
        is_given = sheet.sequence(solution.sequence).token_keys is None
        rows.append(_given_row("x", numbers["x"]) if is_given else _row(("x",), numbers["x"]))
        rows.append(_row(("updated",), numbers["updated"], is_total=True))
    end = " + b_O" if sheet.b_o is not None else ""
    also = "; updated = output + x" if "updated" in numbers else ""
    yield Grid(
        title="Contribution of each head = message times its rows of W_O; "
        f"output = sum of the contributions{end}{also}",
        columns=("", *output_columns(sheet)),
        rows=tuple(rows),
    )


def _given_row(name: str, numbers: Iterable[Number]) -> Row:
    return Row(names=(name,), cells=tuple(Cell(text=on_paper(given_text(n))) for n in numbers))


def _prediction_steps(solution: Solution) -> Iterator[Part]:
    sheet, numbers = solution.sheet, solution.numbers
    row = "updated row" if "updated" in numbers else "output"
    yield Grid(
        title=f"Hidden units: sum = {row} W_hidden + bias; hidden = max(0, sum)",
        columns=("", *_numbered("u", len(numbers["hidden"]))),
        rows=(_row(("sum",), numbers["hidden_pre"]), _row(("hidden",), numbers["hidden"])),
    )
    words = list(zip(sheet.vocabulary, numbers["logits"], numbers["probabilities"], strict=True))
    yield Words(
        text="Words: logit = hidden units times the word's row of W_vocab + bias; "
        "probability = e^logit / sum of e^logit over all words."
    )
    size = max(_WORDS_A_COLUMN, -(-len(words) // 2))
    yield Band(
        grids=tuple(
            Grid(
                title="",
                columns=("word", "logit", "probability"),
                rows=tuple(_row((word,), pair) for word, *pair in words[start : start + size]),
            )
            for start in range(0, len(words), size)
        )
    )
    highest = max(decimal_of(probability) for *_, probability in words)
    best = [word for word, _, probability in words if decimal_of(probability) == highest]
    yield Grid(
        title="",
        columns=("", "most probable"),
        rows=(Row(names=("next word",), cells=(Cell(text=", ".join(best), is_answer=True),)),),
    )
