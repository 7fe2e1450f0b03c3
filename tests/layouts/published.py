"""Attention as well-known models define it, written plainly; each keeps its own weight layout.

They share no code with the package. Sources: nanoGPT model.py; Radford et al. 2019 and its Conv1D;
Touvron et al. 2023, arXiv:2302.13971; Black et al. 2022, arXiv:2204.06745; BigScience 2022,
arXiv:2211.05100; Almazrouei et al. 2023, arXiv:2311.16867; Radford et al. 2022, arXiv:2212.04356.
"""

import math

import torch
from torch import Tensor, nn


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, causal: bool = True
) -> Tensor:
    """Softmax attention of (B, H, T, d) heads, joined to (B, T, H*d)."""
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    mixed = torch.einsum("bhts,bhsd->bthd", scores.softmax(-1), v)
    return mixed.reshape(*mixed.shape[:2], -1)


def turn_half(x: Tensor, width: int) -> Tensor:
    """Rotary positions on the first `width` channels, by the rotate-half formula."""
    inv_freq = 1.0 / 10000 ** (torch.arange(0, width, 2, dtype=x.dtype) / width)
    freqs = torch.outer(torch.arange(x.shape[2], dtype=x.dtype), inv_freq)
    both = torch.cat((freqs, freqs), dim=-1)
    turned, rest = x[..., :width], x[..., width:]
    swapped = torch.cat((-turned[..., width // 2 :], turned[..., : width // 2]), dim=-1)
    return torch.cat((turned * both.cos() + swapped * both.sin(), rest), dim=-1)


class NanoGPTAttention(nn.Module):
    """One `c_attn` for q, k and v, split after the projection."""

    def __init__(self, n_embd: int, n_head: int, bias: bool) -> None:
        super().__init__()
        self.n_embd, self.n_head = n_embd, n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias, dtype=torch.float64)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias, dtype=torch.float64)
        self.register_buffer("bias", torch.ones(1, 1, 64, 64).tril())

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, self.n_head, -1).transpose(1, 2)
            for part in self.c_attn(x).split(self.n_embd, dim=2)
        )
        return self.c_proj(attend(q, k, v))


class Conv1D(nn.Module):
    """GPT-2's linear map, whose weight lies (in, out)."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width_in, width_out, dtype=torch.float64) * 0.3)
        self.bias = nn.Parameter(torch.randn(width_out, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(
            *x.shape[:-1], -1
        )


class GPT2Attention(NanoGPTAttention):
    """As nanoGPT's, with Conv1D maps."""

    def __init__(self, n_embd: int, n_head: int) -> None:
        super().__init__(n_embd, n_head, bias=True)
        self.c_attn = Conv1D(n_embd, 3 * n_embd)
        self.c_proj = Conv1D(n_embd, n_embd)


class LlamaAttention(nn.Module):
    """Separate maps, shared key/value heads, rotary positions of the style half."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        options = {"bias": False, "dtype": torch.float64}
        self.q_proj = nn.Linear(hidden, heads * head_dim, **options)
        self.k_proj = nn.Linear(hidden, kv_heads * head_dim, **options)
        self.v_proj = nn.Linear(hidden, kv_heads * head_dim, **options)
        self.o_proj = nn.Linear(heads * head_dim, hidden, **options)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            proj(x).view(batch, length, count, self.head_dim).transpose(1, 2)
            for proj, count in (
                (self.q_proj, self.heads),
                (self.k_proj, self.kv_heads),
                (self.v_proj, self.kv_heads),
            )
        )
        shared = self.heads // self.kv_heads
        k = turn_half(k, self.head_dim).repeat_interleave(shared, dim=1)
        q, v = turn_half(q, self.head_dim), v.repeat_interleave(shared, dim=1)
        return self.o_proj(attend(q, k, v))


class NeoXAttention(nn.Module):
    """q, k and v of each head side by side; only the first channels of a head are turned."""

    def __init__(self, hidden: int, heads: int, rotary_width: int) -> None:
        super().__init__()
        self.heads, self.head_dim, self.rotary_width = heads, hidden // heads, rotary_width
        self.query_key_value = nn.Linear(hidden, 3 * hidden, dtype=torch.float64)
        self.dense = nn.Linear(hidden, hidden, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        fused = self.query_key_value(x).view(*x.shape[:2], self.heads, 3 * self.head_dim)
        q, k, v = fused.transpose(1, 2).chunk(3, dim=-1)
        return self.dense(
            attend(turn_half(q, self.rotary_width), turn_half(k, self.rotary_width), v)
        )


class BloomAttention(nn.Module):
    """Interleaved as GPT-NeoX, with a linear bias that depends on the key's position alone."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(hidden, 3 * hidden, dtype=torch.float64)
        self.dense = nn.Linear(hidden, hidden, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        fused = self.query_key_value(x).view(*x.shape[:2], self.heads, 3, -1)
        q, k, v = (fused[..., i, :].transpose(1, 2) for i in range(3))
        base = 2.0 ** (
            -8.0 / self.heads
        )  # the published rule where the head count is a power of two
        slopes = torch.tensor([base ** (h + 1) for h in range(self.heads)], dtype=x.dtype)
        bias = slopes[:, None, None] * torch.arange(x.shape[1], dtype=x.dtype)
        return self.dense(attend(q, k, v, bias))


class FalconAttention(nn.Module):
    """The queries of a group, then its key and its value."""

    def __init__(self, hidden: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.head_dim = heads, groups, hidden // heads
        outputs = (heads + 2 * groups) * self.head_dim
        self.query_key_value = nn.Linear(hidden, outputs, bias=False, dtype=torch.float64)
        self.dense = nn.Linear(hidden, hidden, bias=False, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.heads // self.groups
        fused = self.query_key_value(x).view(*x.shape[:2], self.groups, shared + 2, self.head_dim)
        q = fused[..., :-2, :].reshape(*x.shape[:2], self.heads, self.head_dim).transpose(1, 2)
        k, v = (fused[..., i, :].transpose(1, 2).repeat_interleave(shared, dim=1) for i in (-2, -1))
        return self.dense(attend(turn_half(q, self.head_dim), turn_half(k, self.head_dim), v))


class WhisperAttention(nn.Module):
    """Separate maps, no bias on keys, and keys and values that may come from elsewhere."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width, dtype=torch.float64)
        self.k_proj = nn.Linear(width, width, bias=False, dtype=torch.float64)
        self.v_proj = nn.Linear(width, width, dtype=torch.float64)
        self.out_proj = nn.Linear(width, width, dtype=torch.float64)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        q, k, v = (
            part.view(*part.shape[:2], self.heads, -1).transpose(1, 2)
            for part in (self.q_proj(x), self.k_proj(source), self.v_proj(source))
        )
        return self.out_proj(attend(q, k, v, causal=False))
