"""Kinds `contribution` and `ablation`: what one head adds, and the output without it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from manyheads.learn.exercises.drawing import (
    FEATURES,
    POSITIONS,
    Draws,
    Solved,
    mixed,
    mixing_sheet,
    picked,
    plus,
    sizes,
    times,
    transposed,
)
from manyheads.learn.exercises.form import (
    Draft,
    Kind,
    Misconception,
    fault,
    shown,
    slip,
    table,
)
from manyheads.worksheets.arithmetic import ZERO
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.exact import solve_exact
from manyheads.worksheets.interventions import without_head
from manyheads.worksheets.sheet import Matrix, Row

_MINUS = Fraction(-1)
_Make = Callable[[str, Row, str], Misconception]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One head of one receiver in a solved worksheet; everything counts from 0."""

    drawn: Solved
    """The worksheet."""
    head: int
    """The head."""
    receiver: int
    """The receiver."""
    asked: tuple[int, ...]
    """The outputs that are asked for."""

    def contribution(self, head: int) -> Row:
        """What a head adds, all outputs."""
        row: Row = self.drawn.steps["head_contributions"][head][self.receiver]
        return row

    @property
    def output(self) -> Row:
        """The layer's output, all of it."""
        row: Row = self.drawn.steps["output"][self.receiver]
        return row

    @property
    def joined(self) -> Row:
        """The concatenated row."""
        row: Row = self.drawn.steps["concat"][self.receiver]
        return row

    @property
    def bias(self) -> Row:
        """b_O."""
        assert self.drawn.sheet.b_o is not None
        return self.drawn.sheet.b_o

    @property
    def other(self) -> int:
        """The next head, or the first after the last."""
        return (self.head + 1) % self.drawn.sheet.num_heads

    def places(self, head: int) -> range:
        """A head's columns of the concatenated row."""
        width = self.drawn.sheet.v_head_dim
        return range(head * width, (head + 1) * width)

    def through(self, places: range, matrix: Matrix | None = None) -> Row:
        """The head's message times some rows of W_O, or of another matrix."""
        rows = self.drawn.sheet.w_o if matrix is None else matrix
        return mixed(picked(self.joined, self.places(self.head)), [rows[i] for i in places])

    def mistakes(self, *found: tuple[_Make, str, Row, str]) -> tuple[Misconception, ...]:
        """The outputs asked of wrong rows: each `slip` or `fault`, name, row and sentence."""
        return tuple(make(name, picked(row, self.asked), says) for make, name, row, says in found)

    def draft(
        self, prompt: str, answer: Row, mistakes: tuple[Misconception, ...], *working: str
    ) -> Draft:
        """The exercise about this case."""
        names = tuple(f"output {i + 1}" for i in self.asked)
        outputs = tuple(rows[self.receiver] for rows in self.drawn.steps["head_outputs"])
        return Draft(
            prompt=f"{prompt} Give {', '.join(names)}.",
            given=(
                table("head outputs", outputs, "head", "column"),
                table("W_O", self.drawn.sheet.w_o, "column", "output"),
                table("b_O", (self.bias,), "row", "output"),
            ),
            asks=names,
            answer=picked(answer, self.asked),
            misconceptions=mistakes,
            working=working,
            worksheet=self.drawn.document,
        )


def _case(draws: Draws, name: str) -> Case:
    """Draw a mixing sheet with a bias, the head and the receiver.

    Two of the outputs asked have the indices of the head's own columns, one has not.
    """
    drawn = mixing_sheet(draws, name, has_bias=True)
    head, receiver = draws.below(drawn.sheet.num_heads), draws.below(POSITIONS)
    width = drawn.sheet.v_head_dim
    first = head * width
    asked = (first, first + 1, (first + width) % FEATURES)
    return Case(drawn=drawn, head=head, receiver=receiver, asked=tuple(sorted(asked)))


def draw(draws: Draws) -> Draft:
    """Draw a case and ask what the head adds."""
    case = _case(draws, "contribution")
    own, place = case.contribution(case.head), case.places(case.head)
    return case.draft(
        f"These are the outputs of {case.drawn.sheet.num_heads} heads for one receiver. What does "
        f"head {case.head + 1} add to the output of the layer, with its sign?",
        own,
        _contribution_wrongly(case),
        f"head {case.head + 1}: {shown(picked(case.joined, place))} times rows {place[0] + 1} to "
        f"{place[-1] + 1} of W_O",
        f"all outputs: {shown(own)}",
        f"outputs asked: {shown(picked(own, case.asked))}",
    )


CONTRIBUTION = Kind(
    name="contribution",
    title="The contribution of one head",
    summary="what one head adds to the output, with its sign",
    stream=106,
    draw=draw,
)

_CUT = (
    "That is what you get when each head has its own columns of the output; W_O mixes every head "
    "into all of them."
)


def _contribution_wrongly(case: Case) -> tuple[Misconception, ...]:
    own, place = case.contribution(case.head), case.places(case.head)
    kept = tuple(n if i in place else ZERO for i, n in enumerate(case.output))
    return case.mistakes(
        (slip, "cut-after-output", kept, _CUT),
        (
            slip,
            "whole-output",
            case.output,
            "That is the output of the layer: all heads together, and b_O.",
        ),
        (
            slip,
            "other-head",
            case.contribution(case.other),
            f"That is what head {case.other + 1} adds; the question is about head {case.head + 1}.",
        ),
        *_other_rows(case, place),
        (
            slip,
            "sign-lost",
            sizes(own),
            "That is right except for the signs: a contribution can be negative.",
        ),
        (
            slip,
            "bias-included",
            plus(own, case.bias),
            "That is what you get with b_O added; b_O does not belong to a head.",
        ),
    )


def _other_rows(case: Case, place: range) -> Iterator[tuple[_Make, str, Row, str]]:
    """The message times other rows of W_O than those of the head, or times columns."""
    spread = range(case.head, FEATURES, case.drawn.sheet.num_heads)
    steps = ", ".join(str(row + 1) for row in spread)
    take = f"use rows {place[0] + 1} to {place[-1] + 1}, those of head {case.head + 1}."
    begins = "That is what you get with"
    others, turned = case.places(case.other), transposed(case.drawn.sheet.w_o)
    says = f"{begins} the rows of W_O of head {case.other + 1}; {take}"
    yield slip, "other-rows", case.through(others), says
    says = f"{begins} rows {steps} of W_O; {take}"
    yield fault, "head-order-at-concat", case.through(spread), says
    says = f"{begins} columns of W_O; {take}"
    yield fault, "weight-transposed", case.through(place, turned), says


def draw_ablation(draws: Draws) -> Draft:
    """Draw a case and ask for the output without the head."""
    case = _case(draws, "ablation")
    without = solve_exact(without_head(case.drawn.sheet, case.head))["output"][case.receiver]
    return case.draft(
        f"These are the outputs of {case.drawn.sheet.num_heads} heads for one receiver. Head "
        f"{case.head + 1} is ablated: its output is set to zero before W_O. Compute the output of "
        "the layer.",
        without,
        _ablated_wrongly(case, without),
        f"output with all heads: {shown(case.output)}",
        f"head {case.head + 1} adds: {shown(case.contribution(case.head))}",
        f"the difference, outputs asked: {shown(picked(without, case.asked))}",
    )


ABLATION = Kind(
    name="ablation",
    title="Ablation of one head",
    summary="the output when the output of one head is set to zero before W_O",
    stream=108,
    draw=draw_ablation,
)


def _ablated_wrongly(case: Case, rest: Row) -> tuple[Misconception, ...]:
    heads, place = case.drawn.sheet.num_heads, case.places(case.head)
    share = Fraction(heads, heads - 1)
    bare = plus(rest, times(case.bias, _MINUS))
    cut = tuple(ZERO if i in place else n for i, n in enumerate(case.output))
    begins = "That is what you get when"
    found = case.mistakes(
        (slip, "cut-after-output", cut, _CUT),
        (
            slip,
            "contribution-itself",
            case.contribution(case.head),
            "That is what the head adds; subtract it from the output.",
        ),
        (slip, "nothing-removed", case.output, "That is the output with all heads."),
        (
            slip,
            "other-head",
            plus(case.output, times(case.contribution(case.other), _MINUS)),
            f"{begins} head {case.other + 1} is ablated; the question is about head "
            f"{case.head + 1}.",
        ),
        (
            slip,
            "rescaled-rest",
            plus(times(bare, share), case.bias),
            f"{begins} the other heads are multiplied by {fraction_text(share)}; they do not "
            "change.",
        ),
        (fault, "bias-dropped", bare, f"{begins} b_O is removed with the head; b_O stays."),
    )
    if case.head == heads - 1:  # no head follows that could move up
        return found
    left = tuple(n for i, n in enumerate(case.joined) if i not in place)
    closed = plus(mixed(left, case.drawn.sheet.w_o[: len(left)]), case.bias)
    says = f"{begins} later heads move up by one place; each head keeps its own rows of W_O."
    return found + case.mistakes((slip, "closed-the-gap", closed, says))
