"""Names of single numbers: `river.output[9][0]` is a solved one, `heads[0].W_Q[3][1]` a given one.

Every index counts from 0 in a name and from 1 in a label for readers.
"""

from dataclasses import dataclass
from typing import Any

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.exact import Steps
from manyheads.worksheets.fields import Field, fields_of, name_of
from manyheads.worksheets.numbers import Literal
from manyheads.worksheets.places import Key, listed, parsed, written
from manyheads.worksheets.sheet import Sheet

_AXES = {
    "H": "head",
    "T": "receiver",
    "S": "source",
    "D": "feature",
    "O": "coordinate",
    "d": "column",
    "v": "column",
    "C": "concat column",
    "J": "hidden unit",
    "V": "word",
}


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One number of a solved sequence: a field and its indices, from 0."""

    sequence: str
    """Name of the sequence."""
    field: Field
    """The table of the number."""
    index: tuple[int, ...]
    """One index per axis."""

    @property
    def name(self) -> str:
        """As it is written: `river.output[9][0]`."""
        return written((self.sequence, self.field.name, *self.index))


def value_at(steps: Steps, field: str, index: tuple[int, ...]) -> Any:  # noqa: ANN401 - a number
    """Return a solved number."""
    value = steps[field]
    for i in index:
        value = value[i]
    return value


def quantity_from_text(sheet: Sheet, text: str) -> Quantity | str:
    """Read the name of a number: a `Quantity` if it is solved, its place if it is given.

    The name may begin with the worksheet's name and a colon. The sequence may be left out if there
    is only one.

    Raises:
        WorksheetError: the sequence or field does not exist, or the indices do not fit.
    """
    if not isinstance(text, str):
        raise WorksheetError(
            f"quantity ({quoted(text)}) must be text: "
            f"use {name_of(sheet.sequences[0].name, 'output', 0, 0)}"
        )
    keys = parsed(text.strip().removeprefix(f"{sheet.name}:"))
    fields = {field.name: field for field in fields_of(sheet)}
    first = str(keys[0])
    if first in sheet.sequence_names:
        if len(keys) == 1 or keys[1] not in fields:
            found = quoted(Literal(str(keys[1]))) if len(keys) > 1 else "nothing"
            raise WorksheetError(
                f"quantity ({quoted(Literal(text))}) has {found} after {first}: "
                f"use {listed(fields, 30)}"
            )
        return _solved(sheet, first, fields[str(keys[1])], keys[2:])
    if first in fields:
        if len(sheet.sequences) > 1:
            use = " or ".join(f"{name}.{written(keys)}" for name in sheet.sequence_names)
            raise WorksheetError(f"quantity ({quoted(Literal(text))}) has no sequence: use {use}")
        return _solved(sheet, sheet.sequences[0].name, fields[first], keys[1:])
    if first == "scale" and len(keys) == 1:
        return "scale"
    return _given(sheet, keys, text, [*fields])


def _given(sheet: Sheet, keys: tuple[Key, ...], text: str, fields: list[str]) -> str:
    tops = sheet.TABLES
    if keys[0] not in tops:
        example = name_of(sheet.sequences[0].name, "output", 0, 0)
        raise WorksheetError(
            f"quantity ({quoted(Literal(text))}) does not begin with a sequence, field or given "
            f"table: use {listed((*sheet.sequence_names, *fields, *tops), 40)}; example: {example}"
        )
    return written(keys)


def _solved(sheet: Sheet, sequence: str, field: Field, keys: tuple[Key, ...]) -> Quantity:
    index = tuple(key for key in keys if isinstance(key, int))
    form = field.name + "".join(f"[{_AXES[axis]}]" for axis in field.axes)
    shown = name_of(sequence, field.name, *index)
    if len(index) != len(keys) or len(index) != len(field.axes):
        raise WorksheetError(
            f"quantity ({shown}) has {len(keys)} indices, expected {len(field.axes)}: "
            f"write {sequence}.{form}, counted from 0"
        )
    for axis, i in zip(field.axes, index, strict=True):
        size = axis_size(sheet, sequence, axis)
        if i >= size:
            raise WorksheetError(
                f"quantity ({shown}) has {_AXES[axis]} {i}, but the last is {size - 1}: "
                f"use 0 to {size - 1}"
            )
    return Quantity(sequence=sequence, field=field, index=index)


def axis_size(sheet: Sheet, sequence: str, axis: str) -> int:
    """The length of an axis of `fields` in this worksheet."""
    positions, heads = len(sheet.sequence(sequence).tokens), sheet.num_heads
    sizes = {
        "H": heads,
        "T": positions,
        "S": positions,
        "D": sheet.embed_dim,
        "O": sheet.embed_dim,
        "d": sheet.head_dim,
        "v": sheet.v_head_dim,
        "C": heads * sheet.v_head_dim,
        "J": len(sheet.prediction.w_hidden[0]) if sheet.prediction else 0,
        "V": len(sheet.vocabulary),
    }
    return sizes[axis]


def label_of(sheet: Sheet, quantity: Quantity) -> str:
    """Describe a solved number, counting from 1: weight of head 1 (setting), ..."""
    tokens = sheet.sequence(quantity.sequence).tokens
    named = {
        "H": [head.label for head in sheet.heads],
        "T": tokens,
        "S": tokens,
        "D": sheet.features,
        "V": sheet.vocabulary,
    }
    if sheet.has_residual:
        named["O"] = sheet.features
    parts = []
    for axis, i in zip(quantity.field.axes, quantity.index, strict=True):
        is_feature = axis == "O" and sheet.has_residual
        plain = f"{_AXES['D' if is_feature else axis]} {i + 1}"
        label = str(named[axis][i]) if axis in named else plain
        parts.append(plain if label.lower() in (plain, str(i + 1)) else f"{plain} ({label})")
    return f"{quantity.field.title} of {', '.join(parts)}"
