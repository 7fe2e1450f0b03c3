"""HeadWeights: one matrix per head, the common form into which all weights are read."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.core.errors import ShapeError
from manyheads.core.shapes import check_axes, declared_axes


@dataclass(frozen=True, kw_only=True)
class HeadWeights:
    """The weights of one attention layer, one matrix per head, used as `x @ w_q[h] + b_q[h]`.

    H query heads, G key/value heads, D embed_dim, K and V the widths of the key and value inputs
    (D unless the layer has others), d head_dim, v the value width. The tensors may be views of
    a layer's parameters, so gradients reach it.

    Raises:
        ShapeError: two tensors disagree about a size; the message names both.
    """

    w_q: Float[Tensor, "H D d"]
    """(H, D, d)."""
    w_k: Float[Tensor, "G K d"]
    """(G, K, d); G divides H."""
    w_v: Float[Tensor, "G V v"]
    """(G, V, v)."""
    w_o: Float[Tensor, "H v D"]
    """(H, v, D): rows of the output projection that belong to head h."""
    b_q: Float[Tensor, "H d"] | None = None
    """(H, d); None where queries have no bias."""
    b_k: Float[Tensor, "G d"] | None = None
    """(G, d); None where keys have no bias."""
    b_v: Float[Tensor, "G v"] | None = None
    """(G, v); None where values have no bias."""
    b_o: Float[Tensor, " D"] | None = None
    """(D,), added once after the heads are mixed; None where the output has no bias."""
    q_gain: Float[Tensor, " q"] | None = None
    """(q,): scale of the normalised queries; q is d, or H*d for a norm over all heads."""
    q_shift: Float[Tensor, " q"] | None = None
    """(q,): added to the normalised queries."""
    k_gain: Float[Tensor, " k"] | None = None
    """(k,): scale of the normalised keys; k is d, or G*d for a norm over all heads."""
    k_shift: Float[Tensor, " k"] | None = None
    """(k,): added to the normalised keys."""
    sinks: Float[Tensor, " H"] | None = None
    """(H,), one score per head that takes part in the softmax; or None."""
    w_g: Float[Tensor, "H D v"] | None = None
    """(H, D, v), of the gate, which multiplies each head's output; None where there is no gate."""
    b_g: Float[Tensor, "H v"] | None = None
    """(H, v); None where the gate has no bias."""

    def __post_init__(self) -> None:
        """Check that the sizes agree."""
        seen: dict[str, tuple[int, str]] = {}
        for name, axes in _AXES.items():
            tensor = getattr(self, name)
            if tensor is not None:
                check_axes(name, tensor, axes, seen)
        if not self.num_kv_heads or self.num_heads % self.num_kv_heads:
            raise ShapeError(
                f"w_k ({self.num_kv_heads} heads) must divide w_q ({self.num_heads} heads): "
                "repeat or drop key/value heads"
            )

    @property
    def num_heads(self) -> int:
        """H, the number of query heads."""
        return self.w_q.shape[0]

    @property
    def num_kv_heads(self) -> int:
        """G, the number of key/value heads."""
        return self.w_k.shape[0]

    @property
    def embed_dim(self) -> int:
        """D, the width of the query input and of the output."""
        return self.w_q.shape[1]

    @property
    def head_dim(self) -> int:
        """d, the width of a query or key head."""
        return self.w_q.shape[2]

    @property
    def v_head_dim(self) -> int:
        """The width of a value head."""
        return self.w_v.shape[2]

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are not None, by name, in a fixed order."""
        found = {name: getattr(self, name) for name in _AXES}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def equal(self, other: "HeadWeights") -> bool:
        """Whether both hold the same tensors, bit for bit."""
        mine, theirs = self.tensors(), other.tensors()
        return mine.keys() == theirs.keys() and all(torch.equal(mine[n], theirs[n]) for n in mine)


_AXES = declared_axes(HeadWeights)
