"""How foreign tensors are handed over: joined or separate matrices, each with or without a bias.

The fields are the same whichever way a matrix lies; the function that reads them says which way it
is: `rows` are laid out as in `nn.Linear`, (out, in), `columns` as in GPT-2's Conv1D, (in, out).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from manyheads.core.errors import LayoutError

Orientation = Literal["rows", "columns"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignWeights:
    """What joined and separate weights share: names for errors, and checked access to a tensor."""

    names: Mapping[str, str] = field(default_factory=dict)
    """What errors call a field, for instance {"qkv": "h.0.attn.c_attn.weight"}; the field's own
    name where nothing is given."""

    def name_of(self, part: str) -> str:
        """What errors call this field."""
        return self.names.get(part, part)

    def matrix(self, part: str, orientation: Orientation) -> Tensor:
        """The matrix of a field turned to (out, in), a view.

        Raises:
            LayoutError: it has not two axes, or is not floating point.
        """
        tensor: Tensor = getattr(self, part)
        letters = "(out, in)" if orientation == "rows" else "(in, out)"
        if tensor.dim() != 2:
            raise LayoutError(
                f"{self.name_of(part)} has shape {tuple(tensor.shape)}, expected 2 axes {letters}: "
                "give the matrix of one layer"
            )
        self._check_floating(part, tensor)
        return tensor if orientation == "rows" else tensor.mT

    def check_matrix(
        self, part: str, orientation: Orientation, expected: tuple[int, int], why: str
    ) -> Tensor:
        """The matrix of a field turned to (out, in), which must have the expected size.

        Args:
            part: name of the field.
            orientation: how it lies.
            expected: out and in.
            why: where the expected size comes from, for the error.

        Raises:
            LayoutError: it has another size; the message gives shapes as the matrix lies.
        """
        matrix = self.matrix(part, orientation)
        if tuple(matrix.shape) != expected:
            lying = expected if orientation == "rows" else expected[::-1]
            shape = tuple(getattr(self, part).shape)
            raise LayoutError(f"{self.name_of(part)} has shape {shape}, expected {lying}: {why}")
        return matrix

    def check_bias(self, part: str, width: int) -> Tensor | None:
        """The bias of a field, or None where there is none.

        Raises:
            LayoutError: it is there and has not the shape of its matrix's outputs.
        """
        bias: Tensor | None = getattr(self, part)
        if bias is None:
            return None
        if tuple(bias.shape) != (width,):
            raise LayoutError(
                f"{self.name_of(part)} has shape {tuple(bias.shape)}, expected ({width},): "
                f"{self.name_of(part.removesuffix('_bias'))} has {width} outputs"
            )
        self._check_floating(part, bias)
        return bias

    def _check_floating(self, part: str, tensor: Tensor) -> None:
        if not tensor.is_floating_point():
            raise LayoutError(
                f"{self.name_of(part)} has dtype {tensor.dtype}, expected floating point: "
                "dequantize it first"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class JoinedWeights(ForeignWeights):
    """One matrix for queries, keys and values, and one for the output."""

    qkv: Tensor
    """R x D by rows, D x R by columns; R outputs: those of all queries, keys and values."""
    out: Tensor
    """D x C by rows, C x D by columns; C inputs: the joined heads."""
    qkv_bias: Tensor | None = None
    """R numbers, or None."""
    out_bias: Tensor | None = None
    """D numbers, or None."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SeparateWeights(ForeignWeights):
    """A matrix each for queries, keys, values and the output; each may have a bias of its own."""

    q: Tensor
    """H*d outputs from D inputs."""
    k: Tensor
    """G*d outputs from K inputs, K the width of the key input."""
    v: Tensor
    """G*v outputs from V inputs, v the value width, V the width of the value input."""
    o: Tensor
    """D outputs from H*v inputs."""
    q_bias: Tensor | None = None
    """H*d numbers, or None."""
    k_bias: Tensor | None = None
    """G*d numbers, or None, as in Whisper."""
    v_bias: Tensor | None = None
    """G*v numbers, or None."""
    o_bias: Tensor | None = None
    """D numbers, or None."""
