"""Kinds `message` and `zero-query`: what one head hands to one receiver."""

from fractions import Fraction

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Misconception, Numbers, Table, fault, shown, slip
from manyheads.learn.exercises.sheets import POSITIONS, Solved, labels, mixing_sheet, table
from manyheads.learn.exercises.sums import mean, mixed, times
from manyheads.worksheets.arithmetic import ZERO, float_of
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.interventions import zero_query
from manyheads.worksheets.library import Worksheet


def draw(draws: Draws) -> Draft:
    """Draw a mixing sheet, the head, the receiver (not the first), and whether v is given."""
    drawn = mixing_sheet(draws, "message", has_bias=False)
    head, receiver = draws.below(drawn.sheet.num_heads), draws.between(1, POSITIONS - 1)
    has_values = draws.below(2) == 1
    weights, values = drawn.steps["attn_weights"][head], drawn.steps["v"][head]
    message = drawn.steps["head_outputs"][head][receiver]
    source = "v" if has_values else "x and W_V"
    return Draft(
        prompt=(
            f"From the weights of head {head + 1} and {source}, work out the head's message to "
            f"receiver {receiver + 1}."
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


def _given(drawn: Solved, head: int, has_values: bool) -> tuple[Table, ...]:
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
    plain = mean(seen)
    found = [
        slip(
            "column-for-row",
            mixed([row[receiver] for row in weights], v),
            f"That is what you get with column {receiver + 1} of the weights; receiver "
            f"{receiver + 1} mixes with its row.",
        ),
        slip(
            "weights-ignored",
            plain,
            f"That is what you get when the {len(seen)} values that are seen count alike; each is "
            "multiplied by its own weight.",
        ),
        slip(
            "summed-values",
            times(plain, Fraction(len(seen))),
            "That is what you get when the values are added up without their weights.",
        ),
    ]
    strongest = _strongest(weights[receiver])
    if strongest is not None:
        found.append(_largest(v[strongest], strongest))
    return found if has_values else [*found, _unprojected(drawn, head, receiver)]


def _strongest(row: Numbers) -> int | None:
    """The one source of the largest weight, or None where two share it."""
    highest = max(row, key=float_of)
    places = [s for s, weight in enumerate(row) if weight == highest]
    return places[0] if len(places) == 1 else None


def _largest(value: Numbers, source: int) -> Misconception:
    says = (
        f"That is what you get when the head takes source {source + 1}, which has the largest "
        "weight, alone; a head mixes all that it sees."
    )
    return slip("took-largest", value, says)


def _unprojected(drawn: Solved, head: int, receiver: int) -> Misconception:
    width = drawn.sheet.v_head_dim
    rows = [row[head * width : (head + 1) * width] for row in drawn.steps["x"]]
    says = (
        f"That is what you get when x is mixed itself, features {head * width + 1} to "
        f"{(head + 1) * width}; the values are v = x W_V."
    )
    values = mixed(drawn.steps["attn_weights"][head][receiver], rows)
    return fault("value-projection-unused", values, says)


def draw_zero_query(draws: Draws) -> Draft:
    """Draw a mixing sheet, the head, and a receiver that is neither the first nor the last."""
    drawn = mixing_sheet(draws, "zero-query", has_bias=False)
    head, receiver = draws.below(drawn.sheet.num_heads), draws.between(1, POSITIONS - 2)
    zeroed = drawn.again(zero_query(drawn.sheet))
    message = zeroed["head_outputs"][head][receiver]
    return Draft(
        prompt=(
            f"A receiver sees itself and earlier sources. W_Q of head {head + 1} becomes all "
            f"zeros; nothing else changes. Work out the head's message to receiver {receiver + 1}."
        ),
        given=(
            table("weights before", drawn.steps["attn_weights"][head], "receiver", "source"),
            table("v", drawn.steps["v"][head], "source", "column"),
        ),
        asks=labels("message column", len(message)),
        answer=message,
        misconceptions=tuple(_zero_misconceptions(drawn, head, receiver)),
        working=(
            f"a zero query scores 0 with every source, so that all {receiver + 1} that it sees "
            f"weigh {fraction_text(Fraction(1, receiver + 1))}",
            f"mean of the values of sources 1 to {receiver + 1}: {shown(message)}",
        ),
        worksheet=drawn.document,
    )


def _zero_misconceptions(drawn: Solved, head: int, receiver: int) -> list[Misconception]:
    v, count = drawn.steps["v"][head], receiver + 1
    seen = v[:count]
    return [
        _uncovered(drawn, head, receiver),
        fault(
            "mask-after-softmax",
            times(mean(seen), Fraction(count, POSITIONS)),
            f"That is what you get when each source that is seen weighs 1/{POSITIONS}: the hidden "
            f"ones must not count in the sum, so it is 1/{count}.",
        ),
        slip(
            "zero-message",
            [ZERO] * len(v[0]),
            "That is what you get when a zero query is taken for a zero message; scores of 0 are "
            "all alike, so all that is seen weighs alike.",
        ),
        slip(
            "query-kept",
            drawn.steps["head_outputs"][head][receiver],
            "That is what you get with the weights before; without a query they change.",
        ),
        slip(
            "summed-values",
            times(mean(seen), Fraction(count)),
            f"That is what you get when the {count} values are added up; their weights are "
            f"1/{count} each.",
        ),
        slip(
            "own-value-only",
            v[receiver],
            f"That is what you get when receiver {count} keeps to itself; it weighs the {count} "
            "sources that it sees alike.",
        ),
    ]


def _uncovered(drawn: Solved, head: int, receiver: int) -> Misconception:
    open_sheet = Worksheet.from_document(drawn.document | {"is_causal": False})
    values = drawn.again(zero_query(open_sheet))["head_outputs"][head][receiver]
    says = (
        f"That is what you get when all {POSITIONS} sources are mixed alike; receiver "
        f"{receiver + 1} sees only {receiver + 1} of them."
    )
    return fault("causal-hint-ignored", values, says)
