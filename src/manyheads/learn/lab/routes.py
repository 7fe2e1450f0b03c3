"""The worksheet `two-routes` as the lab uses it: in fractions, published, and as a living layer."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.module import Form, MultiHeadAttention
from manyheads.core.trace import AttentionTrace
from manyheads.learn.lab.assertions import Equals
from manyheads.learn.lab.record import Measurement
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.interventions import heads_reordered, without_head, zero_query
from manyheads.worksheets.library import Worksheet, worksheet
from manyheads.worksheets.numbers import parse_number
from manyheads.worksheets.tensors import input_from_sheet, weights_from_sheet

LENGTH = 64
"""Products that enter one number, generously: widths 4, 2, 3 and 4 one after another."""
FORMS: tuple[Form, ...] = ("loop", "packed", "fused")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One state of the worksheet, as given or changed, and every way to know its numbers."""

    sheet: Worksheet
    """What is given."""

    def changed(self, changes: dict[str, object]) -> "Case":
        """Return another case in which some given numbers differ."""
        return Case(sheet=self.sheet.edit(changes))

    def with_heads_swapped(self) -> "Case":
        """Return another case: the heads change places, the output projection stays."""
        return Case(sheet=heads_reordered(self.sheet, (1, 0), with_w_o=False))

    def with_zero_query(self) -> "Case":
        """Return another case: every query of every head is zero."""
        return Case(sheet=zero_query(self.sheet))

    def without_head(self, h: int) -> "Case":
        """Return another case: the message of head h, counted from 0, is zero."""
        return Case(sheet=without_head(self.sheet, h))

    @cached_property
    def exact(self) -> Steps:
        """The answers in fractions."""
        return solve_exact(self.sheet)

    def layer(self, form: Form) -> MultiHeadAttention:
        """A living layer with these weights in double precision."""
        return MultiHeadAttention.from_weights(weights_from_sheet(self.sheet), form=form)

    @cached_property
    def trace(self) -> AttentionTrace:
        """The numbers of the packed form."""
        with torch.no_grad():
            return self.layer("packed").trace(self.x, is_causal=self.sheet.is_causal)

    @cached_property
    def x(self) -> Tensor:
        """The input, (1, T, D)."""
        return input_from_sheet(self.sheet)

    def output(self, form: Form) -> Tensor:
        """The output of one form, (T, D), by the layer's own forward call."""
        with torch.no_grad():
            output = self.layer(form)(self.x, is_causal=self.sheet.is_causal)
        assert isinstance(output, Tensor)
        return output[0]

    def measured(self, field: str, *index: int) -> Measurement:
        """Measure one row of a field of the trace; heads, then positions, count from 0."""
        return lambda: self.trace[field][0, *index]

    def summed(self, field: str, t: int) -> Measurement:
        """Measure the sum over heads of a field at one position."""
        return lambda: self.trace[field][0, :, t].sum(dim=0)

    def head_gap(self, t: int) -> Measurement:
        """Measure the output of head 1 minus that of head 2 at one position."""
        return lambda: self.trace.head_outputs[0, 0, t] - self.trace.head_outputs[0, 1, t]

    def exact_head_gap(self, t: int) -> Equals:
        """Expect what the exact engine says of `head_gap`."""
        first, second = (self.exact["head_outputs"][h][t] for h in range(2))
        numbers = tuple(a - b for a, b in zip(first, second, strict=True))
        return Equals(source="fractions", numbers=numbers, length=LENGTH)

    def fractions(self, field: str, *index: int) -> Equals:
        """Expect what the exact engine says."""
        return Equals(source="fractions", numbers=entry(self.exact[field], *index), length=LENGTH)

    def published(self, *place: str | int) -> Equals:
        """Expect what the worksheet file publishes under "expected"."""
        row = entry(self.sheet.expected["main"], *place)
        numbers = tuple(parse_number(text) for text in row)
        return Equals(source="published", numbers=numbers, length=LENGTH)

    @property
    def head_names(self) -> list[str]:
        """What rows about a head are called: "head 1 (grows)"."""
        return [f"head {h + 1} ({head.label})" for h, head in enumerate(self.sheet.heads)]

    @property
    def num_positions(self) -> int:
        """T."""
        return len(self.sheet.sequence().x)


def two_routes() -> Case:
    """The worksheet as it is given."""
    return Case(sheet=worksheet("two-routes"))


def entry(table: Any, *index: str | int) -> Any:  # noqa: ANN401 - nested rows of numbers, or JSON
    """Go down into nested rows."""
    for step in index:
        table = table[step]
    return table


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Column headings: "key 1", "key 2" and so on."""
    return tuple(f"{name} {i + 1}" for i in range(count))
