"""The further numbers of the questions, by name, each computed by the engine when it is asked for.

A name begins with `quiz:` and its question. Nothing here is typed in but the experiments.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import TYPE_CHECKING, Any, NamedTuple

from manyheads.core.config import AttentionConfig
from manyheads.learn.exercises.counting import stored_parts
from manyheads.worksheets.arithmetic import Number, add, multiply, negative, reciprocal, square_root
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.interventions import (
    heads_reordered,
    sum_instead_of_concat,
    without_head,
    zero_query,
)
from manyheads.worksheets.library import Worksheet, worksheet
from manyheads.worksheets.sheet import Sheet

if TYPE_CHECKING:
    from torch import Tensor

    from manyheads.attention.module import MultiHeadAttention

Numbers = Mapping[str, Number]
LAYER = "three-heads"
"""Whose weights the layer has: no two heads, features or positions are alike in it."""
_NEW_ROW = (1, 0, 10, -4)
"""The changed last row of two-routes in the experiment that is done by hand."""


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
        "joined": _count(len(sheet.w_o)),
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


class Leaks(NamedTuple):
    """What a layer let through, at most; for a causal layer the first and third are 0."""

    move: float
    """Largest move of an output when later inputs change."""
    own_move: float
    """Smallest of the largest moves of the positions that changed themselves."""
    gradient: float
    """Largest gradient of an output with respect to a later input."""


def measured_leaks(is_causal: bool, name: str = LAYER) -> Leaks:
    """Change later inputs, and ask for gradients, at every position in turn; loads torch.

    Args:
        is_causal: whether the layer is asked for causality; False is the negative control.
        name: the worksheet whose layer and input are used.
    """
    from manyheads.worksheets.tensors import input_from_sheet, layer_from_sheet

    sheet = worksheet(name)
    layer, x = layer_from_sheet(sheet), input_from_sheet(sheet)
    count = x.shape[1]
    moves = [_moves(layer, x, first, is_causal) for first in range(1, count)]
    gradients = [_later_gradient(layer, x, t, is_causal) for t in range(count - 1)]
    return Leaks(
        move=max(earlier for earlier, _ in moves),
        own_move=min(later for _, later in moves),
        gradient=max(gradients),
    )


def _moves(
    layer: "MultiHeadAttention", x: "Tensor", first: int, is_causal: bool
) -> tuple[float, float]:
    """How far outputs before `first`, and from it on, move when all inputs from it on change."""
    import torch

    changed = x.clone()
    changed[:, first:] = 100 - 7 * x[:, first:]
    with torch.no_grad():
        move = (_output(layer, changed, is_causal) - _output(layer, x, is_causal)).abs()
    return float(move[:, :first].max()), float(move[:, first:].max())


def _later_gradient(layer: "MultiHeadAttention", x: "Tensor", t: int, is_causal: bool) -> float:
    """The largest gradient of any output at position t with respect to any later input."""
    import torch

    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        output = _output(layer, leaf, is_causal)[0, t]
        slopes = [torch.autograd.grad(part, leaf, retain_graph=True)[0] for part in output]
    return max(float(slope[0, t + 1 :].abs().max()) for slope in slopes)


def _output(layer: "MultiHeadAttention", x: "Tensor", is_causal: bool) -> "Tensor":
    output: Tensor | tuple[Tensor, ...] = layer(x, is_causal=is_causal)
    assert not isinstance(output, tuple)
    return output


def causality_numbers() -> Mapping[str, Number]:
    """The measured leaks, the pairs, and the experiment on two-routes in fractions."""
    sheet = worksheet("two-routes")
    tokens = len(sheet.sequence().tokens)
    changes = {f"sequences.main.X[2][{i}]": value for i, value in enumerate(_NEW_ROW)}
    pairs = [(t, s) for t in range(tokens) for s in range(tokens) if s > t]
    unmasked = sheet.edit({"is_causal": False})
    leaky, before = solve_exact(unmasked.edit(changes)), solve_exact(unmasked)["output"][0][0]
    after, masked = leaky["output"][0][0], solve_exact(sheet)["output"][0][0]
    still = solve_exact(sheet.edit(changes))["output"][0][0]
    weights = [head[0] for head in leaky["attn_weights"]]
    sound, control = measured_leaks(is_causal=True), measured_leaks(is_causal=False)
    return {
        **{f"new-row-{i + 1}": Fraction(value) for i, value in enumerate(_NEW_ROW)},
        **{
            f"weight-{h + 1}-{i + 1}": number
            for h, row in enumerate(weights)
            for i, number in enumerate(row)
        },
        "tokens": Fraction(tokens),
        "pairs": Fraction(len(pairs)),
        "leak-before": before,
        "leak-after": after,
        "leak": add(after, negative(before)),
        "no-leak": add(still, negative(masked)),
        "move": Fraction(sound.move),
        "own-move": Fraction(sound.own_move),
        "gradient": Fraction(sound.gradient),
        "control-move": Fraction(control.move),
        "control-gradient": Fraction(control.gradient),
    }


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
