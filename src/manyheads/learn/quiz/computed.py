"""The further numbers of the questions, by name, each computed by the engine when it is asked for.

A name begins with `quiz:` and its question. Nothing here is typed in but the experiments.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any

from manyheads.core.config import AttentionConfig
from manyheads.learn.exercises.counting import stored_parts
from manyheads.learn.quiz.causality import causality_numbers
from manyheads.worksheets.arithmetic import Number, multiply, reciprocal, square_root
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.interventions import (
    heads_reordered,
    sum_instead_of_concat,
    without_head,
    zero_query,
)
from manyheads.worksheets.library import Worksheet, worksheet
from manyheads.worksheets.sheet import Sheet

Numbers = Mapping[str, Number]


def _count(number: int) -> Fraction:
    return Fraction(number)


def _full_width() -> Numbers:
    """What head 1 of two-routes reads, and what is left of it with the first two features."""
    sheet = worksheet("two-routes")
    head, cut = sheet.heads[0], range(2, sheet.embed_dim)
    rows = zip(head.w_q, head.w_k, head.w_v, strict=True)
    read = sum(any(number for matrix in row for number in matrix) for row in rows)
    tokens = range(len(sheet.sequence().tokens))
    sliced = sheet.edit({f"sequences.main.X[{t}][{i}]": 0 for t in tokens for i in cut})
    return {
        "features-read": _count(read),
        "rows": _count(sheet.embed_dim),
        "columns": _count(sheet.head_dim),
        "sliced-message": solve_exact(sliced)["head_outputs"][0][-1][0],
    }


def _concat() -> Numbers:
    """What adding the messages forgets, and what exchanged heads do to the output."""
    sheet = worksheet("two-routes")
    swapped = heads_reordered(sheet, (1, 0), with_w_o=False)
    return {
        "sum": sum_instead_of_concat(sheet.solve(exact=True))[-1, 0],
        "sum-swapped": sum_instead_of_concat(swapped.solve(exact=True))[-1, 0],
        "swapped-output": solve_exact(swapped)["output"][-1][2],
    }


def _scale() -> Numbers:
    """The divisor of a layer, the variance behind it, and what a larger divisor does."""
    config = AttentionConfig.of(embed_dim=12, num_heads=3)
    signs = list(product((-1, 1), repeat=2 * config.head_dim))
    half = config.head_dim
    dots = [sum(a * b for a, b in zip(s[:half], s[half:], strict=True)) for s in signs]
    variance = (
        Fraction(sum(dot**2 for dot in dots), len(dots)) - Fraction(sum(dots), len(dots)) ** 2
    )
    sheet = worksheet("two-routes")
    flat = sheet.edit({"scale": f"1/sqrt({sheet.embed_dim})"})
    scale = Fraction(config.scale)
    return {
        "width": _count(config.embed_dim),
        "heads": _count(config.num_heads),
        "head-width": _count(config.head_dim),
        "scale": scale,
        "sign-cases": _count(len(signs)),
        "variance": variance,
        "root": square_root(variance),
        "scaled-variance": variance * scale**2,
        "flat-weight": solve_exact(flat)["attn_weights"][0][-1][-1],
        "river-head-width": _count(worksheet("river-and-cheque").head_dim),
    }


def _head_count() -> Numbers:
    """A layer of one width with 1, 2 and 4 heads, counted from its configuration."""
    width, tokens = 8, 4
    numbers = {"width": _count(width), "tokens": _count(tokens)}
    for heads in (1, 2, 4):
        config = AttentionConfig.of(embed_dim=width, num_heads=heads, bias=False)
        scores = config.num_heads * tokens * tokens
        numbers |= {
            f"head-width-{heads}": _count(config.head_dim),
            f"parameters-{heads}": _count(stored_parts(config).everything),
            f"scores-{heads}": _count(scores),
            f"products-{heads}": _count(scores * config.head_dim),
        }
    return numbers


def _equal_queries() -> Numbers:
    """Two-routes as given and with zero queries."""
    sheet = worksheet("two-routes")
    given, zero = solve_exact(sheet), solve_exact(zero_query(sheet))
    weights, outputs = given["attn_weights"][0], zero["output"][-1]
    numbers = {f"ratio-{t + 1}": _quotient(weights[t][1], weights[t][0]) for t in (1, 2)}
    numbers |= {f"weight-{t + 1}": zero["attn_weights"][0][t][0] for t in range(3)}
    numbers |= {f"mean-{i + 1}": n for i, n in enumerate(zero["head_outputs"][0][-1])}
    return numbers | {f"output-{i + 1}": number for i, number in enumerate(outputs)}


def _quotient(top: Number, bottom: Number) -> Number:
    return multiply(top, reciprocal(bottom))


def _contribution() -> Numbers:
    """The output of three-heads when head 3 falls silent."""
    silent = solve_exact(without_head(worksheet("three-heads"), 2))
    return {"without-head-3": silent["output"][3][3]}


def _no_jobs() -> Numbers:
    """Every order of the heads of three-heads, with their rows of W_O and without."""
    sheet = worksheet("three-heads")
    given, orders = solve_exact(sheet)["output"], list(permutations(range(sheet.num_heads)))
    moved = [heads_reordered(sheet, order, with_w_o=True) for order in orders]
    left = [heads_reordered(sheet, order, with_w_o=False) for order in orders]
    return {
        "heads": _count(sheet.num_heads),
        "orders": _count(_same_outputs(moved, given)),
        "orders-tried": _count(len(orders)),
        "orders-left": _count(_same_outputs(left, given)),
        "swapped-output": _concat()["swapped-output"],
    }


def _same_outputs(sheets: list[Worksheet], given: Any) -> int:  # noqa: ANN401 - rows of numbers
    return sum(_outputs(sheet) == given for sheet in sheets)


def _outputs(sheet: Sheet) -> Any:  # noqa: ANN401 - rows of numbers
    steps: Steps = solve_exact(sheet)
    return steps["output"]


_BY_QUESTION: dict[str, Callable[[], Numbers]] = {
    "full-width": _full_width,
    "concat-and-w-o": _concat,
    "scale": _scale,
    "head-count": _head_count,
    "equal-queries": _equal_queries,
    "contribution": _contribution,
    "causality": causality_numbers,
    "no-jobs": _no_jobs,
}


@cache
def computed_for(question: str) -> Numbers:
    """The further numbers of one question, `quiz:QUESTION.NAME` each.

    Args:
        question: its id; one without numbers of its own has none.
    """
    compute = _BY_QUESTION.get(question)
    found = compute() if compute else {}
    return {f"quiz:{question}.{name}": number for name, number in found.items()}
