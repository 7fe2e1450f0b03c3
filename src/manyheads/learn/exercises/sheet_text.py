"""An exercise as text in 80 columns."""

from manyheads.core.tables import wrapped
from manyheads.learn.exercises.form import Exercise, Table
from manyheads.worksheets.display import fraction_text

_GAP = "  "


def exercise_text(exercise: Exercise) -> str:
    """Title, question, given tables and what is asked."""
    lines = [f"{exercise.title} ({exercise.id})", *wrapped(exercise.prompt, later=""), ""]
    for table in exercise.given:
        lines += [*_table_lines(table), ""]
    wanted = f"Type {len(exercise.asks)} numbers: {', '.join(exercise.asks)}."
    return "\n".join([*lines, *wrapped(wanted, later="")])


def working_text(exercise: Exercise) -> str:
    """The way to the answer."""
    return "\n".join(line for step in exercise.working for line in wrapped(step, indent="  "))


def _table_lines(table: Table) -> list[str]:
    """A line a row; the columns are named where there is more than one."""
    cells = [[fraction_text(number) for number in row] for row in table.rows]
    if table.column_labels == ("value",):
        width = max(len(label) for label in table.row_labels)
        pairs = zip(table.row_labels, cells, strict=True)
        return [f"  {label:<{width}}{_GAP}{row[0]}" for label, row in pairs]
    rows = [list(table.column_labels), *cells] if len(cells[0]) > 1 else cells
    names = [table.name] if len(cells[0]) > 1 else []
    names += [f"  {label}" for label in table.row_labels]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first = max(len(name) for name in names)
    if first + sum(widths) + len(_GAP) * len(widths) > 80:
        rows[0] = [label.rpartition(" ")[2] for label in table.column_labels]
        names[0] = f"{table.name} ({table.column_labels[0].rpartition(' ')[0]})"
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        first = max(len(name) for name in names)
    return [
        f"{name:<{first}}"
        + "".join(f"{_GAP}{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for name, row in zip(names, rows, strict=True)
    ]
