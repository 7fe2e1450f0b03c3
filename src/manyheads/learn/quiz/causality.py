"""A complete test of causality, run on a small layer and on the same layer without its mask."""

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from manyheads.worksheets.arithmetic import Number, add, negative
from manyheads.worksheets.exact import solve_exact
from manyheads.worksheets.library import worksheet

if TYPE_CHECKING:
    from torch import Tensor

    from manyheads.attention.module import MultiHeadAttention

LAYER = "three-heads"
"""Whose weights the layer has: no two heads, features or positions are alike in it."""
_NEW_ROW = (1, 0, 10, -4)
"""What becomes of the last row of two-routes in the experiment that is done by hand."""


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
