"""Part 3 of the lab: change one thing, and see what moves and what does not."""

from functools import partial

import torch
from torch import Tensor

from manyheads.learn.lab.assertions import Equals
from manyheads.learn.lab.record import Record
from manyheads.learn.lab.routes import (
    FORMS,
    LENGTH,
    Case,
    entry,
    numbered,
    two_routes,
)
from manyheads.worksheets.arithmetic import ZERO

_LAST_INPUT: dict[str, object] = {
    "sequences.main.X[2][1]": 0,
    "sequences.main.X[2][2]": 10,
    "sequences.main.X[2][3]": -4,
}
_FIRST_INPUT: dict[str, object] = {"sequences.main.X[0][2]": 5, "sequences.main.X[0][3]": 3}
_UNMASKED: dict[str, object] = {"is_causal": False}


def write_interventions(record: Record) -> None:
    """The causal prefix and its unmasked control, hidden keys, normalised rows, zero queries."""
    case = two_routes()
    record.say("Only the last input changes: its key and its values.")
    _write_change(record, case, case.changed(_LAST_INPUT))
    _write_moves(record, case)
    _write_rows(record, case)
    _write_zero_query(record, case)


def _write_change(record: Record, given: Case, after: Case) -> None:
    record.table("output with the causal mask", numbered("output", given.sheet.embed_dim))
    for t in range(given.num_positions):
        for case, when in ((given, "before"), (after, "after")):
            label = f"position {t + 1}, {when}"
            known = (case.published("all_rows", "output", t),) if case is given else ()
            record.row(label, case.measured("output", t), case.fractions("output", t), *known)


def _largest_move(before: Case, after: Case, positions: range) -> tuple[float, ...]:
    """How far the outputs at these positions move, at most, in each form."""
    with torch.no_grad():
        moves = [
            (after.output(form) - before.output(form))[list(positions)].abs().max()
            for form in FORMS
        ]
    return tuple(float(move) for move in moves)


def _exact_move(before: Case, after: Case, positions: range) -> Equals:
    """What fractions say of `_largest_move`; where nothing moves, exactly nothing may."""
    pairs = [
        (entry(before.exact["output"], t, i), entry(after.exact["output"], t, i))
        for t in positions
        for i in range(before.sheet.embed_dim)
    ]
    move = max(abs(b - a) for a, b in pairs)
    return Equals(source="fractions", numbers=(move,) * len(FORMS), length=LENGTH if move else 0)


def _write_moves(record: Record, case: Case) -> None:
    prefix, last = range(case.num_positions - 1), range(case.num_positions - 1, case.num_positions)
    unmasked = case.changed(_UNMASKED)
    record.say(
        "With the mask, no earlier position may notice. Without it they do: this is the control, "
        "which shows that the measurement would see a leak."
    )
    record.table("largest move of an output, form by form", FORMS)
    changed, control = case.changed(_LAST_INPUT), unmasked.changed(_LAST_INPUT)
    names = f"positions 1 and {len(prefix)}"
    for label, before, after, positions in (
        (f"{names}, causal", case, changed, prefix),
        (f"{names}, unmasked", unmasked, control, prefix),
        (f"position {last[0] + 1}, causal", case, changed, last),
    ):
        measure = partial(_largest_move, before, after, positions)
        record.row(label, measure, _exact_move(before, after, positions))


def _sums(case: Case, t: int) -> Tensor:
    return case.trace.attn_weights[0, :, t].sum(dim=-1)


def _largest_later_weights(case: Case) -> Tensor:
    return case.trace.attn_weights[0].abs().triu(1).amax(dim=(1, 2))


def _write_rows(record: Record, case: Case) -> None:
    count, heads = case.num_positions, case.sheet.num_heads
    record.table("weights with the causal mask", numbered("key", count))
    for h in range(heads):
        for t in range(count):
            row = (
                case.fractions("attn_weights", h, t),
                case.published("all_rows", "attn_weights", h, t),
            )
            record.row(f"head {h + 1}, position {t + 1}", case.measured("attn_weights", h, t), *row)
    record.table("hidden and normalised", numbered("head", heads))
    zeros = Equals(source="by hand", numbers=(ZERO,) * heads)
    record.row("largest weight on a later key", partial(_largest_later_weights, case), zeros)
    for t in range(count):
        numbers = tuple(sum(case.exact["attn_weights"][h][t]) for h in range(heads))
        fractions = Equals(source="fractions", numbers=numbers, length=LENGTH)
        ones = Equals(source="by hand", numbers=(1.0,) * heads, length=LENGTH)
        record.row(
            f"sum of the weights, position {t + 1}", partial(_sums, case, t), fractions, ones
        )


def _write_zero_query(record: Record, given: Case) -> None:
    case, count = given.with_zero_query(), given.num_positions
    record.say(
        "Every query zero: each position mixes what it sees in equal parts, in both heads alike."
    )
    record.table("weights with zero queries", numbered("key", count))
    for h in range(case.sheet.num_heads):
        for t in range(count):
            published = (case.published("zero_query", "attn_weights", h),) if t == count - 1 else ()
            row = (case.fractions("attn_weights", h, t), *published)
            record.row(f"head {h + 1}, position {t + 1}", case.measured("attn_weights", h, t), *row)
    record.table("head 1 minus head 2 with zero queries", numbered("value", case.sheet.v_head_dim))
    for t in range(count):
        nothing = Equals(source="by hand", numbers=(0.0,) * case.sheet.v_head_dim, length=LENGTH)
        record.row(f"position {t + 1}", case.head_gap(t), case.exact_head_gap(t), nothing)


def try_change_first_input(record: Record) -> None:
    """The first input carries other values; the mask stays."""
    before = two_routes()
    after = before.changed(_FIRST_INPUT)
    record.say("Only the values of the first input change. Every position sees the first key.")
    _write_change(record, before, after)
    record.table("largest move of an output, form by form", FORMS)
    for t in range(before.num_positions):
        positions = range(t, t + 1)
        measure = partial(_largest_move, before, after, positions)
        record.row(f"position {t + 1}", measure, _exact_move(before, after, positions))
    record.say(
        "The mask hides what comes later and nothing else, so all of them move. The first position "
        "has only itself to look at and moves furthest."
    )
