"""One attention head as a module: with parameters of its own, or as a view of a layer's head."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.attention.hooks import POINTS, Hookable, Point, like_given
from manyheads.attention.loop import head_steps
from manyheads.attention.parameters import input_heads
from manyheads.core.config import AttentionConfig
from manyheads.core.errors import ConfigError
from manyheads.core.shapes import check_input


class SingleHead(Hookable):
    """One attention head with its own projections: it reads the full width and returns its message.

    Hooks read or replace each step: `head.hook_weights.register_forward_hook(...)`; the points are
    `hook_q`, `hook_k`, `hook_v`, `hook_scores`, `hook_weights` and `hook_message`, and in layers
    with a gate `hook_gate`.

    Args:
        embed_dim: D, the width of the query input.
        head_dim: d, the width of queries and keys.
        v_head_dim: width of the values, d unless given.
        kdim: width of the key input, D unless given.
        vdim: width of the value input, D unless given.
        bias: whether queries, keys and values have a bias.
        scale: what each q·k is multiplied by, 1/sqrt(d) unless given.

    Raises:
        ConfigError: a size or scale that a head cannot have.
    """

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    b_q: Tensor | None
    b_k: Tensor | None
    b_v: Tensor | None
    scale: float

    def __init__(
        self,
        embed_dim: int,
        head_dim: int,
        *,
        v_head_dim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        config = AttentionConfig.of(
            embed_dim=embed_dim,
            num_heads=1,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
            kdim=kdim,
            vdim=vdim,
            bias=bias,
            scale=scale,
        )
        self.scale = config.scale
        widths = {
            "q": (config.embed_dim, config.head_dim),
            "k": (config.kdim, config.head_dim),
            "v": (config.vdim, config.v_head_dim),
        }
        for name, (rows, columns) in widths.items():
            weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, columns)))
            self.register_parameter(f"w_{name}", weight)
            row = nn.Parameter(torch.zeros(columns)) if bias else None
            self.register_parameter(f"b_{name}", row)

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S K"] | None = None,
        value: Float[Tensor, "B S V"] | None = None,
        *,
        allowed: Bool[Tensor, "#B T S"] | None = None,
        bias: Float[Tensor, "#B T S"] | None = None,
    ) -> Float[Tensor, "B T v"]:
        """The head's message to every query, (B, T, v).

        Args:
            query: (B, T, D).
            key: (B, S, K); None means query.
            value: (B, S, V); None means key.
            allowed: (B, T, S) or (1, T, S), True = may attend; None allows all.
            bias: (B, T, S) or (1, T, S), added to the scores; None adds nothing.

        Raises:
            ShapeError: an input of another rank, width or dtype, or without positions.
        """
        key = query if key is None else key
        value = key if value is None else value
        weights, biases = (self.w_q, self.w_k, self.w_v), (self.b_q, self.b_k, self.b_v)
        projected = []
        for name, x, weight, row in zip(
            ("query", "key", "value"), (query, key, value), weights, biases, strict=True
        ):
            check_input(name, x, weight.shape[0])
            projected.append(x @ weight if row is None else x @ weight + row)
        q, k, v = (self.at(name, x) for name, x in zip(POINTS, projected, strict=False))
        steps = head_steps(q, k, v, scale=self.scale, allowed=allowed, bias=bias, at=self.at)
        return steps.head_output


class LayerHead(SingleHead):
    """Head h of a layer: its weights are views of the layer's parameters, so gradients reach them.

    Called on its own it is a `SingleHead` that sees every key and knows no positions. A head of a
    layer with a norm, soft-cap, sinks or gate cannot be called on its own. In each call
    of the layer its hooks fire: those of its hook points, and forward hooks of the head itself,
    which get the layer's (query, key, value) and the head's message.

    Args:
        layer: a `MultiHeadAttention`.
        index: h, from 0.
    """

    def __init__(self, layer: nn.Module, index: int) -> None:
        super(SingleHead, self).__init__()  # the parameters are the layer's
        self.index = index
        object.__setattr__(self, "layer", layer)  # not a submodule: the layer contains the head

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as in nn.Module
        """The views w_q, w_k, w_v, b_q, b_k and b_v of the layer's parameters, and its scale."""
        kind, _, which = name.partition("_")
        layer = self.__dict__["layer"]
        if name == "scale":
            return layer.config.scale
        if kind not in ("w", "b") or which not in ("q", "k", "v"):
            return super().__getattr__(name)
        weights, biases = input_heads(layer, layer.config)
        whole = (weights if kind == "w" else biases)["qkv".index(which)]
        return None if whole is None else whole[self.index * len(whole) // layer.config.num_heads]

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S K"] | None = None,
        value: Float[Tensor, "B S V"] | None = None,
        *,
        allowed: Bool[Tensor, "#B T S"] | None = None,
        bias: Float[Tensor, "#B T S"] | None = None,
        message: Float[Tensor, "B T v"] | None = None,
    ) -> Float[Tensor, "B T v"]:
        """The head's message; arguments as in `SingleHead.forward`.

        Args:
            query: (B, T, D).
            key: (B, S, K); None means query.
            value: (B, S, V); None means key.
            allowed: (B, T, S) or (1, T, S), True = may attend; None allows all.
            bias: (B, T, S) or (1, T, S), added to the scores; None adds nothing.
            message: what the layer computed already, (B, T, v); it is returned.

        Raises:
            ConfigError: the layer has a norm, soft-cap, sinks or gate, which a head alone lacks.
        """
        if message is not None:
            return message
        if lacking := self.layer.config.variants:
            raise ConfigError(
                f"heads[{self.index}] (of a layer with {lacking[0]}) cannot be called on its own: "
                "call the layer, and read the head with its hook points"
            )
        return super().forward(query, key, value, allowed=allowed, bias=bias)

    def at_in_call(self, inputs: tuple[Tensor, Tensor, Tensor], name: Point, x: Tensor) -> Tensor:
        """Pass a step through its hook point, and the message through the head's own hooks.

        Args:
            inputs: the layer's query, key and value.
            name: which step.
            x: its value in this head.
        """
        x = self.at(name, x)
        if name != "message":
            return x
        return like_given(f"heads[{self.index}]", x, self(*inputs, message=x))

    def register_forward_pre_hook(self, *_: object, **__: object) -> NoReturn:
        """Refuse: the layer projects its inputs for all heads at once.

        Raises:
            ConfigError: always; the message names the hooks to use.
        """
        raise ConfigError(
            f"heads[{self.index}] (a view of a layer) takes no forward pre-hook: use hook_q, "
            "hook_k or hook_v of the head, or a pre-hook of the layer"
        )

    def register_full_backward_hook(self, *_: object, **__: object) -> NoReturn:
        """Refuse: the gradient of the layer's inputs does not belong to one head.

        Raises:
            ConfigError: always; the message names the hook to use.
        """
        raise ConfigError(
            f"heads[{self.index}] (a view of a layer) takes no full backward hook: use "
            "hook_message.register_full_backward_hook"
        )


class LayerHeads(nn.ModuleList):
    """The heads of a layer; type checkers know that each is a `LayerHead`."""

    if TYPE_CHECKING:

        def __getitem__(self, index: int) -> LayerHead: ...  # type: ignore[override]  # no slices

        def __iter__(self) -> Iterator[LayerHead]: ...
