"""Pairs of implementations: the same attention in several styles, and styles with one change."""

from dataclasses import dataclass
from pathlib import Path

HEAD = """import math
import torch
from torch import nn
from torch.nn import functional as F

"""
STYLES = {
    "nanogpt": """
class Attention(nn.Module):
    def __init__(self, n_embd=24, n_head=3):
        super().__init__()
        self.n_head, self.n_embd = n_head, n_embd
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.register_buffer("bias", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)
""",
    "einsum": """
class Attention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        q, (k, v) = self.to_q(x), self.to_kv(x).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        q = q * self.scale
        sim = torch.einsum("b h i d, b h j d -> b h i j", q, k)
        causal = torch.ones(sim.shape[-2:], dtype=torch.bool).triu(1)
        sim = sim.masked_fill(causal, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = torch.einsum("b h i j, b h j d -> b h i d", attn, v)
        out = out.transpose(1, 2).flatten(2)
        return self.to_out(out)
""",
    "loop": """
class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.key = nn.Linear(width, size)
        self.query = nn.Linear(width, size)
        self.value = nn.Linear(width, size)

    def forward(self, x):
        T = x.shape[1]
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1)
        wei = wei * k.shape[-1] ** -0.5
        tril = torch.tril(torch.ones(T, T))
        wei = wei.masked_fill(tril == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        v = self.value(x)
        return wei @ v


class Attention(nn.Module):
    def __init__(self, width=24, num_heads=3):
        super().__init__()
        self.heads = nn.ModuleList(Head(width, width // num_heads) for _ in range(num_heads))
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.proj(out)
""",
    "packed": """
class Attention(nn.Module):
    def __init__(self, dim=24, num_heads=3):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj(x)
""",
    "torch_mha": """
class Attention(nn.Module):
    def __init__(self, embed_dim=24, num_heads=3):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, x):
        out, _ = self.attn(x, x, x, need_weights=False)
        return out
""",
    "in_out": """
class Attention(nn.Module):
    def __init__(self, d_model=24, n_heads=3):
        super().__init__()
        self.H = n_heads
        for name in "QKVO":
            setattr(self, "W" + name, nn.Parameter(torch.randn(d_model, d_model) / 5))
            setattr(self, "b" + name, nn.Parameter(torch.randn(d_model) / 5))

    def split(self, x):
        return x.reshape(*x.shape[:2], self.H, -1).permute(0, 2, 1, 3)

    def forward(self, x):
        queries = self.split(x @ self.WQ + self.bQ)
        keys = self.split(x @ self.WK + self.bK)
        values = self.split(x @ self.WV + self.bV)
        scores = torch.matmul(queries, keys.mT) / math.sqrt(queries.shape[-1])
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        weights = weights / weights.sum(-1, keepdim=True)
        context = torch.matmul(weights, values)
        context = context.permute(0, 2, 1, 3).flatten(2)
        return context @ self.WO + self.bO
""",
    "per_head": """
class Attention(nn.Module):
    def __init__(self, d_model=24, n_heads=3):
        super().__init__()
        d_head = d_model // n_heads
        self.W_Q = nn.Parameter(torch.randn(n_heads, d_model, d_head) / 5)
        self.W_K = nn.Parameter(torch.randn(n_heads, d_model, d_head) / 5)
        self.W_V = nn.Parameter(torch.randn(n_heads, d_model, d_head) / 5)
        self.W_O = nn.Parameter(torch.randn(n_heads, d_head, d_model) / 5)
        self.b_Q = nn.Parameter(torch.zeros(n_heads, d_head))
        self.b_K = nn.Parameter(torch.zeros(n_heads, d_head))
        self.b_V = nn.Parameter(torch.zeros(n_heads, d_head))
        self.b_O = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        q = torch.einsum("bpm,imh->bpih", x, self.W_Q) + self.b_Q
        k = torch.einsum("bpm,imh->bpih", x, self.W_K) + self.b_K
        v = torch.einsum("bpm,imh->bpih", x, self.W_V) + self.b_V
        scores = torch.einsum("bpih,bqih->bipq", q, k) / math.sqrt(q.shape[-1])
        pattern = scores.softmax(-1)
        z = torch.einsum("bqih,bipq->bpih", v, pattern)
        return torch.einsum("bpih,ihm->bpm", z, self.W_O) + self.b_O
""",
    "functions": """
def attention(x, w_q, w_k, w_v, w_o, num_heads=3):
    b, t, e = x.shape
    q = F.linear(x, w_q).view(b, t, num_heads, -1).transpose(1, 2)
    k = F.linear(x, w_k).view(b, t, num_heads, -1).transpose(1, 2)
    v = F.linear(x, w_v).view(b, t, num_heads, -1).transpose(1, 2)
    s = q @ k.transpose(2, 3) / (e // num_heads) ** 0.5
    a = torch.softmax(s, -1)
    y = (a @ v).transpose(1, 2).reshape(b, t, e)
    return F.linear(y, w_o)
""",
    "bias_free": """
class Attention(nn.Module):
    def __init__(self, embed_dim=24, num_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, hidden_states):
        rows = []
        for sample in hidden_states:
            q = self.q_proj(sample).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)
            k = self.k_proj(sample).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)
            v = self.v_proj(sample).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)
            scores = q @ k.mT
            scores = scores / math.sqrt(q.shape[-1])
            probs = scores.softmax(-1)
            context = probs @ v
            rows.append(self.out_proj(context.transpose(0, 1).flatten(1)))
        return torch.stack(rows)
""",
    "llama": """
def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def repeat_kv(x, n):
    b, g, t, d = x.shape
    return x[:, :, None].expand(b, g, n, t, d).reshape(b, g * n, t, d)


class Attention(nn.Module):
    def __init__(self, hidden_size=24, num_heads=6, num_kv_heads=2):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = hidden_size // num_heads
        self.q_proj = nn.Linear(hidden_size, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False)
        inv_freq = 10000.0 ** (-torch.arange(0, self.head_dim, 2).double() / self.head_dim)
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)
        angles = torch.outer(torch.arange(T).to(self.inv_freq), self.inv_freq)
        emb = torch.cat((angles, angles), dim=-1)
        cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        k = repeat_kv(k, self.num_heads // self.num_kv_heads)
        v = repeat_kv(v, self.num_heads // self.num_kv_heads)
        attn_weights = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        causal_mask = torch.full((T, T), float("-inf")).triu(1)
        attn_weights = attn_weights + causal_mask
        attn_weights = F.softmax(attn_weights, dim=-1)
        attn_output = torch.matmul(attn_weights, v)
        attn_output = attn_output.transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(attn_output)
""",
    "grouped": """
def rope(x, base=10000.0):
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, dtype=x.dtype) / half)
    theta = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * freq
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * theta.cos() - b * theta.sin(), b * theta.cos() + a * theta.sin()), -1)


class Attention(nn.Module):
    def __init__(self, dim=24, n_heads=6, n_kv_heads=2):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d = n_heads, n_kv_heads, dim // n_heads
        self.wqkv = nn.Linear(dim, (n_heads + 2 * n_kv_heads) * self.d, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        sizes = [n * self.d for n in (self.n_heads, self.n_kv_heads, self.n_kv_heads)]
        q, k, v = self.wqkv(x).split(sizes, dim=-1)
        q, k, v = (y.unflatten(-1, (-1, self.d)).transpose(1, 2) for y in (q, k, v))
        q, k = rope(q), rope(k)
        k = k.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)
        v = v.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).flatten(2)
        return self.wo(y)
""",
}
EQUAL = (
    ("nanogpt", "einsum"),
    ("nanogpt", "loop"),
    ("einsum", "loop"),
    ("packed", "torch_mha"),
    ("packed", "in_out"),
    ("torch_mha", "per_head"),
    ("in_out", "per_head"),
    ("functions", "bias_free"),
    ("llama", "grouped"),
    ("grouped", "llama"),
)
"""Pairs that compute the same."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A pair in which one line of the second is changed."""

    a: str
    """Style of the first."""
    b: str
    """Style of the second before the change."""
    old: str
    """Code of one line of it."""
    new: str
    """Code in its place."""
    step: str
    """The first step that departs."""
    at: str
    """Part of the line of the first that does the same."""


DIFFERENT = (
    Difference(
        a="nanogpt",
        b="einsum",
        old="q = q * self.scale",
        new="q = q * self.heads**-0.5",
        step="scores",
        at="math.sqrt(k.size(-1))",
    ),
    Difference(
        a="loop",
        b="nanogpt",
        old="(1.0 / math.sqrt(k.size(-1)))",
        new="(1.0 / math.sqrt(C))",
        step="scores",
        at="wei = wei * k.shape",
    ),
    Difference(
        a="nanogpt",
        b="einsum",
        old="dtype=torch.bool).triu(1)",
        new="dtype=torch.bool).triu(2)",
        step="masked_scores",
        at="masked_fill(self.bias",
    ),
    Difference(
        a="packed",
        b="in_out",
        old="weights / weights.sum(-1, keepdim=True)",
        new="weights / weights.sum(-2, keepdim=True)",
        step="attn_weights",
        at="scaled_dot_product_attention",
    ),
    Difference(
        a="einsum",
        b="nanogpt",
        old="y = y.transpose(1, 2).contiguous().view(B, T, C)",
        new="y = y.contiguous().view(B, T, C)",
        step="concat",
        at="out.transpose(1, 2).flatten(2)",
    ),
    Difference(
        a="grouped",
        b="llama",
        old="k = k * cos + rotate_half(k) * sin",
        new="k = k * cos - rotate_half(k) * sin",
        step="k",
        at="return torch.cat((a * theta",
    ),
    Difference(
        a="llama",
        b="grouped",
        old="k = k.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)",
        new="k = k.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)",
        step="k",
        at="return x[:, :, None].expand",
    ),
    Difference(
        a="per_head",
        b="in_out",
        old="self.split(x @ self.WV + self.bV)",
        new="self.split(x @ self.WV)",
        step="v",
        at="v = torch.einsum",
    ),
    Difference(
        a="bias_free",
        b="functions",
        old="k = F.linear(x, w_k).view(b, t, num_heads, -1).transpose(1, 2)",
        new="k = F.linear(x, w_k).view(b, num_heads, t, -1)",
        step="k",
        at="k = self.k_proj(sample)",
    ),
    Difference(
        a="nanogpt",
        b="loop",
        old='wei = wei.masked_fill(tril == 0, float("-inf"))',
        new="wei = wei * tril",
        step="masked_scores",
        at="masked_fill(self.bias",
    ),
    Difference(
        a="nanogpt",
        b="nanogpt",
        old="y = att @ v",
        new="y = att @ k",
        step="head_outputs",
        at="y = att @ v",
    ),
    Difference(
        a="torch_mha",
        b="packed",
        old="return self.proj(x)",
        new="return x + self.proj(x)",
        step="output",
        at="self.attn(x, x, x",
    ),
)
"""Pairs with one difference."""


def source_of(style: str, *, old: str = "", new: str = "") -> str:
    """A file with one style, with one line changed."""
    text = STYLES[style]
    if old:
        assert text.count(old) == 1, (style, old)
        text = text.replace(old, new)
    return HEAD + text


def write_style(folder: Path, name: str, style: str, **changed: str) -> str:
    """Write a style to a file; its target."""
    path = folder / f"{name}.py"
    path.write_text(source_of(style, **changed), encoding="utf-8")
    return f"{path}:{'attention' if style == 'functions' else 'Attention'}"


def line_with(source: str, code: str) -> int:
    """Number of the one line that holds some code."""
    found = [n for n, line in enumerate(source.splitlines(), start=1) if code in line]
    assert len(found) == 1, (code, found)
    return found[0]
