"""Kind `score`: scaled scores of one receiver, from x, W_Q and W_K or from q and k."""

from dataclasses import replace

from manyheads.learn.exercises.drawing import Draws, Solved, document, head, solved, texts, times
from manyheads.learn.exercises.form import (
    Draft,
    Given,
    Kind,
    Misconception,
    fault,
    labels,
    shown,
    slip,
    table,
)
from manyheads.worksheets.arithmetic import dot, multiply
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.exact import scale_of
from manyheads.worksheets.numbers import parse_number

_SIZES = ((3, 2, 4), (5, 2, 3), (3, 4, 5))
"""D, d and T, all different."""
_ASKED = 3
_ENTRIES = (0, 0, 0, 1, -1, 2)


def draw(draws: Draws) -> Draft:
    """Draw the sizes, x, W_Q, W_K, the receiver, and whether q and k are given."""
    dim, width, length = draws.choose(_SIZES)
    x = draws.matrix(length, dim, (-1, 0, 1, 1, 2, 3))
    w_q, w_k = draws.matrix(dim, width, _ENTRIES), draws.matrix(dim, width, _ENTRIES)
    receiver, has_projected = draws.below(length), draws.below(2) == 1
    only = head(texts(w_q), texts(w_k, "*sqrt(2)" if width == 2 else ""), [["0"]] * dim)
    drawn = solved(document("score", texts(x), [only], [["0"] * dim], is_causal=False))
    scores = drawn.steps["scores"][0][receiver][:_ASKED]
    source = "q of the receiver and k of the sources" if has_projected else "x, W_Q and W_K"
    return Draft(
        prompt=(
            f"The model width is {dim} and the head width is {width}. From {source}, compute the "
            f"scaled scores of receiver {receiver + 1} with sources 1 to {_ASKED}."
        ),
        given=_given(drawn, receiver, has_projected),
        asks=labels("score with source", _ASKED),
        answer=scores,
        misconceptions=tuple(_misconceptions(drawn, receiver, has_projected)),
        working=tuple(_working(drawn, receiver)),
        worksheet=drawn.document,
    )


SCORE = Kind(
    name="score",
    title="Scaled scores",
    summary="scaled scores, from x, W_Q and W_K or from q and k",
    stream=101,
    draw=draw,
)


def _given(drawn: Solved, receiver: int, has_projected: bool) -> tuple[Given, ...]:
    if has_projected:
        query = table("q", (drawn.steps["q"][0][receiver],), "receiver", "column")
        query = replace(query, row_labels=(f"receiver {receiver + 1}",))
        return query, table("k", drawn.steps["k"][0][:_ASKED], "source", "column")
    only = drawn.sheet.heads[0]
    return (
        table("x", drawn.steps["x"], "position", "feature"),
        table("W_Q", only.w_q, "feature", "column"),
        table("W_K", only.w_k, "feature", "column"),
    )


def _misconceptions(drawn: Solved, receiver: int, has_projected: bool) -> list[Misconception]:
    dim, width = drawn.sheet.embed_dim, drawn.sheet.head_dim
    dots = drawn.steps["dots"][0][receiver][:_ASKED]
    exchanged = [row[receiver] for row in drawn.steps["scores"][0][:_ASKED]]
    right = f"divide by sqrt({width}), because the head width is {width}"

    def scaled(name: str, factor: str, says: str) -> Misconception:
        values = times(dots, parse_number(factor))
        return fault(name, values, f"That is what you get when you {says}; {right}.")

    found = [
        scaled(
            "scale:model-width", f"1/sqrt({dim})", f"divide by sqrt({dim}), with the model width"
        ),
        scaled("scale:width-itself", f"1/{width}", f"divide by {width}, without the square root"),
        scaled("scale:none", "1", f"do not scale the dot products {shown(dots)}"),
        scaled("scale:multiplied", f"sqrt({width})", f"multiply by sqrt({width})"),
        fault(
            "unpack-order:query-key",
            exchanged,
            "That is what you get when you exchange W_Q and W_K, or receiver and source: the query "
            f"comes from receiver {receiver + 1}, the keys come from the sources.",
        ),
    ]
    return found if has_projected else [*found, _unprojected(drawn, receiver)]


def _unprojected(drawn: Solved, receiver: int) -> Misconception:
    x, scale = drawn.steps["x"], scale_of(drawn.sheet)
    values = [multiply(dot(x[receiver], x[s]), scale) for s in range(_ASKED)]
    says = "That is what you get from the rows of x; first compute q = x W_Q and k = x W_K."
    return slip("projections-skipped", values, says)


def _working(drawn: Solved, receiver: int) -> list[str]:
    q, k, width = drawn.steps["q"][0], drawn.steps["k"][0], drawn.sheet.head_dim
    lines = [f"q of receiver {receiver + 1} = [{shown(q[receiver])}]"]
    for source in range(_ASKED):
        product = drawn.steps["dots"][0][receiver][source]
        score = drawn.steps["scores"][0][receiver][source]
        lines.append(
            f"k of source {source + 1} = [{shown(k[source])}]: q·k = {fraction_text(product)}, "
            f"divided by sqrt({width}) = {fraction_text(score)}"
        )
    return lines
