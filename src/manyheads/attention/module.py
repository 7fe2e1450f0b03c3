"""MultiHeadAttention: the layer that users hold; it chooses a form, and never silently another."""

from dataclasses import asdict
from typing import Literal, Unpack, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.attention.cache import KVCache
from manyheads.attention.fused import fused_head_outputs
from manyheads.attention.inputs import check_flag, check_inputs, check_trace, visibility_of_call
from manyheads.attention.loop import heads_from_weights, loop_steps, project_head_by_head
from manyheads.attention.packed import packed_steps, packed_weights, weighted_values
from manyheads.attention.parameters import (
    copy_heads_into,
    heads_from_parameters,
    projection_parts,
    register_parameters,
    reset_parameters,
)
from manyheads.attention.positions import rotate
from manyheads.attention.steps import ProjectedHeads, trace_from_steps
from manyheads.core.config import AttentionConfig, LayerOptions, Positions, Rotary
from manyheads.core.errors import ConfigError
from manyheads.core.masks import Visibility
from manyheads.core.shapes import merge_heads, split_heads
from manyheads.core.trace import AttentionTrace
from manyheads.core.weights import HeadWeights

Form = Literal["loop", "packed", "fused"]
Result = Tensor | tuple[Tensor, Tensor] | tuple[Tensor, KVCache] | tuple[Tensor, Tensor, KVCache]


class MultiHeadAttention(nn.Module):
    """Multi-head attention in three forms of one sum, with every intermediate to be had by name.

    Parameters have the names and layout of `nn.MultiheadAttention`, exist once, and serve every
    form; `layer.form = "loop"` switches a living layer.

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
        dropout: share of attention weights dropped in training, a fraction from 0 to 1.
        scale: what each q·k is multiplied by, 1/sqrt(d) unless given.
        window: keys a query sees, itself included and none later; all unless given.
        positions: `Rotary(...)`, `LinearBias(...)` or None.
        form: "loop" (the judge), "packed" (as people write it) or "fused" (torch's kernel).
        device: as in `nn.Module`.
        dtype: as in `nn.Module`.

    Raises:
        ConfigError: a size, flag, device or dtype that no layer can have.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """

    in_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    out_proj: nn.Linear

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
        )
        self.form = form
        register_parameters(self, self.config, {"device": device, "dtype": dtype})
        self.reset_parameters()

    @classmethod
    def from_weights(
        cls, weights: HeadWeights, *, form: Form = "fused", **options: Unpack[LayerOptions]
    ) -> "MultiHeadAttention":
        """Build a layer that holds a copy of the given weights, bit for bit.

        Where only some of queries, keys and values have a bias, the others get one of zeros.

        Args:
            weights: one matrix per head.
            form: as in the constructor.
            **options: `scale`, `dropout`, `window` and `positions`, as in the constructor.

        Raises:
            ConfigError: sizes or options that no layer can have.
        """
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
        if form not in get_args(Form):
            raise ConfigError(f'form ({form!r}) is not known: use "loop", "packed" or "fused"')
        self._form: Form = form

    def reset_parameters(self) -> None:
        """Draw new start values, as `nn.MultiheadAttention` does, from torch's global generator."""
        reset_parameters(self)

    def extra_repr(self) -> str:
        """The configuration, for printing."""
        settings = asdict(self.config) | {"form": self.form}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())

    def head_weights(self) -> HeadWeights:
        """The weights, one matrix per head: views of the parameters; gradients flow through."""
        return heads_from_parameters(self, self.config)

    @property
    def heads(self) -> nn.ModuleList:
        """The heads as modules to be used on their own; their weights view the parameters."""
        return nn.ModuleList(heads_from_weights(self.head_weights(), self.config.scale))

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B N K"] | None = None,
        value: Float[Tensor, "B N V"] | None = None,
        *,
        attn_mask: Tensor | None = None,
        key_padding_mask: Bool[Tensor, "B S"] | None = None,
        is_causal: bool = False,
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
            need_weights: return the weights too. The output stays the same; the fused form makes it
                from the weights then, equal up to rounding (bit for bit in half types).
            kv_cache: keys and values of earlier positions, `KVCache()` to begin with.

        Returns:
            output (B, T, D), then the weights (B, H, T, S) if asked for, before dropout and never
            averaged over heads, then the longer cache if one was given.

        Raises:
            ConfigError: is_causal or need_weights is neither True nor False.
            ShapeError: a wrong shape, rank or dtype of an input, a mask or the cache.
        """
        check_flag("need_weights", need_weights, "return the weights")
        heads, cache = self._project(query, key, value, kv_cache)
        visibility = visibility_of_call(
            self.config, heads, query.dtype, attn_mask, key_padding_mask, is_causal
        )
        head_outputs, weights = self._attend(heads, visibility, need_weights)
        output: Tensor = self.out_proj(merge_heads(head_outputs))  # (B, T, H*v) to (B, T, D)
        if weights is not None:
            return (output, weights) if cache is None else (output, weights, cache)
        return output if cache is None else (output, cache)

    def trace(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B N K"] | None = None,
        value: Float[Tensor, "B N V"] | None = None,
        *,
        attn_mask: Tensor | None = None,
        key_padding_mask: Bool[Tensor, "B S"] | None = None,
        is_causal: bool = False,
        kv_cache: KVCache | None = None,
    ) -> AttentionTrace:
        """Compute the same call and keep every intermediate; arguments as in `forward`.

        The loop form traces itself. A fused kernel keeps no intermediates, so a fused layer is
        traced by the packed form, and the trace's `form` says so.

        Raises:
            ConfigError: dropout is active, so that the numbers would be of one random draw.
            MismatchError: contributions and output bias do not add up to the output.
            ShapeError: as in `forward`.
        """
        check_trace(self.config, self.training)
        heads, _ = self._project(query, key, value, kv_cache)
        visibility = visibility_of_call(
            self.config, heads, query.dtype, attn_mask, key_padding_mask, is_causal
        )
        form: Form = "loop" if self.form == "loop" else "packed"
        scale = self.config.scale
        if form == "loop":
            steps = loop_steps(heads, scale=scale, visibility=visibility)
        else:
            steps = packed_steps(heads.q, heads.k, heads.v, scale=scale, visibility=visibility)
        return trace_from_steps(form, query, heads, steps, self.head_weights())

    def _attend(
        self, heads: ProjectedHeads, visibility: Visibility, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        q, k, v, scale = heads.q, heads.k, heads.v, self.config.scale
        dropout = self.config.dropout if self.training else 0.0
        if self.form == "fused":
            needed = None
            if need_weights:
                needed = packed_weights(q, k, scale=scale, visibility=visibility)
            if needed is not None and q.dtype in (torch.float32, torch.float64):
                return weighted_values(needed, v, dropout), needed
            out = fused_head_outputs(q, k, v, scale=scale, visibility=visibility, dropout=dropout)
            return out, needed
        if self.form == "packed":
            steps = packed_steps(q, k, v, scale=scale, visibility=visibility, dropout=dropout)
        else:
            steps = loop_steps(heads, scale=scale, visibility=visibility, dropout=dropout)
        return steps.head_outputs, steps.attn_weights if need_weights else None

    def _project(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, kv_cache: KVCache | None
    ) -> tuple[ProjectedHeads, KVCache | None]:
        """Project, split into heads, turn by position, and put cached keys and values in front."""
        config = self.config
        is_self = key is None and value is None
        key = query if key is None else key
        value = key if value is None else value
        check_inputs(self.config, self.out_proj.weight.dtype, query, key, value, kv_cache)
        counts = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
        if self.form == "loop":
            heads = heads_from_weights(self.head_weights(), config.scale)
            q, k, v = project_head_by_head(heads, config.num_kv_heads, query, key, value)
        elif is_self and self.in_proj_weight is not None:
            joined = F.linear(query, self.in_proj_weight, self.in_proj_bias)
            parts = torch.split(joined, list(config.projection_widths), dim=-1)
            q, k, v = map(split_heads, parts, counts)
        else:
            parts = tuple(map(F.linear, (query, key, value), *projection_parts(self, config)))
            q, k, v = map(split_heads, parts, counts)
        past = 0 if kv_cache is None else kv_cache.seq_len
        if isinstance(positions := config.positions, Rotary):
            q = rotate(q, positions, past + k.shape[2] - q.shape[2])
            k = rotate(k, positions, past)
        if kv_cache is None:
            return ProjectedHeads(q=q, k=k, v=v), None
        cache = kv_cache.appended(k, v)
        assert cache.k is not None and cache.v is not None
        return ProjectedHeads(q=q, k=cache.k, v=cache.v), cache
