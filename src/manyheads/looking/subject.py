"""A model that is looked at: its private copies, and one forward pass of each.

The probe is a copy whose attention is watched. The references are copies that nobody watches: one
as the model was found, and one with its own eager attention, which computes in the same order as
the probe does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.errors import LookError
from manyheads.core.text import one_line
from manyheads.layouts.torch_mha import from_torch
from manyheads.looking import interface
from manyheads.looking.copying import (
    found_implementation,
    kept_chance,
    private_copy,
    private_inputs,
    set_implementation,
    use_eager_experts,
)
from manyheads.looking.watching import Watch
from manyheads.models.config import PAD_ID
from manyheads.models.lm import AttentionLM


@dataclass(frozen=True, kw_only=True)
class Call:
    """The arguments of one forward pass."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """B, the length of the first tensor."""
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, Tensor) and value.ndim:
                return int(value.shape[0])
        return 1

    @property
    def ids(self) -> Tensor | None:
        """The token ids (B, T), where the first argument holds ids."""
        named = self.kwargs.get("input_ids", self.kwargs.get("tokens"))
        first = self.args[0] if self.args and named is None else named
        is_ids = isinstance(first, Tensor) and not first.is_floating_point() and first.ndim == 2
        return first if is_ids else None


class Subject:
    """A model under the lens: the probe, and references without it."""

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise LookError(f"model ({type(model).__name__}) must be an nn.Module: pass a model")
        self.model = model
        self.implementation = found_implementation(model)
        self._probe = _prepared(model)
        if self.implementation is not None:
            interface.register()
            set_implementation(self._probe, interface.NAME)
        self.paths = {id(part): name for name, part in self._probe.named_modules()}

    @property
    def probe(self) -> nn.Module:
        """The copy that is watched; it shares the model's parameters."""
        return self._probe

    @property
    def config(self) -> Any:  # noqa: ANN401 - a configuration of transformers, or None
        """The model's configuration, None for other modules."""
        return getattr(self.model, "config", None)

    @property
    def predicts_last(self) -> bool:
        """Whether the model predicts after its last token only, as the study's models do."""
        return isinstance(self.model, AttentionLM)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the model's first floating-point parameter."""
        kinds = (p.dtype for p in self.model.parameters() if p.is_floating_point())
        return next(kinds, torch.get_default_dtype())

    @property
    def is_eager(self) -> bool:
        """Whether the model already computes as the eager reference does."""
        own = any(isinstance(part, MultiHeadAttention) for part in self.model.modules())
        return self.implementation == "eager" or (self.implementation is None and not own)

    def watch(self, call: Call, **options: Any) -> tuple[Any, Watch]:  # noqa: ANN401 - of Watch
        """Run the probe once.

        Args:
            call: the arguments.
            options: of `Watch`.

        Returns:
            the model's output, and what was seen.

        Raises:
            LookError: the forward pass raised.
        """
        watch = Watch(batch=call.batch, **options)
        return _forward(self._probe, call, watch), watch

    def reference(self, call: Call, *, is_eager: bool) -> Any:  # noqa: ANN401 - a model's output
        """Run an unwatched copy once, as found or with the model's own eager attention."""
        twin = _prepared(self.model, exchange=False)
        if is_eager:
            _use_packed_form(twin)
            set_implementation(twin, "eager")
        return _forward(twin, call, None)

    def path_of(self, module: nn.Module | None) -> str:
        """The dotted name of a module of the probe."""
        return str(self.paths.get(id(module), ""))


def _forward(model: nn.Module, call: Call, watch: Watch | None) -> Any:  # noqa: ANN401 - output
    kwargs = private_inputs(dict(call.kwargs))
    with kept_chance(model), torch.no_grad():
        if watch is None:
            return called(model, call.args, kwargs)
        with watch:
            return called(model, call.args, kwargs)


def called(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The output of a forward pass.

    Raises:
        LookError: it raised, with the exception as the cause.
    """
    try:
        return model(*args, **kwargs)
    except Exception as error:  # whatever the code of a model raises
        raise LookError(
            f"inputs do not run through the model ({one_line(error)}): give those that it needs"
        ) from error


def _prepared(model: nn.Module, *, exchange: bool = True) -> nn.Module:
    """A private copy; `exchange` puts readable attention in the place of torch's fast path."""
    twin = private_copy(model)
    use_eager_experts(twin)
    if exchange:
        twin = _exchanged(twin)
        _use_packed_form(twin)
    return _LastRow(twin) if isinstance(twin, AttentionLM) else twin


def _use_packed_form(model: nn.Module) -> None:
    """Let our own layers of a private copy compute in steps that can be watched."""
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.form = "packed"


def _exchanged(model: nn.Module) -> nn.Module:
    """Replace each `nn.MultiheadAttention` by our drop-in layer with the same weights."""
    if type(model) is nn.MultiheadAttention:
        return from_torch(model, drop_in=True)
    for part in list(model.modules()):
        for name, child in part.named_children():
            if type(child) is nn.MultiheadAttention:
                setattr(part, name, from_torch(child, drop_in=True))
    return model


class _LastRow(nn.Module):
    """The study's language model: one query, the last token, as in each of its predictions."""

    def __init__(self, model: AttentionLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Tensor:
        """Logits (B, 1, V) after tokens (B, T); labels are there for the loss only."""
        x = self.model.rows(tokens)
        last, padding = x[:, -1:], tokens == PAD_ID
        message = self.model.attention(last, x, key_padding_mask=padding, is_causal=True)
        return self.model.predict(last + message)


def output_tensors(output: Any) -> Iterator[Tensor]:  # noqa: ANN401 - a model's output
    """The floating-point tensors of an output, without attention weights."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, Mapping):
        for name, value in output.items():
            if "attentions" not in str(name):
                yield from output_tensors(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from output_tensors(value)


def largest_gap(a: Any, b: Any) -> float:  # noqa: ANN401 - two outputs of one model
    """The largest absolute difference of two outputs; infinity where their shapes differ."""
    gap = 0.0
    for x, y in zip(output_tensors(a), output_tensors(b), strict=True):
        if x.shape != y.shape:
            return float("inf")
        if torch.equal(x, y):
            continue
        same = (x == y) | (x.isnan() & y.isnan())
        rest = (x.double() - y.double()).abs().masked_fill(same, 0.0)
        gap = max(gap, float(rest.nan_to_num(float("inf")).max()) if rest.numel() else 0.0)
    return gap


def logits_of(output: Any) -> Tensor:  # noqa: ANN401 - a model's output
    """The logits (B, T, V) of an output.

    Raises:
        LookError: the model gives none.
    """
    found = getattr(output, "logits", None)
    if found is None and isinstance(output, Tensor):
        found = output
    if found is None and isinstance(output, tuple) and output and isinstance(output[0], Tensor):
        found = output[0]
    if not isinstance(found, Tensor) or found.ndim != 3:
        raise LookError(
            f"model ({type(output).__name__}) gives no logits (B, T, V): use a model with a "
            "language modelling head"
        )
    return found
