"""Kinds `message` and `zero-query`: the output of one head for one receiver."""

from fractions import Fraction

from manyheads.learn.exercises.drawing import (
    POSITIONS,
    Draws,
    Solved,
    mean,
    mixed,
    mixing_sheet,
    times,
)
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
from manyheads.worksheets.arithmetic import ZERO, float_of
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.exact import solve_exact
from manyheads.worksheets.interventions import zero_query
from manyheads.worksheets.sheet import Row


def draw(draws: Draws) -> Draft:
    """Draw a mixing sheet, the head, the receiver (not the first), and whether v is given."""
    drawn = mixing_sheet(draws, "message", has_bias=False)
    head, receiver = draws.below(drawn.sheet.num_heads), draws.between(1, POSITIONS - 1)
    has_values = draws.below(2) == 1
    weights, values = drawn.steps["attn_weights"][head], drawn.steps["v"][head]
    message = drawn.steps["head_outputs"][head][receiver]
    source = "its weights and v" if has_values else "its weights, x and W_V"
    return Draft(
        prompt=(
            f"Compute the message of head {head + 1} to receiver {receiver + 1} from {source}."
        ),
        given=_given(drawn, head, has_values),
        asks=labels("message column", len(message)),
        answer=message,
        misconceptions=tuple(_misconceptions(drawn, head, receiver, has_values)),
        working=(
            f"weights of receiver {receiver + 1}: {shown(weights[receiver])}",
            *(f"value of source {s + 1}: {shown(values[s])}" for s in range(receiver + 1)),
            f"sum of weight times value: {shown(message)}",
        ),
        worksheet=drawn.document,
    )


MESSAGE = Kind(
    name="message",
    title="The message of a head",
    summary="the message of one head to one receiver, from weights and x or v",
    stream=103,
    draw=draw,
)


def _given(drawn: Solved, head: int, has_values: bool) -> tuple[Given, ...]:
    weights = table("weights", drawn.steps["attn_weights"][head], "receiver", "source")
    if has_values:
        return weights, table("v", drawn.steps["v"][head], "source", "column")
    return (
        weights,
        table("x", drawn.steps["x"], "source", "feature"),
        table("W_V", drawn.sheet.heads[head].w_v, "feature", "column"),
    )


def _misconceptions(
    drawn: Solved, head: int, receiver: int, has_values: bool
) -> list[Misconception]:
    weights, v = drawn.steps["attn_weights"][head], drawn.steps["v"][head]
    seen = v[: receiver + 1]
    begins = "That is what you get when you"
    found = [
        slip(
            "column-for-row",
            mixed([row[receiver] for row in weights], v),
            f"{begins} use column {receiver + 1} of the weights; receiver {receiver + 1} has row "
            f"{receiver + 1}.",
        ),
        slip(
            "weights-ignored",
            mean(seen),
            f"{begins} average the {len(seen)} visible values; multiply each by its own weight.",
        ),
        slip(
            "summed-values",
            times(mean(seen), Fraction(len(seen))),
            f"{begins} add up the values; multiply each by its weight first.",
        ),
    ]
    strongest = _strongest(weights[receiver])
    if strongest is not None:
        says = (
            f"{begins} take only source {strongest + 1}, which has the largest weight; every "
            "visible source counts with its weight."
        )
        found.append(slip("took-largest", v[strongest], says))
    return found if has_values else [*found, _unprojected(drawn, head, receiver)]


def _strongest(row: Row) -> int | None:
    """The source with the largest weight, or None where two sources have it."""
    highest = max(row, key=float_of)
    places = [s for s, weight in enumerate(row) if weight == highest]
    return places[0] if len(places) == 1 else None


def _unprojected(drawn: Solved, head: int, receiver: int) -> Misconception:
    width = drawn.sheet.v_head_dim
    rows = [row[head * width : (head + 1) * width] for row in drawn.steps["x"]]
    says = (
        f"That is what you get when you mix features {head * width + 1} to {(head + 1) * width} of "
        "x; the values are v = x W_V."
    )
    values = mixed(drawn.steps["attn_weights"][head][receiver], rows)
    return fault("value-projection-unused", values, says)


def draw_zero_query(draws: Draws) -> Draft:
    """Draw a mixing sheet, the head, and a receiver that is neither the first nor the last."""
    drawn = mixing_sheet(draws, "zero-query", has_bias=False)
    head, receiver = draws.below(drawn.sheet.num_heads), draws.between(1, POSITIONS - 2)
    message = solve_exact(zero_query(drawn.sheet))["head_outputs"][head][receiver]
    return Draft(
        prompt=(
            "Each receiver sees itself and earlier sources. All entries of W_Q of head "
            f"{head + 1} are set to 0; nothing else changes. Compute the message of this head to "
            f"receiver {receiver + 1}."
        ),
        given=(
            table("weights before", drawn.steps["attn_weights"][head], "receiver", "source"),
            table("v", drawn.steps["v"][head], "source", "column"),
        ),
        asks=labels("message column", len(message)),
        answer=message,
        misconceptions=tuple(_zero_misconceptions(drawn, head, receiver)),
        working=(
            f"a zero query has score 0 with every source, so each of the {receiver + 1} visible "
            f"sources has weight {fraction_text(Fraction(1, receiver + 1))}",
            f"mean of the values of sources 1 to {receiver + 1}: {shown(message)}",
        ),
        worksheet=drawn.document,
    )


ZERO_QUERY = Kind(
    name="zero-query",
    title="A query of zeros",
    summary="the message of one head when its W_Q is set to zero",
    stream=107,
    draw=draw_zero_query,
)


def _zero_misconceptions(drawn: Solved, head: int, receiver: int) -> list[Misconception]:
    v, count = drawn.steps["v"][head], receiver + 1
    seen = v[:count]
    begins = "That is what you get when"
    return [
        fault(
            "causal-hint-ignored",
            mean(v),
            f"{begins} all {POSITIONS} sources have the same weight; receiver {count} sees only "
            f"{count} of them.",
        ),
        fault(
            "mask-after-softmax",
            times(mean(seen), Fraction(count, POSITIONS)),
            f"{begins} each visible source has weight 1/{POSITIONS}; masked sources do not count "
            f"in the sum, so the weight is 1/{count}.",
        ),
        slip(
            "zero-message",
            [ZERO] * len(v[0]),
            f"{begins} a zero query gives a zero message; equal scores of 0 give equal weights to "
            "all visible sources.",
        ),
        slip(
            "query-kept",
            drawn.steps["head_outputs"][head][receiver],
            f"{begins} you use the weights before the change; they change with the query.",
        ),
        slip(
            "summed-values",
            times(mean(seen), Fraction(count)),
            f"{begins} you add up the {count} values; each has weight 1/{count}.",
        ),
        slip(
            "own-value-only",
            v[receiver],
            f"{begins} receiver {count} attends to itself alone; its {count} visible sources have "
            "equal weights.",
        ),
    ]
