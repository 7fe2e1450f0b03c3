# %% [markdown]
# # Full blocks: norm, feed-forward, depth, cost and cache
#
# Attention alone is not a transformer. Here you build a whole block from its parts, stack
# blocks, and count every parameter and every multiplication. Then you see that a cache of keys
# and values changes the cost but not the result.
#
# About 10 seconds; nothing is downloaded.

# %%
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import manyheads as mh
from manyheads.data import WordTokenizer, generate_stories
from manyheads.models.gpt import Block
from manyheads.models.gpt import TinyGPT
from manyheads.models.config import GPTConfig

threads = torch.get_num_threads()
torch.set_num_threads(1)
chance = torch.Generator().manual_seed(0)


def randn(*sizes):
    """Normal numbers in float64 from this notebook's own generator."""
    return torch.randn(*sizes, generator=chance, dtype=torch.float64)


# %% [markdown]
# ## 1 Normalisation
#
# A layer norm processes each row separately: subtract the mean, divide by the standard
# deviation. A learned gain and bias follow, initially 1 and 0. By hand, and with PyTorch:

# %%
B, T, D, H = 2, 7, 12, 3
x = 5 * randn(B, T, D) + 3
norm = nn.LayerNorm(D, dtype=torch.float64)
mean = x.mean(dim=-1, keepdim=True)
variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
by_hand = (x - mean) / torch.sqrt(variance + norm.eps)
torch.testing.assert_close(norm(x), by_hand)
assert norm(x).mean(dim=-1).abs().max() < 1e-12
print("a row before:", x[0, 0, :4].numpy().round(2), "...")
print("and after:   ", norm(x)[0, 0, :4].detach().numpy().round(2), "...")

# %% [markdown]
# So the result does not depend on the size of a row, or on a number added to the whole row.
# Scores in the next layer cannot grow just because the rows do.

# %%
torch.testing.assert_close(norm(100 * x + 7), norm(x), atol=1e-5, rtol=0)
layer = mh.MultiHeadAttention(D, H, dtype=torch.float64)
torch.manual_seed(1)
layer.reset_parameters()
with torch.no_grad():
    raw = [float(layer.trace(c * x).scores.abs().max()) for c in (1, 10)]
    normed = [float(layer.trace(norm(c * x)).scores.abs().max()) for c in (1, 10)]
print(f"largest score, rows times 1 and times 10: {raw[0]:.2f} and {raw[1]:.2f}")
print(f"with a norm in front:                     {normed[0]:.2f} and {normed[1]:.2f}")
assert raw[1] > 10 * raw[0]
assert math.isclose(normed[0], normed[1], rel_tol=1e-4)

# %% [markdown]
# ## 2 Feed-forward
#
# Two linear maps with a nonlinearity between them, for each position separately. By hand:

# %%
block = Block(D, H, hidden=4 * D).double()
net = block.feed_forward


def gelu(z):
    """The nonlinearity: about z if z is large, about 0 if z is very negative."""
    inner = math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)
    return z / 2 * (1 + torch.tanh(inner))


wide = gelu(x @ net.expand.weight.T + net.expand.bias)  # (B, T, 4 D)
by_hand = wide @ net.contract.weight.T + net.contract.bias  # (B, T, D)
torch.testing.assert_close(net(x), by_hand)
print("widths:", D, "to", wide.shape[-1], "to", by_hand.shape[-1])

# %% [markdown]
# Which rows depend on which? Change one input row and see which output rows change. With the
# feed-forward net, only that row changes. With causal attention, later rows change too.


# %%
def changed_rows(function, place):
    """Output positions, counted from 1, that change with the input row at `place`."""
    moved = x.clone()
    moved[:, place] += randn(D)
    with torch.no_grad():
        difference = (function(moved) - function(x)).abs().amax(dim=(0, 2))
    return [t + 1 for t in range(T) if difference[t] > 1e-12]


place = 2
by_net = changed_rows(net, place)
by_attention = changed_rows(lambda rows: layer(rows, is_causal=True), place)
print("feed-forward:", by_net, "  attention:", by_attention)
assert by_net == [place + 1]
assert by_attention == list(range(place + 1, T + 1))

# %% [markdown]
# ## 3 A block
#
# Pre-norm: each part reads a normalised copy of the residual stream, and its output is
# **added** to the stream. A block has two lines.

# %%
attention = block.attention
with torch.no_grad():
    stream = x + attention(block.attention_norm(x), is_causal=True)
    stream = stream + net(block.feed_forward_norm(stream))
    whole, _, _ = block(x, kv_cache=mh.KVCache())
torch.testing.assert_close(whole, stream)

with torch.no_grad():  # the other order, norm after adding, is another function
    other = block.attention_norm(x + attention(x, is_causal=True))
    other = block.feed_forward_norm(other + net(other))
assert not torch.allclose(other, whole, atol=0.1)
gap = (other - whole).abs().max()
print(f"largest difference between pre-norm and post-norm: {gap:.2f}")

# %% [markdown]
# ## 4 Depth
#
# Because everything is added, the stream after the last block is the sum of the embedding and
# all messages, two per block. Hooks record them, and their sum is compared.

# %%
config = GPTConfig(vocab_size=50, context=16, width=D, num_layers=5, num_heads=H)
model = TinyGPT(config, generator=torch.Generator().manual_seed(2)).double().eval()
tokens = torch.randint(0, 50, (B, 16), generator=chance)
messages, ends, hooks = [], [], []
for each in model.blocks:
    hooks.append(each.register_forward_hook(lambda *call: ends.append(call[2][0])))
    for part in (each.attention, each.feed_forward):
        hooks.append(part.register_forward_hook(lambda *call: messages.append(call[2])))
with torch.no_grad():
    logits = model(tokens)
for hook in hooks:
    hook.remove()
added = [part[0] if isinstance(part, tuple) else part for part in messages]
with torch.no_grad():
    start = model.token_embedding(tokens) + model.position_embedding.weight
    total = start + sum(added)
    torch.testing.assert_close(ends[-1], total)
    torch.testing.assert_close(model.output(model.final_norm(total)), logits)
print(f"{len(added)} messages and the embedding are the stream, to the last digits")
assert len(added) == 2 * config.num_layers

# %% [markdown]
# Depth also extends the reach. Give each layer a window of two positions: its own and the one
# before. Each further layer reaches one more position. The gradients show it.


# %%
def positions_reached(num_layers, length=8):
    """The number of positions that the last output row depends on."""
    torch.manual_seed(3)
    rows = randn(1, length, D).requires_grad_()
    hidden = rows
    for _ in range(num_layers):
        narrow = mh.MultiHeadAttention(D, H, window=2, dtype=torch.float64)
        hidden = hidden + narrow(hidden, is_causal=True)
    hidden[0, -1].sum().backward()
    return int((rows.grad[0].abs().amax(dim=-1) > 0).sum())


reach = {depth: positions_reached(depth) for depth in (1, 2, 3, 4, 5)}
print("layers and positions reached:", reach)
assert all(positions == depth + 1 for depth, positions in reach.items())

# %% [markdown]
# ## 5 Every parameter
#
# Counted by formula, part by part, and then in the model. The output layer shares its weights
# with the word embedding.

# %%
V, C, W, L = 1000, 64, 48, 3
config = GPTConfig(vocab_size=V, context=C, width=W, num_layers=L, num_heads=4)
model = TinyGPT(config)
paper = {
    "word rows": V * W,
    "position rows": C * W,
    "norms": (2 * L + 1) * 2 * W,
    "W_Q, W_K, W_V, W_O": L * 4 * W * W,
    "their biases": L * 4 * W,
    "feed-forward": L * (2 * W * 4 * W + 4 * W + W),
}


def part_of(name):
    """The part of the model that a parameter belongs to."""
    if "norm" in name:
        return "norms"
    if "attention" in name:
        return "their biases" if name.endswith("bias") else "W_Q, W_K, W_V, W_O"
    if "feed_forward" in name:
        return "feed-forward"
    return "position rows" if "position" in name else "word rows"


counted = dict.fromkeys(paper, 0)
for name, parameter in model.named_parameters():
    counted[part_of(name)] += parameter.numel()
for part, number in paper.items():
    print(f"{part:20} {number:8,}   counted {counted[part]:8,}")
assert counted == paper
assert sum(paper.values()) == model.num_parameters == config.num_parameters
print(f"{'together':20} {sum(paper.values()):8,}")

# %% [markdown]
# More heads of the same total width need no more parameters, but more score entries. These are
# the numbers of the page (`accounting:...`): width and context of the study, no biases, scores
# in float32; here counted in layers and tensors.

# %%
width = context = 64
rows = torch.randn(1, context, width, generator=chance)
print("heads  head width  parameters  score entries  bytes of scores")
for heads in (1, 2, 4, 8, 16):
    layer = mh.MultiHeadAttention(width, heads, bias=False)
    with torch.no_grad():
        scores = layer.trace(rows, is_causal=True).scores
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    size = scores.numel() * scores.element_size()
    assert scores.shape == (1, heads, context, context)
    assert parameters == 4 * width**2
    assert scores.numel() == heads * context**2 and size == 4 * heads * context**2
    print(
        f"{heads:5} {layer.config.head_dim:11} {parameters:11,} {scores.numel():14,} {size:16,}"
    )

# %% [markdown]
# ## 6 Length
#
# Twice the tokens means four times the scores. Are they stored? Every tensor passes through
# PyTorch's dispatcher, which can record the largest.


# %%
class LargestTensor(TorchDispatchMode):
    """Records the largest tensor that is created while it is active."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, torch.Tensor):
                self.largest = max(self.largest, made.numel())
        return result


heads, width = 4, 32
lengths = (64, 128, 256, 512)
stored = {"packed": [], "fused": []}
for form, found in stored.items():
    layer = mh.MultiHeadAttention(width, heads, bias=False, form=form)
    for length in lengths:
        rows = torch.randn(1, length, width, generator=chance)
        with torch.no_grad(), LargestTensor() as mode:
            layer(rows, is_causal=True)
        found.append(mode.largest)
    print(f"{form:7}", dict(zip(lengths, found, strict=True)))
assert stored["packed"] == [heads * length**2 for length in lengths]
assert stored["fused"] == [3 * length * width for length in lengths]

# %% [markdown]
# The packed form stores one entry per head and pair of positions. The largest tensor of the
# fused form is q, k and v together, which grows linearly with the length; its scores exist only
# in small tiles during the call. The number of multiplications is the same.
#
# ## 7 Every multiplication
#
# One multiply-add is one product added to a sum. By formula, for a full pass over T tokens:


# %%
def multiply_adds(config, new, seen):
    """Products of a pass over `new` tokens that see `seen` positions, by part.

    Every query meets every key here; a mask hides scores, it does not save them.
    """
    D, H, L = config.width, config.num_heads, config.num_layers
    d, G = D // H, config.num_kv_heads or H
    return {
        "projections": L * new * (D * D + 2 * D * G * d + D * D),
        "scores": L * H * new * seen * d,
        "messages": L * H * new * seen * d,
        "feed-forward": L * new * 2 * D * config.feed_forward_width,
        "vocabulary": new * D * config.vocab_size,
    }


def counted_products(function):
    """Multiply-adds of a call, as PyTorch counts them; it counts two operations for each."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        function()
    return counter.get_total_flops() // 2


config = GPTConfig(vocab_size=200, context=256, width=32, num_layers=2, num_heads=4)
model = TinyGPT(config, form="packed").eval()
share = {}
for length in (16, 64, 256):
    tokens = torch.randint(0, 200, (1, length), generator=chance)
    paper = multiply_adds(config, length, length)
    found = counted_products(lambda tokens=tokens: model(tokens))
    assert found == sum(paper.values()), (found, paper)
    share[length] = (paper["scores"] + paper["messages"]) / found
    print(
        f"{length:3} tokens: {found:11,} products, {share[length]:.0%} with T squared"
    )
assert share[16] < share[64] < share[256]

# %% [markdown]
# For short texts, most of the cost is projections and feed-forward nets; for long texts, it is
# attention.
#
# ## 8 The cache
#
# To generate a text word by word, each step needs only the last row. But its query needs the
# keys and values of all earlier rows. In a causal model, later words do not change them, so
# they can be stored.

# %%
config = GPTConfig(vocab_size=60, context=48, width=32, num_layers=3, num_heads=4)
model = TinyGPT(config, generator=torch.Generator().manual_seed(4)).double().eval()
with torch.no_grad():
    for parameter in model.parameters():  # start values are too small to show a mistake
        parameter.mul_(6)
tokens = torch.randint(0, 60, (2, 40), generator=chance)
with torch.no_grad():
    full = model(tokens)
    short, long = model.traces(tokens[:, :25])[1], model.traces(tokens)[1]
torch.testing.assert_close(long.k[:, :, :25], short.k)
torch.testing.assert_close(long.v[:, :, :25], short.v)


def with_cache(pieces):
    """Logits of all tokens, computed piece by piece with a cache."""
    caches, found = model.new_caches(), []
    with torch.no_grad():
        for piece in pieces:
            logits, caches = model(piece, kv_caches=caches)
            found.append(logits)
    return torch.cat(found, dim=1), caches


for how, pieces in {
    "one by one": tokens.split(1, dim=1),
    "in uneven pieces": tokens.split([7, 1, 20, 12], dim=1),
}.items():
    cached, caches = with_cache(pieces)
    gap = float((cached - full).abs().max())
    print(f"{how:17} largest difference of a logit {gap:.1e}")
    assert gap < 1e-10
    assert all(cache.seq_len == tokens.shape[1] for cache in caches)

# %% [markdown]
# Would the comparison find a mistake? Try two: an ignored cache, and a cache with the wrong
# order of layers.

# %%
with torch.no_grad():
    _, caches = model(tokens[:, :-1], kv_caches=model.new_caches())
    right, _ = model(tokens[:, -1:], kv_caches=caches)
    forgotten = model(tokens[:, -1:])
    swapped, _ = model(tokens[:, -1:], kv_caches=caches[::-1])
wrong = {"forgotten": forgotten, "layers swapped": swapped}
assert (right - full[:, -1:]).abs().max() < 1e-10
for mistake, logits in wrong.items():
    gap = float((logits - full[:, -1:]).abs().max())
    print(f"{mistake:15} largest difference {gap:.3f}")
    assert gap > 0.01

# %% [markdown]
# The savings: generating N words with a cache, and with a full pass for every word. The
# formula above gives the same numbers.

# %%
config = GPTConfig(vocab_size=60, context=64, width=32, num_layers=3, num_heads=4)
model = TinyGPT(config, form="packed").eval()


def step_by_step(tokens, use_cache):
    """Logits after the last token, with one step per token."""
    caches = model.new_caches()
    for t in range(tokens.shape[1]):
        if use_cache:
            logits, caches = model(tokens[:, t : t + 1], kv_caches=caches)
        else:
            logits = model(tokens[:, : t + 1])
    return logits[:, -1]


saved = {}
for length in (8, 32, 64):
    tokens = torch.randint(0, 60, (1, length), generator=chance)
    costs, seconds, last = [], [], []
    for use_cache in (True, False):
        costs.append(counted_products(lambda t=tokens, u=use_cache: step_by_step(t, u)))
        begun = time.perf_counter()
        with torch.no_grad():
            last.append(step_by_step(tokens, use_cache))
        seconds.append(time.perf_counter() - begun)
    steps = range(1, length + 1)
    cached = sum(sum(multiply_adds(config, 1, t).values()) for t in steps)
    again = sum(sum(multiply_adds(config, t, t).values()) for t in steps)
    assert costs == [cached, again]
    torch.testing.assert_close(last[0], last[1], atol=1e-4, rtol=1e-4)
    saved[length] = again / cached
    print(
        f"{length:2} words: {cached:9,} products with cache, {again:11,} without: "
        f"{saved[length]:4.1f} times; here {seconds[1] / seconds[0]:.1f} times the seconds"
    )
assert saved[8] < saved[32] < saved[64] and saved[64] > 10

# %% [markdown]
# The time improves less than the count: in a model this small, Python takes most of the time.
# The count does not depend on the machine.
#
# ## 9 The size of the cache, and fewer key/value heads
#
# The cache stores a key and a value per layer, position and key/value head. Query heads can
# share them: with G key/value heads, the cache, W_K and W_V are smaller by a factor of H / G.

# %%
length, H, W, L = 40, 8, 64, 3
sizes = {}
for G in (8, 4, 2, 1):
    config = GPTConfig(
        vocab_size=60,
        context=length,
        width=W,
        num_layers=L,
        num_heads=H,
        num_kv_heads=G,
    )
    shared = TinyGPT(config).eval()
    tokens = torch.randint(0, 60, (1, length), generator=chance)
    with torch.no_grad():
        logits, caches = shared(tokens, kv_caches=shared.new_caches())
        torch.testing.assert_close(shared(tokens), logits)
    assert caches[0].k.shape == (1, G, length, W // H)
    size = sum(kept.nbytes for cache in caches for kept in (cache.k, cache.v))
    assert size == 2 * L * G * length * (W // H) * 4  # float32
    assert shared.num_parameters == config.num_parameters
    sizes[G] = (size, shared.num_parameters)
    print(
        f"{G} of {H} key/value heads: {size:7,} bytes, {shared.num_parameters:,} parameters"
    )
assert all(sizes[8][0] == sizes[G][0] * (8 // G) for G in sizes)
assert sizes[8][1] - sizes[1][1] == L * 2 * (W + 1) * (W - W // H)

# %% [markdown]
# These are the savings; the effect on the loss must be measured and is not shown here.
#
# ## 10 Training
#
# Train for a few seconds on stories of a small grammar; other stories are only for validation.
# Before training, the model is about as good as guessing: its loss is near ln V.

# %%
stories = generate_stories(1000, seed=1)
kept_apart, learned = stories[:100], stories[100:]
assert not set(kept_apart) & set(learned)
tokenizer = WordTokenizer.train(learned, vocab_size=700)
PAD, BOS = tokenizer.ids["[PAD]"], tokenizer.ids["[BOS]"]
length = 48


def beginnings(texts):
    """The first words of stories, (N, length + 1), padded on the right."""
    coded = [[BOS, *tokenizer.encode(text)][: length + 1] for text in texts]
    return torch.tensor([row + [PAD] * (length + 1 - len(row)) for row in coded])


train, held_out = beginnings(learned), beginnings(kept_apart)
config = GPTConfig(
    vocab_size=tokenizer.vocab_size, context=length, width=48, num_layers=2, num_heads=4
)
model = TinyGPT(config, generator=torch.Generator().manual_seed(5))


def loss_of(rows):
    """Mean loss of every next word that is not padding, in nats."""
    logits = model(rows[:, :-1])  # (B, T, V)
    return F.cross_entropy(
        logits.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
    )


with torch.no_grad():
    before = float(loss_of(held_out))
print(
    f"{config.num_parameters:,} parameters; "
    f"loss {before:.3f}, ln V {math.log(config.vocab_size):.3f}"
)
assert abs(before - math.log(config.vocab_size)) < 0.1

# %% [markdown]
# One AdamW step per batch of stories.

# %%
optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
order = torch.Generator().manual_seed(6)
curve = []
begun = time.perf_counter()
for step in range(150):
    batch = train[torch.randint(0, len(train), (16,), generator=order)]
    loss = loss_of(batch)
    optimiser.zero_grad()
    loss.backward()
    if step == 0:
        gradients = [parameter.grad for parameter in model.parameters()]
        assert all(each is not None and each.isfinite().all() for each in gradients)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    curve.append(loss.item())
seconds = time.perf_counter() - begun
with torch.no_grad():
    after = float(loss_of(held_out))
print(
    f"held-out loss {before:.3f} before, {after:.3f} after {len(curve)} steps, {seconds:.1f} s"
)
assert after < 0.5 * before
assert sum(curve[-10:]) < 0.5 * sum(curve[:10])

# %%
counts = torch.bincount(train[:, 1:].flatten(), minlength=config.vocab_size).double()
counts[PAD] = 0
share = (counts + 1) / (counts + 1).sum()
targets = held_out[:, 1:][held_out[:, 1:] != PAD]
frequencies = float(-share[targets].log().mean())
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
axes.plot(curve, label="training batch")
axes.axhline(
    frequencies, color="#585c64", linestyle="--", label="word frequencies alone"
)
axes.plot([0, len(curve)], [before, after], "o", color="#9e287f", label="held out")
axes.set_xlabel("step")
axes.set_ylabel("nats a word")
axes.set_ylim(bottom=0)
axes.legend()
plt.show()
assert after < frequencies, "no better than knowing how frequent words are"

# %% [markdown]
# The dashed line is the loss of a model that knows only the frequency of each word. The trained
# model is better: words depend on the words before them.
#
# Finally, the trained model continues a story with the most probable words. The text is the
# same with and without the cache. It reads like a story before it makes sense: check whether
# names and pronouns agree.

# %%
model.eval()


def continued(text, many, use_cache):
    """The most probable continuation, word by word."""
    ids, caches = [BOS, *tokenizer.encode(text)], model.new_caches()
    new = torch.tensor([ids])
    with torch.no_grad():
        for _ in range(many):
            if use_cache:
                logits, caches = model(new, kv_caches=caches)
            else:
                logits = model(torch.tensor([ids]))
            ids.append(int(logits[0, -1].argmax()))
            new = torch.tensor([ids[-1:]])
    return tokenizer.decode(ids[1:])


text = continued("Once there was a girl", 30, use_cache=True)
assert text == continued("Once there was a girl", 30, use_cache=False)
print(text)

# %% [markdown]
# ## Try it
#
# Begin the story yourself, in at most 48 words and marks with the new ones. Give the hero a name:
# does the name come back, and does the pronoun fit?

# %%
START, NEW = "Once there was a boy named Tom.", 30

print(continued(START, NEW, use_cache=True))

# %%
torch.set_num_threads(threads)
