"""Faults of single projections: left out, or used transposed."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.problem import Problem
from manyheads.core.weights import HeadWeights
from manyheads.faults.projections import Change, OtherWeights
from manyheads.faults.variant import Variant


class Unprojected(Pipeline):
    """Leaves one projection out."""

    def __init__(self, name: str) -> None:
        self.name = name

    def project(self, p: Problem, x: Tensor, w: Tensor, b: Tensor | None, name: str) -> Tensor:
        """The input itself for the projection that is left out."""
        return x if name == self.name else super().project(p, x, w, b, name)

    def project_out(self, p: Problem, concat: Tensor, weights: HeadWeights) -> Tensor:
        """The joined heads themselves where the output projection is left out."""
        return concat if self.name == "o" else super().project_out(p, concat, weights)


def _fits_unprojected(name: str) -> Callable[[Problem], bool]:
    def applies(p: Problem) -> bool:
        w = p.weights
        if w is None or (name == "o" and not p.has_out):
            return False
        sizes = {
            "q": (w.w_q.shape[1], w.num_heads * w.head_dim),
            "k": (w.w_k.shape[1], w.num_kv_heads * w.head_dim),
            "v": (w.w_v.shape[1], w.num_kv_heads * w.v_head_dim),
            "o": (w.num_heads * w.v_head_dim, w.w_o.shape[2]),
        }
        return sizes[name][0] == sizes[name][1]

    return applies


def _transpose_joined(tensor: Tensor) -> Tensor:
    """(H, D, d) seen as one (D, H*d) matrix, transposed, and cut into heads again."""
    heads = tensor.shape[0]
    joined = tensor.permute(1, 0, 2).flatten(1).T
    split: Tensor = joined.unflatten(1, (heads, -1))
    return split.permute(1, 0, 2)


def _transposed(names: str) -> Change:
    def change(w: HeadWeights) -> HeadWeights:
        changed = {f"w_{n}": _transpose_joined(getattr(w, f"w_{n}")) for n in names if n != "o"}
        if "o" in names:
            changed["w_o"] = w.w_o.flatten(0, 1).T.unflatten(0, (w.num_heads, -1))
        return replace(w, **changed)

    return change


def _can_transpose(names: str) -> Callable[[Problem], bool]:
    return lambda p: all(_fits_unprojected(name)(p) for name in names)


def _unused() -> list[Variant]:
    found = []
    for name, fault in (("v", "value-projection-unused"), ("o", "output-projection-missing")):
        what = (
            "values are the unprojected input"
            if name == "v"
            else "the joined heads are returned as they are"
        )
        found.append(
            Variant(
                fault=fault,
                says=f"the output equals the formula when {what}",
                pipeline=Unprojected(name),
                applies=_fits_unprojected(name),
                is_legal=True,
            )
        )
    for name in "qk":
        found.append(
            Variant(
                fault="wrong-tensor",
                says=f"the output equals the formula when {name} is the unprojected input",
                pipeline=Unprojected(name),
                applies=_fits_unprojected(name),
                is_legal=True,
            )
        )
    return found


def _transposes() -> list[Variant]:
    found = []
    for size in (3, 4, 1, 2):
        for names in map("".join, combinations("qkvo", size)):
            text = ", ".join(f"W_{n.upper()}" for n in names)
            found.append(
                Variant(
                    fault="weight-transposed",
                    says=f"the output equals the formula with {text} transposed",
                    pipeline=OtherWeights(_transposed(names)),
                    applies=_can_transpose(names),
                    is_legal=True,
                )
            )
    return found


def variants() -> list[Variant]:
    """All readings of this family."""
    return [*_unused(), *_transposes()]
