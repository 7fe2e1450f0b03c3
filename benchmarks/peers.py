"""The layers that ours is compared with, with the same weights."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from manyheads.attention.module import MultiHeadAttention

SHAPES = ((8, 128, 256, 8), (4, 512, 512, 8), (1, 2048, 512, 8), (32, 64, 64, 4))
QUICK_SHAPES = ((2, 16, 32, 4),)
TOLERANCE = 1e-5


@dataclass(frozen=True, kw_only=True)
class Case:
    """One shape: our layer, its peers with the same weights, and an input."""

    layer: MultiHeadAttention
    """Ours, fused."""
    torch_layer: nn.MultiheadAttention
    """PyTorch's, batch first."""
    other: Callable[[Tensor], Tensor] | None
    """x-transformers' Attention with its fused kernel; None if it is not installed."""
    x: Tensor
    """(B, T, D)."""


def case(shape: tuple[int, int, int, int], *, is_causal: bool = False) -> Case:
    """Build the layers of one shape (B, T, D, H), without biases, which x-transformers lacks.

    Raises:
        AssertionError: the outputs of two layers differ by more than 1e-5.
    """
    batch, length, width, num_heads = shape
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(batch, length, width, generator=generator)
    layer = MultiHeadAttention(width, num_heads, bias=False).eval()
    torch_layer = nn.MultiheadAttention(width, num_heads, bias=False, batch_first=True).eval()
    torch_layer.load_state_dict(layer.state_dict())
    made = Case(layer=layer, torch_layer=torch_layer, other=_x_transformers(layer, is_causal), x=x)
    mask = blocked_later_keys(length) if is_causal else None
    with torch.no_grad():
        ours = layer(x, is_causal=is_causal)
        outputs = [torch_layer(x, x, x, attn_mask=mask, is_causal=is_causal, need_weights=False)[0]]
        if made.other is not None:
            outputs.append(made.other(x))
        gap = max(float((ours - output).abs().max()) for output in outputs)
        with_weights, _ = layer(x, is_causal=is_causal, need_weights=True)
    assert gap < TOLERANCE, f"outputs differ by {gap}: the peers do not hold the same weights"
    assert torch.allclose(ours, with_weights, rtol=0, atol=1e-5), "weights changed the output"
    return made


def blocked_later_keys(length: int) -> Tensor:
    """The causal mask as `nn.MultiheadAttention` takes it: (T, T), True = blocked."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def _x_transformers(layer: MultiHeadAttention, is_causal: bool) -> nn.Module | None:
    try:
        from x_transformers.x_transformers import Attention
    except ImportError:
        return None
    config = layer.config
    other = Attention(
        config.embed_dim,
        dim_head=config.head_dim,
        heads=config.num_heads,
        causal=is_causal,
        flash=True,
    ).eval()
    with torch.no_grad():
        rows = layer.in_proj_weight.chunk(3)
        for projection, weight in zip((other.to_q, other.to_k, other.to_v), rows, strict=True):
            projection.weight.copy_(weight)
        other.to_out.weight.copy_(layer.out_proj.weight)
    return other


def without_gradients(call: Callable[[], object]) -> Callable[[], object]:
    """The call, under `torch.no_grad`."""

    def forward() -> None:
        with torch.no_grad():
            call()

    return forward


def with_backward(call: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], object]:
    """The call on x, followed by a backward pass to x and every parameter."""
    given = x.clone().requires_grad_()
    upstream = torch.randn(x.shape, generator=torch.Generator().manual_seed(29))

    def forward_and_backward() -> None:
        given.grad = None
        call(given).backward(upstream)

    return forward_and_backward
