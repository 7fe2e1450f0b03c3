"""The kinds of torch operations between an attention call and the residual stream.

The functions are compared by their names, because the same operation exists as a function, as a
method and as an operator.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

MOVES = frozenset(
    [
        "view",
        "reshape",
        "view_as",
        "reshape_as",
        "transpose",
        "swapaxes",
        "swapdims",
        "movedim",
        "moveaxis",
        "permute",
        "contiguous",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "expand",
        "expand_as",
        "__getitem__",
        "select",
        "narrow",
        "chunk",
        "split",
        "tensor_split",
        "unbind",
        "cat",
        "concat",
        "stack",
        "clone",
        "t",
        "roll",
        "repeat",
        "flip",
        "pad",
        "index_select",
        "gather",
        "rearrange",
        "__get__",
        "mT",
        "detach",
    ]
)
"""Operations that move numbers and do not change them."""
RESHAPES = frozenset(
    [
        "view",
        "reshape",
        "view_as",
        "reshape_as",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "contiguous",
        "clone",
    ]
)
"""Of these, the ones that keep the order of the numbers."""
KEEPS = frozenset(
    [
        "to",
        "float",
        "double",
        "half",
        "bfloat16",
        "type",
        "type_as",
        "dropout",
        "dropout1d",
        "dropout2d",
        "feature_dropout",
        "alpha_dropout",
    ]
)
"""Operations that keep every number where it is: casts, and dropout in evaluation mode."""
ADDS = frozenset(["add", "__add__", "__radd__", "__iadd__", "add_"])
SUBTRACTS = frozenset(["sub", "__sub__", "subtract", "sub_", "__isub__"])
MULTIPLIES = frozenset(["mul", "__mul__", "__rmul__", "__imul__", "mul_", "multiply"])
DIVIDES = frozenset(["div", "__truediv__", "true_divide", "div_", "__itruediv__", "divide"])
MATRIX_PRODUCTS = frozenset(["matmul", "__matmul__", "bmm", "baddbmm", "einsum"])
SCALES_ENTRIES = MULTIPLIES | DIVIDES
IN_PLACE = frozenset(
    [
        "add_",
        "sub_",
        "mul_",
        "div_",
        "__iadd__",
        "__isub__",
        "__imul__",
        "__itruediv__",
        "__setitem__",
        "copy_",
        "masked_fill_",
        "addcmul_",
        "index_copy_",
        "index_add_",
        "index_put_",
        "scatter_",
        "scatter_add_",
    ]
)


def name_of(func: Callable[..., Any]) -> str:
    """The name of a torch function, method or property."""
    return str(getattr(func, "__name__", ""))


def tensors_in(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """The tensors among arguments, and in lists of arguments."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, Tensor))


def replaced(value: Any, change: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401 - any argument
    """An argument with every tensor in it changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
        return type(value)([replaced(item, change) for item in value])
    return value


def called(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    change: Callable[[Tensor], Tensor],
) -> Any:  # noqa: ANN401 - whatever the function returns
    """Call a function with its tensors changed."""
    return func(
        *(replaced(value, change) for value in args),
        **{name: replaced(value, change) for name, value in kwargs.items()},
    )


class Matrix(NamedTuple):
    """A product of rows with a matrix, as torch was asked to compute it."""

    x: Tensor
    """The rows, (..., C)."""
    weight: Tensor
    """The matrix, (D, C)."""
    bias: Tensor | None
    """Added to the result, (D,)."""
    channels_first: bool = False
    """Whether the channels of the rows come before positions, (B, C, T)."""


def matrix_of(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Matrix | None:
    """The rows and the matrix of a call that multiplies rows by one matrix, else None."""
    given = dict(zip(_ARGUMENTS.get(name, ()), args, strict=False)) | dict(kwargs)
    if name == "linear":
        return Matrix(given["input"], given["weight"], given.get("bias"))
    if name == "addmm" and _is_matrix(given["mat2"]) and given["input"].ndim == 1:
        return Matrix(given["mat1"], given["mat2"].T, given["input"])
    if name in ("matmul", "__matmul__") and _is_matrix(given["other"]):
        return Matrix(given["input"], given["other"].T, None)
    if name == "conv1d" and _is_pointwise(given):
        return Matrix(given["input"], given["weight"][:, :, 0], given.get("bias"), True)
    return None


_ARGUMENTS = {
    "linear": ("input", "weight", "bias"),
    "addmm": ("input", "mat1", "mat2"),
    "matmul": ("input", "other"),
    "__matmul__": ("input", "other"),
    "conv1d": ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
}


def _is_matrix(tensor: Tensor) -> bool:
    return tensor.ndim == 2


def _is_pointwise(given: Mapping[str, Any]) -> bool:
    plain = all(_first(given.get(name, 1)) == 1 for name in ("stride", "groups"))
    return given["weight"].shape[2] == 1 and plain and _first(given.get("padding", 0)) == 0


def _first(value: Any) -> Any:  # noqa: ANN401 - a number, a text or a tuple of numbers
    return value[0] if isinstance(value, list | tuple) else value


def product_rows(matrix: Matrix, rows: Tensor) -> Tensor:
    """Multiply rows of the given arrangement by the matrix, without the bias."""
    if matrix.channels_first:
        return torch.einsum("bct,dc->bdt", rows, matrix.weight.to(rows.dtype))
    return rows @ matrix.weight.to(rows.dtype).T
