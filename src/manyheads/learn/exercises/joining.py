"""Kinds `concat` and `projected-output`: head outputs side by side, and what W_O makes of them."""

from fractions import Fraction

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Misconception, Numbers, fault, shown, slip
from manyheads.learn.exercises.sheets import POSITIONS, Solved, labels, mixing_sheet, table
from manyheads.learn.exercises.sums import mean, mixed, picked, plus, times, transposed
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
            f"{heads} heads hand these outputs to {POSITIONS} receivers. Write down the joined row "
            f"of receiver {receiver + 1}, before W_O."
        ),
        given=tuple(
            table(f"outputs of head {h + 1}", rows, "receiver", "column")
            for h, rows in enumerate(drawn.steps["head_outputs"])
        ),
        asks=labels("joined column", len(joined)),
        answer=joined,
        misconceptions=tuple(_joined_wrongly(drawn, receiver)),
        working=(
            *(f"head {h + 1}: {shown(part)}" for h, part in enumerate(_parts(drawn, receiver))),
            f"side by side, in order: {shown(joined)}",
        ),
        worksheet=drawn.document,
    )


def _parts(drawn: Solved, receiver: int) -> list[Row]:
    return [rows[receiver] for rows in drawn.steps["head_outputs"]]


def averaged(parts: list[Row]) -> Numbers:
    """The mean of the heads in the place of each."""
    return mean(parts) * len(parts)


def interleaved(parts: list[Row]) -> Numbers:
    """Channel 1 of every head, then channel 2 of every head, ..."""
    return tuple(number for column in zip(*parts, strict=True) for number in column)


def _joined_wrongly(drawn: Solved, receiver: int) -> list[Misconception]:
    parts = _parts(drawn, receiver)
    memory = [n for head in drawn.steps["head_outputs"] for row in head for n in row]
    size, heads = len(drawn.steps["concat"][0]), len(parts)
    middle, summed = mean(parts), times(mean(parts), Fraction(heads))
    each = f"every head keeps columns of its own, {size} in all"
    begins = f"That is what you get when the {heads} heads are"
    return [
        fault(
            "heads-averaged:mean", averaged(parts), f"{begins} averaged, the mean repeated; {each}."
        ),
        fault("heads-averaged:mean-once", middle, f"{begins} averaged; {each}."),
        fault(
            "heads-averaged:sum", summed * heads, f"{begins} added up, the sum repeated; {each}."
        ),
        fault("heads-averaged:sum-once", summed, f"{begins} added up; {each}."),
        fault(
            "head-order-at-concat:interleaved",
            interleaved(parts),
            "That is what you get when column 1 of every head comes first, then column 2; all "
            "columns of head 1 come before those of head 2.",
        ),
        fault(
            "head-order-at-concat:reversed",
            tuple(number for part in reversed(parts) for number in part),
            "That is what you get when the last head comes first; W_O's rows expect head 1 first.",
        ),
        fault(
            "merge-by-view",
            memory[receiver * size : (receiver + 1) * size],
            f"That is what you get when the tables are read on row by row, {size} numbers a "
            "receiver: it mixes receivers; first gather the receiver's row of each head.",
        ),
    ]


def draw_output(draws: Draws) -> Draft:
    """Draw a mixing sheet with a bias, and the receiver."""
    drawn = mixing_sheet(draws, "projected-output", has_bias=True)
    receiver, heads = draws.below(POSITIONS), drawn.sheet.num_heads
    joined, bias = drawn.steps["concat"][receiver], drawn.sheet.b_o
    assert bias is not None
    output = picked(drawn.steps["output"][receiver], _ASKED)
    return Draft(
        prompt=(
            f"The outputs of {heads} heads, {drawn.sheet.v_head_dim} columns each, are joined. "
            f"Work out features 1 to {len(_ASKED)} of the layer's output."
        ),
        given=(
            table("joined", (joined,), "row", "column"),
            table("W_O", drawn.sheet.w_o, "column", "feature"),
            table("b_O", (bias,), "row", "feature"),
        ),
        asks=labels("output feature", len(_ASKED)),
        answer=output,
        misconceptions=tuple(_projected_wrongly(drawn, receiver, bias)),
        working=tuple(
            f"feature {i + 1}: [{shown(joined)}] times column {i + 1} of W_O = "
            f"{shown([mixed(joined, drawn.sheet.w_o)[i]])}, plus {shown([bias[i]])} = "
            f"{shown([output[i]])}"
            for i in _ASKED
        ),
        worksheet=drawn.document,
    )


def _projected_wrongly(drawn: Solved, receiver: int, bias: Row) -> list[Misconception]:
    joined, w_o = drawn.steps["concat"][receiver], drawn.sheet.w_o
    return [
        fault(
            "output-projection-missing",
            picked(joined, _ASKED),
            "That is the joined row as it was: it still has to be multiplied by W_O.",
        ),
        fault(
            "bias-dropped",
            picked(mixed(joined, w_o), _ASKED),
            f"That is what you get without b_O; add {shown(picked(bias, _ASKED))}.",
        ),
        fault(
            "weight-transposed",
            picked(plus(mixed(joined, transposed(w_o)), bias), _ASKED),
            "That is what you get with the rows of W_O; feature 1 takes its first column.",
        ),
        *_other_heads(drawn, receiver, bias),
    ]


def _other_heads(drawn: Solved, receiver: int, bias: Row) -> list[Misconception]:
    """Outputs of a row that was joined wrongly, or of a bias that counts for each head."""
    parts, w_o = _parts(drawn, receiver), drawn.sheet.w_o
    width, heads = len(parts[0]), len(parts)

    def output(row: Numbers, added: Numbers = bias) -> Numbers:
        return picked(plus(mixed(row, w_o[: len(row)]), added), _ASKED)

    return [
        fault(
            "head-order-at-concat",
            output(interleaved(parts)),
            "That is what you get when the joined columns alternate between the heads; W_O's rows "
            f"1 to {width} belong to head 1.",
        ),
        fault(
            "heads-averaged",
            output(averaged(parts)),
            f"That is what you get when every head's place holds the mean of the {heads} heads.",
        ),
        slip(
            "counted-one-head",
            output(parts[0]),
            f"That is what head 1 alone gives, by rows 1 to {width} of W_O; all {heads} heads add.",
        ),
        slip(
            "bias-for-each-head",
            output(drawn.steps["concat"][receiver], times(bias, Fraction(heads))),
            f"That is what you get when b_O is added {heads} times, once a head; it counts once.",
        ),
    ]
