"""Multi-head attention from scratch: one file, nothing but PyTorch.

Row vectors: x is (B, T, D), q = x W_Q + b_Q. Masks: True means "may attend". Run the file to see it
agree with PyTorch's own layer, or copy the class and change it.
"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, bias=True):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"num_heads={num_heads} must divide embed_dim={embed_dim}")
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        # Each layer makes the numbers of all heads: the first head_dim columns are those of head 1.
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def split(self, rows):
        """(B, T, H * d) to (B, H, T, d): cut the columns, then move the head axis forward."""
        B, T, _ = rows.shape
        return rows.view(B, T, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x, context=None, attn_mask=None, is_causal=False):
        """Return the output (B, T, D) and the weights (B, H, T, S).

        context (B, S, D) is what is read: x itself unless given. attn_mask broadcasts to
        (B, H, T, S). Each query must be allowed at least one key.
        """
        context = x if context is None else context
        q = self.split(self.q_proj(x))  # (B, H, T, d): every head has read the full row
        k = self.split(self.k_proj(context))  # (B, H, S, d)
        v = self.split(self.v_proj(context))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, S)
        if is_causal:
            T, S = scores.shape[-2:]
            earlier = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
            scores = scores.masked_fill(~earlier, -math.inf)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        largest = scores.max(dim=-1, keepdim=True).values  # subtracting it changes no weight
        powers = (scores - largest).exp()
        weights = powers / powers.sum(dim=-1, keepdim=True)  # each row adds up to 1
        messages = weights @ v  # (B, H, T, d)
        joined = messages.transpose(1, 2).flatten(2)  # heads side by side: (B, T, H * d)
        return self.out_proj(joined), weights  # W_O mixes the heads


if __name__ == "__main__":
    torch.manual_seed(0)
    ours, theirs = MultiHeadAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)
    parts = (ours.q_proj, ours.k_proj, ours.v_proj)
    theirs.in_proj_weight.data = torch.cat([part.weight for part in parts]).detach()
    theirs.in_proj_bias.data = torch.cat([part.bias for part in parts]).detach()
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    x, blocked = torch.randn(3, 5, 8), torch.ones(5, 5, dtype=torch.bool).triu(1)
    y, weights = ours(x, is_causal=True)
    expected, seen = theirs(x, x, x, attn_mask=blocked, average_attn_weights=False)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(weights, seen)
    print("the same as nn.MultiheadAttention, outputs and weights of both heads")
