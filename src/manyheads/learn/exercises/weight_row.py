"""Kind `weight-row`: from scores to the weights of one receiver."""

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Misconception, fault, shown, slip
from manyheads.learn.exercises.sheets import Solved, document, head, labels, solved, table, texts
from manyheads.learn.exercises.sums import shares, times, total
from manyheads.worksheets.arithmetic import multiply, reciprocal
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.library import Worksheet

WIDTH, LENGTH = 4, 3
"""d and T; D = T, since the rows of x only point at a receiver."""
_FACTORS = (1, 2, 3, 4, 5, 6, 8)


def draw(draws: Draws) -> Draft | None:
    """Draw the exponentials of all scores, row by row, then the receiver."""
    factors = draws.matrix(LENGTH, LENGTH, _FACTORS)
    receiver = draws.below(LENGTH)
    if set(factors[receiver]) == {1}:
        return None
    drawn = _sheet(factors)
    weights = drawn.steps["attn_weights"][0][receiver]
    return Draft(
        prompt=(
            f"These are the scores of a head that is {WIDTH} wide, divided by sqrt({WIDTH}) "
            f"already; no mask. Work out the weights of receiver {receiver + 1}."
        ),
        given=(table("scores", drawn.steps["scores"][0], "receiver", "source"),),
        asks=labels("weight of source", LENGTH),
        answer=weights,
        misconceptions=tuple(_misconceptions(drawn, receiver)),
        working=tuple(_working(drawn, receiver)),
        worksheet=drawn.document,
    )


def _sheet(factors: tuple[tuple[int, ...], ...]) -> Solved:
    """Receiver t's query points at column t of W_K^T, which holds its scores times sqrt(d)."""
    pointers = tuple(tuple(int(i == j) for j in range(WIDTH)) for i in range(LENGTH))
    keys = [[f"2*ln({factors[t][s]})" for t in range(LENGTH)] + ["0"] for s in range(LENGTH)]
    only = head(texts(pointers), keys, [["0"]] * LENGTH)
    x = texts(tuple(row[:LENGTH] for row in pointers))
    return solved(document("weight-row", x, [only], [["0"] * LENGTH], is_causal=False))


def _misconceptions(drawn: Solved, receiver: int) -> list[Misconception]:
    powers = drawn.steps["exp_scores"][0]
    mine = powers[receiver]
    column = tuple(
        multiply(mine[s], reciprocal(total(row[s] for row in powers))) for s in range(LENGTH)
    )
    everything = total(total(row) for row in powers)
    found = [
        fault(
            "softmax-axis:receivers",
            column,
            "That is what you get when each source's column sums to one; a softmax runs over the "
            "sources of one receiver, so that its row does.",
        ),
        _twice(drawn, receiver),
        slip(
            "forgot-exp",
            shares(drawn.steps["scores"][0][receiver]),
            "That is what you get when the scores themselves are divided by their sum: first take "
            "e to the power of each.",
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
            f"That is what you get when you divide by the sum of the whole table, "
            f"{fraction_text(everything)}; the row's own sum is {fraction_text(total(mine))}.",
        ),
    ]
    return found if receiver == LENGTH - 1 else [*found, _masked(drawn, receiver)]


def _twice(drawn: Solved, receiver: int) -> Misconception:
    document = drawn.document | {"scale": f"1/{WIDTH}"}
    values = drawn.again(Worksheet.from_document(document))["attn_weights"][0][receiver]
    says = f"That is what you get when the scores are divided by sqrt({WIDTH}) a second time."
    return fault("scale:twice", values, says)


def _masked(drawn: Solved, receiver: int) -> Misconception:
    document = drawn.document | {"is_causal": True}
    values = drawn.again(Worksheet.from_document(document))["attn_weights"][0][receiver]
    says = (
        f"That is what you get when sources after receiver {receiver + 1} are hidden; here nothing "
        "is masked."
    )
    return slip("masked-anyway", values, says)


def _working(drawn: Solved, receiver: int) -> list[str]:
    powers = drawn.steps["exp_scores"][0][receiver]
    weights = drawn.steps["attn_weights"][0][receiver]
    return [
        f"exponentials: {shown(powers)}",
        f"their sum: {fraction_text(total(powers))}",
        f"weights: {shown(weights)}",
    ]
