# %% [markdown]
# # Step by step: two sentences, from tokens to logits
#
# The sentences of the worksheet `river-and-cheque` (by Nipun Batra,
# https://github.com/nipunbatra/attention) go through two heads of attention: first one receiver
# and one head line by line, then all at the same time. Every step of the batch is one line of
# plain PyTorch with the head axis written out, and every result is compared with an engine
# that shares no code with it: it computes with
# fractions, and with 50 digits after an exponential.
#
# About 10 seconds; nothing is downloaded.

# %%
import math
from urllib.parse import quote

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
# ## One receiver and one head, line by line
#
# Before all tokens at once: the last *the* of the first sentence, in head 1, with every product
# written out. Nothing here is a matrix operation; you can do each line with a pocket calculator.

# %%
river, tokens, last = solutions[0], sheet.sequences[0].tokens, 9
rows = x[0]  # (T, D)


def product_line(row, column):
    """A row times a column of a matrix, with its numbers."""
    terms = [f"{a:.4g} x {b:.4g}" for a, b in zip(row, column, strict=True) if b]
    return " + ".join(terms) or "0"


def projected(row, matrix):
    """Each number of a row times a matrix, written out."""
    return [product_line(row, matrix[:, i]) for i in range(matrix.shape[1])]


row = rows[last]
print("row of token 10, the:", [f"{n:.4g}" for n in row])
for name, matrix in (("query", w_q[0]), ("key", w_k[0]), ("value", w_v[0])):
    for i, line in enumerate(projected(row, matrix), start=1):
        print(f"  {name} number {i} = {line} = {row @ matrix[:, i - 1]:.4g}")

# %% [markdown]
# Now the query meets the key of each token that the receiver may see. The products are added to
# the dot product; divided by the square root of the head width, it is the score.


# %%
def print_scores(h):
    """Every source of the last receiver in head h: key, products, dot product, score."""
    query = row @ w_q[h]
    print(f"head {h + 1}, query ({query[0]:.4g}, {query[1]:.4g})")
    scores = []
    for s, token in enumerate(tokens):
        key = rows[s] @ w_k[h]
        products = query * key
        dot = products.sum()
        scores.append(dot / math.sqrt(2))
        print(
            f"  {s + 1:2} {token:10} key ({key[0]:5.2f}, {key[1]:5.2f})   "
            f"{products[0]:6.3f} + {products[1]:6.3f} = {dot:6.3f}   / sqrt 2 = {scores[-1]:6.3f}"
        )
    scores = torch.stack(scores)
    torch.testing.assert_close(scores, tensor(river["scores"])[h, last])
    return scores


scores_1 = print_scores(0)

# %% [markdown]
# The exponential of each score, their sum, and each exponential divided by the sum: the weights.
# Each weight times the value of its source is what this source contributes; the running sum ends
# at the message.


# %%
def print_message(h, scores):
    """Exponential, weight and contribution of every source, and the message of the head."""
    exponentials = [math.exp(score) for score in scores]
    total = sum(exponentials)
    print(f"head {h + 1}, sum of the exponentials {total:.3f}")
    message = torch.zeros(2).double()
    for s, token in enumerate(tokens):
        weight = exponentials[s] / total
        value = rows[s] @ w_v[h]
        contribution = weight * value
        message = message + contribution
        print(
            f"  {s + 1:2} {token:10} exp {exponentials[s]:8.3f}   weight {weight:.4f}   "
            f"x ({value[0]:5.2f}, {value[1]:5.2f}) = "
            f"({contribution[0]:7.4f}, {contribution[1]:7.4f})"
        )
        assert abs(weight - float(river["attn_weights"][h][last][s])) < 1e-12
    print(f"  message ({message[0]:.4f}, {message[1]:.4f})")
    torch.testing.assert_close(message, tensor(river["head_outputs"])[h, last])
    return message


message_1 = print_message(0, scores_1)

# %% [markdown]
# The second head: the same code, other matrices. Only the names in the first column are the same.

# %%
scores_2 = print_scores(1)
message_2 = print_message(1, scores_2)

# %% [markdown]
# The two messages side by side are the joined row. Each number of the output is the joined row
# times a column of `W_O`; the output is added to the row of the token.

# %%
joined = torch.cat([message_1, message_2])
updated_row = []
for i, feature in enumerate(sheet.features):
    out = joined @ w_o[:, i]
    updated_row.append(row[i] + out)
    print(f"{feature:8} output = {product_line(joined, w_o[:, i])} = {out:.4f}")
    print(f"{'':8} updated = {row[i]:.4g} + {out:.4f} = {updated_row[-1]:.4f}")
torch.testing.assert_close(
    torch.stack(updated_row), tensor(river["updated"])[last], rtol=0, atol=1e-12
)

# %% [markdown]
# ### One wide head, for comparison
#
# Put the columns of both heads into one head of width 4. It adds the two dot products *before*
# its only softmax, and divides by the square root of 4. The weights of the three side by side:

# %%
wide_scores = torch.stack(
    [
        sum((row @ w_q[h]) @ (rows[s] @ w_k[h]) for h in range(2)) / math.sqrt(4)
        for s in range(10)
    ]
)
three = [scores.softmax(dim=0) for scores in (scores_1, scores_2, wide_scores)]
print("source        head 1  head 2  one wide head")
for s, token in enumerate(tokens):
    print(f"{s + 1:2} {token:10}", *(f"{weights[s]:7.3f}" for weights in three))
from manyheads.worksheets.interventions import one_wide_head

exact_wide = one_wide_head(sheet).solve("river", exact=True)["attn_weights"]
torch.testing.assert_close(three[2], tensor(exact_wide)[0, last])

# %% [markdown]
# ### A bias
#
# These heads have none. With a bias on the queries, each query gets the same numbers added, at
# every position. With a bias on the keys, every score of one receiver grows by the same number,
# and the softmax does not change.

# %%
bias = torch.tensor([0.5, -1.0]).double()
queries, keys = rows @ w_q[0], rows @ w_k[0]
assert torch.allclose((queries + bias) - queries, bias.expand(10, 2))
shifted = queries[last] @ (keys + bias).T / math.sqrt(2)
print("added to each score by the bias of the keys:", (shifted - scores_1)[:3].tolist())
torch.testing.assert_close(shifted.softmax(dim=0), three[0])
moved = (queries[last] + bias) @ keys.T / math.sqrt(2)
assert not torch.allclose(moved.softmax(dim=0), three[0])

# %% [markdown]
# That is all that multi-head attention does. What follows is the same for all tokens, both
# heads and both sentences at once.

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
# ## A complete implementation in one file
#
# `multihead_from_scratch.py` is the whole layer, about sixty lines, with nothing imported but
# PyTorch. Read it, load it from its text, and download it with the link.

# %%
from IPython.display import HTML, Code, display

from manyheads.learn.notebooks import PLAIN_FILE, plain_implementation

text = plain_implementation()
display(Code(text, language="python"))
link = f"data:text/x-python,{quote(text)}"
display(HTML(f'<a download="{PLAIN_FILE}" href="{link}">{PLAIN_FILE}</a>'))

# %% [markdown]
# It gives the numbers of the worksheet, and `manyheads.check` finds nothing wrong with it.

# %%
scratch = {"__name__": "multihead_from_scratch"}
exec(compile(text, PLAIN_FILE, "exec"), scratch)
plain = scratch["MultiHeadAttention"](4, 2, bias=False).double()
for name, parts in (("q_proj", w_q), ("k_proj", w_k), ("v_proj", w_v)):
    getattr(plain, name).weight.data = torch.cat(list(parts), dim=1).T
plain.out_proj.weight.data = w_o.T
plain_output, plain_weights = plain(x, is_causal=True)
agree(plain_output.detach(), "output")
agree(plain_weights.detach(), "attn_weights")

report = mh.check(plain, embed_dim=4, num_heads=2)
assert report.verdict == "sound", report
print(report.verdict)

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

# %% [markdown]
# ## Try it
#
# Choose a sentence, a head and a receiver, counted from 1, and a number that is added to *glue*
# in the receiver's row. Which source gets the most weight? Predict it, then run the cell. With
# `GLUE = 3.0` all scores of head 1 grow: what happens to its weights?

# %%
SENTENCE, HEAD, RECEIVER, GLUE = 1, 1, 10, 0.0

asked = x[SENTENCE - 1].clone()
asked[RECEIVER - 1, sheet.features.index("glue")] += GLUE
query = asked[RECEIVER - 1] @ w_q[HEAD - 1]
seen = asked[:RECEIVER] @ w_k[HEAD - 1]
tried = (seen @ query / math.sqrt(2)).softmax(dim=0).tolist()
names = sheet.sequences[SENTENCE - 1].tokens[:RECEIVER]
for weight, name in sorted(zip(tried, names, strict=True), reverse=True):
    print(f"{name:10} {weight:.3f}")
