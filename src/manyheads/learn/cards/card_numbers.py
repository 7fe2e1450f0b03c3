"""What the numbers of a card are: the tables beside its texts, worked out by the engine."""

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

from manyheads.core.errors import ConfigError, LearnError
from manyheads.learn.said import Quoted, Said, number_named, say
from manyheads.worksheets.arithmetic import Number, add, multiply, reciprocal
from manyheads.worksheets.exact import solve_exact
from manyheads.worksheets.interventions import one_wide_head, without_head, zero_query
from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names
from manyheads.worksheets.quantities import Quantity, quantity_from_text, value_at

_NAME = re.compile(r"\{\{([^|{}]+)")
_TEXT = re.compile(r"<<([^<>]+)>>")


class CardNumbers:
    """The numbers and texts that one card may name.

    Args:
        row: the card; its tables `layers`, `models`, `sheets`, `sums` and `ratios` say what is
            worked out, and `refused` is a layer that nobody can build.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self._sheets: dict[str, Worksheet] = {
            name: _changed_sheet(how) for name, how in row.get("sheets", {}).items()
        }
        self._numbers: dict[str, Number] = {}
        for name, sizes in row.get("layers", {}).items():
            self._add(name, _of_layer(sizes))
        for name, sizes in row.get("models", {}).items():
            self._add(name, _of_model(sizes))
        self._add("refused", {name: Fraction(n) for name, n in row.get("refused", {}).items()})
        for name, terms in row.get("sums", {}).items():
            self._numbers[name] = reduce(add, [self._number(term) for term in terms])
        for name, (part, whole) in row.get("ratios", {}).items():
            self._numbers[name] = multiply(self._number(part), reciprocal(self._number(whole)))

    def fill(self, template: str) -> Said:
        """Fill a text of the card in.

        Raises:
            LearnError: a name that nothing stands for.
            WorksheetError: no such number in a worksheet.
        """
        text = _TEXT.sub(lambda match: self._text(match[1]), template)
        names = {match[1].strip() for match in _NAME.finditer(text)}
        said = say(text, {name: self._number(name) for name in names})
        return Said(tuple(self._qualified(part) for part in said.parts))

    def _add(self, name: str, numbers: Mapping[str, Number]) -> None:
        self._numbers |= {f"{name}.{part}": value for part, value in numbers.items()}

    def _number(self, name: str) -> Number:
        if name in self._numbers:
            return self._numbers[name]
        sheet_name, _, place = name.partition(":")
        if sheet_name not in self._sheets:
            return number_named(name, {})
        sheet = self._sheets[sheet_name]
        quantity = quantity_from_text(sheet, place)
        if not isinstance(quantity, Quantity):
            raise LearnError(f"number ({name}) is given: name a solved one, such as output[0][0]")
        steps = solve_exact(sheet, quantity.sequence)
        return value_at(steps, quantity.field.name, quantity.index)

    def _text(self, name: str) -> str:
        if name == "refused":
            return _refusal(self._row["refused"])
        from manyheads.faults.catalogue import fault_kind

        fault_id, _, part = name.rpartition(".")
        text = getattr(fault_kind(fault_id), part)
        assert isinstance(text, str)
        return text

    def _qualified(self, part: str | Quoted) -> str | Quoted:
        """Give the card's own numbers a name that no other card has."""
        if isinstance(part, str) or part.quantity.partition(":")[0] in worksheet_names():
            return part
        return replace(part, quantity=f"cards:{self._row['id']}.{part.quantity}")


def _changed_sheet(how: Mapping[str, Any]) -> Worksheet:
    sheet = worksheet(how["of"])
    if how.get("zero_query"):
        sheet = zero_query(sheet)
    if how.get("one_wide_head"):
        sheet = one_wide_head(sheet)
    if "without_head" in how:  # counted from 1, as readers do
        sheet = without_head(sheet, how["without_head"] - 1)
    return sheet.edit(how.get("set", {}))


def _of_layer(sizes: Mapping[str, Any]) -> dict[str, Number]:
    from manyheads.learn.cards.layer_numbers import numbers_of_layer

    return numbers_of_layer(sizes)


def _of_model(sizes: Mapping[str, Any]) -> dict[str, Number]:
    from manyheads.models.config import ModelConfig

    config = ModelConfig(**sizes)
    return {
        "parameters": Fraction(config.num_parameters),
        "H": Fraction(config.num_heads or 0),
        "d": Fraction(config.width_of_head),
        "D": Fraction(config.width),
    }


def _refusal(sizes: Mapping[str, Any]) -> str:
    from manyheads.core.config import AttentionConfig

    try:
        AttentionConfig.of(**sizes)
    except ConfigError as error:
        return str(error)
    raise LearnError(f"refused ({dict(sizes)}) is a layer that works: give sizes that do not")
