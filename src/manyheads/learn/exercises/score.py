"""Kind `score`: scaled scores of one receiver, from x, W_Q and W_K or from q and k."""

from dataclasses import replace

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Misconception, Numbers, Table, fault, shown, slip
from manyheads.learn.exercises.sheets import (
    Solved,
    document,
    head,
    labels,
    solved,
    table,
    texts,
)
from manyheads.learn.exercises.sums import times
from manyheads.worksheets.arithmetic import Number, dot, multiply
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.exact import scale_of
from manyheads.worksheets.library import Worksheet
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
    return Draft(
        prompt=_prompt(dim, width, receiver, has_projected),
        given=_given(drawn, receiver, has_projected),
        asks=labels("score with source", _ASKED),
        answer=scores,
        misconceptions=tuple(_misconceptions(drawn, receiver, has_projected)),
        working=tuple(_working(drawn, receiver)),
        worksheet=drawn.document,
    )


def _prompt(dim: int, width: int, receiver: int, has_projected: bool) -> str:
    source = "q of the receiver and k of the sources" if has_projected else "x, W_Q and W_K"
    return (
        f"The model is {dim} wide and one head {width} wide. From {source}, work out the scaled "
        f"scores of receiver {receiver + 1} with sources 1 to {_ASKED}."
    )


def _given(drawn: Solved, receiver: int, has_projected: bool) -> tuple[Table, ...]:
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
    right = f"the head is {width} wide, so divide by sqrt({width})"
    found = [
        _scaled(drawn, receiver, f"1/sqrt({dim})", "scale:model-width", right),
        _scaled(drawn, receiver, f"1/{width}", "scale:width-itself", right),
        fault(
            "scale:none",
            dots,
            f"That is what you get without dividing: {shown(dots)} are the plain dot products; "
            f"{right}.",
        ),
        fault("scale:multiplied", *_multiplied(dots, width, right)),
        fault("unpack-order:query-key", *_exchanged(drawn, receiver)),
    ]
    return found if has_projected else [*found, _unprojected(drawn, receiver)]


def _scaled(drawn: Solved, receiver: int, scale: str, name: str, right: str) -> Misconception:
    document = drawn.document | {"scale": scale}
    values = drawn.again(Worksheet.from_document(document))["scores"][0][receiver][:_ASKED]
    divisor, dim = scale.removeprefix("1/"), drawn.sheet.embed_dim
    whose = f"the model is {dim} wide" if name == "scale:model-width" else "the root is missing"
    says = f"That is what you get when you divide by {divisor}: {whose}; {right}."
    return fault(name, values, says)


def _multiplied(dots: Numbers, width: int, right: str) -> tuple[Numbers, str]:
    values = times(dots, parse_number(f"sqrt({width})"))
    return values, f"That is what you get when you multiply by sqrt({width}); {right}."


def _exchanged(drawn: Solved, receiver: int) -> tuple[Numbers, str]:
    rows = drawn.steps["scores"][0]
    values = tuple(rows[source][receiver] for source in range(_ASKED))
    return values, (
        "That is what you get when W_Q and W_K change places, or receiver and source: the query "
        f"comes from receiver {receiver + 1}, the keys from the sources."
    )


def _unprojected(drawn: Solved, receiver: int) -> Misconception:
    x, scale = drawn.steps["x"], scale_of(drawn.sheet)
    values = tuple(multiply(dot(x[receiver], x[s]), scale) for s in range(_ASKED))
    says = "That is what you get from the rows of x themselves: first q = x W_Q and k = x W_K."
    return slip("projections-skipped", values, says)


def _working(drawn: Solved, receiver: int) -> list[str]:
    q, k, width = drawn.steps["q"][0], drawn.steps["k"][0], drawn.sheet.head_dim
    lines = [f"q of receiver {receiver + 1} = [{shown(q[receiver])}]"]
    for source in range(_ASKED):
        product: Number = drawn.steps["dots"][0][receiver][source]
        score = drawn.steps["scores"][0][receiver][source]
        lines.append(
            f"k of source {source + 1} = [{shown(k[source])}]: q·k = {fraction_text(product)}, "
            f"divided by sqrt({width}) = {fraction_text(score)}"
        )
    return lines
