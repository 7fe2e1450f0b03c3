"""Kinds `contribution` and `ablation`: what a head adds after W_O, what is left without it."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import (
    Draft,
    Misconception,
    Numbers,
    Table,
    fault,
    shown,
    slip,
)
from manyheads.learn.exercises.sheets import FEATURES, POSITIONS, Solved, mixing_sheet, table
from manyheads.learn.exercises.sums import mixed, picked, plus, sizes, times, transposed
from manyheads.worksheets.arithmetic import ZERO
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.interventions import without_head
from manyheads.worksheets.sheet import Matrix, Row

_MINUS = Fraction(-1)


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
    """The features that are asked."""

    def contribution(self, head: int) -> Row:
        """What a head adds, all features."""
        row: Row = self.drawn.steps["head_contributions"][head][self.receiver]
        return row

    @property
    def output(self) -> Row:
        """The layer's output, all features."""
        row: Row = self.drawn.steps["output"][self.receiver]
        return row

    @property
    def joined(self) -> Row:
        """The joined row."""
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

    @property
    def place(self) -> range:
        """The head's columns of the joined row."""
        width = self.drawn.sheet.v_head_dim
        return range(self.head * width, (self.head + 1) * width)

    def picked(self, row: Numbers) -> Numbers:
        """The features asked."""
        return picked(row, self.asked)


def _case(draws: Draws, name: str) -> Case:
    """Draw a mixing sheet with a bias, the head and the receiver.

    Two of the features asked stand at the head's own place in the joined row, one does not.
    """
    drawn = mixing_sheet(draws, name, has_bias=True)
    head, receiver = draws.below(drawn.sheet.num_heads), draws.below(POSITIONS)
    width = drawn.sheet.v_head_dim
    first = head * width
    asked = (first, first + 1, (first + width) % FEATURES)
    return Case(drawn=drawn, head=head, receiver=receiver, asked=tuple(sorted(asked)))


def _draft(
    case: Case, prompt: str, answer: Numbers, wrong: list[Misconception], working: tuple[str, ...]
) -> Draft:
    names = tuple(f"feature {i + 1}" for i in case.asked)
    return Draft(
        prompt=f"{prompt} Give {', '.join(names)}.",
        given=_given(case),
        asks=names,
        answer=answer,
        misconceptions=tuple(wrong),
        working=working,
        worksheet=case.drawn.document,
    )


def _given(case: Case) -> tuple[Table, ...]:
    parts = tuple(rows[case.receiver] for rows in case.drawn.steps["head_outputs"])
    return (
        table("head outputs", parts, "head", "column"),
        table("W_O", case.drawn.sheet.w_o, "column", "feature"),
        table("b_O", (case.bias,), "row", "feature"),
    )


def draw(draws: Draws) -> Draft:
    """Draw a case and ask what the head adds."""
    case = _case(draws, "contribution")
    answer = case.picked(case.contribution(case.head))
    prompt = (
        f"These are the outputs of {case.drawn.sheet.num_heads} heads for one receiver. What does "
        f"head {case.head + 1} add to the layer's output, sign included?"
    )
    return _draft(case, prompt, answer, _contribution_wrongly(case), _contribution_working(case))


def _contribution_working(case: Case) -> tuple[str, ...]:
    message = picked(case.joined, case.place)
    everything = case.contribution(case.head)
    return (
        f"head {case.head + 1}: {shown(message)} times {_rows(case)}",
        f"all features: {shown(everything)}",
        f"asked: {shown(case.picked(everything))}",
    )


def _contribution_wrongly(case: Case) -> list[Misconception]:
    own, heads = case.contribution(case.head), case.drawn.sheet.num_heads
    spread = range(case.head, FEATURES, heads)
    steps = ", ".join(str(place + 1) for place in spread)
    take = f"take {_rows(case)}, those of head {case.head + 1}."
    other = f"head {case.other + 1} adds; it is head {case.head + 1}"
    begins = "That is what you get "
    rows: tuple[tuple[Callable[..., Misconception], str, Numbers, str], ...] = (
        (slip, "cut-after-output", _kept(case, case.output), _CUT),
        (slip, "whole-output", case.output, "That is the output of all heads together, and b_O."),
        (slip, "other-head", case.contribution(case.other), f"That is what {other}."),
        (
            slip,
            "other-rows",
            _through(case, _places(case, case.other)),
            f"{begins}with the rows of W_O of head {case.other + 1}; {take}",
        ),
        (
            fault,
            "head-order-at-concat",
            _through(case, spread),
            f"{begins}with rows {steps} of W_O; {take}",
        ),
        (
            fault,
            "weight-transposed",
            _through(case, case.place, transposed(case.drawn.sheet.w_o)),
            f"{begins}with columns of W_O; {take}",
        ),
        (slip, "sign-lost", sizes(own), "That is right but for the signs: a head may take away."),
        (
            slip,
            "bias-included",
            plus(own, case.bias),
            f"{begins}with b_O added; it belongs to no head.",
        ),
    )
    return [make(name, case.picked(values), says) for make, name, values, says in rows]


_CUT = (
    "That is what you get when each head has its own features of the finished output; W_O mixes "
    "every head into all features."
)


def _places(case: Case, head: int) -> range:
    width = case.drawn.sheet.v_head_dim
    return range(head * width, (head + 1) * width)


def _rows(case: Case) -> str:
    return f"rows {case.place[0] + 1} to {case.place[-1] + 1} of W_O"


def _through(case: Case, places: range, matrix: Matrix | None = None) -> Numbers:
    """The head's message times some rows of W_O, or of another matrix."""
    rows = case.drawn.sheet.w_o if matrix is None else matrix
    return mixed(picked(case.joined, case.place), [rows[place] for place in places])


def _kept(case: Case, row: Row) -> Numbers:
    return tuple(number if i in case.place else ZERO for i, number in enumerate(row))


def draw_ablation(draws: Draws) -> Draft:
    """Draw a case and ask what is left without the head."""
    case = _case(draws, "ablation")
    changed = case.drawn.again(without_head(case.drawn.sheet, case.head))
    answer = case.picked(changed["output"][case.receiver])
    prompt = (
        f"These are the outputs of {case.drawn.sheet.num_heads} heads for one receiver. Head "
        f"{case.head + 1} is silenced: zeros take its place before W_O. What is the layer's output?"
    )
    working = (
        f"output of all heads: {shown(case.output)}",
        f"head {case.head + 1} adds: {shown(case.contribution(case.head))}",
        f"the difference, asked features: {shown(answer)}",
    )
    return _draft(case, prompt, answer, _ablated_wrongly(case), working)


def _ablated_wrongly(case: Case) -> list[Misconception]:
    heads, own = case.drawn.sheet.num_heads, case.contribution(case.head)
    rest = plus(case.output, times(own, _MINUS))
    bare = plus(rest, times(case.bias, _MINUS))
    grown = plus(times(bare, Fraction(heads, heads - 1)), case.bias)
    left = tuple(n for i, n in enumerate(case.joined) if i not in case.place)
    closed = plus(mixed(left, case.drawn.sheet.w_o[: len(left)]), case.bias)
    other = plus(case.output, times(case.contribution(case.other), _MINUS))
    cut = tuple(ZERO if i in case.place else n for i, n in enumerate(case.output))
    begins = "That is what you get when "
    found = [
        slip("cut-after-output", case.picked(cut), _CUT),
        slip("contribution-itself", case.picked(own), "That is what the head adds; take it away."),
        slip("nothing-removed", case.picked(case.output), "That is the output with all heads."),
        slip(
            "other-head",
            case.picked(other),
            f"{begins}head {case.other + 1} is silenced; it is head {case.head + 1}.",
        ),
        slip(
            "rescaled-rest",
            case.picked(grown),
            f"{begins}the other heads are scaled up by "
            f"{fraction_text(Fraction(heads, heads - 1))}; they stay as they are.",
        ),
        fault("bias-dropped", case.picked(bare), f"{begins}b_O goes with the head; it stays."),
    ]
    if case.head == heads - 1:  # behind the last head there is no gap
        return found
    says = f"{begins}later heads move up into the gap: each keeps its own rows of W_O."
    return [*found, slip("closed-the-gap", case.picked(closed), says)]
