"""Reads a watched call: the weights that were used, and everything between them and the output.

Rows of queries, keys and values are compared with rows of the input. If they are a linear function
of them, solving for it gives the weights; the same numbers among the parameters say which entries
of which tensor they are, without a name. What lies between the product of queries and keys and the
weights is fitted too: scale, mask, bias, soft cap, sink.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from manyheads.attention.problem import RowNorm
from manyheads.verify.assembly import Core, NotSeenError
from manyheads.verify.fitting import (
    Rows,
    Scores,
    explained,
    fitted_norm,
    fitted_scores,
    is_unit,
    solved,
    whole_rows,
    with_zeros,
    wrong_cap,
)
from manyheads.verify.gaps import ROUNDING, relative_gap
from manyheads.verify.hidden import scores_as_masked
from manyheads.verify.structure import Structure
from manyheads.verify.tags import NONE, is_move, product_of
from manyheads.verify.unread import (
    MULTIPLIED,
    RESIDUAL,
    bias_after,
    caps_of,
    has_residual,
    line_after,
    multiplied_after,
)
from manyheads.verify.watch import Event, Line, storage_of

EXACT = 1e-9
"""Largest relative difference of numbers that are the same in float64."""
SINGLE = ROUNDING["float32"]
"""The same where a step works in float32."""
HALF = 1e-2
"""The same where a step works in a half type; only for reading, never for comparing outputs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Departure:
    """A step that is not the formula's, and where."""

    step: str
    """A name of the formula."""
    says: str
    """What is seen instead."""
    line: Line | None
    """Where."""
    is_mistake: bool = False
    """Whether it is a known way to get a step wrong."""
    is_foreign: bool = False
    """Whether it is something that is not understood, rather than a mistake."""


@dataclass(kw_only=True, eq=False)
class Reading:
    """What was understood of one call."""

    core: Core | None = None
    """The heads as they were used."""
    q: Rows | None = None
    """Query weights."""
    k: Rows | None = None
    """Key weights."""
    v: Rows | None = None
    """Value weights."""
    o: Rows | None = None
    """Output weights, N = H."""
    gate: Rows | None = None
    """Weights of a gate, whose sigmoid multiplies the joined heads."""
    natural_o: Rows | None = None
    """The weight that is multiplied last, with heads joined in order."""
    has_out: bool = True
    """Whether there is an output projection."""
    input_norms: dict[int, RowNorm] = field(default_factory=dict)
    """Normalisation of each input before the projections."""
    scores: Scores | None = None
    """Between products and weights."""
    departures: list[Departure] = field(default_factory=list)
    """What is not as in the formula."""

    @property
    def is_whole(self) -> bool:
        """Whether all weights were found."""
        return None not in (self.q, self.k, self.v) and (self.o is not None or not self.has_out)


_MOVES = {"cat", "stack", "_to_copy", "clone"}
"""Operations that can be the last of a rotation."""

_NORM_ENDS = {"native_layer_norm", "_fused_rms_norm", "rms_norm", "mul", "add", "div"}
"""Operations that can be the last of a norm."""


_NORM_PARTS = {"native_layer_norm", "_fused_rms_norm", "rms_norm", "rsqrt", "sqrt", "pow"}
_NORM_PARTS |= {"linalg_vector_norm", "norm", "var", "var_mean", "std"}
"""Operations one of which every norm has."""


class Reader:
    """Reads one watched call.

    Args:
        structure: after `run`.
        inputs: the inputs as rows, (B, T, E) each, float64; (B, H, T, d) for the form of heads.
        output: (B, T, D), or (B, H, T, v) for the form of heads.
        form: of the call.
        heads: declared number of heads.
        head_dim: declared head width, for rows that are not arranged by heads.
        knows_positions: whether it is declared what happens to queries and keys by position.
        tolerance: largest relative difference of equal numbers.
    """

    def __init__(
        self,
        structure: Structure,
        inputs: Sequence[Tensor],
        output: Tensor,
        *,
        form: str,
        heads: int | None = None,
        head_dim: int | None = None,
        knows_positions: bool = False,
        tolerance: float = EXACT,
    ) -> None:
        self.structure, self.inputs, self.output = structure, inputs, output
        self.form, self.heads, self.head_dim = form, heads, head_dim
        self.tolerance, self.knows_positions = tolerance, knows_positions
        self.reading = Reading()

    def read(self) -> Reading:
        """Everything that can be understood."""
        found = self.reading
        try:
            core = self.structure.core()
        except NotSeenError as error:
            self._depart(error.step or "scores", str(error), error.line, is_foreign=not error.step)
            self._in_natural_order()
            found.scores = self._at_softmax() or scores_as_masked(self.structure)
            return found
        found.core = core
        if core.has_more:
            self._depart(
                "v",
                "an extra key and value that are no position take part",
                core.lines["head_outputs"],
                is_foreign=True,
            )
        if self.form != "heads":
            self._input_norms(core)
        found.q = self._rows("q", core.q, core.sources[0], core.score_event)
        found.k = self._rows("k", core.k, core.sources[1], core.score_event)
        found.v = self._rows("v", core.v, core.sources[2], core.message_event)
        found.scores = self._scores(core)
        self._out(core)
        return found

    def _base(self, source: int) -> Tensor | None:
        """Rows of the input from which something is made, (B, S, E) or (B, H, S, d)."""
        if source == NONE or source >= len(self.inputs):
            return None
        x = self.inputs[source]
        norm = self.reading.input_norms.get(source)
        return x if norm is None else norm.of(x)

    def _input_norms(self, core: Core) -> None:
        """Norms of inputs before everything, if what is made of them is linear in those only."""
        made = dict(zip(core.sources, (core.q, core.k, core.v), strict=True))
        for source, heads in made.items():
            if source != NONE and self._has_norm(core.score_event):
                self._input_norm(core, source, heads)

    def _input_norm(self, core: Core, source: int, judged: Tensor) -> None:
        """A norm of one input, of which certain heads are made."""
        x = self.inputs[source]
        if self._linear(x, judged):
            return
        for event in self.structure.events[: core.score_event]:
            is_end = event.op in _NORM_ENDS and self._source_of(event, 0) == source
            rows = self._as_rows(event, 0, x.shape[-1]) if is_end else None
            norm = None if rows is None else fitted_norm(x, rows, "input", self.tolerance)
            if norm is not None and self._linear(norm.of(x), judged):
                self.reading.input_norms[source] = norm  # the last, which includes the gain

    def _has_norm(self, before: int) -> bool:
        """Whether some operation on data can be part of a norm."""
        data = self.structure.data
        return any(
            event.op in _NORM_PARTS and any(storage_of(x) in data for x in event.out)
            for event in self.structure.events[:before]
        )

    def _linear(self, x: Tensor, heads: Tensor) -> bool:
        """Whether rows of heads (B, H, T, d) are linear in rows of x (B, T, E)."""
        rows = heads.transpose(1, 2).flatten(2)
        if rows.shape[:2] != x.shape[:2]:
            return False
        return solved(x.flatten(0, 1), rows.flatten(0, 1), self.tolerance) is not None

    def _as_rows(self, event: Event, which: int, width: int) -> Tensor | None:
        """One result of an operation as (B, T, width), by the tags of its numbers."""
        source = self._source_of(event, which)
        if not 0 <= source < len(self.inputs):
            return None
        pos = self.structure.snapshots[event.number, which][1]
        batch, length = self.inputs[source].shape[0], self.inputs[source].shape[-2]
        if pos.numel() != batch * length * width:
            return None
        order = pos.flatten().argsort(stable=True)
        expected = torch.arange(batch * length).repeat_interleave(width)
        if not torch.equal(pos.flatten()[order], expected):
            return None
        value = event.values[which].flatten()[order].double()
        return value.view(batch, length, width)

    def _rows(self, name: str, used: Tensor, source: int, before: int) -> Rows | None:
        """The weights of q, k or v, and what is done to the projected rows before they are used."""
        base = self._base(source)
        if self.form == "heads":
            return self._identity(name, used, base)
        if base is None:
            self._depart(name, f"{name} is made of several inputs", is_foreign=True)
            return None
        if not torch.isfinite(used).all():
            self._depart(name, f"rows of {name} are missing")
            return self._natural(name)
        found = self._projected(name, used, base, source, before)
        found = found or whole_rows(used, base, self.tolerance)
        if found is not None:
            return found
        self._depart_after(name, used, source, before)
        return self._natural(name)

    def _projected(
        self, name: str, used: Tensor, base: Tensor, source: int, before: int
    ) -> Rows | None:
        """Weights of a projection, and what is done to its rows before they are used."""
        heads, width = used.shape[1], used.shape[3]
        for event, rows in self._candidates(source, before, heads, width):
            found = solved(base.flatten(0, 1), rows.flatten(0, 1), self.tolerance)
            if found is None:
                continue
            projected = rows.unflatten(2, (-1, width)).transpose(1, 2)  # (B, G, S, d)
            later = self._between(event, source, rows.shape[2], before)
            made = explained(projected, used, self.tolerance, later)
            if made is None:
                continue
            weight = found[0].unflatten(1, (-1, width)).transpose(0, 1)
            bias = found[1].unflatten(0, (-1, width))
            chosen, order = made.order.unique(return_inverse=True)
            if name == "q":  # one for each head, even if some are the same
                chosen, order = made.order, torch.arange(heads)
            return replace(made, weight=weight[chosen], bias=bias[chosen], order=order)
        return None

    def _depart_after(self, name: str, used: Tensor, source: int, before: int) -> None:
        """Say where queries, keys or values stop to be a linear function of the input."""
        says, base, last = f"{name} is no linear function of its input", self._base(source), -1
        assert base is not None
        for event, rows in self._candidates(source, before, used.shape[1], used.shape[3]):
            if solved(base.flatten(0, 1), rows.flatten(0, 1), self.tolerance) is not None:
                last = event.number
        line = line_after(self.structure, name, last)
        if line is not None:
            says += f": what is done to it in line {line.number} is not understood"
        self._depart(name, says, line, is_foreign=not self.knows_positions)

    def _candidates(
        self, source: int, before: int, heads: int, width: int
    ) -> Iterator[tuple[Event, Tensor]]:
        """Results that hold some heads of every position and nothing else, in order, as rows."""
        batch, length = self.inputs[source].shape[0], self.inputs[source].shape[-2]
        for event in self.structure.events[:before]:
            for which, value in enumerate(event.values):
                total, rest = divmod(value.numel(), batch * length)
                if rest or not total or total % width or heads % (total // width):
                    continue
                if self._source_of(event, which) == source:
                    rows = self._as_rows(event, which, total)
                    if rows is not None:
                        yield event, rows

    def _between(self, event: Event, source: int, total: int, before: int) -> Iterator[Tensor]:
        """Rows as they are after later operations, where one of them can be a norm."""
        if not self._has_norm(before):
            return
        for later in self.structure.events[event.number + 1 : before]:
            if later.op in _NORM_ENDS | _MOVES and self._source_of(later, 0) == source:
                rows = self._as_rows(later, 0, total)
                if rows is not None:
                    yield rows

    def _source_of(self, event: Event, which: int) -> int:
        snapshot = self.structure.snapshots.get((event.number, which))
        if snapshot is None or not snapshot[0].numel():
            return NONE
        first = snapshot[0].flatten()[0]
        return int(first) if bool((snapshot[0] == first).all()) else NONE

    def _identity(self, name: str, used: Tensor, base: Tensor | None) -> Rows | None:
        """In the form of heads the inputs are the heads."""
        if base is None or base.dim() != 4:
            return None
        made = explained(base, used, self.tolerance, iter(()))
        if made is None:
            self._depart(name, f"{name} is not what was handed over")
            return None
        eye = torch.eye(used.shape[-1], dtype=torch.float64).expand(used.shape[1], -1, -1)
        return replace(made, weight=eye, bias=torch.zeros(used.shape[1], used.shape[-1]).double())

    def _natural(self, name: str) -> Rows | None:
        """Weights of rows that are not arranged by positions where they are used.

        Heads are taken to be consecutive columns of the last projection, or of the first part of
        one that holds more. What only moves these numbers may have put them in another order.
        """
        found: Rows | None = None
        for event, rows in self.natural(name):
            if found is None or (event.writes and not is_move(event)):
                found = rows
        return found

    def natural(self, name: str) -> Iterator[tuple[Event, Rows]]:
        """Every result on the way to q, k or v that is linear in the input, and its weights."""
        factor = self.structure.factor_of(name)
        if factor is None or self.heads is None:
            return
        tensor, before = factor
        for number, which in self.structure.ancestors(tensor, before):
            event = self.structure.events[number]
            rows = self._natural_at(event, which)
            if rows is not None:
                yield event, rows

    def _natural_at(self, event: Event, which: int) -> Rows | None:
        """Weights of all heads, if a result of an operation is linear in the input."""
        source = self._source_of(event, which)
        x = self._base(source) if source in (0, 1, 2) else None
        if x is None or self.heads is None:
            return None
        total, rest = divmod(event.values[which].numel(), x.shape[0] * x.shape[1])
        groups = None if rest else self._groups(total)
        rows = None if groups is None else self._as_rows(event, which, total)
        if rows is None or groups is None:
            return None
        made = solved(x.flatten(0, 1), rows.flatten(0, 1), self.tolerance)
        if made is None or is_unit(made):
            return None
        return Rows(
            weight=made[0].unflatten(1, (groups, -1)).transpose(0, 1),
            bias=made[1].unflatten(0, (groups, -1)),
            order=torch.arange(self.heads) // (self.heads // groups),
        )

    def _groups(self, total: int) -> int | None:
        """Number of heads in a row of this width."""
        assert self.heads is not None
        if self.head_dim is None:
            return self.heads if total % self.heads == 0 else None
        groups, rest = divmod(total, self.head_dim)
        return None if rest or not groups or self.heads % groups else groups

    def _in_natural_order(self) -> None:
        """What the weights would be with rows arranged by positions."""
        found = self.reading
        if self.form == "heads":
            found.has_out = False
            return
        found.q, found.k, found.v = (self._natural(name) for name in "qkv")
        self._out_factor()
        found.o = found.natural_o

    def _out_factor(self) -> None:
        """The weight that is multiplied last, as the output projection."""
        structure, found = self.structure, self.reading
        if self.heads is None or found.v is None:
            return
        products = [p for p, _ in structure.mixes] or [item.product for item in structure.scores]
        if not products:
            return
        start, width = products[-1].event.number, found.v.weight.shape[2]
        product = None
        for event in structure.events[start + 1 :]:
            made = product_of(event, structure.makers)
            if made is not None and made.right.shape[-1] == self.heads * width:
                product = made
        if product is None:
            found.has_out = self.output.shape[-1] != self.heads * width
            return
        is_left = storage_of(product.left_place) in structure.data
        weight = (product.right if is_left else product.left)[0].T.double()  # (H*v, D)
        found.natural_o = Rows(
            weight=weight.unflatten(0, (self.heads, width)),
            bias=bias_after(self.structure, product.event, weight.shape[1])[None],
            order=torch.arange(self.heads),
        )

    def _gated_out(self, core: Core, joined: Tensor) -> tuple[Tensor, Tensor] | None:
        """The output projection where a sigmoid of the input multiplies the joined heads."""
        heads, width, base = core.v.shape[1], core.v.shape[3], self._base(0)
        sigmoids = [e for e in self.structure.events if e.op.rstrip("_") == "sigmoid"]
        for event in sigmoids if base is not None else ():
            opened = self._as_rows(event, 0, heads * width)
            if base is None or opened is None or opened.shape != joined.shape:
                continue
            made = solved(base.flatten(0, 1), opened.logit().flatten(0, 1), self.tolerance * 100)
            out = solved((joined * opened).flatten(0, 1), self.output.flatten(0, 1), self.tolerance)
            if made is not None and out is not None and not is_unit(made):
                self.reading.gate = Rows(
                    weight=made[0].unflatten(1, (heads, width)).transpose(0, 1),
                    bias=made[1].unflatten(0, (heads, width)),
                    order=torch.arange(heads),
                )
                return out
        return None

    def _depart(
        self,
        step: str,
        says: str,
        line: Line | None = None,
        *,
        is_foreign: bool = False,
        is_mistake: bool = False,
    ) -> None:
        self.reading.departures.append(
            Departure(step=step, says=says, line=line, is_foreign=is_foreign, is_mistake=is_mistake)
        )

    def _scores(self, core: Core) -> Scores | None:
        """What lies between products and weights."""
        raw = core.q @ core.k.mT
        found = fitted_scores(raw, core.weights, self.tolerance, caps_of(self.structure.events))
        if found is None:
            wrong = wrong_cap(raw, core.weights, caps_of(self.structure.events))
            if wrong is not None:
                line = next((e.line for e in self.structure.events if e.op == "tanh"), None)
                self._depart("scores", wrong, line, is_mistake=True)
                return None
            self._depart("attn_weights", "the weights are no softmax of the products")
            at_softmax = with_zeros(self._at_softmax(), core.weights)
            return at_softmax or scores_as_masked(self.structure)
        return found

    def _at_softmax(self) -> Scores | None:
        """The same at the first softmax of the products, whatever is done to it later."""
        for raw, weights in self.structure.softmaxes():
            found = fitted_scores(raw, weights, self.tolerance, caps_of(self.structure.events))
            if found is not None:
                return found
        return None

    def _out(self, core: Core) -> None:
        """The output projection."""
        messages = core.messages
        if self.form == "heads":
            self.reading.has_out = False
            return
        joined = messages.transpose(1, 2).flatten(2)  # (B, T, H*v)
        if (
            self.output.shape == joined.shape
            and relative_gap(self.output, joined) <= self.tolerance
        ):
            self.reading.has_out = False
            return
        if self.output.shape[:2] != joined.shape[:2]:
            return
        self._out_factor()
        found = solved(joined.flatten(0, 1), self.output.flatten(0, 1), self.tolerance)
        found = found or self._gated_out(core, joined)
        if found is None:
            is_added = has_residual(self.inputs[0], joined, self.output, self.tolerance)
            says = "the output is no linear function of the joined heads"
            self._depart("output", RESIDUAL if is_added else says, is_foreign=is_added)
            self.reading.o = self.reading.natural_o
            return
        line = multiplied_after(self.structure, core.message_event)
        if line is not None:
            self._depart("concat", MULTIPLIED, line, is_foreign=True)
        heads, width = messages.shape[1], messages.shape[3]
        self.reading.has_out = True
        self.reading.o = Rows(
            weight=found[0].unflatten(0, (heads, width)),
            bias=found[1][None],
            order=torch.arange(heads),
        )
