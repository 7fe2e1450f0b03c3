"""Our attention function in the interface of transformers, and the mask function of the same name.

A model whose configuration names it calls it in place of its own implementation. It lets the
model's own eager function compute, so that soft-caps, sinks, biases and gates come out as the model
has them. Without the mask function of the same name, transformers would pass no mask.
"""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from torch import Tensor, nn

from manyheads.core.errors import LookError

NAME = "manyheads_look"
EagerFunction = Callable[..., tuple[Tensor, Tensor | None]]


class Listener(Protocol):
    """What listens to attention calls while a model runs."""

    def attend(
        self, eager: EagerFunction, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Tensor, Tensor | None]:
        """Compute one attention call."""
        ...

    def mask(self, eager: Callable[..., Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Build one mask."""
        ...


LISTENER: ContextVar[Listener | None] = ContextVar("manyheads_listener", default=None)


def register() -> None:
    """Register our functions with transformers; doing it again changes nothing."""
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, _mask)


def eager_function(module: nn.Module) -> EagerFunction:
    """The eager attention function of a module, from the file that defines its class.

    Raises:
        LookError: the file has none.
    """
    for kind in type(module).__mro__:
        found = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
        if found is not None:
            return found  # type: ignore[no-any-return]  # a function of transformers
    raise LookError(f"module ({type(module).__name__}) has no eager attention: it cannot be read")


def _attend(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
    eager, listener = eager_function(module), LISTENER.get()
    if listener is None:
        return eager(module, *args, **kwargs)
    return listener.attend(eager, module, args, kwargs)


def _mask(**kwargs: Any) -> Any:  # noqa: ANN401 - as transformers passes and expects it
    from transformers.masking_utils import eager_mask

    listener = LISTENER.get()
    return eager_mask(**kwargs) if listener is None else listener.mask(eager_mask, kwargs)
