"""Mistakes in norms of q and k, soft-cap, sinks, partial and scaled rotary positions, and gates.

They have no id in the catalogue yet; a finding says in words what the numbers equal.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.pipeline import Pipeline
from manyheads.attention.positions import rotate
from manyheads.attention.problem import Problem
from manyheads.core.config import Rotary
from manyheads.faults.catalogue import Variant


class NormLeftOut(Pipeline):
    """Queries, keys or both are not normalised."""

    def __init__(self, names: str) -> None:
        self.names = names

    def norm_heads(self, p: Problem, x: Tensor, name: str) -> Tensor:
        """The norm of the others only."""
        return x if name in self.names else super().norm_heads(p, x, name)


class NormScaleUnused(Pipeline):
    """The learned scale and shift of the norms are not applied."""

    def norm_heads(self, p: Problem, x: Tensor, name: str) -> Tensor:
        """A norm whose scale is one."""
        norm = p.norms.get(name)
        if norm is None:
            return x
        return replace(norm, gain=torch.ones_like(norm.gain), shift=None).of_heads(x)


class NormOverOthers(Pipeline):
    """Normalised over all heads instead of each, or over each head instead of all."""

    def norm_heads(self, p: Problem, x: Tensor, name: str) -> Tensor:
        """A norm over the other channels."""
        norm, heads = p.norms.get(name), x.shape[1]
        if norm is None:
            return x
        rows = (norm.gain, norm.shift)
        if norm.over == "head":
            gain, shift = (None if r is None else r.repeat(heads) for r in rows)
        else:
            gain, shift = (None if r is None else r.unflatten(0, (heads, 1, -1)) for r in rows)
        assert gain is not None
        over = "all" if norm.over == "head" else "head"
        return replace(norm, over=over, gain=gain, shift=shift).of_heads(x)


class NormAfterRotary(Pipeline):
    """Queries and keys are normalised after rotary positions instead of before."""

    def norm_heads(self, p: Problem, x: Tensor, name: str) -> Tensor:
        """Not yet."""
        return x

    def turn(self, p: Problem, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate, then normalise."""
        q, k = super().turn(p, q, k)
        return Pipeline.norm_heads(self, p, q, "q"), Pipeline.norm_heads(self, p, k, "k")


class CapLeftOut(Pipeline):
    """Scores are not capped."""

    def cap(self, p: Problem, scores: Tensor) -> Tensor:
        """The scores."""
        return scores


class CapAfterMask(CapLeftOut):
    """Scores are capped after the mask, so that hidden keys get the score -softcap."""

    def hide(self, p: Problem, scores: Tensor, allowed: Tensor) -> Tensor:
        """Mask, then cap."""
        return Pipeline.cap(self, p, super().hide(p, scores, allowed))


class OtherSinks(Pipeline):
    """Sinks are left out, or one is added to the denominator instead of exp(sink)."""

    def __init__(self, is_one: bool) -> None:
        self.is_one = is_one

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """The softmax with other sinks."""
        sinks = torch.zeros_like(p.sinks) if self.is_one and p.sinks is not None else None
        return super().softmax(replace(p, sinks=sinks), masked, allowed)


class SinksNotShifted(Pipeline):
    """exp(sink) is added although the largest score was subtracted from the others only."""

    def softmax(self, p: Problem, masked: Tensor, allowed: Tensor) -> Tensor:
        """The unstable form."""
        assert p.sinks is not None
        powers = (masked - masked.amax(dim=-1, keepdim=True)).exp().nan_to_num(nan=0.0)
        return powers / (powers.sum(dim=-1, keepdim=True) + p.sinks.exp()[:, None, None])


class ChangedRotary(Pipeline):
    """Other settings of the rotation."""

    def __init__(self, change: Callable[[Rotary, int], Rotary]) -> None:
        self.change = change

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Rotate with them."""
        return rotate(x, self.change(rotary, x.shape[-1]), start)


class LastChannels(Pipeline):
    """The last channels of each head are rotated instead of the first."""

    def rotate(self, x: Tensor, rotary: Rotary, start: int) -> Tensor:
        """Rotate the other end."""
        width = rotary.dim or x.shape[-1]
        return rotate(x.roll(width, dims=-1), rotary, start).roll(-width, dims=-1)


class OtherGate(Pipeline):
    """The gate is left out, or has no sigmoid."""

    def __init__(self, is_raw: bool) -> None:
        self.is_raw = is_raw

    def gate(self, p: Problem, y: Tensor, start: int) -> Tensor:
        """The other gate."""
        w = p.weights
        if not self.is_raw or w is None or w.w_g is None:
            return y
        opened = (
            self.norm_inputs(p, self.inputs(p)[0])[0][:, None, start : start + y.shape[2]] @ w.w_g
        )
        return y * (opened if w.b_g is None else opened + w.b_g[:, None])


def _of_whole_width(rotary: Rotary, width: int) -> Rotary:
    """Frequencies of the whole head on part of its channels."""
    half = (rotary.dim or width) // 2
    return replace(rotary, frequencies=tuple(rotary.base ** (-2 * i / width) for i in range(half)))


def _without_scaling(rotary: Rotary, width: int) -> Rotary:
    return replace(rotary, scaling=None)


def _without_magnitude(rotary: Rotary, width: int) -> Rotary:
    assert rotary.scaling is not None
    return replace(rotary, scaling=replace(rotary.scaling, attention_factor=1.0))


def _has_norm(p: Problem) -> bool:
    return bool({"q", "k"} & p.norms.keys())


def _has_sinks(p: Problem) -> bool:
    return p.sinks is not None


def _is_partly_rotary(p: Problem) -> bool:
    return p.rotary is not None and p.rotary.dim is not None and not p.chunks


def _is_scaled(p: Problem) -> bool:
    return p.rotary is not None and p.rotary.scaling is not None and not p.chunks


def _is_yarn(p: Problem) -> bool:
    return _is_scaled(p) and p.rotary is not None and p.rotary.scaling is not None and (
        p.rotary.scaling.type == "yarn"
    )  # fmt: skip


def _is_gated(p: Problem) -> bool:
    return p.weights is not None and p.weights.w_g is not None


_READINGS: tuple[tuple[str, Pipeline, Callable[[Problem], bool]], ...] = (
    ("without the norm of the keys", NormLeftOut("k"), _has_norm),
    ("without the norm of the queries", NormLeftOut("q"), _has_norm),
    ("without the norms of queries and keys", NormLeftOut("qk"), _has_norm),
    ("with norms whose learned scale is not applied", NormScaleUnused(), _has_norm),
    ("with the norms over other channels (each head, or all heads)", NormOverOthers(), _has_norm),
    (
        "with the norms after rotary positions instead of before",
        NormAfterRotary(),
        lambda p: _has_norm(p) and p.rotary is not None and not p.chunks,
    ),
    ("without the soft-cap", CapLeftOut(), lambda p: p.softcap is not None),
    (
        "with the soft-cap after the mask, so that hidden keys keep a weight",
        CapAfterMask(),
        lambda p: p.softcap is not None,
    ),
    ("without the sinks", OtherSinks(False), _has_sinks),
    ("with one added to the denominator instead of exp(sink)", OtherSinks(True), _has_sinks),
    ("with exp(sink) that is not divided by exp(largest score)", SinksNotShifted(), _has_sinks),
    ("with the last channels rotated instead of the first", LastChannels(), _is_partly_rotary),
    (
        "with frequencies for the whole head width on part of the channels",
        ChangedRotary(_of_whole_width),
        _is_partly_rotary,
    ),
    ("without the scaling of rotary frequencies", ChangedRotary(_without_scaling), _is_scaled),
    ("without the attention factor of YaRN", ChangedRotary(_without_magnitude), _is_yarn),
    ("without the gate", OtherGate(False), _is_gated),
    ("with a gate without a sigmoid", OtherGate(True), _is_gated),
)


def variants() -> list[Variant]:
    """All variants of this family."""
    return [
        Variant(
            fault="",
            key=f"option: {what}",
            says=f"the output equals the formula {what}",
            pipeline=pipeline,
            applies=applies,
        )
        for what, pipeline, applies in _READINGS
    ]
