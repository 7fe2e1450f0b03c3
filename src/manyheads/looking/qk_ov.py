"""The circuits of a head as factors: what it matches (QK) and what it writes (OV).

The matrices between tokens have V x V entries and are never formed: each circuit is kept as two
thin factors. A factor is the matrix whose product with rows gave the head's queries, keys or values
bit for bit in a run.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.looking import operations as ops
from manyheads.looking.inputs import call_from
from manyheads.looking.labels import vocabulary_of
from manyheads.looking.proof import refusal
from manyheads.looking.subject import Subject
from manyheads.looking.watching import Site


@dataclass(frozen=True, kw_only=True)
class Circuits:
    """The circuits of one head; D is the width of the stream, d that of queries, v of values."""

    layer: int
    head: int
    w_v: Float[Tensor, "D v"]
    """(D, v): rows of the layer's input times this are the head's values, without the bias."""
    w_o: Float[Tensor, "v D"]
    """(v, D): the head's rows of the output matrix."""
    w_q: Float[Tensor, "D d"] | None
    """(D, d): likewise for queries; None where the model turns or norms queries and keys before the
    product, because W_Q W_K^T is then not what it computes at any distance."""
    w_k: Float[Tensor, "D d"] | None
    """(D, d): likewise for keys."""
    error: float
    """Values by `w_v` against the model's own, a fraction of the largest."""

    @property
    def ov_singular_values(self) -> Float[Tensor, " v"]:
        """Singular values of W_V W_O, from the factors."""
        return _singular_values(self.w_v, self.w_o)

    @property
    def qk_singular_values(self) -> Float[Tensor, " d"] | None:
        """Singular values of W_Q W_K^T, where it is what the model computes."""
        if self.w_q is None or self.w_k is None:
            return None
        return _singular_values(self.w_q, self.w_k.T)

    @property
    def copying_score(self) -> float:
        """Sum of the eigenvalues of W_V W_O over the sum of their absolute values, -1 to 1.

        Near 1 the head writes what it reads.

        Source: Elhage et al. 2021, A Mathematical Framework for Transformer Circuits, section
        "Copying / Primitive In-Context Learning".
        """
        values = torch.linalg.eigvals(self.w_o @ self.w_v)  # (v,), those of W_V W_O besides zeros
        size = float(values.abs().sum())
        return float(values.real.sum()) / size if size else 0.0


def circuits(model: nn.Module, layer: int, head: int, *, inputs: Any = None) -> Circuits:  # noqa: ANN401
    """The circuits of a head.

    Args:
        model: the model.
        layer: number of the attention call, from 0.
        head: query head, from 0.
        inputs: inputs of the run that proves the factors; random token ids unless given.

    Raises:
        LookError: the head does not exist, or its matrices cannot be proven; the message says why.
    """
    subject = Subject(model)
    call, _ = call_from(subject, None, _ids(model) if inputs is None else inputs, None)
    seen = _Linears()
    _, watch = subject.watch(call, follow=True, keep_values=True, on_operation=seen.note)
    if not 0 <= layer < len(watch.sites):
        raise LookError(f"layer ({layer}) must be from 0 to {len(watch.sites) - 1}: use one")
    site = watch.sites[layer]
    if not 0 <= head < site.num_heads:
        raise LookError(f"head ({head}) must be from 0 to {site.num_heads - 1}: use one")
    why = refusal(site)
    if why is not None or site.projection is None:
        raise LookError(f"layer {layer} has no proven output matrix: {why}")
    return _circuits(site, head, seen)


def composition(first: Circuits, second: Circuits) -> dict[str, float]:
    """How much a head reads what an earlier head writes: Frobenius norms of products of circuits.

    Each is the norm of the product over the product of the norms, 0 to 1: "v" for values, and "q"
    and "k" for queries and keys where the later head has them.

    Source: Elhage et al. 2021, section "Two-layer attention-only transformers".

    Args:
        first: the earlier head.
        second: a head of a later layer.

    Raises:
        LookError: the second head is not in a later layer.
    """
    if second.layer <= first.layer:
        raise LookError(f"layer ({second.layer}) must be after {first.layer}: exchange the heads")
    writes = first.w_v, first.w_o
    found = {"v": _overlap(writes, (second.w_v, second.w_o))}
    if second.w_q is not None and second.w_k is not None:
        found["q"] = _overlap(writes, (second.w_q, second.w_k.T))
        found["k"] = _overlap(writes, (second.w_k, second.w_q.T))
    return found


class _Linears:
    """The products of rows with matrices in one run, by their result."""

    def __init__(self) -> None:
        self.found: list[tuple[Tensor, Tensor, Tensor]] = []

    def note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:  # noqa: ANN401 - as Watch calls it
        """Note rows, matrix and result."""
        matrix = ops.matrix_of(ops.name_of(func), args, kwargs)
        if matrix is not None and not matrix.channels_first:
            self.found.append((matrix.x, matrix.weight.detach(), result))


def _circuits(site: Site, head: int, seen: _Linears) -> Circuits:
    projection, H, G = site.projection, site.num_heads, site.num_groups
    assert projection is not None
    if site.values is None or site.values.ndim != 4:
        raise LookError(f"layer {site.index}: its values were not seen through the interface")
    group = head // (H // G)
    w_v, error = _source(site.values[:, group], seen, "values", site.index)
    columns = (projection.heads == head).nonzero()[:, 0]
    w_o = projection.weight[:, columns].T.double()
    if w_v.shape[1] != w_o.shape[0]:
        raise LookError(f"layer {site.index}: values and output matrix have different widths")
    w_q = w_k = None
    if site.queries is not None and site.keys is not None:
        try:
            w_q, _ = _source(site.queries[:, head], seen, "queries", site.index)
            w_k, _ = _source(site.keys[:, group], seen, "keys", site.index)
        except LookError:  # rotated or normed: no product of two matrices
            w_q = w_k = None
    return Circuits(layer=site.index, head=head, w_v=w_v, w_o=w_o, w_q=w_q, w_k=w_k, error=error)


def _source(rows: Tensor, seen: _Linears, what: str, layer: int) -> tuple[Tensor, float]:
    """The matrix whose product with its rows gives these numbers, and how exactly."""
    B, S, width = rows.shape
    for x, weight, result in seen.found:
        flat = result.reshape(-1, result.shape[-1])
        if len(flat) != B * S or flat.shape[1] < width:
            continue
        for start in range(0, flat.shape[1] - width + 1, width):
            part = flat[:, start : start + width]
            if torch.equal(part.reshape(B, S, width), rows):
                matrix = weight[start : start + width].T.double()
                return matrix, _mismatch(x, matrix, part)
    raise LookError(f"layer {layer}: its {what} are not the product of rows with one matrix")


def _mismatch(x: Tensor, matrix: Tensor, part: Tensor) -> float:
    """Differences between rows, so that a bias does not count."""
    rows, made = x.reshape(-1, x.shape[-1]).double(), part.double()
    gap = (rows - rows[:1]) @ matrix - (made - made[:1])
    return float(gap.abs().max()) / (float(made.abs().max()) or 1.0)


def _singular_values(left: Tensor, right: Tensor) -> Tensor:
    """Singular values of a product of thin factors, largest first."""
    _, r = torch.linalg.qr(left)
    _, s = torch.linalg.qr(right.T)
    values: Tensor = torch.linalg.svdvals(r @ s.T)
    return values


def _overlap(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> float:
    """Norm of (A B)(C D) over the norms of A B and C D, from the factors."""
    inner = first[1] @ second[0]  # between the thin sides
    joint = _norm(first[0] @ inner, second[1])
    size = _norm(*first) * _norm(*second)
    return joint / size if size else 0.0


def _norm(left: Tensor, right: Tensor) -> float:
    """Frobenius norm of a product of thin factors."""
    return float(((left.T @ left) * (right @ right.T)).sum().clamp(min=0).sqrt())


def _ids(model: nn.Module) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, vocabulary_of(model), (1, 24), generator=generator)
