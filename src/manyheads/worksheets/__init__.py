"""Worksheets: calculations that can be done by hand, solved exactly or in float64."""

from typing import TYPE_CHECKING

from manyheads.core.lazy import lazy_names

if TYPE_CHECKING:
    from manyheads.worksheets.arithmetic import Number
    from manyheads.worksheets.explain import Explanation, Step
    from manyheads.worksheets.interventions import (
        one_wide_head,
        sum_instead_of_concat,
        without_head,
        zero_query,
    )
    from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names
    from manyheads.worksheets.numbers import exact_text, parse_number
    from manyheads.worksheets.sheet import schema_text
    from manyheads.worksheets.solution import Solution

__all__ = [
    "Explanation",
    "Number",
    "Solution",
    "Step",
    "Worksheet",
    "exact_text",
    "one_wide_head",
    "parse_number",
    "schema_text",
    "sum_instead_of_concat",
    "without_head",
    "worksheet",
    "worksheet_names",
    "zero_query",
]

_HOMES = {
    "Explanation": "explain",
    "Number": "arithmetic",
    "Solution": "solution",
    "Step": "explain",
    "Worksheet": "library",
    "exact_text": "numbers",
    "one_wide_head": "interventions",
    "parse_number": "numbers",
    "schema_text": "sheet",
    "sum_instead_of_concat": "interventions",
    "without_head": "interventions",
    "worksheet": "library",
    "worksheet_names": "library",
    "zero_query": "interventions",
}

if not TYPE_CHECKING:  # so that a type checker finds a mistyped name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
