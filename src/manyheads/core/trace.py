"""AttentionTrace: every intermediate number of one attention call, frozen and checked.

Files are in `trace_files.py`, tables for readers in `trace_text.py`. The names, their order and
their axes are declared once, by the fields of the class.
"""

from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.core.compare import check_close, dot_budget, unit_roundoff
from manyheads.core.config import TRACED_FORMS
from manyheads.core.errors import ManyHeadsError, ShapeError, TraceError
from manyheads.core.shapes import check_axes, declared_axes
from manyheads.core.text import quoted
from manyheads.core.trace_files import (
    json_from_tensors,
    load_tensors,
    save_tensors,
    tensors_from_json,
)
from manyheads.core.trace_text import html_from_tensors, text_from_tensors


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionTrace:
    """Every intermediate of one call, by name, in the order of computation.

    B batch, T query positions, S key positions (cached ones included), D embed_dim, H query heads,
    G key/value heads, d head_dim, v value width. A form of attention makes it. The constructor
    checks sum(head_contributions) + b_o = output.

    Raises:
        ShapeError: two tensors disagree about a size, or the batch is empty.
        MismatchError: the contributions do not add up to the output.
    """

    form: str
    """Which form computed it: "loop" or "packed"."""
    x: Float[Tensor, "B T D"]
    """The query input, (B, T, D)."""
    q: Float[Tensor, "B H T d"]
    """Queries, (B, H, T, d), normalised and rotated if the layer does so."""
    k: Float[Tensor, "B G S d"]
    """Keys, (B, G, S, d), normalised and rotated likewise, cached ones first."""
    v: Float[Tensor, "B G S v"]
    """Values, (B, G, S, v), cached ones first."""
    scores: Float[Tensor, "B H T S"]
    """q·k times the scale, before any mask, (B, H, T, S)."""
    capped_scores: Float[Tensor, "B H T S"] | None = None
    """Scores after the soft-cap, (B, H, T, S), or None."""
    masked_scores: Float[Tensor, "B H T S"]
    """Scores, capped if there is a soft-cap, plus additive masks and position bias, -inf where
    blocked, (B, H, T, S)."""
    attn_weights: Float[Tensor, "B H T S"]
    """Softmax of the masked scores over keys, (B, H, T, S); zeros where no key is allowed."""
    sink_weights: Float[Tensor, "B H T"] | None = None
    """What the head's sink takes in the softmax, (B, H, T), or None."""
    head_outputs: Float[Tensor, "B H T v"]
    """Weighted sums of values, (B, H, T, v)."""
    gate: Float[Tensor, "B H T v"] | None = None
    """What head outputs are multiplied by before they are concatenated, (B, H, T, v), or None."""
    concat: Float[Tensor, "B T C"]
    """Head outputs concatenated in order, (B, T, C) with C = H * v."""
    w_o: Float[Tensor, "H v D"]
    """The output projection's rows by head, (H, v, D)."""
    head_contributions: Float[Tensor, "B H T D"]
    """What each head adds to the output, (B, H, T, D)."""
    b_o: Float[Tensor, " D"] | None = None
    """The output bias, (D,), or None."""
    output: Float[Tensor, "B T D"]
    """The layer's output, (B, T, D)."""

    def __post_init__(self) -> None:
        """Check shapes, and that contributions and bias add up to the output."""
        seen: dict[str, tuple[int, str]] = {}
        for name, tensor in self.tensors().items():
            check_axes(name, tensor, _AXES[name], seen)
        if self.concat.shape[2] != self.w_o.shape[0] * self.w_o.shape[1]:
            shape, joined = tuple(self.concat.shape), tuple(self.w_o.shape)
            raise ShapeError(
                f"concat has shape {shape}, but w_o {joined} joins H * v: join all heads"
            )
        if not self.x.shape[0]:
            raise ShapeError(
                f"x has shape {tuple(self.x.shape)}, an empty batch: give at least one sample"
            )
        with torch.no_grad():
            _check_sum(self)

    @property
    def num_heads(self) -> int:
        """H, the number of query heads."""
        return self.q.shape[1]

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name, in the order of computation; those that are None are left out."""
        found = {name: getattr(self, name) for name in FIELDS}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def __getitem__(self, name: str) -> Tensor:
        """One tensor by its name.

        Raises:
            TraceError: there is no tensor of that name.
        """
        found = self.tensors()
        if name not in found:
            known = ", ".join(found)
            raise TraceError(f"name ({name!r}) is not a field of this trace: use {known}")
        return found[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of computation."""
        return iter(self.tensors())

    def __len__(self) -> int:
        """How many tensors there are."""
        return len(self.tensors())

    def keys(self) -> KeysView[str]:
        """The names, so that `dict(trace)` works."""
        return self.tensors().keys()

    def values(self) -> ValuesView[Tensor]:
        """The tensors."""
        return self.tensors().values()

    def items(self) -> ItemsView[str, Tensor]:
        """The names with their tensors."""
        return self.tensors().items()

    def detach(self) -> "AttentionTrace":
        """The same numbers, detached from the autograd graph."""
        return self._mapped(Tensor.detach)

    def cpu(self) -> "AttentionTrace":
        """The trace in the CPU's memory."""
        return self.to("cpu")

    def to(
        self,
        *args: torch.device | str | torch.dtype | int,
        **kwargs: torch.device | str | torch.dtype | int | None,
    ) -> "AttentionTrace":
        """The trace on another device or in another dtype; arguments as in `torch.Tensor.to`."""
        return self._mapped(lambda x: x.to(*args, **kwargs))  # type: ignore[call-overload]

    def numpy(self) -> dict[str, npt.NDArray[np.floating[Any]]]:
        """The tensors as NumPy arrays by name; bfloat16, which NumPy lacks, as float32."""
        plain = self.detach().cpu()
        return {
            n: (x.float() if x.dtype == torch.bfloat16 else x).numpy() for n, x in plain.items()
        }

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> "AttentionTrace":
        """A copy with changed tensors, without checking their sum again."""
        changed = copy(self)
        for name, tensor in self.items():
            object.__setattr__(changed, name, change(tensor))
        return changed

    def to_json(self) -> str:
        """One JSON document with every number in full precision; blocked scores are null."""
        return json_from_tensors(self.form, self.tensors())

    @staticmethod
    def from_json(text: str) -> "AttentionTrace":
        """Read what `to_json` wrote, bit for bit.

        Args:
            text: the document.

        Raises:
            TraceError: the text is not a trace.
        """
        return _build(tensors_from_json(text, FIELDS, OPTIONAL))

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; an existing one is replaced only when the new one is whole.

        Args:
            path: the file; its folder must exist.

        Raises:
            TraceError: the path is a folder, or its folder does not exist.
        """
        save_tensors(self.form, self.tensors(), Path(path))

    @staticmethod
    def load(path: str | Path) -> "AttentionTrace":
        """Read what `save` wrote.

        Args:
            path: the file.

        Raises:
            TraceError: the file is missing, damaged or not a trace.
        """
        return _build(load_tensors(Path(path), FIELDS, OPTIONAL))

    def __str__(self) -> str:
        """One table per head for the first sample, in 80 columns."""
        return text_from_tensors(self.form, self.tensors())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same tables for Jupyter."""
        return html_from_tensors(self.form, self.tensors())


_AXES = declared_axes(AttentionTrace)
FIELDS = tuple(_AXES)
OPTIONAL = tuple(f.name for f in fields(AttentionTrace) if f.default is None)


def _build(found: tuple[str, dict[str, Tensor]]) -> AttentionTrace:
    """Make a trace of what was read from a file."""
    form, tensors = found
    wrong = [name for name, tensor in tensors.items() if not tensor.is_floating_point()]
    if wrong:
        dtype = tensors[wrong[0]].dtype
        raise TraceError(
            f"{wrong[0]} has dtype {dtype}, expected floating point: write the file again"
        )
    if form not in TRACED_FORMS:
        known = " or ".join(f'"{name}"' for name in TRACED_FORMS)
        raise TraceError(f"form ({quoted(form)}) is not known: use {known}")
    try:
        return AttentionTrace(form=form, **tensors)
    except ManyHeadsError as error:
        raise TraceError(
            f"trace ({error}) has numbers that contradict each other: save it again"
        ) from error


def _check_sum(trace: AttentionTrace) -> None:
    """Check sum(head_contributions) + b_o = output, within the rounding of the parts."""
    contributions, output = trace.head_contributions, trace.output
    total = contributions.double().sum(dim=1)  # (B, T, D)
    size = trace.concat.double().abs() @ trace.w_o.double().abs().flatten(0, 1)  # (B, T, D)
    coarsest = max((contributions.dtype, output.dtype), key=unit_roundoff)
    limits = torch.finfo(coarsest)
    can_overflow = ~(size < limits.max)  # also true for NaN: the parts then need not add up
    if trace.b_o is not None:
        total, size = total + trace.b_o.double(), size + trace.b_o.double().abs()
        can_overflow = can_overflow | ((size >= limits.max) & size.isfinite())
    length = trace.concat.shape[-1] + trace.num_heads + 1
    least = (trace.num_heads + 2) * limits.smallest_normal * limits.eps  # near zero
    allowed = 3.0 * dot_budget(length, coarsest) * size + least  # contributions, sum, bias
    allowed = allowed.masked_fill(~size.isfinite(), 0.0)  # also for an infinite bias
    check_close(
        "sum(head_contributions) + b_o",
        total,
        output,
        allowed=allowed.masked_fill(can_overflow, torch.inf),
    )
