"""Faults of whose weights a head uses: a head's own, a slice of them, with or without biases."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.core.weights import HeadWeights
from manyheads.faults.variant import Variant

Change = Callable[[HeadWeights], HeadWeights]


class OtherWeights(Pipeline):
    """Uses weights that are a rearrangement of the declared ones."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def weights(self, p: Problem, weights: HeadWeights) -> HeadWeights:
        """The rearranged weights."""
        return self.change(weights)

    def project_out(self, p: Problem, concat: Tensor, weights: HeadWeights) -> Tensor:
        """The output projection with the rearranged weights."""
        return super().project_out(p, concat, self.change(weights))


def _without_bias(names: str) -> Change:
    def change(w: HeadWeights) -> HeadWeights:
        return HeadWeights(
            **{n: t for n, t in w.tensors().items() if not (n[0] == "b" and n[2] in names)}
        )

    return change


def _has_biases(names: str) -> Callable[[Problem], bool]:
    return lambda p: (
        p.weights is not None and all(getattr(p.weights, f"b_{n}") is not None for n in names)
    )


def _sliced(w: HeadWeights) -> HeadWeights:
    """Each head's matrices with every row zero but those of its own slice of the input."""
    keep = {}
    for name in ("w_q", "w_k", "w_v"):
        tensor = getattr(w, name)
        heads, rows, _ = tensor.shape
        mask = torch.zeros(heads, rows, 1, dtype=tensor.dtype)
        for h in range(heads):
            mask[h, h * rows // heads : (h + 1) * rows // heads] = 1
        keep[name] = tensor * mask
    return replace(w, **keep)


def _first_head_for_all(w: HeadWeights) -> HeadWeights:
    changed = {n: t[:1].expand_as(t) for n, t in w.tensors().items() if n[2] in "qkv"}
    return replace(w, **changed)


def _biases() -> list[Variant]:
    found = []
    for size in (1, 2, 3, 4):
        for names in map("".join, combinations("qkvo", size)):
            text = ", ".join(f"b_{n.upper()}" for n in names)
            found.append(
                Variant(
                    fault="bias-dropped",
                    says=f"the output equals the formula without {text}",
                    pipeline=OtherWeights(_without_bias(names)),
                    applies=_has_biases(names),
                    is_legal=True,
                )
            )
    return found


def variants() -> list[Variant]:
    """All readings of this family."""
    shared = Variant(
        fault="heads-share-parameters",
        says="the output equals that of every head using the projections of the first",
        pipeline=OtherWeights(_first_head_for_all),
        applies=lambda p: p.weights is not None and p.num_heads > 1,
        is_legal=True,
    )
    sliced = Variant(
        fault="heads-read-input-slices",
        says="the output equals that of each head reading only its slice of the input",
        pipeline=OtherWeights(_sliced),
        applies=lambda p: p.weights is not None and p.weights.w_q.shape[1] % p.num_heads == 0,
        is_legal=True,
    )
    return [shared, sliced, *_biases()]
