"""Kind `layout-conversion`: the place of one entry of a head's matrix in a packed matrix.

`place_in` is a definition of its own, without torch; tests compare it with `layouts/`.
"""

from dataclasses import dataclass, replace

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Kind, Misconception, facts, fault, slip, whole

_SIZES = ((3, 5), (4, 5), (3, 7), (5, 4), (4, 6), (5, 3), (6, 4))
"""H and d; D is H * d."""
TARGETS = {
    "torch": "nn.MultiheadAttention's in_proj_weight, (3D, D): rows are outputs, in blocks q, k, v",
    "gpt2": "GPT-2's c_attn.weight (Conv1D), (D, 3D): columns are outputs, in blocks q, k, v",
    "nanogpt": "nanoGPT's c_attn.weight (nn.Linear), (3D, D): rows are outputs, in blocks q, k, v",
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
    """The index of the output where q, k and v are blocks of all heads."""
    return entry.part * entry.dim + entry.head * entry.width + entry.column


def output_by_head(entry: Entry) -> int:
    """The index of the output where q, k and v of one head are next to each other."""
    return (entry.head * 3 + entry.part) * entry.width + entry.column


def place_in(target: str, entry: Entry) -> tuple[int, int]:
    """Row and column in a packed matrix, from 0."""
    output = output_by_head(entry) if target == "interleaved" else output_in_blocks(entry)
    return _place(target, output, entry.feature)


def _place(target: str, output: int, feature: int) -> tuple[int, int]:
    return (feature, output) if target == "gpt2" else (output, feature)


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
    name = f"W_{'QKV'[part]}[{entry.head}][{entry.feature}][{entry.column}]"
    return Draft(
        prompt=(
            "The queries of head h are x W_Q[h], so W_Q[h] has shape (D, d), and so do W_K[h] and "
            f"W_V[h]. They are packed in {TARGETS[target]}. In which row and column of the packed "
            f"matrix is {name} (head, row, column)? All indices count from 0."
        ),
        given=(facts({"heads": heads, "head width": width, "model width": entry.dim}),),
        asks=("row", "column"),
        answer=whole(*place_in(target, entry)),
        misconceptions=tuple(_misplaced(target, entry)),
        working=_working(target, entry),
    )


LAYOUT_CONVERSION = Kind(
    name="layout-conversion",
    title="Packed weights",
    summary="the place of an entry of W_Q[h], W_K[h] or W_V[h] in the packed weights of torch, "
    "GPT-2, nanoGPT or BLOOM",
    stream=113,
    draw=draw,
)


def _working(target: str, entry: Entry) -> tuple[str, ...]:
    row, column = place_in(target, entry)
    if target == "interleaved":
        count = (
            f"{entry.head} * 3 * {entry.width} for the heads before, "
            f"{entry.part} * {entry.width} for the parts before, plus {entry.column}"
        )
    else:
        count = (
            f"{entry.part} * {entry.dim} for the blocks before, "
            f"{entry.head} * {entry.width} for the heads before, plus {entry.column}"
        )
    output = column if target == "gpt2" else row
    return f"output {output}: {count}", f"input {entry.feature}", f"row {row}, column {column}"


def _misplaced(target: str, entry: Entry) -> list[Misconception]:
    row, column = place_in(target, entry)
    side = "columns" if target == "gpt2" else "rows"
    begins = "That is what you get when"
    part = "QKV"[entry.part]
    found = [
        fault(
            "weight-transposed",
            whole(column, row),
            f"{begins} row and column are exchanged; the outputs are the {side} here.",
        ),
        _otherwise_packed(target, entry),
        slip(
            "counted-from-one",
            whole(row + 1, column + 1),
            "That is the place counted from 1; here all indices count from 0.",
        ),
        slip(
            "forgot-head",
            whole(*place_in(target, replace(entry, head=0))),
            f"{begins} you look in head 0; the entry belongs to head {entry.head}.",
        ),
    ]
    if entry.part:
        values = whole(*place_in(target, replace(entry, part=0)))
        says = f"{begins} you look in W_Q; the entry belongs to W_{part}."
        found.append(slip("forgot-part", values, says))
    else:
        values = whole(*place_in(target, replace(entry, part=1)))
        says = f"{begins} the order is k, q, v; here it is q, k, v."
        found.append(fault("unpack-order", values, says))
    if target != "interleaved":
        found.append(_head_minor(target, entry))
    return found


def _otherwise_packed(target: str, entry: Entry) -> Misconception:
    begins = "That is what you get when"
    if target == "interleaved":
        output = output_in_blocks(entry)
        says = f"{begins} all queries come first; here q, k and v of one head are together."
    else:
        output = output_by_head(entry)
        says = f"{begins} q, k and v of one head are together; here all queries come first."
    return fault("packed-layout", whole(*_place(target, output, entry.feature)), says)


def _head_minor(target: str, entry: Entry) -> Misconception:
    output = entry.part * entry.dim + entry.column * entry.num_heads + entry.head
    says = (
        "That is what you get when outputs alternate between the heads; the "
        f"{entry.width} outputs of one head are next to each other."
    )
    return fault("head-order", whole(*_place(target, output, entry.feature)), says)
