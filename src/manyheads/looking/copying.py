"""A private copy of a model to look at, so that the model itself is never touched.

The copy has its own modules, configuration, buffers and modes, and shares the parameters. So the
implementation, training mode, hooks and buffers of the model stay as they are, whatever happens in
a forward pass, and two threads that look at one model do not meet.
"""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.core.text import quoted

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
)


def private_copy(model: nn.Module) -> nn.Module:
    """Copy a model in evaluation mode; parameters and the callables of hooks are shared.

    Raises:
        LookError: an attribute of the model cannot be copied.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in module._parameters.values():
            if value is not None:
                memo[id(value)] = value
        for value in vars(module).values():
            if isinstance(value, Tensor):
                memo[id(value)] = value
        for hooks in (getattr(module, name, {}) for name in HOOKS):
            memo |= {id(hook): hook for hook in hooks.values()}
    buffers = {id(buffer) for buffer in model.buffers()}
    memo = {key: value for key, value in memo.items() if key not in buffers}
    try:
        twin = copy.deepcopy(model, memo)
    except Exception as error:
        raise LookError(
            f"model ({type(model).__name__}) cannot be copied ({quoted(str(error))}): remove the "
            "attribute that torch cannot copy"
        ) from error
    return twin.eval()


def configs_of(model: nn.Module) -> list[Any]:
    """All configuration objects of transformers in a model, each once."""
    found: dict[int, Any] = {}
    for module in model.modules():
        _add_config(found, getattr(module, "config", None))
    return list(found.values())


def _add_config(found: dict[int, Any], config: Any) -> None:  # noqa: ANN401 - any attribute
    if (
        config is None
        or id(config) in found
        or not hasattr(config, "_attn_implementation_internal")
    ):
        return
    found[id(config)] = config
    for name in getattr(config, "sub_configs", {}):
        _add_config(found, getattr(config, name, None))


def set_implementation(model: nn.Module, name: str) -> None:
    """Choose the attention implementation of a private copy, in all its configurations."""
    for config in configs_of(model):
        config._attn_implementation_internal = name


def found_implementation(model: nn.Module) -> str | None:
    """The attention implementation of a model, None if it has no such setting."""
    names = [config._attn_implementation_internal for config in configs_of(model)]
    return names[0] if names else None


def use_eager_experts(model: nn.Module) -> None:
    """Let experts run eager in a private copy in float64, which their kernels refuse."""
    if next((p.dtype for p in model.parameters()), None) != torch.float64:
        return
    for config in configs_of(model):
        if hasattr(config, "_experts_implementation_internal"):
            config._experts_implementation_internal = "eager"


@contextmanager
def kept_chance(model: nn.Module) -> Iterator[None]:
    """Leave the generators of torch, NumPy and Python as they were."""
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    state, numbers = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(state)
        np.random.set_state(numbers)


def private_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs, with a copy of everything that is no tensor, such as a cache."""
    return {
        name: value if isinstance(value, Tensor) else copy.deepcopy(value)
        for name, value in inputs.items()
    }
