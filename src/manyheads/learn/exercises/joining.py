"""Kinds `concat` and `projected-output`: concatenated head outputs, and their projection by W_O."""

from fractions import Fraction

from manyheads.learn.exercises.drawing import (
    POSITIONS,
    Draws,
    Solved,
    mean,
    mixed,
    mixing_sheet,
    picked,
    plus,
    times,
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
from manyheads.worksheets.sheet import Row

_ASKED = (0, 1, 2)
"""Features asked of an output."""


def draw(draws: Draws) -> Draft:
    """Draw a mixing sheet and the receiver."""
    drawn = mixing_sheet(draws, "concat", has_bias=False)
    receiver, heads = draws.below(POSITIONS), drawn.sheet.num_heads
    joined = drawn.steps["concat"][receiver]
    return Draft(
        prompt=(
            f"These are the outputs of {heads} heads for {POSITIONS} receivers. Write down the "
            f"concatenated row of receiver {receiver + 1}, before W_O."
        ),
        given=tuple(
            table(f"outputs of head {h + 1}", rows, "receiver", "column")
            for h, rows in enumerate(drawn.steps["head_outputs"])
        ),
        asks=labels("concatenated column", len(joined)),
        answer=joined,
        misconceptions=tuple(_joined_wrongly(drawn, receiver)),
        working=(
            *(f"head {h + 1}: {shown(part)}" for h, part in enumerate(_parts(drawn, receiver))),
            f"concatenated in the order of the heads: {shown(joined)}",
        ),
        worksheet=drawn.document,
    )


CONCAT = Kind(
    name="concat",
    title="Concatenated heads",
    summary="the concatenated row of one receiver, from the outputs of the heads",
    stream=104,
    draw=draw,
)


def _parts(drawn: Solved, receiver: int) -> list[Row]:
    return [rows[receiver] for rows in drawn.steps["head_outputs"]]


def averaged(parts: list[Row]) -> Row:
    """The mean of the heads in the place of each."""
    return mean(parts) * len(parts)


def interleaved(parts: list[Row]) -> Row:
    """Channel 1 of every head, then channel 2 of every head, ..."""
    return tuple(number for column in zip(*parts, strict=True) for number in column)


def _joined_wrongly(drawn: Solved, receiver: int) -> list[Misconception]:
    parts = _parts(drawn, receiver)
    memory = [n for head in drawn.steps["head_outputs"] for row in head for n in row]
    size, heads = len(drawn.steps["concat"][0]), len(parts)
    middle, summed = mean(parts), times(mean(parts), Fraction(heads))
    begins = "That is what you get when you"
    each = f"each head has its own columns, {size} in all"
    return [
        fault(
            "heads-averaged:mean",
            averaged(parts),
            f"{begins} average the {heads} heads and repeat the mean; {each}.",
        ),
        fault("heads-averaged:mean-once", middle, f"{begins} average the {heads} heads; {each}."),
        fault(
            "heads-averaged:sum",
            summed * heads,
            f"{begins} add up the {heads} heads and repeat the sum; {each}.",
        ),
        fault("heads-averaged:sum-once", summed, f"{begins} add up the {heads} heads; {each}."),
        fault(
            "head-order-at-concat:interleaved",
            interleaved(parts),
            f"{begins} write column 1 of every head, then column 2; all columns of head 1 come "
            "before those of head 2.",
        ),
        fault(
            "head-order-at-concat:reversed",
            tuple(number for part in reversed(parts) for number in part),
            f"{begins} write the last head first; the rows of W_O expect head 1 first.",
        ),
        fault(
            "merge-by-view",
            memory[receiver * size : (receiver + 1) * size],
            f"{begins} read the tables row by row, {size} numbers per receiver. This mixes "
            "receivers; take the row of the receiver from each head.",
        ),
    ]


def draw_output(draws: Draws) -> Draft:
    """Draw a mixing sheet with a bias, and the receiver."""
    drawn = mixing_sheet(draws, "projected-output", has_bias=True)
    receiver, heads = draws.below(POSITIONS), drawn.sheet.num_heads
    joined, bias = drawn.steps["concat"][receiver], drawn.sheet.b_o
    assert bias is not None
    output = picked(drawn.steps["output"][receiver], _ASKED)
    products = mixed(joined, drawn.sheet.w_o)
    return Draft(
        prompt=(
            f"concat has the outputs of {heads} heads for one receiver, {drawn.sheet.v_head_dim} "
            f"columns each. Compute outputs 1 to {len(_ASKED)} of the "
            "layer."
        ),
        given=(
            table("concat", (joined,), "row", "column"),
            table("W_O", drawn.sheet.w_o, "column", "output"),
            table("b_O", (bias,), "row", "output"),
        ),
        asks=labels("output", len(_ASKED)),
        answer=output,
        misconceptions=tuple(_projected_wrongly(drawn, receiver, bias)),
        working=tuple(
            f"output {i + 1}: [{shown(joined)}] times column {i + 1} of W_O = "
            f"{shown([products[i]])}, plus {shown([bias[i]])} = {shown([output[i]])}"
            for i in _ASKED
        ),
        worksheet=drawn.document,
    )


PROJECTED_OUTPUT = Kind(
    name="projected-output",
    title="The output projection",
    summary="numbers of the output, from the concatenated row, W_O and b_O",
    stream=105,
    draw=draw_output,
)


def _projected_wrongly(drawn: Solved, receiver: int, bias: Row) -> list[Misconception]:
    joined, w_o = drawn.steps["concat"][receiver], drawn.sheet.w_o
    begins = "That is what you get"
    return [
        fault(
            "output-projection-missing",
            picked(joined, _ASKED),
            "That is the concatenated row itself; multiply it by W_O.",
        ),
        fault(
            "bias-dropped",
            picked(mixed(joined, w_o), _ASKED),
            f"{begins} without b_O; add {shown(picked(bias, _ASKED))}.",
        ),
        fault(
            "weight-transposed",
            picked(plus(mixed(joined, transposed(w_o)), bias), _ASKED),
            f"{begins} with the rows of W_O; output 1 uses column 1 of W_O.",
        ),
        *_other_heads(drawn, receiver, bias),
    ]


def _other_heads(drawn: Solved, receiver: int, bias: Row) -> list[Misconception]:
    """Outputs of a row that was concatenated wrongly, or of a bias that counts per head."""
    parts, w_o = _parts(drawn, receiver), drawn.sheet.w_o
    width, heads = len(parts[0]), len(parts)
    begins = "That is what you get"

    def output(row: Row, added: Row = bias) -> Row:
        return picked(plus(mixed(row, w_o[: len(row)]), added), _ASKED)

    return [
        fault(
            "head-order-at-concat",
            output(interleaved(parts)),
            f"{begins} when the columns of the heads alternate; rows 1 to {width} of W_O belong "
            "to head 1.",
        ),
        fault(
            "heads-averaged",
            output(averaged(parts)),
            f"{begins} when you replace the output of every head by the mean of the {heads} heads.",
        ),
        slip(
            "counted-one-head",
            output(parts[0]),
            f"{begins} from head 1 alone, with rows 1 to {width} of W_O; add all {heads} heads.",
        ),
        slip(
            "bias-for-each-head",
            output(drawn.steps["concat"][receiver], times(bias, Fraction(heads))),
            f"{begins} when you add b_O {heads} times, once per head; add it once.",
        ),
    ]
