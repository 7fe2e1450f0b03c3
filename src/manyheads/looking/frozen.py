"""The linear part of an operation, with the scales of norms frozen at their values.

A norm divides by a number that it computes from its input. With that number held fixed it is
linear, so a contribution passes through it alone. Nonlinear operations give no linear part: their
results count as constants, which is what freezes the scale of a norm written out in steps.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from manyheads.looking import operations as ops

Jet = Callable[[Tensor, bool], Tensor]
"""Maps a tensor at the start of a way to the tensor at its end.

With False it is the linear part alone, for a change or a contribution; with True, constants such as
biases are added, so that it gives the model's own value.
"""
_MEANS = frozenset({"mean"})


def jet_after(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    jets: Mapping[int, Jet],
) -> tuple[Jet | None, bool]:
    """The linear part after an operation, and whether the operation is a norm.

    Args:
        func: the operation.
        args: its arguments.
        kwargs: its named arguments.
        jets: the linear part of each tensor on the way, by its id.
    """
    name = ops.name_of(func)
    if name in ops.KEEPS:
        return jets.get(id(args[0])), False
    if name in ops.MOVES or name in _MEANS:
        return _moved(func, args, kwargs, jets), False
    if name in ops.ADDS | ops.SUBTRACTS and not kwargs:
        return _summed(args, jets, -1.0 if name in ops.SUBTRACTS else 1.0), False
    if name in ops.SCALES_ENTRIES:
        return _scaled(name, args, jets), False
    if name in ("layer_norm", "rms_norm") and id(args[0]) in jets:
        return _normed(name, args, kwargs, jets[id(args[0])]), True
    matrix = ops.matrix_of(name, args, kwargs)
    if matrix is not None and id(matrix.x) in jets and id(matrix.weight) not in jets:
        return _multiplied(matrix, jets[id(matrix.x)]), False
    return None, False


def _moved(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    jets: Mapping[int, Jet],
) -> Jet:
    def jet(tensor: Tensor, is_whole: bool) -> Tensor:
        def swap(given: Tensor) -> Tensor:
            if id(given) in jets:
                return jets[id(given)](tensor, is_whole)
            if not given.is_floating_point():
                return given
            return given.to(tensor.dtype) if is_whole else torch.zeros_like(given).to(tensor.dtype)

        result: Tensor = ops.called(func, args, kwargs, swap)
        return result

    return jet


def _summed(args: Sequence[Any], jets: Mapping[int, Jet], sign: float) -> Jet | None:
    first, second = jets.get(id(args[0])), jets.get(id(args[1]))
    if first is None and second is None:
        return None
    left, right = args[0], args[1]

    def jet(tensor: Tensor, is_whole: bool) -> Tensor:
        total = torch.zeros((), dtype=tensor.dtype, device=tensor.device)
        if first is not None:
            total = total + first(tensor, is_whole)
        elif is_whole:
            total = total + left
        if second is not None:
            total = total + sign * second(tensor, is_whole)
        elif is_whole:
            total = total + sign * right
        return total

    return jet


def _scaled(name: str, args: Sequence[Any], jets: Mapping[int, Jet]) -> Jet | None:
    first, second = jets.get(id(args[0])), jets.get(id(args[1]))
    if (first is None) == (second is None) or (name in ops.DIVIDES and first is None):
        return None
    inner = first or second
    assert inner is not None
    jet, factor = inner, args[1] if first is not None else args[0]
    factor = factor.detach().clone() if isinstance(factor, Tensor) else factor
    if name in ops.DIVIDES:
        return lambda tensor, is_whole: jet(tensor, is_whole) / factor
    return lambda tensor, is_whole: jet(tensor, is_whole) * factor


def _multiplied(matrix: ops.Matrix, inner: Jet) -> Jet:
    def jet(tensor: Tensor, is_whole: bool) -> Tensor:
        out = ops.product_rows(matrix, inner(tensor, is_whole))
        if not is_whole or matrix.bias is None:
            return out
        return out + (matrix.bias[:, None] if matrix.channels_first else matrix.bias)

    return jet


def _normed(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], inner: Jet) -> Jet:
    center = name == "layer_norm"
    names = ("input", "normalized_shape", "weight", *(["bias"] if center else []), "eps")
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    x, dims = given["input"].detach().double(), tuple(range(-len(given["normalized_shape"]), 0))
    weight, bias, eps = given.get("weight"), given.get("bias"), given.get("eps")
    if eps is None:
        eps = torch.finfo(given["input"].dtype).eps if name == "rms_norm" else 1e-5
    spread = x.var(dims, correction=0, keepdim=True) if center else x.square().mean(dims, True)
    rate = (spread + eps).rsqrt()

    def jet(tensor: Tensor, is_whole: bool) -> Tensor:
        change = inner(tensor, is_whole)
        change = change - change.mean(dims, keepdim=True) if center else change
        change = change * rate.to(change.dtype)
        change = change if weight is None else change * weight.to(change.dtype)
        whole: Tensor = change + bias if is_whole and bias is not None else change
        return whole

    return jet
