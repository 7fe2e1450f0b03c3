"""Kind `weight-row`: from scores to the weights of one receiver."""

from fractions import Fraction

from manyheads.learn.exercises.drawing import (
    Draws,
    Solved,
    document,
    head,
    shares,
    solved,
    texts,
    times,
    total,
    transposed,
)
from manyheads.learn.exercises.form import (
    Draft,
    Kind,
    Misconception,
    fault,
    labels,
    shown,
    slip,
    table,
)
from manyheads.worksheets.arithmetic import ZERO, multiply, reciprocal
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.exact import softmax
from manyheads.worksheets.sheet import Row

WIDTH, LENGTH = 4, 3
"""d and T; D = T, since the rows of x only select a receiver."""
_FACTORS = (1, 2, 3, 4, 5, 6, 8)


def draw(draws: Draws) -> Draft | None:
    """Draw the exponentials of all scores, row by row, then the receiver."""
    factors = draws.matrix(LENGTH, LENGTH, _FACTORS)
    receiver = draws.below(LENGTH)
    if set(factors[receiver]) == {1}:
        return None
    drawn = _sheet(factors)
    powers, weights = drawn.steps["exp_scores"][0], drawn.steps["attn_weights"][0][receiver]
    return Draft(
        prompt=(
            f"These are the scores of one head. They are already divided by sqrt({WIDTH}), and "
            f"nothing is masked. Compute the weights of receiver {receiver + 1}."
        ),
        given=(table("scores", drawn.steps["scores"][0], "receiver", "source"),),
        asks=labels("weight of source", LENGTH),
        answer=weights,
        misconceptions=tuple(_misconceptions(drawn, receiver)),
        working=(
            f"exponentials: {shown(powers[receiver])}",
            f"their sum: {fraction_text(total(powers[receiver]))}",
            f"weights: {shown(weights)}",
        ),
        worksheet=drawn.document,
    )


WEIGHT_ROW = Kind(
    name="weight-row",
    title="From scores to weights",
    summary="the weights of one receiver, from its scores",
    stream=102,
    draw=draw,
)


def _sheet(factors: tuple[tuple[int, ...], ...]) -> Solved:
    """Receiver t's query selects column t of W_K^T, which holds its scores times sqrt(d)."""
    pointers = tuple(tuple(int(i == j) for j in range(WIDTH)) for i in range(LENGTH))
    keys = [[f"2*ln({factors[t][s]})" for t in range(LENGTH)] + ["0"] for s in range(LENGTH)]
    only = head(texts(pointers), keys, [["0"]] * LENGTH)
    x = texts(tuple(row[:LENGTH] for row in pointers))
    return solved(document("weight-row", x, [only], [["0"] * LENGTH], is_causal=False))


def _misconceptions(drawn: Solved, receiver: int) -> list[Misconception]:
    scores = drawn.steps["scores"][0][receiver]
    powers = drawn.steps["exp_scores"][0]
    mine, everything = powers[receiver], total(total(row) for row in powers)
    columns = [total(column) for column in transposed(powers)]
    begins = "That is what you get when you"
    found = [
        fault(
            "softmax-axis:receivers",
            [multiply(n, reciprocal(column)) for n, column in zip(mine, columns, strict=True)],
            f"{begins} normalise each column; the softmax runs over the sources of one receiver, "
            "so each row sums to one.",
        ),
        fault(
            "scale:twice",
            softmax(times(scores, Fraction(1, 2))),
            f"{begins} divide the scores by sqrt({WIDTH}) a second time.",
        ),
        slip(
            "forgot-exp",
            shares(scores),
            f"{begins} divide the scores by their sum; first take the exponential of each score.",
        ),
        slip(
            "forgot-division",
            mine,
            f"That is what you get before the division: {shown(mine)} are the exponentials; "
            f"divide each by their sum, {fraction_text(total(mine))}.",
        ),
        slip(
            "divided-by-whole-table",
            times(mine, reciprocal(everything)),
            f"{begins} divide by the sum of the whole table, {fraction_text(everything)}; divide "
            f"by the sum of the row, {fraction_text(total(mine))}.",
        ),
    ]
    return found if receiver == LENGTH - 1 else [*found, _masked(mine, receiver)]


def _masked(powers: Row, receiver: int) -> Misconception:
    weights = [*shares(powers[: receiver + 1]), *[ZERO] * (LENGTH - 1 - receiver)]
    says = (
        f"That is what you get when you mask the sources after receiver {receiver + 1}; here "
        "nothing is masked."
    )
    return slip("masked-anyway", weights, says)
