# %% [markdown]
# # Step by step: two sentences, from tokens to logits
#
# The sentences of the worksheet `river-and-cheque` go through two heads of attention at
# the same time. Every step is one line of plain PyTorch with the head axis written out,
# and every result is compared with an engine that shares no code with it: it computes with
# fractions, and with 50 digits after an exponential.
#
# About 10 seconds; nothing is downloaded.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import manyheads as mh

sheet = mh.worksheet("river-and-cheque")
for sentence in sheet.sequences:
    print(f"{sentence.name:7}", *sentence.tokens, f"-> {sentence.target}")

# %% [markdown]
# ## The given numbers
#
# The numbers of the worksheet are exact. Here they are converted to double precision.


# %%
def tensor(rows):
    return torch.tensor(np.array(rows, dtype=float))


words = sheet.vocabulary
embedding = tensor([sheet.token_embedding[word] for word in words])  # (V, D)
positions = tensor(sheet.position_embedding)  # (T, D)
w_q = tensor([head.w_q for head in sheet.heads])  # (H, D, d)
w_k = tensor([head.w_k for head in sheet.heads])
w_v = tensor([head.w_v for head in sheet.heads])
w_o = tensor(sheet.w_o)  # (H * d, D)

assert embedding.shape == (20, 4) and positions.shape == (10, 4)
assert w_q.shape == w_k.shape == w_v.shape == (2, 4, 2) and w_o.shape == (4, 4)

# %% [markdown]
# The expected results, computed exactly for each sentence. `stacked` puts the two sentences
# into one batch.

# %%
solutions = [sheet.solve(sentence.name, exact=True) for sentence in sheet.sequences]


def stacked(name):
    return tensor([solution[name] for solution in solutions])


def agree(ours, name):
    """Compare a tensor with the exact answers, and print how many numbers agree."""
    torch.testing.assert_close(ours, stacked(name), rtol=0, atol=1e-12)
    print(f"{ours.numel()} numbers of {name} agree, shape {list(ours.shape)}")


# %% [markdown]
# ## Tokens become rows
#
# Each token is a number that selects a row of four features; the row of its position is
# added. Both sentences form one batch: `[2, 10]` becomes `[2, 10, 4]`.

# %%
ids = torch.tensor(
    [[words.index(t.lower()) for t in s.tokens] for s in sheet.sequences]
)
x = embedding[ids] + positions

assert ids.shape == (2, 10) and x.shape == (2, 10, 4)
agree(x, "x")

# %% [markdown]
# ## Every head reads the full row
#
# `x[:, None]` adds a head axis to the batch, so that each row of four is multiplied by each
# head's own `4 x 2` matrix: `[2, 10, 4]` becomes `[2, 2, 10, 2]`, batch, head, token, feature.
# No head gets a slice of the input; only the *result* is split.

# %%
q = x[:, None] @ w_q
k = x[:, None] @ w_k
v = x[:, None] @ w_v

assert q.shape == k.shape == v.shape == (2, 2, 10, 2)
for name, ours in (("q", q), ("k", k), ("v", v)):
    agree(ours, name)

# %% [markdown]
# Production code stores all heads in one wide matrix and splits the product. The numbers are
# the same if you split before you swap the axes.

# %%
wide = torch.cat(list(w_q), dim=1)  # (D, H * d): head 1's columns, then head 2's
cut = (x @ wide).view(2, 10, 2, 2).transpose(1, 2)  # (B, T, H, d) -> (B, H, T, d)
torch.testing.assert_close(cut, q)

mixed = (x @ wide).view(2, 2, 10, 2)  # the right shape, but tokens in the wrong head
assert mixed.shape == q.shape and not torch.allclose(mixed, q)

# %% [markdown]
# ## Scores
#
# Each query is multiplied by each key of its head: `[2, 2, 10, 10]`. The scale is one over
# the square root of the head width, 2, and not of the model width, 4.

# %%
scores = q @ k.transpose(-2, -1) / math.sqrt(2)

assert scores.shape == (2, 2, 10, 10)
agree(scores, "scores")

# %% [markdown]
# ## The mask, then the softmax
#
# A token sees itself and earlier tokens. Later positions get minus infinity, whose
# exponential is zero, so the softmax over the last axis distributes 1 over the others.

# %%
allowed = torch.ones(10, 10, dtype=torch.bool).tril()  # True = may attend
weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)

agree(weights, "attn_weights")
assert weights.numel() == 400
torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, 10).double())
assert not weights[..., ~allowed].any()

# %% [markdown]
# Four images: one column per sentence, one row per head. Both heads read the same rows. Look
# at the last receiver, the final *the*: one head attends to the setting, the other to the
# person.

# %%
figure, axes = plt.subplots(2, 2, figsize=(9, 8.6), layout="constrained")
for b, sentence in enumerate(sheet.sequences):
    for h, head in enumerate(sheet.heads):
        axis = axes[h][b]
        shown = axis.imshow(weights[b, h].numpy(), cmap="Blues", vmin=0, vmax=1)
        axis.set_title(
            f"{sheet.name}: {sentence.name}.attn_weights[{h}]\nhead {h + 1}, {head.label}",
            fontsize=9,
        )
        axis.set_xticks(range(10), sentence.tokens, rotation=90, fontsize=8)
        axis.set_yticks(range(10), sentence.tokens, fontsize=8)
        axis.set_xlabel("source")
        axis.set_ylabel("receiver")
figure.colorbar(shown, ax=axes, shrink=0.6, label="weight")
plt.show()

# %%
for b, sentence in enumerate(sheet.sequences):
    for h, head in enumerate(sheet.heads):
        best = weights[b, h, -1].argmax().item()
        share = weights[b, h, -1, best]
        print(
            f"{sentence.name:7} {head.label:8} -> {sentence.tokens[best]:10} {share:.3f}"
        )

# %% [markdown]
# ## Messages, concatenation and output projection
#
# The message of each head is a weighted sum of its values. The messages are concatenated,
# head 1 first, and `W_O` projects them to one row: `[2, 10, 4]` again.

# %%
messages = weights @ v  # (B, H, T, d)
concat = messages.transpose(1, 2).reshape(2, 10, 4)  # (B, T, H * d)
output = concat @ w_o

agree(messages, "head_outputs")
agree(concat, "concat")
agree(output, "output")

# %% [markdown]
# Concatenation and projection together are a sum over heads: two rows of `W_O` belong to
# head h, and they give the contribution of this head to the output.

# %%
contributions = messages @ w_o.view(2, 2, 4)  # (H, d, D), one block of rows a head

agree(contributions, "head_contributions")
torch.testing.assert_close(contributions.sum(dim=1), output)

# %% [markdown]
# ## From rows to logits
#
# The output is added to the input row, and a small network processes each row separately.
# The last row of each sentence gives the logits of the next word: 20 words, two sentences,
# 40 logits.

# %%
network = sheet.prediction
updated = x + output
hidden = (updated @ tensor(network.w_hidden) + tensor(network.b_hidden)).relu()
logits = hidden @ tensor(network.w_vocab) + tensor(network.b_vocab)

assert logits.shape == (2, 10, 20)
agree(updated, "updated")
agree(logits, "logits")
assert logits[:, -1].numel() == 40

# %%
probabilities = logits[:, -1].softmax(dim=-1)
for b, sentence in enumerate(sheet.sequences):
    top = probabilities[b].topk(4)
    shown = [f"{words[w]} {p:.3f}" for p, w in zip(*top, strict=True)]
    print(f"{sentence.name:7}", ", ".join(shown))
    assert words[top.indices[0]] == sentence.target
agree(logits.softmax(dim=-1), "probabilities")

# %% [markdown]
# Both sentences end with the same four words, and their last four input rows are exactly
# equal. So the difference between the predictions comes from attention.

# %%
assert torch.equal(ids[0, -4:], ids[1, -4:]) and torch.equal(x[0, -4:], x[1, -4:])
assert not torch.allclose(output[0, -1], output[1, -1])

# %% [markdown]
# ## The same as a layer
#
# A layer with these weights performs all steps, and its trace keeps the result of each step
# under the names used above.

# %%
from manyheads.worksheets.tensors import layer_from_sheet

layer = layer_from_sheet(sheet)
trace = layer.trace(x, is_causal=True)

for name in (
    "q",
    "k",
    "v",
    "scores",
    "attn_weights",
    "head_outputs",
    "concat",
    "output",
):
    agree(trace[name].detach(), name)
trace

# %% [markdown]
# ## PyTorch's own layer with the same weights
#
# `to_torch` copies the parameters. Two conventions differ: by default, PyTorch averages the
# weights over the heads, and in its Boolean `attn_mask` **True means blocked**, the opposite
# of this package.

# %%
theirs = mh.to_torch(layer)
their_output, their_weights = theirs(
    x, x, x, attn_mask=~allowed, average_attn_weights=False
)

assert their_weights.shape == (2, 2, 10, 10)
agree(their_output.detach(), "output")
agree(their_weights.detach(), "attn_weights")

# %% [markdown]
# A mask with the wrong convention raises no error. Each token then sees only the tokens
# *after* it, and the last one sees none.

# %%
turned, _ = theirs(x, x, x, attn_mask=allowed)

assert turned.shape == their_output.shape
assert not torch.allclose(turned[:, :-1], their_output[:, :-1])
print("last row with the mask turned round:", turned[0, -1].tolist())

# %% [markdown]
# ## One loss
#
# The same numbers as a model with trainable parameters: embedding, positions,
# attention, residual, network. The loss is the mean of minus the logarithm of the
# probability of each target word. The exact results contain it too.


# %%
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Parameter(embedding.clone())
        self.positions = nn.Parameter(positions.clone())
        self.attention = layer_from_sheet(sheet)
        self.w_hidden = nn.Parameter(tensor(network.w_hidden))
        self.b_hidden = nn.Parameter(tensor(network.b_hidden))
        self.w_vocab = nn.Parameter(tensor(network.w_vocab))
        self.b_vocab = nn.Parameter(tensor(network.b_vocab))

    def forward(self, ids):
        rows = self.tokens[ids] + self.positions[: ids.shape[1]]
        rows = rows + self.attention(rows, is_causal=True)
        return (
            rows @ self.w_hidden + self.b_hidden
        ).relu() @ self.w_vocab + self.b_vocab


model = Model()
agree(model(ids).detach(), "logits")
targets = torch.tensor([words.index(s.target) for s in sheet.sequences])
loss = F.cross_entropy(model(ids)[:, -1], targets)

wanted = [s["probabilities"][-1][t] for s, t in zip(solutions, targets, strict=True)]
expected = -sum(math.log(p) for p in wanted) / 2
assert abs(loss.item() - expected) < 1e-12
print(f"loss {loss.item():.4f} nats")

# %% [markdown]
# ## One training step
#
# The backward pass gives every parameter a finite gradient. After one step against the
# gradient, the loss is lower.

# %%
loss.backward()
for name, parameter in model.named_parameters():
    gradient = parameter.grad
    assert gradient is not None, f"{name} has no gradient"
    assert gradient.isfinite().all(), f"{name} has a gradient that is not finite"
    assert gradient.any(), f"{name} has a gradient of zeros only"
    print(
        f"{name:27}{str(list(parameter.shape)):10} steepest {gradient.abs().max():.4f}"
    )

torch.optim.SGD(model.parameters(), lr=0.1).step()
stepped = F.cross_entropy(model(ids)[:, -1], targets)
assert stepped < loss
print(f"loss {loss.item():.4f} -> {stepped.item():.4f} nats")

# %% [markdown]
# ## Generation with a truncated context
#
# To generate whole sentences, the model first memorises both: it is trained on every next
# word, not only on the last.

# %%
next_ids = torch.cat((ids[:, 1:], targets[:, None]), dim=1)
optimiser = torch.optim.AdamW(model.parameters(), lr=0.03, weight_decay=0.0)
for _ in range(200):
    optimiser.zero_grad()
    loss = F.cross_entropy(model(ids).flatten(0, 1), next_ids.flatten())
    loss.backward()
    optimiser.step()
print(f"loss of all {next_ids.numel()} next words: {loss.item():.4f} nats")
assert torch.equal(model(ids).argmax(dim=-1), next_ids)

# %% [markdown]
# The model has ten position rows, so it can read ten tokens. If the text is longer, it gets
# only the last ten.


# %%
@torch.no_grad()
def generate(prompt, count):
    text = torch.tensor([[words.index(word) for word in prompt.split()]])
    for _ in range(count):
        context = text[:, -10:]
        best = model(context)[:, -1].argmax(dim=-1, keepdim=True)
        text = torch.cat((text, best), dim=1)
    return [words[index] for index in text[0]]


for sentence in sheet.sequences:
    expected = [token.lower() for token in sentence.tokens] + [sentence.target]
    written = generate(" ".join(expected[:3]), 11)
    print(*written[:11], "|", *written[11:])
    assert written[:11] == expected and len(written) == 14

# %% [markdown]
# After the bar, the window has moved: the model reads a sentence without its beginning, at
# positions that it was not trained on, so its output is no longer memorised.
#
# You can check two properties of the truncation. Without it, the model has no row for the
# eleventh token. With it, a word outside the window has no effect.

# %%
long = torch.cat((ids, targets[:, None]), dim=1)  # eleven tokens
try:
    model(long)
    raise AssertionError("eleven tokens were read with ten positions")
except RuntimeError as error:
    print(error)

other = long.clone()
other[:, 0] = words.index("money")
inside = other.clone()
inside[:, 1] = words.index("money")
with torch.no_grad():
    torch.testing.assert_close(
        model(other[:, -10:]), model(long[:, -10:]), rtol=0, atol=0
    )
    assert not torch.equal(model(inside[:, -10:]), model(long[:, -10:]))
