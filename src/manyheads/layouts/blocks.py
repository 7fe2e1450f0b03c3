"""Tensors as other code arranges them, and the blocks into which every layout is cut.

A block holds all query, key or value heads as rows of one matrix, head after head. Every layout is
read by cutting it into blocks and written by joining them, so a layout only defines how it cuts and
joins. `rows` are laid out as in `nn.Linear`, (out, in), `columns` as in GPT-2's Conv1D, (in, out).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from manyheads.core.errors import LayoutError
from manyheads.core.weights import HeadWeights
from manyheads.layouts.limits import check_no_extras

Orientation = Literal["rows", "columns"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignWeights:
    """What joined and separate weights share: names for errors, and checked access to a tensor."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Names of fields in errors, such as {"qkv": "h.0.attn.c_attn.weight"}; by default the field's
    own name."""

    def name_of(self, part: str) -> str:
        """The name of this field in errors."""
        return self.names.get(part, part)

    def matrix(self, part: str, orientation: Orientation) -> Tensor:
        """The matrix of a field transposed to (out, in), a view.

        Raises:
            LayoutError: it does not have two axes, or is not floating point.
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
        """The matrix of a field transposed to (out, in), which must have the expected size.

        Args:
            part: name of the field.
            orientation: its orientation.
            expected: out and in.
            why: where the expected size comes from, for the error.

        Raises:
            LayoutError: it has another size; the message gives shapes as they were given.
        """
        matrix = self.matrix(part, orientation)
        if tuple(matrix.shape) != expected:
            lying = expected if orientation == "rows" else expected[::-1]
            shape = tuple(getattr(self, part).shape)
            raise LayoutError(f"{self.name_of(part)} has shape {shape}, expected {lying}: {why}")
        return matrix

    def check_bias(self, part: str, width: int) -> Tensor | None:
        """The bias of a field, or None.

        Raises:
            LayoutError: its shape does not fit the outputs of its matrix.
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


@dataclass(frozen=True, kw_only=True)
class HeadSizes:
    """Counts and widths of the heads of a layer."""

    num_heads: int
    """H, query heads."""
    num_kv_heads: int
    """G, key/value heads."""
    head_dim: int
    """d, width of a query or key head."""
    v_head_dim: int
    """Width of a value head."""

    @property
    def widths(self) -> dict[str, int]:
        """Rows of the q, k and v block."""
        kv = self.num_kv_heads
        return {
            "q": self.num_heads * self.head_dim,
            "k": kv * self.head_dim,
            "v": kv * self.v_head_dim,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """The three input projections as blocks of rows, and their biases."""

    weights: dict[str, Tensor]
    """By "q", "k" and "v": matrices, out x in."""
    biases: dict[str, Tensor | None]
    """By "q", "k" and "v": as many numbers as rows, or None."""


Cut = Callable[[Tensor, HeadSizes], dict[str, Tensor]]
Join = Callable[[dict[str, Tensor], HeadSizes], Tensor]


def check_head_counts(num_heads: int, num_kv_heads: int | None) -> tuple[int, int]:
    """H and G, where G is H unless given.

    Raises:
        LayoutError: a count below one, or a G that does not divide H.
    """
    kv = num_heads if num_kv_heads is None else num_kv_heads
    for name, count in (("num_heads", num_heads), ("num_kv_heads", kv)):
        if type(count) is not int or count < 1:
            raise LayoutError(
                f"{name} ({count!r}) must be an integer from 1: give the number of heads"
            )
    if num_heads % kv:
        raise LayoutError(
            f"num_kv_heads ({kv}) must divide num_heads ({num_heads}): give a divisor"
        )
    return num_heads, kv


def head_width(name: str, outputs: int, count: int, argument: str) -> int:
    """The width of a head where `count` of them share `outputs` channels.

    Raises:
        LayoutError: the channels cannot be shared evenly.
    """
    if outputs == 0 or outputs % count:
        raise LayoutError(
            f"{argument} ({count}) must divide the {outputs} channels of {name}: "
            f"give the {argument} that the weights were made with"
        )
    return outputs // count


def grouped_rows(rows: Tensor, count: int) -> Tensor:
    """Cut the first axis into `count` equal groups, a new axis in front; a view where possible."""
    return rows.reshape(count, rows.shape[0] // count, *rows.shape[1:])


def heads_from_blocks(
    blocks: Blocks, sizes: HeadSizes, out: Tensor, out_bias: Tensor | None
) -> HeadWeights:
    """One matrix per head from checked blocks; views of them.

    Args:
        blocks: the three input projections.
        sizes: of the heads.
        out: the output projection, D x H*v.
        out_bias: D numbers, or None.
    """
    counts = {"q": sizes.num_heads, "k": sizes.num_kv_heads, "v": sizes.num_kv_heads}
    made: dict[str, Tensor | None] = {}
    for part, count in counts.items():
        bias = blocks.biases[part]
        made[f"w_{part}"] = grouped_rows(blocks.weights[part], count).mT  # (N, in, width)
        made[f"b_{part}"] = None if bias is None else grouped_rows(bias, count)
    w_o = grouped_rows(out.mT, sizes.num_heads)  # (H, v, D)
    return HeadWeights(w_o=w_o, b_o=out_bias, **made)  # type: ignore[arg-type]  # weights are there


def blocks_from_heads(heads: HeadWeights) -> Blocks:
    """The three input projections as blocks of rows, head after head.

    Raises:
        LayoutError: the weights have a norm, sinks or a gate, which would be lost.
    """
    check_no_extras(heads, "matrices of projections")
    weights = {part: getattr(heads, f"w_{part}").mT.flatten(0, 1) for part in "qkv"}
    biases = {part: getattr(heads, f"b_{part}") for part in "qkv"}
    return Blocks(
        weights=weights, biases={p: None if b is None else b.flatten() for p, b in biases.items()}
    )


def out_rows_from_heads(heads: HeadWeights) -> Tensor:
    """The output projection as D x H*v, joined heads along its inputs."""
    return heads.w_o.permute(2, 0, 1).flatten(1)


def heads_from_joined(
    joined: JoinedWeights,
    cut: Cut,
    orientation: Orientation,
    counts: tuple[int, int],
    head_dim: int | None,
) -> HeadWeights:
    """Read joined weights that `cut` takes apart.

    Args:
        joined: one matrix for queries, keys and values, one for the output.
        cut: takes the rows of the joined matrix, or its bias, apart into blocks.
        orientation: of the matrices.
        counts: H and G.
        head_dim: d; the value width unless given.

    Raises:
        LayoutError: a tensor has another size than the heads need.
    """
    out = joined.matrix("out", orientation)
    v_head_dim = head_width(joined.name_of("out"), out.shape[1], counts[0], "num_heads")
    sizes = HeadSizes(
        num_heads=counts[0],
        num_kv_heads=counts[1],
        head_dim=v_head_dim if head_dim is None else head_dim,
        v_head_dim=v_head_dim,
    )
    if sizes.head_dim < 1:
        raise LayoutError(
            f"head_dim ({head_dim}) must be at least 1: give the width of a query head"
        )
    rows = sum(sizes.widths.values())
    why = (
        f"{sizes.num_heads} query and {sizes.num_kv_heads} key heads of width {sizes.head_dim} and "
        f"{sizes.num_kv_heads} value heads of width {v_head_dim} have {rows} outputs, and "
        f"{joined.name_of('out')} makes the input width {out.shape[0]}"
    )
    qkv = joined.check_matrix("qkv", orientation, (rows, out.shape[0]), why)
    bias = joined.check_bias("qkv_bias", rows)
    blocks = Blocks(
        weights=cut(qkv, sizes),
        biases={"q": None, "k": None, "v": None} if bias is None else {**cut(bias, sizes)},
    )
    return heads_from_blocks(blocks, sizes, out, joined.check_bias("out_bias", out.shape[0]))


def joined_from_heads(heads: HeadWeights, join: Join, orientation: Orientation) -> JoinedWeights:
    """Write joined weights that `join` puts together.

    Args:
        heads: one matrix per head.
        join: puts blocks of rows, or of bias numbers, into one tensor.
        orientation: of the matrices to write.

    Raises:
        LayoutError: one matrix cannot hold the three projections.
    """
    _check_can_be_joined(heads)
    sizes = HeadSizes(
        num_heads=heads.num_heads,
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.head_dim,
        v_head_dim=heads.v_head_dim,
    )
    blocks = blocks_from_heads(heads)
    biases = {part: bias for part, bias in blocks.biases.items() if bias is not None}
    qkv, out = join(blocks.weights, sizes), out_rows_from_heads(heads)
    turned = [matrix if orientation == "rows" else matrix.mT for matrix in (qkv, out)]
    return JoinedWeights(
        qkv=turned[0].contiguous(),
        out=turned[1].contiguous(),
        qkv_bias=join(biases, sizes) if biases else None,
        out_bias=heads.b_o,
    )


def _check_can_be_joined(heads: HeadWeights) -> None:
    for name, matrix in (("w_k", heads.w_k), ("w_v", heads.w_v)):
        if matrix.shape[1] != heads.embed_dim:
            raise LayoutError(
                f"{name} has shape {tuple(matrix.shape)}, expected {heads.embed_dim} inputs as "
                "w_q has, to be joined with it: use separate matrices"
            )
    absent = [f"b_{part}" for part in "qkv" if getattr(heads, f"b_{part}") is None]
    if 0 < len(absent) < 3:
        raise LayoutError(
            f"{' and '.join(absent)} (None) must be there where another bias is, to be "
            "joined with it: use fill_input_biases(heads), or separate matrices"
        )
    dtypes = {tensor.dtype for name, tensor in heads.tensors().items() if name[2] in "qkv"}
    if len(dtypes) > 1:
        names = ", ".join(sorted(str(dtype) for dtype in dtypes))
        raise LayoutError(
            f"heads (dtypes {names}) must be of one dtype to be joined: convert them first"
        )
