"""From the message of an attention call to the residual stream: which matrix, and the proof.

The message of every head is followed through the operations that the model applies to it. Beside
each tensor on the way goes what it would be if heads were silent: each position has another silent
head, so that one copy is an intervention on all heads. At the first matrix, the difference between
both must be what the silent heads' columns contribute. At the sum with the residual stream, it must
be the same again. Whatever stands between (a norm, a convolution, a second path) shows as an error.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from manyheads.looking import operations as ops
from manyheads.looking.frozen import Jet, jet_after
from manyheads.looking.operations import Matrix

LONGEST_TRAIL = 120
"""Operations after which a message without a matrix, or a sum, is given up."""


@dataclass(kw_only=True)
class Projection:
    """The matrix after an attention call, its rows and the errors of its proof."""

    rows: Tensor
    """The matrix's input in the order of samples and positions, (B, T, C)."""
    weight: Tensor
    """(D, C), as the model holds it."""
    bias: Tensor | None
    """(D,)."""
    heads: Tensor
    """For each of the C columns, the head that it comes from, (C,)."""
    output: Tensor
    """What the model computed, (B, T, D)."""
    scale: float = 0.0
    """The largest contribution that was silenced."""
    exact_error: float = 0.0
    """At the matrix's input: largest difference between loss and contribution, a fraction of
    `scale`, in float64."""
    output_error: float = 0.0
    """The same in the model's type, at its output or where the output joins the stream."""
    rounding: float = 0.0
    """What rounding in the model's type allows for `output_error`."""
    reach: "Reach | None" = None
    """How the output joins the residual stream, where it does."""

    @property
    def intervention_error(self) -> float:
        """The larger of the two errors, a fraction."""
        return _worse(self.exact_error, self.output_error)


@dataclass(kw_only=True)
class Reach:
    """The way from the matrix's output to the sum with the residual stream."""

    jet: Jet
    """The linear part of the way, with the scales of norms frozen."""
    arranged: Callable[[Tensor], Tensor]
    """Turns (B, T, D) into the arrangement of the matrix's output, which `jet` takes."""
    joined: Tensor
    """The tensor that is added to the stream, in the arrangement of the stream."""
    normed: bool
    """Whether a norm stands on the way."""
    error: float
    """With a norm: loss against frozen contribution, a fraction of the largest contribution."""


@dataclass(kw_only=True)
class _Step:
    """What is known of a tensor on the way."""

    tensor: Tensor
    """The tensor; the reference keeps its id unique."""
    silenced: tuple[Tensor, ...]
    """The tensor with heads silenced, one per round."""
    codes: Tensor | None
    """For each number before the matrix: row times (H + 1), plus head + 1."""
    jet: Jet | None = None
    """After the matrix: the linear part of the way; None for a scale that is frozen."""
    normed: bool = False


@dataclass(kw_only=True)
class Follower:
    """Follows the message of one attention call."""

    num_heads: int
    shape: tuple[int, int]
    """B and T."""
    projection: Projection | None = None
    reason: str = "no matrix follows the attention call"
    is_done: bool = False
    _steps: dict[int, _Step] = field(default_factory=dict)
    _count: int = 0
    _matrix: Matrix | None = None
    _silent_rows: tuple[Tensor, ...] = ()
    _lost: tuple[Tensor, ...] = ()
    _rows_of: Tensor | None = None
    _output_shape: tuple[int, ...] = ()

    def start(self, native: Tensor, arrange: Callable[[Tensor], Tensor]) -> None:
        """Begin with the message as the model sees it.

        Args:
            native: the message in the model's arrangement.
            arrange: turns (B, T, H, v) into that arrangement.
        """
        B, T = self.shape
        H, width = self.num_heads, native.numel() // (B * T * self.num_heads)
        rows = torch.arange(B * T, device=native.device).view(B, T, 1, 1)
        heads = torch.arange(H, device=native.device).view(1, 1, H, 1)
        codes = (rows * (H + 1) + heads + 1).expand(B, T, H, width)
        silent = [(rows + r * B * T) % H for r in range(-(-H // (B * T)))]
        keep = [arrange((mark != heads).expand(B, T, H, width).contiguous()) for mark in silent]
        self._silent_rows = tuple(mark.flatten() for mark in silent)
        silenced = tuple(native.clone().mul_(mask) for mask in keep)
        same_strides = torch.empty_like(native, dtype=torch.int32).copy_(arrange(codes))
        self._track(native, silenced, same_strides, None)

    def knows(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether an operation takes a tensor on the way."""
        return any(id(tensor) in self._steps for tensor in ops.tensors_in(args, kwargs))

    def before(self, name: str, args: Sequence[Any]) -> Tensor | None:
        """Copy a tensor that an operation is about to change in place."""
        changes = name in ops.IN_PLACE and isinstance(args[0], Tensor)
        return args[0].clone() if changes and id(args[0]) not in self._steps else None

    def after(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,  # noqa: ANN401 - whatever the operation returned
        old: Tensor | None,
    ) -> None:
        """Follow an operation that was computed.

        Args:
            func: the operation.
            args: its arguments.
            kwargs: its named arguments.
            result: its result.
            old: what `before` returned.
        """
        self._count += 1
        if self._count > LONGEST_TRAIL:
            self.finish()
            return
        name = ops.name_of(func)
        if self.projection is None and self._meets_matrix(name, args, kwargs, result):
            return
        if self._joins_stream(name, args, kwargs):
            return
        if name == "__setitem__":
            result = args[0]
        if not _holds_tensors(result):
            return
        self._continue(func, args, kwargs, result, old)

    def finish(self) -> None:
        """Forget the tensors on the way; what was proven stays."""
        self.is_done = True
        self._steps.clear()
        self._lost = ()

    def _track(
        self,
        tensor: Tensor,
        silenced: tuple[Tensor, ...],
        codes: Tensor | None,
        jet: Jet | None,
        normed: bool = False,
    ) -> None:
        self._steps[id(tensor)] = _Step(
            tensor=tensor, silenced=silenced, codes=codes, jet=jet, normed=normed
        )

    def _continue(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,  # noqa: ANN401 - a tensor or several
        old: Tensor | None,
    ) -> None:
        """Apply an operation to the silenced copies as well."""
        name = ops.name_of(func)
        rounds = len(self._silent_rows)
        changed = args[0] if args and name in ops.IN_PLACE else None
        outs = []
        for r in range(rounds):
            swap = self._swap(r, changed, old)
            out = ops.called(func, args, kwargs, swap)
            outs.append(swap(args[0]) if name == "__setitem__" else out)
        codes = self._moved_codes(func, args, kwargs, result) if self.projection is None else None
        jet, normed = self._next_jet(name, args, kwargs, func)
        for place, tensor in _numbered(result):
            silenced = tuple(_at(out, place) for out in outs)
            if not tensor.is_floating_point() or tensor.shape != silenced[0].shape:
                continue
            code = _at(codes, place) if codes is not None else None
            ok = code is not None and code.shape == tensor.shape
            self._track(tensor, silenced, code if ok else None, _picked(jet, place), normed)

    def _swap(
        self, r: int, changed: Tensor | None, old: Tensor | None
    ) -> Callable[[Tensor], Tensor]:
        """Exchange tensors on the way for their silenced copies."""
        fresh = old.clone() if old is not None else None

        def swap(tensor: Tensor) -> Tensor:
            step = self._steps.get(id(tensor))
            if step is not None:
                return step.silenced[r]
            return fresh if fresh is not None and tensor is changed else tensor

        return swap

    def _moved_codes(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,  # noqa: ANN401 - a tensor or several
    ) -> Any:  # noqa: ANN401 - like the result
        """The codes after an operation, where it keeps each number's origin."""
        name = ops.name_of(func)
        known = [s for t in ops.tensors_in(args, kwargs) if (s := self._steps.get(id(t)))]
        coded = [step for step in known if step.codes is not None]
        if not coded:
            return None
        if name in ops.MOVES:

            def swap(tensor: Tensor) -> Tensor:
                step = self._steps.get(id(tensor))
                if step is not None and step.codes is not None:
                    return step.codes
                moves = tensor.is_floating_point()
                return torch.zeros_like(tensor, dtype=torch.int32) if moves else tensor

            return ops.called(func, args, kwargs, swap)
        same = isinstance(result, Tensor) and result.shape == coded[0].tensor.shape
        return coded[0].codes if same and len(coded) == 1 else None

    def _next_jet(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        func: Callable[..., Any],
    ) -> tuple[Jet | None, bool]:
        if self.projection is None:
            return None, False
        known = {id(t): s for t in ops.tensors_in(args, kwargs) if (s := self._steps.get(id(t)))}
        jets = {key: step.jet for key, step in known.items() if step.jet is not None}
        if not jets:
            return None, False
        jet, norm = jet_after(func, args, kwargs, jets)
        scales = name in ops.SCALES_ENTRIES and any(step.jet is None for step in known.values())
        return jet, norm or scales or any(step.normed for step in known.values())

    def _meets_matrix(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,  # noqa: ANN401 - whatever the operation returned
    ) -> bool:
        """Whether the operation is the matrix; then judge what arrives there."""
        matrix = ops.matrix_of(name, args, kwargs)
        if matrix is None or id(matrix.weight) in self._steps:
            if name in ("einsum", "conv1d", "conv2d", "addmm", "bmm"):
                self.reason = f"torch's {name} follows the attention call, not one matrix"
                self.finish()
                return True
            return False
        step = self._steps.get(id(matrix.x))
        if step is None or step.codes is None:
            self.reason = "an operation between the attention call and the matrix mixes the heads"
            self.finish()
            return True
        self._judge(matrix, step, result)
        return True

    def _judge(self, matrix: Matrix, step: _Step, result: Tensor) -> None:
        assert step.codes is not None
        order = self._order(_rows_last(matrix, step.codes))
        if order is None:
            self.reason = "the matrix takes more, or less, than the heads' messages in order"
            self.finish()
            return
        rows_of, heads = order
        rows = _rows_last(matrix, step.tensor).flatten(0, -2)[rows_of]
        output = _rows_last(matrix, result).flatten(0, -2)[rows_of]
        B, T = self.shape
        self.projection = Projection(
            rows=rows.view(B, T, -1),
            weight=matrix.weight.detach(),
            bias=None if matrix.bias is None else matrix.bias.detach(),
            heads=heads,
            output=output.view(B, T, -1),
        )
        self._matrix, self._rows_of = matrix, rows_of
        self._output_shape = tuple(_rows_last(matrix, result).shape)
        lost = []
        silenced_results = []
        for r, silenced in enumerate(step.silenced):
            codes = _rows_last(matrix, step.codes)
            row = codes[..., :1] // (self.num_heads + 1)  # `_order` has shown that a row is one
            mine = heads == self._silent_rows[r].to(heads.device)[row.long()]
            part = torch.where(mine, _rows_last(matrix, step.tensor), 0)
            lost.append(self._compare(matrix, step.tensor, silenced, part))
            out = ops.product_rows(matrix, silenced)
            silenced_results.append(out if matrix.bias is None else _plus(matrix, out))
        self._lost = tuple(lost)
        pairs = zip(silenced_results, lost, strict=True)
        error = 0.0
        for out, loss in pairs:
            error = _worse(error, float(((result - out) - loss).abs().max()))
        self._note_output_error(error, result)
        self._track(result, tuple(silenced_results), None, _identity)

    def _arranged(self, output: Tensor) -> Tensor:
        """(B, T, D) in the arrangement of the matrix's output."""
        assert self._matrix is not None and self._rows_of is not None
        flat = output.flatten(0, 1)[self._rows_of.argsort()]
        return _rows_last(self._matrix, flat.view(self._output_shape))

    def _order(self, codes: Tensor) -> tuple[Tensor, Tensor] | None:
        """Where each row of (B, T) is in the matrix's input, and each column's head."""
        flat = codes.flatten(0, -2)  # (rows, C)
        B, T = self.shape
        if flat.shape[0] != B * T:
            return None
        marks = flat[0] % (self.num_heads + 1)  # head + 1, or 0 for a number of no head
        rows = flat[:, 0] // (self.num_heads + 1)
        is_grid = torch.equal(flat, rows[:, None] * (self.num_heads + 1) + marks)
        if not is_grid or int(marks.bincount(minlength=self.num_heads + 1)[1:].min()) == 0:
            return None
        return None if bool((marks == 0).any()) else (rows.argsort(), marks.long() - 1)

    def _compare(self, matrix: Matrix, full: Tensor, silenced: Tensor, part: Tensor) -> Tensor:
        """Note the exact error, and return what the silent heads' columns contribute."""
        assert self.projection is not None
        delta = _rows_last(matrix, full) - _rows_last(matrix, silenced) - part
        loss = part @ matrix.weight.to(part.dtype).T
        top, rest = float(loss.abs().max()), 0.0
        if bool(delta.any()):
            rest = float((delta.double() @ matrix.weight.double().T).abs().max())
        proof = self.projection
        proof.scale = _worse(proof.scale, top)
        proof.exact_error = _worse(proof.exact_error, rest / top if top else float(rest > 0))
        return loss.transpose(1, 2) if matrix.channels_first else loss

    def _note_output_error(self, error: float, output: Tensor) -> None:
        assert self.projection is not None
        proof, top = self.projection, self.projection.scale or 1.0
        proof.output_error = _worse(proof.output_error, error / top)
        size = float(output.abs().max())
        proof.rounding = max(proof.rounding, 64 * torch.finfo(output.dtype).eps * size / top)

    def _joins_stream(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the operation adds the output to the residual stream; then compare again."""
        if self.projection is None or name not in ops.ADDS or len(args) < 2 or kwargs:
            return False
        steps = [self._steps.get(id(value)) for value in args[:2]]
        if (steps[0] is None) == (steps[1] is None):
            return False
        step = steps[0] or steps[1]
        other = args[0] if steps[0] is None else args[1]
        if not _is_stream(other, step.tensor if step else None):
            return False
        if step is not None and step.jet is not None:
            self._arrive(step, step.jet)
        else:
            self.reason = "the output reaches the residual stream through a nonlinear operation"
        self.finish()
        return True

    def _arrive(self, step: _Step, jet: Jet) -> None:
        assert self.projection is not None
        error = top = 0.0
        for silenced, lost in zip(step.silenced, self._lost, strict=True):
            arrived = jet(lost, False)
            top = _worse(top, float(arrived.abs().max()))
            error = _worse(error, float((step.tensor - silenced - arrived).abs().max()))
        if not step.normed:
            gain = top / self.projection.scale if self.projection.scale else 1.0
            self._note_output_error(error / (gain or 1.0), self.projection.output)
        fraction = error / top if top else 0.0
        self.projection.reach = Reach(
            jet=jet,
            arranged=self._arranged,
            joined=step.tensor,
            normed=step.normed,
            error=fraction,
        )


def _worse(a: float, b: float) -> float:
    """The larger of two errors, NaN if one is NaN, which `max` would hide."""
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def _identity(tensor: Tensor, is_whole: bool) -> Tensor:
    return tensor


def _rows_last(matrix: Matrix, tensor: Tensor) -> Tensor:
    return tensor.transpose(1, 2) if matrix.channels_first else tensor


def _plus(matrix: Matrix, out: Tensor) -> Tensor:
    assert matrix.bias is not None
    return out + (matrix.bias[:, None] if matrix.channels_first else matrix.bias)


def _is_stream(other: object, branch: Tensor | None) -> bool:
    """Whether the other operand is a tensor of the same shape that is no parameter."""
    return (
        isinstance(other, Tensor)
        and branch is not None
        and not isinstance(other, torch.nn.Parameter)
        and other.shape == branch.shape
    )


def _holds_tensors(result: object) -> bool:
    return isinstance(result, Tensor) or (
        isinstance(result, list | tuple) and any(isinstance(item, Tensor) for item in result)
    )


def _numbered(result: Any) -> list[tuple[int | None, Tensor]]:  # noqa: ANN401 - as above
    if isinstance(result, Tensor):
        return [(None, result)]
    return [(i, item) for i, item in enumerate(result) if isinstance(item, Tensor)]


def _at(value: Any, place: int | None) -> Any:  # noqa: ANN401 - as above
    return value if place is None else value[place]


def _picked(jet: Jet | None, place: int | None) -> Jet | None:
    if jet is None or place is None:
        return jet
    whole = jet
    return lambda tensor, is_whole: whole(tensor, is_whole)[place]
