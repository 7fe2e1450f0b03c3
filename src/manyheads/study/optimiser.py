"""AdamW on one flat tensor, and the learning rate of each step."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.core.errors import StudyError
from manyheads.study.plan import Protocol


def learning_rate_at(step: int, steps: int, protocol: Protocol, peak: float) -> float:
    """The learning rate of a step.

    Args:
        step: counted from 0.
        steps: number of steps of the run.
        protocol: gives warm-up and decay.
        peak: the highest rate.

    Returns:
        a rate that rises linearly over the warm-up, then stays constant or falls linearly to 0 one
        step after the last.
    """
    warmup = protocol.warmup_steps
    if step < warmup:
        return peak * (step + 1) / warmup
    if protocol.decay == "linear":
        return peak * (steps - step) / (steps - warmup)
    return peak


class DivergedError(StudyError):
    """A loss or a gradient that is not a finite number."""


class FlatAdamW:
    """torch's fused AdamW on a flat tensor, with gradient clipping before it.

    Args:
        flat: (P,), changed in place by every step.
        weight_decay: decoupled decay, multiplied by the learning rate.
        eps: added to the root of the second moment.
        betas: decay of the first and of the second moment.
        clip: maximum norm of the gradient; infinity for no limit.

    Source: Loshchilov and Hutter 2019, arXiv:1711.05101.
    """

    def __init__(
        self,
        flat: Float[Tensor, " P"],
        *,
        weight_decay: float,
        eps: float = 1e-8,
        betas: tuple[float, float] = (0.9, 0.999),
        clip: float = 1.0,
    ) -> None:
        self._parameter = torch.nn.Parameter(flat, requires_grad=True)
        self._clip = clip
        self._adamw = torch.optim.AdamW(
            [self._parameter], lr=0.0, betas=betas, eps=eps, weight_decay=weight_decay, fused=True
        )

    def step(self, grad: Float[Tensor, " P"], lr: float) -> float:
        """Take one step.

        Args:
            grad: (P,); scaled in place where it is clipped.
            lr: learning rate.

        Returns:
            the gradient's norm before clipping.

        Raises:
            DivergedError: the norm is not finite; nothing is changed then.
        """
        norm = float(torch.linalg.vector_norm(grad))
        if not math.isfinite(norm):
            raise DivergedError(
                f"gradient norm ({norm}) is not a finite number: lower learning_rate, and resume "
                "from the last state"
            )
        if norm > self._clip:
            grad.mul_(self._clip / (norm + 1e-6))  # as torch.nn.utils.clip_grad_norm_
        self._parameter.grad = grad
        self._adamw.param_groups[0]["lr"] = lr
        self._adamw.step()
        self._parameter.grad = None
        return norm

    def state(self) -> dict[str, Tensor]:
        """Copies of the moments (P,) and the number of steps; empty before the first step."""
        return {name: value.clone() for name, value in self._state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load a result of `state`.

        Raises:
            StudyError: names or sizes differ.
        """
        if not state:
            return
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        expected = {"step": (), **dict.fromkeys(("exp_avg", "exp_avg_sq"), self._shape)}
        if shapes != expected:
            raise StudyError(f"optimiser state ({shapes}) must be {expected}: restart the run")
        self._adamw.state[self._parameter] = {name: value.clone() for name, value in state.items()}

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self._parameter.shape)

    def _state(self) -> dict[str, Tensor]:
        held: dict[str, Tensor] = self._adamw.state.get(self._parameter, {})
        return held
