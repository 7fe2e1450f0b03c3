"""Hook points of a head: modules that return their input, so that forward hooks can read it.

A head has one hook point per step. While any hook is registered on a head of a layer, the layer
computes step by step in every form, also in the fused one, whose kernel keeps no steps.
"""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from manyheads.core.errors import ShapeError

Point = Literal["q", "k", "v", "scores", "weights", "message", "gate"]
POINTS: tuple[Point, ...] = get_args(Point)
At = Callable[[Point, Tensor], Tensor]
"""Receives one step of a head and returns the value to use in its place."""


class HookPoint(nn.Module):
    """Return the input; the result of a forward hook replaces it."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x


class Hookable(nn.Module):
    """A head with a hook point per step: `hook_q`, ..., `hook_message`, `hook_gate`."""

    hook_q: HookPoint
    """Queries, (B, T, d), after a norm and rotary positions."""
    hook_k: HookPoint
    """Keys, (B, S, d), after a norm and rotary positions, cached keys included."""
    hook_v: HookPoint
    """Values, (B, S, v), cached values included."""
    hook_scores: HookPoint
    """q·k times the scale, before any cap and mask, (B, T, S)."""
    hook_weights: HookPoint
    """Attention weights before dropout, (B, T, S)."""
    hook_message: HookPoint
    """The head's output before a gate and the output projection, (B, T, v)."""
    hook_gate: HookPoint
    """What a layer with a gate multiplies the head's output by, (B, T, v)."""

    def __init__(self) -> None:
        super().__init__()
        for name in POINTS:
            setattr(self, f"hook_{name}", HookPoint())

    def at(self, name: Point, x: Tensor) -> Tensor:
        """Pass a step through its hook point.

        Args:
            name: which step.
            x: its value in this head.

        Raises:
            ShapeError: a hook returned something of another shape, dtype or device.
        """
        return like_given(f"hook_{name}", x, getattr(self, f"hook_{name}")(x))

    def is_hooked_at(self, name: Point) -> bool:
        """Whether a hook is registered at this step; those of the head itself see its message."""
        return has_hooks(getattr(self, f"hook_{name}")) or (name == "message" and has_hooks(self))


def like_given(name: str, x: Tensor, returned: object) -> Tensor:
    """What the hooks returned, which must be a tensor like the one they were given.

    Args:
        name: of the hook point.
        x: what the hooks were given.
        returned: what they returned.

    Raises:
        ShapeError: something of another shape, dtype or device.
    """
    if not isinstance(returned, Tensor):
        kind = type(returned).__name__
        raise ShapeError(f"{name}: a hook returned {kind}, expected a tensor or None")
    have, want = ((tuple(t.shape), t.dtype, t.device) for t in (returned, x))
    if have != want:
        raise ShapeError(
            f"{name}: a hook returned a tensor of shape {have[0]}, {have[1]} on {have[2]}, "
            f"expected {want[0]}, {want[1]} on {want[2]}: return a tensor like the given one"
        )
    return returned


def has_hooks(module: nn.Module) -> bool:
    """Whether a forward or backward hook is registered on this module."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, kind) for kind in kinds)


def at_each_head(ats: Sequence[At] | None, name: Point, x: Tensor) -> Tensor:
    """Pass a step of all heads, (B, H, ...), through the hook points of each.

    Args:
        ats: one per query head, or None where no hook is registered.
        name: which step.
        x: its values, heads along the second axis.
    """
    if ats is None:
        return x
    return torch.stack([at(name, x[:, h]) for h, at in enumerate(ats)], dim=1)
