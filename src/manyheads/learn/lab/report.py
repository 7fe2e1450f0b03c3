"""LabReport: what a run of the lab computed, and whether every assertion held."""

import json
import math
from dataclasses import dataclass
from typing import Any

from manyheads.learn.lab.assertions import Cells
from manyheads.learn.lab.record import Item, Record
from manyheads.learn.lab.text import failure_lines, html_from_record, text_from_record


@dataclass(frozen=True, kw_only=True)
class LabReport:
    """The records of the parts and experiments that ran."""

    parts: tuple[Record, ...]
    """Parts in order."""
    tries: tuple[Record, ...] = ()
    """Experiments in order."""

    @property
    def passed(self) -> bool:
        """Whether something ran and every assertion held."""
        records = (*self.parts, *self.tries)
        return bool(records) and all(record.passed for record in records)

    @property
    def failures(self) -> list[str]:
        """A line for each failed assertion: where, what, printed and expected."""
        found = [line for part in self.parts for line in failure_lines(part, is_try=False)]
        return found + [line for each in self.tries for line in failure_lines(each, is_try=True)]

    def to_json(self) -> str:
        """One JSON document with every printed number in full precision."""
        document = {
            "passed": self.passed,
            "parts": [_part_json(record) for record in self.parts],
            "tries": [_part_json(record) for record in self.tries],
        }
        return json.dumps(document, allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        """The report in 80 columns, failures last."""
        texts = [text_from_record(record, is_try=False) for record in self.parts]
        texts += [text_from_record(record, is_try=True) for record in self.tries]
        return "\n\n".join([*texts, *(["\n".join(self.failures)] if self.failures else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The report for Jupyter."""
        parts = "".join(html_from_record(record, is_try=False) for record in self.parts)
        return parts + "".join(html_from_record(record, is_try=True) for record in self.tries)


def _part_json(record: Record) -> dict[str, Any]:
    return {
        "part": record.part,
        "title": record.title,
        "passed": record.passed,
        "values": [_item_json(item) for item in record.items],
        "failures": record.failures,
        "prediction": record.prediction,
        "try": record.try_name,
    }


def _item_json(item: Item) -> dict[str, Any]:
    first = item.assertions[0]
    return {
        "name": item.name,
        "value": _cells_json(item.cells),
        "relation": first.relation,
        "expected": _cells_json(first.expected),
        "exact": first.exact,
        "sources": [assertion.source for assertion in item.assertions],
        "passed": item.passed,
        "failures": list(item.failures),
    }


def _cells_json(cells: Cells) -> Any:  # noqa: ANN401 - a number, or a list of numbers and shapes
    plain = [
        None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in cells
    ]
    return plain[0] if len(plain) == 1 else plain
