"""MultiHeadAttention: the layer for users. It computes in the form that they choose."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_module_registration_hook

from manyheads.attention.cache import KVCache
from manyheads.attention.call import AttentionCall, Result, typed_by_arguments
from manyheads.attention.fused import fused_head_outputs
from manyheads.attention.hooks import POINTS, At, Point, at_each_head
from manyheads.attention.inputs import (
    check_flag,
    check_inputs,
    check_trace,
    masked_heads,
    visibility_of_call,
)
from manyheads.attention.loop import loop_steps, project_head_by_head
from manyheads.attention.norms import check_norm_is_given, normed_heads
from manyheads.attention.packed import packed_steps, packed_weights, weighted_values
from manyheads.attention.parameters import (
    copy_heads_into,
    heads_from_parameters,
    input_heads,
    parameter_dtype,
    projection_parts,
    register_parameters,
    reset_parameters,
)
from manyheads.attention.positions import rotate
from manyheads.attention.scoring import Scoring
from manyheads.attention.single_head import LayerHead, LayerHeads
from manyheads.attention.steps import AttentionSteps, ProjectedHeads, trace_from_steps
from manyheads.core.config import (
    FORMS,
    AttentionConfig,
    Form,
    LayerOptions,
    Positions,
    Rotary,
    TracedForm,
    Variants,
)
from manyheads.core.errors import ConfigError
from manyheads.core.masks import Visibility
from manyheads.core.shapes import merge_heads, repeat_kv, split_heads
from manyheads.core.trace import AttentionTrace
from manyheads.core.weights import HeadWeights


class MultiHeadAttention(nn.Module):
    """Multi-head attention in three forms that compute the same, with every intermediate by name.

    Parameters have the names and layout of `nn.MultiheadAttention`. Every form uses the same
    parameters, so `layer.form = "loop"` may be set at any time.

    Args:
        embed_dim: D, width of the query input and of the output.
        num_heads: H, number of query heads.
        num_kv_heads: G, number of key/value heads, H unless given; must divide H.
        head_dim: d, width of a query or key head, D / H unless given.
        v_head_dim: width of a value head, d unless given.
        kdim: width of the key input, D unless given.
        vdim: width of the value input, D unless given.
        bias: whether queries, keys and values have a bias.
        out_bias: whether the output projection has one; as `bias` unless given.
        dropout: fraction of attention weights dropped in training, from 0 to below 1.
        scale: factor of each q·k, 1/sqrt(d) unless given.
        window: number of keys that a query sees, its own and earlier ones; all unless given.
        positions: `Rotary(...)`, `LinearBias(...)` or None.
        form: "loop" (the reference), "packed" (plain tensor code) or "fused" (torch's kernel).
        device: as in `nn.Module`.
        dtype: as in `nn.Module`.
        **variants: `qk_norm=QKNorm(...)` normalises queries and keys before rotary positions.
            `softcap=c` makes scores c * tanh(scores / c) before the mask. `sinks=True` gives each
            head a learned score that takes part in the softmax without a value, zero at first,
            which adds one to the denominator. `gate="sigmoid"` multiplies head outputs by the
            sigmoid of a projection of the query input.

    Raises:
        ConfigError: a size, flag, device or dtype that a layer cannot have.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2; softcap and sinks as in
        `attention/scoring.py`; gate: Qiu et al. 2025, arXiv:2505.06708, position G1.
    """

    fits_torch = False
    """Whether it can replace an `nn.MultiheadAttention` inside torch's own modules."""
    in_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    out_proj: nn.Linear
    q_norm: nn.Module | None
    k_norm: nn.Module | None
    sinks: nn.Parameter | None
    gate_proj: nn.Linear | None
    _heads: LayerHeads | None = None

    def __init__(  # noqa: PLR0913 - mirrors nn.MultiheadAttention
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        v_head_dim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
        window: int | None = None,
        positions: Positions | None = None,
        form: Form = "fused",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **variants: Unpack[Variants],
    ) -> None:
        super().__init__()
        self.config = AttentionConfig.of(
            embed_dim=embed_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
            kdim=kdim,
            vdim=vdim,
            bias=bias,
            out_bias=out_bias,
            dropout=dropout,
            scale=scale,
            window=window,
            positions=positions,
            **variants,
        )
        self.form = form
        register_parameters(self, self.config, {"device": device, "dtype": dtype})
        self.reset_parameters()

    @classmethod
    def from_weights(
        cls, weights: HeadWeights, *, form: Form = "fused", **options: Unpack[LayerOptions]
    ) -> "MultiHeadAttention":
        """Build a layer that holds a copy of the given weights, bit for bit.

        If only some of queries, keys and values have a bias, the others get a bias of zeros.

        Args:
            weights: one matrix per head.
            form: as in the constructor.
            **options: `scale`, `dropout`, `window`, `positions`, `qk_norm` and `softcap`, as in the
                constructor.

        Raises:
            ConfigError: sizes or options that a layer cannot have, or weights of a norm of queries
                or keys without `qk_norm`.
        """
        check_norm_is_given(weights, options.get("qk_norm"))
        layer = cls(
            embed_dim=weights.embed_dim,
            num_heads=weights.num_heads,
            num_kv_heads=weights.num_kv_heads,
            head_dim=weights.head_dim,
            v_head_dim=weights.v_head_dim,
            kdim=weights.w_k.shape[1],
            vdim=weights.w_v.shape[1],
            bias=any(b is not None for b in (weights.b_q, weights.b_k, weights.b_v)),
            out_bias=weights.b_o is not None,
            sinks=weights.sinks is not None,
            gate=None if weights.w_g is None else "sigmoid",
            form=form,
            device=weights.w_q.device,
            dtype=weights.w_q.dtype,
            **options,
        )
        copy_heads_into(layer, layer.config, weights)
        return layer

    @property
    def form(self) -> Form:
        """Which form computes the output; may be set at any time."""
        return self._form

    @form.setter
    def form(self, form: Form) -> None:
        if form not in FORMS:
            known = ", ".join(f'"{name}"' for name in FORMS)
            raise ConfigError(f"form ({form!r}) is not known: use one of {known}")
        self._form: Form = form

    def reset_parameters(self) -> None:
        """Draw initial values as `nn.MultiheadAttention` does, from torch's global generator."""
        reset_parameters(self)

    def extra_repr(self) -> str:
        """The configuration, for printing."""
        settings = asdict(self.config) | {"form": self.form}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())

    def head_weights(self) -> HeadWeights:
        """The weights, one matrix per head: views of the parameters; gradients flow through."""
        return heads_from_parameters(self, self.config)

    @property
    def heads(self) -> LayerHeads:
        """The heads as modules, always the same objects; their weights are views of the parameters.

        Forward hooks on a head, and on its hook points (`hook_q`, `hook_k`, `hook_v`,
        `hook_scores`, `hook_weights`, `hook_message`, `hook_gate`), fire in every form and may
        replace the value. While one is registered, the fused form computes step by step.
        """
        if self._heads is None:
            heads = LayerHeads(LayerHead(self, h) for h in range(self.config.num_heads))
            object.__setattr__(self, "_heads", heads)  # not a submodule: it holds no parameters
            return heads
        return self._heads

    @property
    def is_hooked(self) -> bool:
        """Whether a hook is registered on a head, so that every form computes step by step."""
        return self._heads is not None and any(map(self._is_hooked_at, POINTS))

    @typed_by_arguments
    def forward(  # noqa: PLR0913 - mirrors nn.MultiheadAttention
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B N K"] | None = None,
        value: Float[Tensor, "B N V"] | None = None,
        *,
        attn_mask: Tensor | None = None,
        key_padding_mask: Bool[Tensor, "B S"] | None = None,
        is_causal: bool = False,
        head_mask: Tensor | None = None,
        need_weights: bool = False,
        kv_cache: KVCache | None = None,
    ) -> Result:
        """Attend from every query position to the key positions it may see.

        Args:
            query: (B, T, D).
            key: (B, N, K), N new key positions; None means query.
            value: (B, N, V); None means key.
            attn_mask: (T, S) or broadcasting to (B, H, T, S), S counting cached keys too: Boolean,
                True = may attend (the opposite of `nn.MultiheadAttention`), or added to the scores.
            key_padding_mask: (B, S), Boolean, True = padding.
            is_causal: hide later keys; aligned to the last key.
            head_mask: (H,) or (B, H): the factor of each head's message before the output
                projection; 0 or False removes a head.
            need_weights: return the weights too. The output stays the same. The fused form then
                computes it from the weights, equal up to rounding (bit for bit in half types).
            kv_cache: keys and values of earlier positions, `KVCache()` to begin with.

        Returns:
            output (B, T, D), then the weights (B, H, T, S) if asked for, before dropout and never
            averaged over heads, then the longer cache if one was given.

        Raises:
            ConfigError: is_causal or need_weights is neither True nor False.
            ShapeError: a wrong shape, rank or dtype of an input, a mask or the cache.
        """
        check_flag("need_weights", need_weights, "return the weights")
        heads, cache, ats = self._project(query, key, value, kv_cache)
        visibility = visibility_of_call(
            self.config, heads, query.dtype, attn_mask, key_padding_mask, is_causal
        )
        dropout = self.config.dropout if self.training else 0.0
        head_outputs, weights = self._attend(heads, visibility, need_weights, dropout, ats)
        head_outputs = masked_heads(head_outputs, head_mask)
        if (gate := self._gate(query, ats)) is not None:
            head_outputs = head_outputs * gate
        output: Tensor = self.out_proj(merge_heads(head_outputs))  # (B, T, H*v) to (B, T, D)
        if weights is not None:
            return (output, weights) if cache is None else (output, weights, cache)
        return output if cache is None else (output, cache)

    if TYPE_CHECKING:
        __call__: AttentionCall

    def trace(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B N K"] | None = None,
        value: Float[Tensor, "B N V"] | None = None,
        *,
        attn_mask: Tensor | None = None,
        key_padding_mask: Bool[Tensor, "B S"] | None = None,
        is_causal: bool = False,
        head_mask: Tensor | None = None,
        kv_cache: KVCache | None = None,
    ) -> AttentionTrace:
        """Compute the same call and return every intermediate; arguments as in `forward`.

        A layer in the loop form is traced by that form. A fused kernel keeps no intermediates, so a
        fused layer is traced by the packed form, and the trace's `form` says so. Hooks fire as in
        `forward`; `head_outputs` are those after hooks and `head_mask`.

        Raises:
            ConfigError: dropout is active, or `out_proj` was replaced and cannot be divided by
                head.
            MismatchError: contributions and output bias do not add up to the output.
            ShapeError: as in `forward`.
        """
        check_trace(self.config, self.training)
        weights = self.head_weights()
        heads, _, ats = self._project(query, key, value, kv_cache)
        visibility = visibility_of_call(
            self.config, heads, query.dtype, attn_mask, key_padding_mask, is_causal
        )
        form: TracedForm = "loop" if self.form == "loop" else "packed"
        steps = self._steps(heads, visibility, 0.0, ats)
        steps = replace(steps, head_outputs=masked_heads(steps.head_outputs, head_mask))
        return trace_from_steps(form, query, heads, steps, weights, self._gate(query, ats))

    def _attend(
        self,
        heads: ProjectedHeads,
        visibility: Visibility,
        need_weights: bool,
        dropout: float,
        ats: Sequence[At] | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Head outputs, (B, H, T, v), and the weights if asked for."""
        if self.form != "fused" or ats is not None:
            steps = self._steps(heads, visibility, dropout, ats)
            return steps.head_outputs, steps.attn_weights if need_weights else None
        q, k, v, scale, needed = heads.q, heads.k, heads.v, self.config.scale, None
        scoring: Scoring = {"softcap": self.config.softcap, "sinks": self.sinks}
        if need_weights:
            needed = packed_weights(q, k, scale=scale, visibility=visibility, **scoring)
        if needed is not None and q.dtype in (torch.float32, torch.float64):
            return weighted_values(needed, v, dropout), needed
        out = fused_head_outputs(
            q, k, v, scale=scale, visibility=visibility, dropout=dropout, **scoring
        )
        return out, needed

    def _gate(self, query: Tensor, ats: Sequence[At] | None) -> Tensor | None:
        """What head outputs are multiplied by, (B, H, T, v), after hooks; None without a gate."""
        if self.gate_proj is None:
            return None
        opened = torch.sigmoid(self.gate_proj(query))  # (B, T, H*v)
        return at_each_head(ats, "gate", split_heads(opened, self.config.num_heads))

    def _steps(
        self,
        heads: ProjectedHeads,
        visibility: Visibility,
        dropout: float,
        ats: Sequence[At] | None,
    ) -> AttentionSteps:
        """Every step, by the loop form if it is set, else by the packed form."""
        form = loop_steps if self.form == "loop" else packed_steps
        return form(
            heads,
            scale=self.config.scale,
            visibility=visibility,
            dropout=dropout,
            ats=ats,
            softcap=self.config.softcap,
            sinks=self.sinks,
        )

    def _project(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, kv_cache: KVCache | None
    ) -> tuple[ProjectedHeads, KVCache | None, Sequence[At] | None]:
        """Project, split into heads, normalise, rotate, and put cached keys first."""
        is_self = key is None and value is None
        key = query if key is None else key
        value = key if value is None else value
        inputs = (query, key, value)
        check_inputs(self.config, parameter_dtype(self, self.config), *inputs, kv_cache)
        q, k, v = self._projected(inputs, is_self)
        if (norm := self.config.qk_norm) is not None:
            q, k = normed_heads(norm, self.q_norm, q), normed_heads(norm, self.k_norm, k)
        past = 0 if kv_cache is None else kv_cache.seq_len
        if isinstance(positions := self.config.positions, Rotary):
            q = rotate(q, positions, past + k.shape[2] - q.shape[2])
            k = rotate(k, positions, past)
        if kv_cache is not None:
            kv_cache = kv_cache.appended(k, v)
            assert kv_cache.k is not None and kv_cache.v is not None
            k, v = kv_cache.k, kv_cache.v
        ats = self._hooks_in_call(inputs)
        heads = ProjectedHeads(q=q, k=k, v=v)
        return heads if ats is None else self._hooked(heads, ats), kv_cache, ats

    def _projected(self, inputs: tuple[Tensor, Tensor, Tensor], is_self: bool) -> Sequence[Tensor]:
        """Queries (B, H, T, d), keys (B, G, N, d), values (B, G, N, v), before any rotation."""
        config = self.config
        if self.form == "loop":
            return project_head_by_head(inputs, *input_heads(self, config))
        if is_self and self.in_proj_weight is not None:
            joined = F.linear(inputs[0], self.in_proj_weight, self.in_proj_bias)
            parts = torch.split(joined, list(config.projection_widths), dim=-1)
        else:
            parts = tuple(map(F.linear, inputs, *projection_parts(self, config)))
        counts = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
        return tuple(map(split_heads, parts, counts))

    def _hooks_in_call(self, inputs: tuple[Tensor, Tensor, Tensor]) -> list[At] | None:
        """One function per head that passes steps through its hooks; None without hooks."""
        if not self.is_hooked:
            return None
        return [partial(head.at_in_call, inputs) for head in self.heads]

    def _hooked(self, heads: ProjectedHeads, ats: Sequence[At]) -> ProjectedHeads:
        """Queries, keys and values after their hooks; a hook on shared keys repeats them first."""
        q, k, v, num_heads = (
            at_each_head(ats, "q", heads.q),
            heads.k,
            heads.v,
            self.config.num_heads,
        )
        if self._is_hooked_at("k") or self._is_hooked_at("v"):
            k = at_each_head(ats, "k", repeat_kv(k, num_heads))
            v = at_each_head(ats, "v", repeat_kv(v, num_heads))
        return ProjectedHeads(q=q, k=k, v=v)

    def _is_hooked_at(self, name: Point) -> bool:
        """Whether any head has a hook at this step."""
        return self._heads is not None and any(head.is_hooked_at(name) for head in self._heads)


def _refuse_in_torch_layers(parent: nn.Module, name: str, child: nn.Module | None) -> None:
    """Refuse our layer inside torch's layers, which call it by torch's conventions.

    They take `[0]` of its output. Torch returns a tuple, our layer a tensor: `[0]` would silently
    drop the batch axis.
    """
    if not isinstance(child, MultiHeadAttention) or child.fits_torch:
        return
    block = {"self_attn": "_sa_block", "multihead_attn": "_mha_block"}.get(name, "")
    for owner in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
        theirs = getattr(owner, block, None)
        if isinstance(parent, owner) and theirs and getattr(type(parent), block) is theirs:
            raise ConfigError(
                f"{name} (MultiHeadAttention) cannot replace the nn.MultiheadAttention of "
                f"{type(parent).__name__}: use manyheads.from_torch(module, drop_in=True)"
            )


register_module_module_registration_hook(_refuse_in_torch_layers)
