"""Part 2 of the lab: joining the heads, the output projection, and what each head adds."""

from functools import partial

from torch import Tensor

from manyheads.learn.lab.assertions import Equals
from manyheads.learn.lab.record import Record
from manyheads.learn.lab.routes import LENGTH, Case, numbered, two_routes


def write_output(record: Record) -> None:
    """Concatenation, the stored rows, the output, what summing loses, and head 1's contribution."""
    case = two_routes()
    last, outputs = case.num_positions - 1, numbered("output", case.sheet.embed_dim)
    joined = tuple(f"head {h + 1}" for h in range(2) for _ in range(case.sheet.v_head_dim))
    record.table(f"heads joined in order at position {last + 1}", joined)
    concat = (case.fractions("concat", last), case.published("concat"))
    record.row("head outputs side by side", case.measured("concat", last), *concat)
    _write_stored_rows(record, case, joined)
    record.table(f"projected output at position {last + 1}", outputs)
    output = (case.fractions("output", last), case.published("output"))
    record.row("joined heads W_O", case.measured("output", last), *output)
    record.row("the same, fused form", partial(_fused_output, case), *output)
    _write_sums(record, case)
    _write_contributions(record, case, outputs)


def _fused_output(case: Case) -> Tensor:
    return case.output("fused")[-1]


def _stored_row(case: Case, i: int) -> Tensor:
    return case.layer("packed").get_parameter("out_proj.weight")[i]


def _write_stored_rows(record: Record, case: Case, columns: tuple[str, ...]) -> None:
    record.say(
        "PyTorch stores a linear layer's matrix with a row an output: a stored row lists what one "
        "output takes from each head. W_O is its transpose; each head owns a block of W_O's rows."
    )
    record.table("stored rows of out_proj.weight", columns)
    for i, wanted in enumerate(zip(*case.sheet.w_o, strict=True)):
        stored = Equals(source="worksheet", numbers=wanted)
        record.row(f"makes output {i + 1}", partial(_stored_row, case, i), stored)


def _write_sums(record: Record, case: Case) -> None:
    last, swapped = case.num_positions - 1, case.with_heads_swapped()
    record.say(
        "Adding the head outputs instead of joining them forgets which head said what: the sum is "
        "the same when the heads change places, and the difference between them is gone."
    )
    record.table("adding instead of joining", numbered("value", case.sheet.v_head_dim))
    first, second = (case.exact["head_outputs"][h][last] for h in range(2))
    numbers = tuple(a + b for a, b in zip(first, second, strict=True))
    total = Equals(source="fractions", numbers=numbers, length=LENGTH)
    published = case.published("sum_instead_of_concat")
    for label, summed in (("sum of the heads", case), ("sum, heads swapped", swapped)):
        record.row(label, summed.summed("head_outputs", last), total, published)
    record.row("lost: head 1 minus head 2", case.head_gap(last), case.exact_head_gap(last))
    record.table("joining keeps the order", numbered("output", case.sheet.embed_dim))
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
    """Head 1's values become zero, so that its message is zero whatever it looks at."""
    given, last = two_routes(), two_routes().num_positions - 1
    case, columns = given.without_head(0), numbered("output", given.sheet.embed_dim)
    record.table(f"output at position {last + 1}", columns)
    whole = (given.fractions("output", last), given.published("output"))
    record.row("both heads", given.measured("output", last), *whole)
    left = (case.fractions("output", last), given.published("head_contributions", 1))
    record.row("head 1 silenced", case.measured("output", last), *left)
    gone = partial(_missing, given, case)
    head_1 = given.fractions("head_contributions", 0, last)
    record.row("what went missing", gone, head_1, given.published("head_contributions", 0))
    record.say(
        "What is left is the contribution of head 2, and what went missing is that of head 1: the "
        "output is a sum over heads. Outputs 2 and 3 change their sign: there head 2 subtracts, "
        "and head 1 had outweighed it."
    )
    record.table("weights of head 1, which still looks", numbered("key", case.num_positions))
    weights = case.fractions("attn_weights", 0, last)
    record.row("head 1", case.measured("attn_weights", 0, last), weights)


def _missing(given: Case, without: Case) -> Tensor:
    return given.trace.output[0, -1] - without.trace.output[0, -1]
