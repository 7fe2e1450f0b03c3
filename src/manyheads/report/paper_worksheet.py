"""A worksheet as printed sheets: what is given, then every step with boxes in its shape.

The answers in the boxes are the engine's, of the numbers that the worksheet has now.
"""

import re
from collections.abc import Sequence

from manyheads.core.tables import Table
from manyheads.report.paper_parts import Band, Cell, Grid, Heading, Row, Sheets, Words, on_paper
from manyheads.report.paper_steps import scale_text, steps_of
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.sheet import Sequence as Sentence
from manyheads.worksheets.sheet_text import tables_from_sheet

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
        edits: what was changed, to be said on the sheet.

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
            *([Words(text=f"Changed from the original: {'; '.join(edits)}.")] if edits else []),
            Heading(text="Given"),
            Band(grids=tuple(map(_given_grid, tables_from_sheet(_narrowed(sheet, sentence))))),
            *steps_of(solution, chosen - 1),
        ),
    )


def _about(sheet: Worksheet, sentence: Sentence, receiver: int) -> str:
    count = sheet.num_heads
    seen = "A receiver sees itself and earlier sources only." if sheet.is_causal else ""
    token = sentence.tokens[receiver - 1]
    named = f"receiver {receiver}" + ("" if token == str(receiver) else f" ({token})")
    residual = " The input is added to the output." if sheet.has_residual else ""
    return (
        f"Work out what attention sends to {named} of the sequence {sentence.name}: "
        f"{' '.join(sentence.tokens)}. There {'is' if count == 1 else 'are'} {count} "
        f"head{'' if count == 1 else 's'}; scores are q·k times {scale_text(sheet)}. "
        f"{seen}{residual} "
        "Rows times matrices: q = x W_Q. Every box takes one number; work on other paper."
    ).replace("  ", " ")


def _narrowed(sheet: Worksheet, sentence: Sentence) -> Worksheet:
    """The same worksheet with what one sentence needs of it."""
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
