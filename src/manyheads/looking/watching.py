"""Watching a model compute: its attention calls, in the order in which they happen.

`Watch` is active during one forward pass. It sees calls through the interface of transformers, and
otherwise the softmax over keys, the product after it and torch's fused attention. It may change
the message of a call, and it follows each message to its matrix (see `following`).
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from manyheads.looking import operations as ops
from manyheads.looking.following import Follower, Projection
from manyheads.looking.interface import LISTENER, EagerFunction

Edit = Callable[["Site", Tensor], Tensor]
"""Takes a call and its message (B, T, H, v), and returns the message to go on with."""
OnOperation = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any], Any], None]
"""Takes an operation, its arguments and its result."""
_STAYS_WEIGHTS = ops.KEEPS | ops.MULTIPLIES | {"nan_to_num", "masked_fill", "contiguous", "clone"}
_RESHAPES = frozenset({"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"})


@dataclass(kw_only=True)
class Site:
    """One attention call."""

    index: int
    """Its number in the order of calls, from 0."""
    module: nn.Module | None
    """The module that computes it."""
    read_by: Literal["interface", "functions"]
    """How it is read."""
    num_heads: int
    num_groups: int
    shape: tuple[int, int, int]
    """B, T and S."""
    weights: Tensor | None = None
    """(B, H, T, S), if they are kept."""
    message: Tensor | None = None
    """(B, T, H, v), if it is kept."""
    values: Tensor | None = None
    """(B, G, S, v), if they are kept and the interface gives them."""
    queries: Tensor | None = None
    """(B, H, T, d), as they are multiplied with the keys; kept like the values."""
    keys: Tensor | None = None
    """(B, G, S, d), likewise."""
    mask: Tensor | None = None
    """Additive, broadcasts to (B, H, T, S); None where every key is allowed or it is not known."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the model passes: scale, soft-cap, window, whether sinks."""
    follower: Follower | None = None
    fused_gap: float = 0.0
    """Where torch's fused kernel computed: its output against weights times values, a fraction."""

    @property
    def projection(self) -> Projection | None:
        """The matrix after the call, where one was found."""
        return self.follower.projection if self.follower else None


@dataclass(frozen=True, kw_only=True)
class _Weights:
    """Weights between the softmax and the product."""

    tensor: Tensor
    kept: Tensor
    """As the softmax gave them, or their view."""
    batch: int | None
    """B, where four axes have shown it."""


class Watch(TorchFunctionMode):
    """Watches the attention calls of one forward pass in this thread."""

    def __init__(
        self,
        *,
        batch: int,
        keep_weights: bool = True,
        keep_messages: bool = False,
        keep_values: bool = False,
        follow: bool = False,
        edit: Edit | None = None,
        on_site: Callable[[Site], None] | None = None,
        on_operation: "OnOperation | None" = None,
    ) -> None:
        super().__init__()
        self.sites: list[Site] = []
        self.batch = batch
        self._keep_weights, self._keep_messages = keep_weights, keep_messages
        self._keep_values = keep_values
        self._follow, self._edit, self._on_site = follow, edit, on_site
        self._on_operation = on_operation
        self._is_inside = False
        self._weights: dict[int, _Weights] = {}
        self._follower: Follower | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "Watch":
        token = LISTENER.set(self)
        self._stack.callback(LISTENER.reset, token)
        super().__enter__()  # type: ignore[no-untyped-call]  # torch does not type it
        return self

    def __exit__(self, *failure: Any) -> None:  # noqa: ANN401 - an exception's parts
        super().__exit__(*failure)  # type: ignore[no-untyped-call]  # as above
        self._stack.close()
        self._settle()

    def _settle(self) -> None:
        """Forget the tensors on the way from the last call."""
        self._weights.clear()
        if self._follower is not None:
            self._follower.finish()
            self._follower = None

    # The interface of transformers.

    def attend(
        self, eager: EagerFunction, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Tensor, Tensor | None]:
        """Let the model's eager function compute, and note what it gives."""
        self._is_inside = True
        try:
            out, weights = eager(module, *args, **kwargs)
        finally:
            self._is_inside = False
        if weights is None or weights.ndim != 4:
            return out, weights
        query, key = args[0], args[1]
        B, H, T, S = weights.shape
        site = Site(
            index=len(self.sites),
            module=module,
            read_by="interface",
            num_heads=H,
            num_groups=key.shape[1] if key.ndim == 4 and H % key.shape[1] == 0 else H,
            shape=(B, T, S),
            mask=_tensor_or_none(args[3] if len(args) > 3 else kwargs.get("attention_mask")),
            options=_options(kwargs, query),
            values=args[2] if self._keep_values else None,
            queries=query if self._keep_values else None,
            keys=key if self._keep_values else None,
        )
        return self._note(
            site, weights, out, _as_is if out.shape[:3] == (B, T, H) else None
        ), weights

    def mask(self, eager: Callable[..., Any], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Build the mask as the eager implementation has it."""
        return eager(**kwargs)

    # The functions of torch.

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        kwargs = kwargs or {}
        if self._is_inside:
            return func(*args, **kwargs)
        result = self._watched(func, args, kwargs)
        if self._on_operation is not None:
            self._on_operation(func, args, kwargs, result)
        return result

    def _watched(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        name = ops.name_of(func)
        if name in ("softmax", "softmax_"):
            return self._softmax(func, args, kwargs)
        if name == "scaled_dot_product_attention":
            return self._fused(func, args, kwargs)
        if self._weights:
            product = self._product(func, name, args, kwargs)
            if product is not None:
                return product
        follower = self._follower
        if follower is None or not follower.knows(args, kwargs):
            return func(*args, **kwargs)
        old = follower.before(name, args)
        result = func(*args, **kwargs)
        follower.after(func, args, kwargs, result, old)
        if follower.is_done:
            self._follower = None
        return result

    def _softmax(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Tensor:
        result: Tensor = func(*args, **kwargs)
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        is_last = isinstance(axis, int) and axis in (-1, result.ndim - 1)
        if is_last and result.ndim in (3, 4) and result.is_floating_point():
            batch = result.shape[0] if result.ndim == 4 else None
            self._weights = {id(result): _Weights(tensor=result, kept=result, batch=batch)}
        return result

    def _product(
        self,
        func: Callable[..., Any],
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401 - whatever the function returns, None if it is no product
        """Follow weights to the product with the values, and compute that."""
        mine = [w for t in ops.tensors_in(args, kwargs) if (w := self._weights.get(id(t)))]
        if not mine:
            return None
        weights = mine[0]
        if name in ops.MATRIX_PRODUCTS:
            return self._message(func, name, args, kwargs, weights)
        result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            self._carry(name, weights, result)
        return result

    def _carry(self, name: str, weights: _Weights, result: Tensor) -> None:
        """Keep following weights through operations that keep their axes."""
        same = name in _STAYS_WEIGHTS and result.shape == weights.tensor.shape
        reshaped = name in _RESHAPES and result.shape[-2:] == weights.tensor.shape[-2:]
        if (same or reshaped) and result.ndim in (3, 4):
            batch = weights.batch if result.ndim == 3 else result.shape[0]
            kept = weights.kept.reshape(result.shape)
            self._weights[id(result)] = _Weights(tensor=result, kept=kept, batch=batch)

    def _message(
        self,
        func: Callable[..., Any],
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        weights: _Weights,
    ) -> Tensor:
        result: Tensor = func(*args, **kwargs)
        arranged = _arrangement(name, args, weights, result, self.batch)
        if arranged is None:
            return result
        pattern, arrange = arranged
        B, H, T, S = pattern.shape
        site = Site(
            index=len(self.sites),
            module=_calling_module(),
            read_by="functions",
            num_heads=H,
            num_groups=H,
            shape=(B, T, S),
        )
        return self._note(site, pattern, result, arrange)

    def _fused(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Tensor:
        """Torch's fused attention: its weights are its output for the identity as values."""
        result: Tensor = func(*args, **kwargs)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = dict(zip(names, args, strict=False)) | dict(kwargs)
        query, key, value = given["query"], given["key"], given["value"]
        if query.ndim != 4:
            return result
        B, H, T, _ = query.shape
        S, G = key.shape[2], key.shape[1]
        one = torch.eye(S, dtype=value.dtype, device=value.device).expand(*value.shape[:2], S, S)
        weights = func(**(given | {"value": one}))
        rebuilt = weights @ value.repeat_interleave(H // G, dim=1)
        site = Site(
            index=len(self.sites),
            module=_calling_module(),
            read_by="functions",
            num_heads=H,
            num_groups=G,
            shape=(B, T, S),
            fused_gap=_relative(rebuilt, result),
        )
        return self._note(site, weights, result, _heads_first)

    def _note(
        self, site: Site, weights: Tensor, native: Tensor, arrange: "_Arrange | None"
    ) -> Tensor:
        """Note a call; returns its message, changed if an edit asks for it."""
        self._settle()
        self.sites.append(site)
        if self._keep_weights:
            site.weights = weights
        with torch._C.DisableTorchFunction():
            if arrange is not None:
                native = self._edited(site, native, arrange)
            if arrange is not None and self._follow:
                B, T, _ = site.shape
                self._follower = site.follower = Follower(num_heads=site.num_heads, shape=(B, T))
                self._follower.start(native, lambda tensor: arrange(tensor, False))
            if self._on_site is not None:
                self._on_site(site)
        return native

    def _edited(self, site: Site, native: Tensor, arrange: "_Arrange") -> Tensor:
        """Keep the message, and change it if an edit asks for it."""
        if self._edit is None and not self._keep_messages:
            return native
        message = arrange(native, True)
        site.message = message if self._keep_messages else None
        if self._edit is None:
            return native
        changed = self._edit(site, message)
        return native if changed is message else arrange(changed, False).contiguous()


_Arrange = Callable[[Tensor, bool], Tensor]
"""Turns the model's arrangement into (B, T, H, v) if the flag is set, else back."""


def _as_is(tensor: Tensor, is_native: bool) -> Tensor:
    return tensor


def _heads_first(tensor: Tensor, is_native: bool) -> Tensor:
    return tensor.transpose(1, 2)


def _tensor_or_none(value: object) -> Tensor | None:
    return value if isinstance(value, Tensor) else None


def _options(kwargs: Mapping[str, Any], query: Tensor) -> dict[str, Any]:
    names = {"scaling": "scale", "softcap": "softcap", "sliding_window": "window"}
    found = {ours: kwargs[name] for name, ours in names.items() if kwargs.get(name) is not None}
    sinks = any(kwargs.get(name) is not None for name in ("s_aux", "sinks"))
    return found | ({"sinks": True} if sinks else {})


def _arrangement(
    name: str, args: Sequence[Any], weights: _Weights, result: Tensor, batch: int
) -> tuple[Tensor, _Arrange] | None:
    """Weights as (B, H, T, S) and the arrangement of the message, None if it is not attention."""
    if name == "einsum":
        return _from_equation(args, weights, result)
    first = args[1] if name == "baddbmm" else args[0]
    if first is not weights.tensor or result.ndim != weights.tensor.ndim:
        return None
    if result.ndim == 4:
        return weights.kept, _heads_first
    N, T = weights.tensor.shape[:2]
    B = weights.batch or batch
    if N % B:
        return None
    H = N // B

    def arrange(tensor: Tensor, is_native: bool) -> Tensor:
        if is_native:
            heads: Tensor = tensor.unflatten(0, (B, H))
            return heads.transpose(1, 2)
        return tensor.transpose(1, 2).flatten(0, 1)

    return weights.kept.unflatten(0, (B, H)), arrange


def _from_equation(
    args: Sequence[Any], weights: _Weights, result: Tensor
) -> tuple[Tensor, _Arrange] | None:
    """The axes of a message from the letters of an einsum."""
    equation = args[0]
    if not isinstance(equation, str) or weights.tensor.ndim != 4 or "." in equation:
        return None
    left, _, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    operands = args[1] if isinstance(args[1], list | tuple) else args[1:]
    mine = [term for term, t in zip(terms, operands, strict=True) if t is weights.tensor]
    if len(terms) != 2 or len(mine) != 1 or len(out) != 4:
        return None
    summed = [letter for letter in mine[0] if letter not in out]
    width = [letter for letter in out if letter not in mine[0]]
    if len(summed) != 1 or len(width) != 1 or mine[0][-1] != summed[0]:
        return None
    b, h, t = list(mine[0])[:3]
    order = [out.index(letter) for letter in (b, t, h, width[0])]
    inverse = [order.index(i) for i in range(4)]

    def arrange(tensor: Tensor, is_native: bool) -> Tensor:
        return tensor.permute(order if is_native else inverse)

    return weights.kept, arrange


def _calling_module() -> nn.Module | None:
    """The innermost module whose method is running, from the stack of calls."""
    frame = sys._getframe(2)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            return owner
        frame = frame.f_back  # type: ignore[assignment]  # the loop ends at the outermost call
    return None


def _relative(a: Tensor, b: Tensor) -> float:
    top = float(b.abs().max())
    return float((a - b).abs().max()) / (top or 1.0)
