"""Traces for readers: tables in 80 columns of text, and the same tables as HTML."""

import math
import textwrap
from collections.abc import Mapping
from html import escape

from torch import Tensor

from manyheads.core.tables import WIDTH, Table, html_from_table, text_from_table

_SHOWN = (
    ("masked_scores", "key"),
    ("attn_weights", "key"),
    ("head_outputs", "dim"),
    ("head_contributions", "dim"),
)
_MAX_COLUMNS = 8
_MAX_ROWS = 12
_MAX_HEADS = 8


def _cell(value: float) -> str:
    """One number with four decimals; in scientific notation if that is long or shows only zeros."""
    if value == -math.inf:
        return "blocked"
    is_plain = value == 0.0 or 5e-5 <= abs(value) < 99999.0 or not math.isfinite(value)
    return f"{value:.4f}" if is_plain else f"{value:.2e}"


def _fitting(columns: list[list[str]], label_width: int) -> int:
    """Number of columns that fit next to the labels."""
    used, fitting = label_width + 2, 0
    for column in columns:
        used += max(map(len, column)) + 2
        fitting += used <= WIDTH
    return fitting


def _table(title: str, values: Tensor, row_label: str, column_label: str) -> Table:
    """The last rows and first columns of a matrix, with a note on what was left out."""
    num_rows, num_columns = values.shape
    first = max(0, num_rows - _MAX_ROWS)
    columns = [
        [f"{column_label} {i + 1}", *map(_cell, column)]
        for i, column in enumerate(values[first:, :_MAX_COLUMNS].T.tolist())
    ]
    columns = columns[: _fitting(columns, len(f"{row_label} {num_rows}"))]
    heads, *rows = zip(*columns, strict=True)
    note = [f"rows 1 to {first} left out"] if first else []
    if num_columns > len(columns):
        note.append(f"columns {len(columns) + 1} to {num_columns} left out")
    if note:
        title += f" ({'; '.join(note)})"
    labelled = tuple((f"{row_label} {first + i + 1}", *row) for i, row in enumerate(rows))
    return Table(title=title, columns=("", *heads), rows=labelled)


def _tables(tensors: Mapping[str, Tensor]) -> list[Table]:
    """Each head's scores, weights, message and contribution, then the output, of sample 1."""
    tables = []
    for h in range(min(tensors["q"].shape[1], _MAX_HEADS)):
        for name, column in _SHOWN:
            values = tensors[name][0, h].detach().cpu()
            tables.append(_table(f"head {h + 1} · {name}", values, "query", column))
    tables.append(_table("output", tensors["output"][0].detach().cpu(), "query", "dim"))
    return tables


def _title(form: str, tensors: Mapping[str, Tensor]) -> str:
    b, h, t, d = tensors["q"].shape
    g, s = tensors["k"].shape[1:3]
    output = tensors["output"]
    dtype = str(output.dtype).removeprefix("torch.")
    sizes = f"B={b} T={t} S={s} D={output.shape[2]} H={h} G={g} d={d}"
    return f"AttentionTrace ({form}, {dtype}): {sizes}"


def _left_out(tensors: Mapping[str, Tensor]) -> str:
    """Which samples and heads are not shown."""
    batch, num_heads = tensors["q"].shape[:2]
    notes = [f"sample 1 of {batch} shown"] if batch > 1 else []
    if num_heads > _MAX_HEADS:
        notes.append(f"heads {_MAX_HEADS + 1} to {num_heads} left out")
    return "; ".join(notes)


def text_from_tensors(form: str, tensors: Mapping[str, Tensor]) -> str:
    """Tables in 80 columns.

    Args:
        form: which form computed the trace.
        tensors: its tensors by field name.
    """
    lines = textwrap.wrap(_title(form, tensors), WIDTH)
    if notes := _left_out(tensors):
        lines.append(notes)
    for table in _tables(tensors):
        lines += ["", text_from_table(table)]
    return "\n".join(lines)


def html_from_tensors(form: str, tensors: Mapping[str, Tensor]) -> str:
    """Tables as HTML.

    Args:
        form: which form computed the trace.
        tensors: its tensors by field name.
    """
    tables = "".join(html_from_table(table) for table in _tables(tensors))
    notes = _left_out(tensors)
    shown = f"<p>{escape(notes)}</p>" if notes else ""
    return f"<div><p><strong>{escape(_title(form, tensors))}</strong></p>{shown}{tables}</div>"
