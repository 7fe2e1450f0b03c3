# %% [markdown]
# # Cross-attention between two toy sentences
#
# Queries come from one sentence, keys and values from another. The numbers are chosen so
# that every weight is a small fraction, which integer arithmetic can verify. Then: shapes with
# different T and S, why there is no causal mask, padding, the order of the context, and
# gradients.
#
# About 5 seconds; nothing is downloaded.

# %%
import math
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import torch

import manyheads as mh
from manyheads.core.weights import HeadWeights

# %% [markdown]
# ## Two sentences
#
# The reader has four French words, the context five English ones. Each word is a row of
# four features: is it a thing, a colour, an action, a small word?

# %%
FEATURES = ("thing", "colour", "action", "small word")
THING, COLOUR, ACTION, SMALL = np.eye(4, dtype=int).tolist()
reader = {"le": SMALL, "chat": THING, "noir": COLOUR, "dort": ACTION}
context = {
    "the": SMALL,
    "black": COLOUR,
    "cat": THING,
    "sleeps": ACTION,
    "now": [0, 0, 1, 1],  # an action's time, in a small word
}

T, S = len(reader), len(context)
assert (T, S) == (4, 5)

# %% [markdown]
# ## Two heads
#
# Head 1 compares things and colours, head 2 actions and small words; the values are the features
# that each head compares. A match multiplies the weight of a source by four before the division:
# its score is higher by ln 4, so the queries contain ln 4 times the square root of the head
# width.

# %%
first, second = np.eye(4)[:, :2], np.eye(4)[:, 2:]  # (D, d) each
columns = torch.tensor(np.stack([first, second]))  # (H, D, d)
weights = HeadWeights(
    w_q=columns * math.log(4) * math.sqrt(2),
    w_k=columns,
    w_v=columns,
    w_o=torch.eye(4, dtype=torch.float64).view(2, 2, 4),  # (H, d, D)
)
layer = mh.MultiHeadAttention.from_weights(weights, form="packed")
x = torch.tensor([list(reader.values())], dtype=torch.float64)  # (1, T, D)
source = torch.tensor([list(context.values())], dtype=torch.float64)  # (1, S, D)

assert x.shape == (1, 4, 4) and source.shape == (1, 5, 4)

# %% [markdown]
# ## With fractions
#
# Without PyTorch. The exponential of a score is 4 to the power of the number of matches, so a
# weight is an integer divided by a sum of integers.


# %%
def weigh(weights, numbers):
    return sum(weight * n for weight, n in zip(weights, numbers, strict=True))


def exact_head(columns):
    """Weights (T, S) and messages (T, d) of one head, as fractions."""
    rows, messages = [], []
    values = [[word[c] for word in context.values()] for c in columns]
    for word in reader.values():
        matches = [sum(word[c] * key[c] for c in columns) for key in context.values()]
        total = sum(4**count for count in matches)
        rows.append([Fraction(4**count, total) for count in matches])
        messages.append([weigh(rows[-1], column) for column in values])
    return rows, messages


exact = [exact_head((0, 1)), exact_head((2, 3))]
for h, (rows, messages) in enumerate(exact):
    print(f"head {h + 1}".ljust(8), *(word.rjust(7) for word in context), "  message")
    for word, row, message in zip(reader, rows, messages, strict=True):
        assert sum(row) == 1
        shown = ", ".join(map(str, message))
        print(word.ljust(8), *(str(weight).rjust(7) for weight in row), "  " + shown)

# %% [markdown]
# In head 1, *chat* gives half of its weight to *cat*. *le* is neither a thing nor a colour, so
# its query in head 1 is zero, and all sources get the same weight.

# %%
words, others = list(reader), list(context)
chat, cat = words.index("chat"), others.index("cat")
assert exact[0][0][chat][cat] == Fraction(1, 2)
assert set(exact[0][0][words.index("le")]) == {Fraction(1, 5)}

# %% [markdown]
# ## With the layer
#
# `layer(query, key)`: the default value is the key. The weights are `(B, H, T, S)`, with one
# row per receiver and one column per source. The output has the length of the query.


# %%
def tensor(rows):
    return torch.tensor(np.array(rows, dtype=float))


exact_weights = tensor([rows for rows, _ in exact])[None]  # (1, H, T, S)
joined = torch.cat([tensor(messages) for _, messages in exact], dim=-1)
exact_output = joined[None]  # (1, T, D): W_O is the identity

output, shares = layer(x, source, need_weights=True)

assert shares.shape == (1, 2, T, S) and output.shape == (1, T, 4)
torch.testing.assert_close(shares, exact_weights, rtol=0, atol=1e-14)
torch.testing.assert_close(output, exact_output, rtol=0, atol=1e-14)

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for h, axis in enumerate(axes):
    axis.imshow(shares[0, h].detach().numpy(), cmap="Blues", vmin=0, vmax=1)
    for t in range(T):
        for s in range(S):
            axis.text(s, t, str(exact[h][0][t][s]), ha="center", va="center")
    axis.set_title(f"attn_weights[{h}]: head {h + 1}", fontsize=10)
    axis.set_xticks(range(S), others)
    axis.set_yticks(range(T), words)
    axis.set_xlabel("source, of the context")
    axis.set_ylabel("receiver, of the reader")
plt.show()

# %% [markdown]
# The loop form computes one head, one query and one key at a time. It is the reference for the
# faster forms, and it agrees.

# %%
for form in ("loop", "packed", "fused"):
    layer.form = form
    torch.testing.assert_close(layer(x, source), exact_output, rtol=0, atol=1e-14)
layer.form = "packed"

trace = layer.trace(x, source)
assert trace.q.shape == (1, 2, T, 2) and trace.k.shape == trace.v.shape == (1, 2, S, 2)
assert trace.scores.shape == (1, 2, T, S)
trace

# %% [markdown]
# PyTorch's layer takes the value as a third argument. To get the weights per head, pass
# `average_attn_weights=False`: its default is their mean.

# %%
theirs = mh.to_torch(layer)
their_output, their_shares = theirs(x, source, source, average_attn_weights=False)
_, their_mean = theirs(x, source, source)

torch.testing.assert_close(their_output, exact_output, rtol=0, atol=1e-14)
torch.testing.assert_close(their_shares, exact_weights, rtol=0, atol=1e-14)
torch.testing.assert_close(their_mean, exact_weights.mean(dim=1), rtol=0, atol=1e-14)
assert their_mean.shape == (1, T, S)

# %% [markdown]
# ## Swapping the two sentences
#
# If you swap the two sentences, the output has five rows, and each row of weights covers the
# four French words.

# %%
swapped, swapped_shares = layer(source, x, need_weights=True)
assert swapped.shape == (1, S, 4) and swapped_shares.shape == (1, 2, S, T)

# %% [markdown]
# ## No causal mask
#
# The whole context is known before the first query, and its positions do not correspond to
# those of the queries: *chat* is second, *cat* third. So every receiver sees every source.

# %%
assert words.index("chat") < others.index("cat")
assert (shares > 0).all()

# %% [markdown]
# A causal mask by mistake would hide *now* from all receivers except the last, without any
# error.

# %%
blind, blind_shares = layer(x, source, is_causal=True, need_weights=True)
now = others.index("now")
assert not blind_shares[:, :, :-1, now].any() and blind_shares[:, :, -1, now].all()
assert not torch.allclose(blind, output)

# %% [markdown]
# ## Padding
#
# Two contexts of different length in one batch: the shorter one is padded, and
# `key_padding_mask` marks the padding, **True = padding**, in this layer and in PyTorch's. The
# padding must have no effect, so it contains large numbers here.

# %%
short = source[:, :3]  # the black cat
filling = torch.full((1, 2, 4), 1000.0, dtype=torch.float64)
sources = torch.cat((source, torch.cat((short, filling), dim=1)))  # (2, S, D)
readers = x.expand(2, -1, -1)
padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])  # (B, S)

padded, padded_shares = layer(
    readers, sources, key_padding_mask=padding, need_weights=True
)
alone = layer(x, short)

assert not padded_shares[1, :, :, 3:].any()
torch.testing.assert_close(padded[:1], output, rtol=0, atol=1e-14)
torch.testing.assert_close(padded[1:], alone, rtol=0, atol=1e-14)
their_padded, _ = theirs(readers, sources, sources, key_padding_mask=padding)
torch.testing.assert_close(their_padded, padded, rtol=0, atol=1e-14)

unmasked = layer(readers, sources)
assert not torch.allclose(unmasked[1:], alone)  # without the mask, the padding has an effect

# %% [markdown]
# ## The order of the context
#
# Keys and values are reordered together, so another order of the context does not change the
# output, only the order of the weight columns. Another order of the *receivers* reorders the
# output rows. If order should matter, the rows themselves must encode it.

# %%
order = torch.tensor([3, 0, 4, 2, 1])
moved, moved_shares = layer(x, source[:, order], need_weights=True)

assert not torch.equal(source[:, order], source)
torch.testing.assert_close(moved, output, rtol=0, atol=1e-14)
torch.testing.assert_close(moved_shares, shares[..., order], rtol=0, atol=1e-14)
torch.testing.assert_close(layer(x.flip(1), source), output.flip(1), rtol=0, atol=1e-14)

apart = layer(x, source[:, order], source)  # keys and values in different orders
assert not torch.allclose(apart, output)

# %% [markdown]
# ## Gradients flow to both sentences
#
# A model that computes the context also gets gradients. A padded row gets a gradient of exactly
# zero.

# %%
readers = readers.clone().requires_grad_()
sources = sources.clone().requires_grad_()
layer(readers, sources, key_padding_mask=padding).square().sum().backward()

for name, gradient in (("reader", readers.grad), ("context", sources.grad)):
    assert gradient.isfinite().all()
    print(f"{name}: steepest {gradient.abs().max():.4f}")
assert readers.grad[0].any() and readers.grad[1].any()
assert sources.grad[0].any(dim=-1).all() and sources.grad[1, :3].any(dim=-1).all()
assert not sources.grad[1, 3:].any()

for name, parameter in layer.named_parameters():
    assert parameter.grad.isfinite().all() and parameter.grad.any(), name

# %% [markdown]
# ## A context of another width
#
# The widths need not be equal: `kdim` and `vdim` are the widths of the context rows. So the
# context can be images, sounds or rows of another model.

# %%
torch.manual_seed(0)
wide = mh.MultiHeadAttention(4, 2, kdim=7, vdim=7).double()
features = torch.randn(1, 11, 7, dtype=torch.float64)
seen, seen_shares = wide(x, features, need_weights=True)

assert seen.shape == (1, T, 4) and seen_shares.shape == (1, 2, T, 11)
wide_theirs = mh.to_torch(wide)
torch.testing.assert_close(
    wide_theirs(x, features, features)[0], seen, rtol=0, atol=1e-14
)

# %% [markdown]
# ## Try it
#
# The context gets one more word, with features of your choice. Predict the weights of *chat* in
# head 1 as fractions, then run the cell.

# %%
WORD, FEATURES_OF_IT = "dog", [1, 0, 0, 0]

longer = torch.cat((source, torch.tensor([[FEATURES_OF_IT]]).double()), dim=1)
_, tried = layer(x, longer, need_weights=True)
for name, weight in zip([*others, WORD], tried[0, 0, chat].tolist(), strict=True):
    print(f"{name:7} {Fraction(weight).limit_denominator(100)}")
