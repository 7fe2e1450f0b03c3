"""A model for training: all parameters in one flat tensor, all gradients in another.

So the optimiser, the gradient norm, a checkpoint and the exchange between processes are one
operation each.
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.core.errors import ConfigError
from manyheads.models import build_model
from manyheads.models.config import PAD_ID, ModelConfig
from manyheads.models.training_step import Candidates, Numbers, Workspace, attention_step, mlp_step

_WORDS = "token_embedding.weight"


@dataclass(frozen=True, kw_only=True)
class Trainable:
    """A model and its gradients; made by `create`."""

    config: ModelConfig
    """Kind and sizes."""
    model: nn.Module
    """The model; its parameters are views of `flat`."""
    flat: Float[Tensor, " P"]
    """All parameters (P,), in the order of `model.named_parameters()`."""
    grad: Float[Tensor, " P"]
    """The gradients (P,) of `flat`."""
    _space: Workspace = field(default_factory=Workspace)

    @classmethod
    def create(
        cls,
        config: ModelConfig,
        *,
        seed: int = 11,
        embedding_scale: float = 1.0,
        output_bias: Float[Tensor, " V"] | None = None,
        is_linear: bool = False,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "Trainable":
        """Build a model from a seed; layers of equal shape get equal initial values.

        The embedding of padding is zero and stays zero.

        Args:
            config: kind and sizes.
            seed: random seed of the initial values; torch's global generator does not change.
            embedding_scale: factor of the initial embeddings, which torch draws from N(0, 1).
            output_bias: (V,), initial value of the vocabulary bias; torch's default unless given.
            is_linear: W_Q, W_K and W_V start as `nn.Linear` does, not as `nn.MultiheadAttention`.
            device: device of the parameters.
            dtype: float32 or float64.

        Raises:
            ConfigError: output_bias has another length.
        """
        with torch.random.fork_rng(devices=[]):
            model = _built(config, seed, dtype, is_linear)
        with torch.no_grad():
            model.get_parameter(_WORDS)[PAD_ID] = 0
            for name, parameter in model.named_parameters():
                if name.endswith("embedding.weight"):
                    parameter.mul_(embedding_scale)
            if output_bias is not None:
                _set_bias(model, output_bias)
        flat = torch.cat([p.detach().flatten() for p in model.parameters()]).to(device)
        for parameter, part in zip(model.parameters(), _parts(flat, model), strict=True):
            parameter.data = part
        return cls(config=config, model=model, flat=flat, grad=torch.zeros_like(flat))

    def parts(self, flat: Float[Tensor, " P"]) -> dict[str, Tensor]:
        """A tensor like `flat` or `grad` (P,) as views, by the names of the model's parameters."""
        names = [name for name, _ in self.model.named_parameters()]
        return dict(zip(names, _parts(flat, self.model), strict=True))

    def accumulate(
        self,
        tokens: Int64[Tensor, "B S"],
        targets: Int64[Tensor, "B n"],
        candidates: Candidates | None = None,
    ) -> Float[Tensor, ""]:
        """Add the gradient of the summed loss to `grad`.

        Args:
            tokens: (B, S), S = context + n - 1; padding is 0.
            targets: (B, n); 0 = none.
            candidates: the words to score; all unless given.

        Returns:
            the sum of the losses of all targets, in nats.
        """
        step = mlp_step if self.config.num_heads is None else attention_step
        with torch.no_grad():
            params, grads = self.parts(self.flat), self.parts(self.grad)
            numbers = Numbers(params=params, grads=grads, space=self._space, candidates=candidates)
            loss = step(self.config, numbers, tokens, targets)
            grads[_WORDS][PAD_ID] = 0
            return loss

    def losses(
        self, tokens: Int64[Tensor, "B T"], targets: Int64[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        """The loss (B,) of each target (B,) after its window (B, T), in nats; no gradient."""
        with torch.no_grad():
            return F.cross_entropy(self.model(tokens), targets, reduction="none")


def _parts(flat: Tensor, model: nn.Module) -> list[Tensor]:
    shapes = [parameter.shape for parameter in model.parameters()]
    pieces = flat.split([shape.numel() for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _built(config: ModelConfig, seed: int, dtype: torch.dtype, is_linear: bool) -> nn.Module:
    """Each layer has its own random seed, so its values do not depend on other layers' sizes."""
    torch.manual_seed(seed)
    model = build_model(config)
    for index, name in enumerate(
        ("token_embedding", "position_embedding", "attention", "hidden", "output")
    ):
        layer = getattr(model, name, None)
        if layer is not None:
            torch.manual_seed((seed << 8) + index)
            layer.reset_parameters()
    if is_linear and config.num_heads is not None:
        torch.manual_seed((seed << 8) + 2)
        stacked = model.get_parameter("attention.in_proj_weight")
        nn.init.kaiming_uniform_(stacked, a=math.sqrt(5))  # as nn.Linear.reset_parameters
    if config.pattern == "uniform":
        with torch.no_grad():
            model.query_rows.zero_()  # type: ignore[operator]  # an attention model has them
    return model.to(dtype)


def _set_bias(model: nn.Module, bias: Tensor) -> None:
    held = model.get_parameter("output.bias")
    if bias.shape != held.shape:
        raise ConfigError(
            f"output_bias has shape {tuple(bias.shape)}, expected {tuple(held.shape)}: "
            "give one number per word"
        )
    held.copy_(bias)
