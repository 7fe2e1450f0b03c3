"""Parts 1 to 3 of the lab, on the worksheet `two-routes`.

`Case` is one state of the worksheet, with every source of its numbers: fractions, published
answers, and a layer. The parts show the two routes, the output projection, and interventions.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.config import FORMS, Form
from manyheads.core.trace import AttentionTrace
from manyheads.learn.lab.record import Equals, Measurement, Record
from manyheads.worksheets.arithmetic import ZERO
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.interventions import heads_reordered, without_head, zero_query
from manyheads.worksheets.library import Worksheet, worksheet
from manyheads.worksheets.numbers import parse_number
from manyheads.worksheets.tensors import input_from_sheet, weights_from_sheet

LENGTH = 64
"""Upper bound on the products that enter one number: widths 4, 2, 3 and 4 in turn."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One state of the worksheet, as given or changed, with every source of its numbers."""

    sheet: Worksheet
    """What is given."""

    def changed(self, changes: dict[str, object]) -> "Case":
        """Return another case in which some given numbers differ."""
        return Case(sheet=self.sheet.edit(changes))

    def with_heads_swapped(self) -> "Case":
        """Return another case: the heads change places, the output projection stays."""
        return Case(sheet=heads_reordered(self.sheet, (1, 0), with_w_o=False))

    def with_zero_query(self) -> "Case":
        """Return another case: every query of every head is zero."""
        return Case(sheet=zero_query(self.sheet))

    def without_head(self, h: int) -> "Case":
        """Return another case: the output of head h, counted from 0, is zero."""
        return Case(sheet=without_head(self.sheet, h))

    @cached_property
    def exact(self) -> Steps:
        """The answers in fractions."""
        return solve_exact(self.sheet)

    def layer(self, form: Form) -> MultiHeadAttention:
        """A layer with these weights in double precision."""
        return MultiHeadAttention.from_weights(weights_from_sheet(self.sheet), form=form)

    @cached_property
    def trace(self) -> AttentionTrace:
        """The numbers of the packed form."""
        with torch.no_grad():
            return self.layer("packed").trace(self.x, is_causal=self.sheet.is_causal)

    @cached_property
    def x(self) -> Tensor:
        """The input, (1, T, D)."""
        return input_from_sheet(self.sheet)

    def output(self, form: Form) -> Tensor:
        """The output of one form, (T, D), by the layer's own forward call."""
        with torch.no_grad():
            output = self.layer(form)(self.x, is_causal=self.sheet.is_causal)
        assert isinstance(output, Tensor)
        return output[0]

    def measured(self, field: str, *index: int) -> Measurement:
        """Measure one row of a field of the trace; heads, then positions, count from 0."""
        return lambda: self.trace[field][0, *index]

    def summed(self, field: str, t: int) -> Measurement:
        """Measure the sum over heads of a field at one position."""
        return lambda: self.trace[field][0, :, t].sum(dim=0)

    def head_gap(self, t: int) -> Measurement:
        """Measure the output of head 1 minus that of head 2 at one position."""
        return lambda: self.trace.head_outputs[0, 0, t] - self.trace.head_outputs[0, 1, t]

    def exact_head_gap(self, t: int) -> Equals:
        """Expect the exact value of `head_gap`."""
        first, second = (self.exact["head_outputs"][h][t] for h in range(2))
        numbers = tuple(a - b for a, b in zip(first, second, strict=True))
        return Equals(source="fractions", numbers=numbers, length=LENGTH)

    def fractions(self, field: str, *index: int) -> Equals:
        """Expect the exact value."""
        return Equals(source="fractions", numbers=entry(self.exact[field], *index), length=LENGTH)

    def published(self, *place: str | int) -> Equals:
        """Expect the answer that the worksheet file has under "expected"."""
        row = entry(self.sheet.expected["main"], *place)
        numbers = tuple(parse_number(text) for text in row)
        return Equals(source="published", numbers=numbers, length=LENGTH)

    @property
    def head_names(self) -> list[str]:
        """Labels of rows about a head: "head 1 (grows)"."""
        return [f"head {h + 1} ({head.label})" for h, head in enumerate(self.sheet.heads)]

    @property
    def num_positions(self) -> int:
        """T."""
        return len(self.sheet.sequence().x)


def two_routes() -> Case:
    """The worksheet as given."""
    return Case(sheet=worksheet("two-routes"))


def entry(table: Any, *index: str | int) -> Any:  # noqa: ANN401 - nested rows of numbers, or JSON
    """Go down into nested rows."""
    for step in index:
        table = table[step]
    return table


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Column headings: "key 1", "key 2" and so on."""
    return tuple(f"{name} {i + 1}" for i in range(count))


def write_routes(record: Record) -> None:
    """X, the shape of every projection, and scores, weights and output of each head at the end."""
    case = two_routes()
    last = case.num_positions - 1
    record.say(
        "The worksheet is two-routes. Each cell has the exact number, then the decimal number that "
        "the layer computes. Each number is compared with exact fractions, published answers, a "
        "count by hand or PyTorch."
    )
    record.say(
        "All queries are equal, and both heads read the same values. The keys of the heads have "
        "opposite signs. As the log key grows, the scores of one head grow and those of the "
        "other shrink."
    )
    record.table("X, one row per input", case.sheet.features)
    for t in range(case.num_positions):
        record.row(f"position {t + 1}", case.measured("x", t), case.fractions("x", t))
    _write_shapes(record, case)
    keys = numbered("key", case.num_positions)
    at_last = f"at position {last + 1}"
    _write_heads(record, case, "scores", f"scores {at_last}: q·k / sqrt(head width)", keys)
    _write_heads(record, case, "attn_weights", f"weights {at_last}: softmax of the scores", keys)
    caption = f"output per head {at_last}: weights times values"
    _write_heads(record, case, "head_outputs", caption, numbered("value", case.sheet.v_head_dim))


def _write_heads(
    record: Record, case: Case, name: str, caption: str, columns: tuple[str, ...]
) -> None:
    """One row per head, at the last position, against fractions and the published answers."""
    last = case.num_positions - 1
    record.table(caption, columns)
    for h, label in enumerate(case.head_names):
        fractions, published = case.fractions(name, h, last), case.published(name, h)
        record.row(label, case.measured(name, h, last), fractions, published)


def _shape(rows: tuple[tuple[object, ...], ...]) -> tuple[int, int]:
    return len(rows), len(rows[0])


def _write_shapes(record: Record, case: Case) -> None:
    sheet, exact = case.sheet, case.exact
    record.table("shapes, (rows, columns)", ("W_Q", "W_K", "W_V", "q", "k", "v"))
    for h, label in enumerate(case.head_names):
        weights = [_shape(w) for w in (sheet.heads[h].w_q, sheet.heads[h].w_k, sheet.heads[h].w_v)]
        wanted = (*weights, *(_shape(exact[name][h]) for name in ("q", "k", "v")))
        shapes = Equals(source="worksheet", numbers=wanted)
        record.row(label, partial(_head_shapes, case, h), shapes)
    record.table("shapes after the heads", ("concat", "W_O", "output"))
    wanted = (_shape(exact["concat"]), _shape(sheet.w_o), _shape(exact["output"]))
    shapes = Equals(source="worksheet", numbers=wanted)
    record.row("both heads", partial(_joined_shapes, case), shapes)


def _head_shapes(case: Case, h: int) -> tuple[tuple[int, ...], ...]:
    weights, trace = case.layer("packed").head_weights(), case.trace
    tensors = (weights.w_q[h], weights.w_k[h], weights.w_v[h], *(trace[n][0, h] for n in "qkv"))
    return tuple(tuple(tensor.shape) for tensor in tensors)


def _joined_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    w_o = case.layer("packed").head_weights().w_o.flatten(0, 1)  # (H*v, D)
    return tuple(tuple(t.shape) for t in (case.trace.concat[0], w_o, case.trace.output[0]))


def try_zero_query(record: Record) -> None:
    """Every entry of W_Q becomes zero, in both heads."""
    given = two_routes()
    case, last = given.with_zero_query(), given.num_positions - 1
    keys = numbered("key", case.num_positions)
    record.say(
        "A zero query gives every key the same score. Softmax gives equal scores equal weights."
    )
    for name, what in (("scores", "scores"), ("attn_weights", "weights")):
        record.table(f"{what} at position {last + 1}, every query zero", keys)
        for h, label in enumerate(case.head_names):
            more = () if name == "scores" else (case.published("zero_query", name, h),)
            record.row(label, case.measured(name, h, last), case.fractions(name, h, last), *more)
    record.table(
        f"concatenated heads at position {last + 1}", numbered("value", len(case.sheet.w_o))
    )
    _write_zero_row(record, case, "concat", "both heads")
    record.say(
        "Both heads give the same output, so every output that is a difference of them is zero."
    )
    record.table(f"output at position {last + 1}", numbered("output", case.sheet.embed_dim))
    _write_zero_row(record, case, "output", "concat W_O")


def _write_zero_row(record: Record, case: Case, name: str, label: str) -> None:
    last = case.num_positions - 1
    fractions, published = case.fractions(name, last), case.published("zero_query", name)
    record.row(label, case.measured(name, last), fractions, published)


def write_output(record: Record) -> None:
    """Concatenation, the stored rows, the output, what summing loses, and head 1's contribution."""
    case = two_routes()
    last, outputs = case.num_positions - 1, numbered("output", case.sheet.embed_dim)
    joined = tuple(f"head {h + 1}" for h in range(2) for _ in range(case.sheet.v_head_dim))
    record.table(f"concatenated heads at position {last + 1}", joined)
    concat = (case.fractions("concat", last), case.published("concat"))
    record.row("head outputs in order", case.measured("concat", last), *concat)
    _write_stored_rows(record, case, joined)
    record.table(f"projected output at position {last + 1}", outputs)
    output = (case.fractions("output", last), case.published("output"))
    record.row("concat W_O", case.measured("output", last), *output)
    record.row("the same, fused form", partial(_fused_output, case), *output)
    _write_sums(record, case)
    _write_contributions(record, case, outputs)


def _fused_output(case: Case) -> Tensor:
    return case.output("fused")[-1]


def _stored_row(case: Case, i: int) -> Tensor:
    return case.layer("packed").get_parameter("out_proj.weight")[i]


def _write_stored_rows(record: Record, case: Case, columns: tuple[str, ...]) -> None:
    record.say(
        "PyTorch stores the matrix of a linear layer with one row per output. A stored row has the "
        "factors of one output, head by head. W_O is the transpose, and each head has a block of "
        "rows in W_O."
    )
    record.table("stored rows of out_proj.weight", columns)
    for i, wanted in enumerate(zip(*case.sheet.w_o, strict=True)):
        stored = Equals(source="worksheet", numbers=wanted)
        record.row(f"row of output {i + 1}", partial(_stored_row, case, i), stored)


def _write_sums(record: Record, case: Case) -> None:
    last, swapped = case.num_positions - 1, case.with_heads_swapped()
    record.say(
        "A sum of the head outputs does not show which head gave which number. If you swap the "
        "heads, the sum stays the same, and their difference is lost."
    )
    record.table("addition instead of concatenation", numbered("value", case.sheet.v_head_dim))
    first, second = (case.exact["head_outputs"][h][last] for h in range(2))
    numbers = tuple(a + b for a, b in zip(first, second, strict=True))
    total = Equals(source="fractions", numbers=numbers, length=LENGTH)
    published = case.published("sum_instead_of_concat")
    for label, summed in (("sum of the heads", case), ("sum, heads swapped", swapped)):
        record.row(label, summed.summed("head_outputs", last), total, published)
    record.row("lost: head 1 minus head 2", case.head_gap(last), case.exact_head_gap(last))
    record.table("concatenation keeps the order", numbered("output", case.sheet.embed_dim))
    for label, joined in (("output", case), ("output, heads swapped", swapped)):
        record.row(label, joined.measured("output", last), joined.fractions("output", last))


def _write_contributions(record: Record, case: Case, columns: tuple[str, ...]) -> None:
    last = case.num_positions - 1
    record.table(f"signed contribution of each head at position {last + 1}", columns)
    for h, label in enumerate(case.head_names):
        name = "head_contributions"
        fractions, published = case.fractions(name, h, last), case.published(name, h)
        record.row(label, case.measured(name, h, last), fractions, published)
    total = case.summed("head_contributions", last)
    record.row("sum of both", total, case.fractions("output", last), case.published("output"))


def try_ablate_head_1(record: Record) -> None:
    """The values of head 1 become zero, so its output is zero for any weights."""
    given = two_routes()
    case, last = given.without_head(0), given.num_positions - 1
    for position in (1, last):
        _write_without_head_1(record, given, case, position)
    record.say(
        "The contribution of head 2 remains, and that of head 1 is missing: the output is a "
        "sum over heads. At position 2 output 2 changes its sign: head 2 subtracts there, and the "
        "contribution of head 1 was larger. At position 3 outputs 2 and 3 do."
    )
    record.table("weights of head 1, which are unchanged", numbered("key", case.num_positions))
    weights = case.fractions("attn_weights", 0, last)
    record.row("head 1", case.measured("attn_weights", 0, last), weights)


def _write_without_head_1(record: Record, given: Case, case: Case, position: int) -> None:
    """The output of one position with both heads and with head 2 alone."""
    record.table(f"output at position {position + 1}", numbered("output", given.sheet.embed_dim))
    output = given.fractions("output", position)
    published = given.published("all_rows", "output", position)
    record.row("both heads", given.measured("output", position), output, published)
    left = given.fractions("head_contributions", 1, position)
    remains = case.fractions("output", position)
    record.row("without head 1", case.measured("output", position), remains, left)
    head_1 = given.fractions("head_contributions", 0, position)
    record.row("difference", partial(_missing, given, case, position), head_1)


def _missing(given: Case, without: Case, position: int) -> Tensor:
    return given.trace.output[0, position] - without.trace.output[0, position]


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
    """The exact value of `_largest_move`; where it is zero, no rounding is allowed."""
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
        "With the mask, no earlier output may change. Without the mask, earlier outputs change. "
        "This control shows that the measurement would detect a leak."
    )
    record.table("largest change of an output, per form", FORMS)
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
    record.table("masked weights and row sums", numbered("head", heads))
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
        "Every query is zero. The output of each head is the mean of the values that a position "
        "sees."
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
    record.table("largest change of an output, per form", FORMS)
    for t in range(before.num_positions):
        positions = range(t, t + 1)
        measure = partial(_largest_move, before, after, positions)
        record.row(f"position {t + 1}", measure, _exact_move(before, after, positions))
    record.say(
        "The mask hides only later positions, so the output changes at every position. The first "
        "position sees only itself, and its output changes most."
    )
