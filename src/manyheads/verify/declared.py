"""Norms, sinks and biases of the formula as they are declared, in place of what was seen at work.

A declared step without a path among `params` takes its numbers from what was seen, where the
subject has that step. Otherwise it has neutral numbers, and the outputs show the difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.attention.positions import t5_buckets
from manyheads.attention.problem import RowNorm
from manyheads.core.errors import SubjectError
from manyheads.verify.parameters import WeightReader
from manyheads.verify.subject import BiasForm, Extras, Spec, Subject

_MOST_POSITIONS = 256
"""For how many positions a declared table of biases is made."""


def with_declared(subject: Subject, root: object) -> Subject:
    """The subject with the extras that it declares.

    Args:
        subject: with the extras that were seen at work.
        root: the built object, or a namespace of the call's weight arguments.

    Raises:
        SubjectError: a path leads nowhere, or a tensor does not fit the declared sizes.
    """
    spec, extras = subject.spec, subject.extras
    reader = None if subject.params is None else WeightReader(root, subject.params)
    numbers = _Numbers(spec=spec, seen=extras, reader=reader)
    if spec.qk_norm is not None:
        subject = subject.with_extras(norms={**extras.norms, **numbers.norms()})
    if spec.sinks is not None:
        subject = subject.with_extras(sinks=numbers.sinks())
    if spec.bias is not None:
        subject = subject.with_extras(bias=numbers.bias(spec.bias))
    return subject


@dataclass(frozen=True, kw_only=True, eq=False)
class _Numbers:
    """Where the numbers of declared steps come from."""

    spec: Spec
    """The declaration."""
    seen: Extras
    """What was seen at work."""
    reader: WeightReader | None
    """Reads declared paths."""

    def _given(self, name: str) -> tuple[Tensor, Tensor | None] | None:
        """Weight and bias of a path among `params`, if it is declared."""
        if self.reader is None or name not in self.reader.params.names:
            return None
        weight, bias = self.reader.pair(name)
        return weight.detach().double(), None if bias is None else bias.detach().double()

    def norms(self) -> Mapping[str, RowNorm]:
        """The norms of queries and keys."""
        spec, form = self.spec, self.spec.qk_norm
        assert form is not None
        found = {}
        for name, count in (("q", spec.heads), ("k", spec.kv_heads)):
            seen = self.seen.norms.get(name)
            if seen is not None and (seen.kind, seen.over) != (form.type, form.over):
                seen = None
            eps = form.eps if form.eps is not None else (1e-6 if seen is None else seen.eps)
            width = spec.d * (1 if form.over == "head" else count)
            given = self._given(f"{name}_norm")
            gain, shift = torch.ones(width, dtype=torch.float64), None
            if given is not None:
                gain, shift = given
                gain = gain + form.offset
            elif seen is not None:
                gain, shift = seen.gain, seen.shift
            if gain.shape[-1] != width:
                raise SubjectError(
                    f"params.{name}_norm has shape {tuple(gain.shape)}, expected ({width},): "
                    "check spec.qk_norm.over"
                )
            found[name] = RowNorm(kind=form.type, over=form.over, eps=eps, gain=gain, shift=shift)
        return found

    def sinks(self) -> Tensor | None:
        """(H,), the scores without a value; zeros where none were seen."""
        if not self.spec.sinks:
            return None
        given = self._given("sinks")
        if given is None:
            none = torch.zeros(self.spec.heads, dtype=torch.float64)
            return none if self.seen.sinks is None else self.seen.sinks
        if given[0].numel() != self.spec.heads:
            raise SubjectError(
                f"params.sinks has shape {tuple(given[0].shape)}, expected ({self.spec.heads},)"
            )
        return given[0].flatten()

    def bias(self, form: BiasForm) -> Tensor | None:
        """(H, N, N), what is added to the scores; None where it cannot be known."""
        given = self._given("bias_table")
        if given is None:
            return self.seen.bias
        table = given[0]
        if form.type == "table":
            if table.dim() != 3 or table.shape[0] != self.spec.heads:
                raise SubjectError(
                    f"params.bias_table has shape {tuple(table.shape)}, expected (H, N, N) with "
                    f"H = {self.spec.heads}: leave it out, then the table is read off the scores"
                )
            return table
        if table.shape != (form.buckets, self.spec.heads):
            raise SubjectError(
                f"params.bias_table has shape {tuple(table.shape)}, expected (buckets, H) = "
                f"({form.buckets}, {self.spec.heads}): check spec.bias.buckets"
            )
        position = torch.arange(_MOST_POSITIONS)
        distance = position[None, :] - position[:, None]
        buckets = t5_buckets(
            distance, form.buckets, form.max_distance, is_bidirectional=form.bidirectional
        )
        return table[buckets].permute(2, 0, 1)
