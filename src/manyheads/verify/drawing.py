"""Weights that are drawn anew for a subject, so that faults become visible in the scores."""

import math

import torch
from torch import Tensor, nn

from manyheads.verify.specs import ParamSpec, Spec

_SPREAD = 1.2
_BIAS_SPREAD = 0.5


def drawn_arguments(params: ParamSpec, spec: Spec, seed: int) -> dict[str, Tensor]:
    """Weights and biases in float64 for a subject that takes them as arguments, by keyword.

    Args:
        params: the names of the arguments.
        spec: the declared sizes.
        seed: of the numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = {
        "q": spec.heads * spec.d,
        "k": spec.kv_heads * spec.d,
        "v": spec.kv_heads * spec.dv,
        "o": spec.width,
    }
    columns = {
        "q": spec.width,
        "k": spec.kdim or spec.width,
        "v": spec.vdim or spec.kdim or spec.width,
        "o": spec.heads * spec.dv,
    }
    drawn = {}
    for kind, name in params.names.items():
        weight = _normal(torch.Size((rows[kind], columns[kind])), generator)
        drawn[name] = weight * _SPREAD / columns[kind] ** 0.5
    for kind, name in params.biases.items():
        drawn[name] = _normal(torch.Size((rows[kind],)), generator) * _BIAS_SPREAD
    return drawn


def _normal(shape: torch.Size, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def randomise(module: nn.Module, seed: int) -> None:
    """Draw weights that show faults: scores of deviation about 1.5, biases that are not zero.

    Scalars and one-axis weights that are no biases (of norms, gates) are left as they are.

    Args:
        module: is changed in place.
        seed: of the numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    seen: set[int] = set()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if id(parameter) in seen or not parameter.is_floating_point():
                continue
            seen.add(id(parameter))
            if parameter.dim() >= 2:
                owner = module.get_submodule(name.rpartition(".")[0])
                drawn = _normal(parameter.shape, generator)
                parameter.copy_(drawn * _SPREAD / _fan_in(owner, parameter) ** 0.5)
            elif parameter.dim() == 1 and _is_bias(name, parameter):
                parameter.copy_(_normal(parameter.shape, generator) * _BIAS_SPREAD)


def _fan_in(owner: nn.Module, parameter: Tensor) -> float:
    if isinstance(owner, nn.Linear | nn.Conv1d | nn.MultiheadAttention):
        return float(parameter.shape[1])
    if isinstance(owner, nn.Embedding):
        return 1.0
    narrow, wide = sorted(parameter.shape[-2:])
    return float(narrow) if wide % narrow == 0 else math.sqrt(narrow * wide)


def _is_bias(name: str, parameter: Tensor) -> bool:
    last = name.rpartition(".")[2]
    return (
        "bias" in last
        or last.startswith("b_")
        or last in ("bq", "bk", "bv", "bo")
        or bool((parameter == 0).all())
    )
