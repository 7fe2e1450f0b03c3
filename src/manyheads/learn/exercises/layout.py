"""Kind `layout-conversion`: where one entry of a head's matrix stands in a packed one.

`place_in` is a definition of its own, without torch; tests hold it to `layouts/`.
"""

from dataclasses import dataclass, replace

from manyheads.learn.exercises.counting import facts, whole
from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Misconception, Numbers, fault, slip

_SIZES = ((3, 5), (4, 5), (3, 7), (5, 4), (4, 6), (5, 3), (6, 4))
"""H and d; D is H * d."""
TARGETS = {
    "torch": "nn.MultiheadAttention's in_proj_weight, (3D, D): rows are outputs, blocks q, k, v",
    "gpt2": "GPT-2's c_attn.weight (Conv1D), (D, 3D): columns are outputs, blocks q, k, v",
    "nanogpt": "nanoGPT's c_attn.weight (nn.Linear), (3D, D): rows are outputs, blocks q, k, v",
    "interleaved": "a query_key_value.weight as in BLOOM and GPT-NeoX, (3D, D): rows are outputs, "
    "q, k and v of head 0, then of head 1, and so on",
}
"""Packed matrices by a short name."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """W_Q[h][i][j], or of W_K or W_V; everything counts from 0."""

    part: int
    """0 for W_Q, 1 for W_K, 2 for W_V."""
    head: int
    """h."""
    feature: int
    """i, a row of the head's matrix (D, d)."""
    column: int
    """j, a column of it."""
    num_heads: int
    """H."""
    width: int
    """d."""

    @property
    def dim(self) -> int:
        """D."""
        return self.num_heads * self.width


def output_in_blocks(entry: Entry) -> int:
    """Which output of q, k, v in blocks of all heads."""
    return entry.part * entry.dim + entry.head * entry.width + entry.column


def output_by_head(entry: Entry) -> int:
    """Which output where q, k and v of one head lie side by side."""
    return (entry.head * 3 + entry.part) * entry.width + entry.column


def place_in(target: str, entry: Entry) -> tuple[int, int]:
    """Row and column in a packed matrix, from 0."""
    output = output_by_head(entry) if target == "interleaved" else output_in_blocks(entry)
    return (entry.feature, output) if target == "gpt2" else (output, entry.feature)


def draw(draws: Draws) -> Draft:
    """Draw the sizes, the target, the part, the head, the row and the column."""
    heads, width = draws.choose(_SIZES)
    target, part = draws.choose(tuple(TARGETS)), draws.below(3)
    entry = Entry(
        part=part,
        head=draws.below(heads),
        feature=draws.below(heads * width),
        column=draws.below(width),
        num_heads=heads,
        width=width,
    )
    row, column = place_in(target, entry)
    name = f"W_{'QKV'[part]}[{entry.head}][{entry.feature}][{entry.column}]"
    return Draft(
        prompt=(
            f"x W_Q[h] are head h's queries, so W_Q[h] is (D, d), and likewise W_K and W_V. Where "
            f"does {name} (head, row, column) stand in {TARGETS[target]}? Everything counts "
            "from 0."
        ),
        given=(facts({"heads": heads, "head width": width, "model width": entry.dim}),),
        asks=("row", "column"),
        answer=whole(row, column),
        misconceptions=tuple(_misplaced(target, entry)),
        working=_working(target, entry),
    )


def _working(target: str, entry: Entry) -> tuple[str, ...]:
    row, column = place_in(target, entry)
    output = column if target == "gpt2" else row
    if target == "interleaved":
        count = (
            f"{entry.head} * 3 * {entry.width} for the heads before, "
            f"{entry.part} * {entry.width} for the parts before, then {entry.column}"
        )
    else:
        count = (
            f"{entry.part} * {entry.dim} for the blocks before, "
            f"{entry.head} * {entry.width} for the heads before, then {entry.column}"
        )
    return f"output {output}: {count}", f"input {entry.feature}", f"row {row}, column {column}"


def _misplaced(target: str, entry: Entry) -> list[Misconception]:
    row, column = place_in(target, entry)
    side = "columns" if target == "gpt2" else "rows"
    begins = "That is what you get when "
    found = [
        fault(
            "weight-transposed",
            whole(column, row),
            f"{begins}row and column change places: the outputs are the {side} here.",
        ),
        fault("packed-layout", *_otherwise_packed(target, entry)),
        slip(
            "counted-from-one",
            whole(row + 1, column + 1),
            "That is the place counted from 1; here everything counts from 0.",
        ),
        slip(
            "forgot-head",
            whole(*place_in(target, replace(entry, head=0))),
            f"{begins}the entry is looked for in head 0; it belongs to head {entry.head}.",
        ),
    ]
    if entry.part:
        values = whole(*place_in(target, replace(entry, part=0)))
        says = f"{begins}the entry is looked for in W_Q; it belongs to W_{'QKV'[entry.part]}."
        found.append(slip("forgot-part", values, says))
    if entry.part == 0:
        values = whole(*place_in(target, replace(entry, part=1)))
        says = f"{begins}the order is taken to be k, q, v; it is q, k, v."
        found.append(fault("unpack-order", values, says))
    return found if target == "interleaved" else [*found, _head_minor(target, entry)]


def _in_output(target: str, output: int, entry: Entry) -> Numbers:
    return whole(entry.feature, output) if target == "gpt2" else whole(output, entry.feature)


def _otherwise_packed(target: str, entry: Entry) -> tuple[Numbers, str]:
    begins = "That is what you get when "
    if target == "interleaved":
        says = f"{begins}all queries come first; here q, k and v of one head lie together."
        return _in_output(target, output_in_blocks(entry), entry), says
    says = f"{begins}q, k and v of one head lie together; here all queries come first."
    return _in_output(target, output_by_head(entry), entry), says


def _head_minor(target: str, entry: Entry) -> Misconception:
    output = entry.part * entry.dim + entry.column * entry.num_heads + entry.head
    says = (
        "That is what you get when outputs alternate between the heads; the "
        f"{entry.width} of one head lie side by side."
    )
    return fault("head-order", _in_output(target, output, entry), says)
