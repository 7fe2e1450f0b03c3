# %% [markdown]
# # Image patches and a class token
#
# Attention works on rows, and a row need not be a word. Here small images become rows, one more
# row (the class token CLS) collects the information to classify the image, and there is no mask.
# Two tasks: handwritten digits, which do not need attention, and stripes, which require a
# comparison of patches.
#
# About 20 seconds; the digits come with scikit-learn, nothing is downloaded.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import binomtest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from torch import nn

import manyheads as mh

threads = torch.get_num_threads()
torch.set_num_threads(1)

# %% [markdown]
# ## 1 An image becomes rows
#
# The digits of scikit-learn: grey values from 0 to 16, scaled to 0 to 1.

# %%
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32) / 16  # (N, 8, 8)
labels = torch.tensor(digits.target)
assert images.shape[1:] == (8, 8) and float(images.max()) == 1.0
assert set(labels.tolist()) == set(range(10))
print(len(images), "images; of each digit:", torch.bincount(labels).tolist())

# %% [markdown]
# Cutting into patches is a reshape: rows and columns of patches, then rows and columns inside a
# patch. Nothing is lost, so the inverse gives the image.


# %%
def patches_of(images, side):
    """Images (N, 8, 8) as patches (N, P, side * side), in reading order."""
    N, count = len(images), 8 // side
    cut = images.reshape(N, count, side, count, side)  # (N, row, y, column, x)
    return cut.transpose(2, 3).reshape(N, count * count, side * side)


def images_of(patches, side):
    """The inverse: (N, P, side * side) to (N, 8, 8)."""
    N, count = len(patches), 8 // side
    cut = patches.reshape(N, count, count, side, side)
    return cut.transpose(2, 3).reshape(N, 8, 8)


for side in (2, 4):
    assert torch.equal(images_of(patches_of(images, side), side), images)
numbered = torch.arange(64.0).reshape(1, 8, 8)
first = patches_of(numbered, 2)[0, 0].tolist()
assert first == [0, 1, 8, 9], "the first patch is the upper left corner"
print("places of the first patch in the image:", first)

# %% [markdown]
# The page uses large patches (`patches:...`), to have few rows. The same counts, taken from
# tensors: patches, numbers per patch, rows with CLS in front, score entries.

# %%
large = patches_of(images[:1], 4)
embedding = nn.Linear(16, 4, bias=False)
layer = mh.MultiHeadAttention(4, num_heads=2)
with torch.no_grad():
    rows = torch.cat([torch.zeros(1, 1, 4), embedding(large)], dim=1)
    trace = layer.trace(rows)
account = {
    "patches:pixels": images[0].numel(),
    "patches:count": large.shape[1],
    "patches:numbers": large.shape[2],
    "patches:rows": rows.shape[1],
    "patches:embedding": embedding.weight.numel(),
    "patches:scores": trace.scores.numel(),
}
for name, number in account.items():
    print(f"{name:18} {number}")
assert list(account.values()) == [64, 4, 16, 5, 64, 2 * 5 * 5]

# %% [markdown]
# From here on, patches are small: more rows with less information each.

# %%
patches = patches_of(images, 2)
count = patches.shape[1]
assert patches.shape[1:] == (16, 4)
figure, axes = plt.subplots(1, 2, figsize=(5, 2.6), layout="constrained")
axes[0].imshow(images[0].numpy(), cmap="gray_r")
axes[0].set_title(f"a {labels[0]}")
axes[0].axis("off")
edges = (0.5, 4.5, count + 0.5, 0.5)  # patches and pixels are read from 1 on
axes[1].imshow(patches[0].numpy(), cmap="gray_r", aspect="auto", extent=edges)
axes[1].set_title(f"the same as {count} rows")
axes[1].set_xlabel("pixel of the patch")
axes[1].set_ylabel("patch")
plt.show()

# %% [markdown]
# ## 2 The model
#
# Each patch becomes a row, and the row of its position is added. CLS comes first. Two blocks
# follow, without a mask. In the first, all rows are queries, so patches exchange information;
# in the second, only CLS is a query. The class is computed from CLS alone.


# %%
class Block(nn.Module):
    """Attention, then a feed-forward net; each adds to the query rows."""

    def __init__(self, width, num_heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = mh.MultiHeadAttention(width, num_heads)
        self.net = feed_forward(width)

    def forward(self, queries, rows, **masks):
        """The updated query rows (N, T, D), which attend to all rows."""
        message = self.attention(self.norms[0](queries), self.norms[0](rows), **masks)
        queries = queries + message
        return queries + self.net(self.norms[1](queries))

    def weights(self, queries, rows):
        """The attention weights (N, H, T, S)."""
        queries, rows = self.norms[0](queries), self.norms[0](rows)
        return self.attention(queries, rows, need_weights=True)[1]


def feed_forward(width):
    """Two linear maps with a ReLU between them, for each row separately."""
    return nn.Sequential(
        nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
    )


class PatchNet(nn.Module):
    """Classify an image from its patches (N, P, 4), from the CLS row."""

    def __init__(self, num_classes, width=32, num_heads=4):
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.places = nn.Parameter(0.1 * torch.randn(16, width))
        self.cls = nn.Parameter(0.1 * torch.randn(1, 1, width))
        self.blocks = nn.ModuleList(Block(width, num_heads) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, num_classes)

    def rows(self, patches):
        """CLS and one row per patch, (N, 1 + P, D)."""
        rows = self.embed(patches) + self.places
        return torch.cat([self.cls.expand(len(rows), -1, -1), rows], dim=1)

    def answer(self, rows, allowed=None, hidden=None):
        """Logits (N, C). The last block computes only CLS, so only CLS is a query there."""
        first, last = self.blocks
        rows = first(rows, rows, attn_mask=allowed, key_padding_mask=hidden)
        of_cls = None if allowed is None else allowed[:1]
        cls = last(rows[:, :1], rows, attn_mask=of_cls, key_padding_mask=hidden)
        return self.output(self.norm(cls[:, 0]))

    def weights_of_cls(self, rows):
        """The weights (N, H, 1 + P) of CLS in the last block."""
        first, last = self.blocks
        rows = first(rows, rows)
        return last.weights(rows[:, :1], rows)[:, :, 0]

    def forward(self, patches, **masks):
        return self.answer(self.rows(patches), **masks)


class NoMixing(nn.Module):
    """The same without attention: each patch is processed alone, and the results are averaged."""

    def __init__(self, num_classes, width=32):
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.places = nn.Parameter(0.1 * torch.randn(16, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.net = feed_forward(width)
        self.output = nn.Linear(width, num_classes)

    def forward(self, patches):
        rows = self.embed(patches) + self.places
        rows = rows + self.net(self.norms[0](rows))
        return self.output(self.norms[1](rows).mean(dim=1))


for kind in (PatchNet, NoMixing):
    numbers = sum(parameter.numel() for parameter in kind(10).parameters())
    print(f"{kind.__name__:9} {numbers:6,} parameters")

# %% [markdown]
# Training is the same for every model and task, so that no model has an advantage: it stops
# when the mean loss of an epoch is small, or after the maximum number of epochs. The random
# seed determines the initial weights and the order of images.


# %%
def trained(kind, num_classes, patches, labels, seed, most_epochs):
    """A model trained on the given patches, and the epochs it took."""
    torch.manual_seed(seed)
    model = kind(num_classes)
    order = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=5e-3, weight_decay=0.05, fused=True
    )
    epochs = 0
    while epochs < most_epochs:
        epochs += 1
        losses = []
        for batch in torch.randperm(len(patches), generator=order).split(128):
            loss = F.cross_entropy(model(patches[batch]), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        if np.mean(losses) < 0.1:
            break
    return model.eval(), epochs


def right(model, patches, labels, **masks):
    """Which images are classified correctly, (N,) of 0 and 1."""
    with torch.no_grad():
        return (model(patches, **masks).argmax(dim=1) == labels).double()


# %% [markdown]
# ## 3 Digits
#
# A quarter of the images is the test set. Three models with three random seeds, the same models
# without attention, and logistic regression on the pixels.

# %%
learn, test = train_test_split(
    np.arange(len(labels)), test_size=0.25, random_state=0, stratify=digits.target
)
assert not set(learn) & set(test)
seeds = (0, 1, 2)
lesson = patches[learn], labels[learn]
nets = [trained(PatchNet, 10, *lesson, seed, 60) for seed in seeds]
alone = [trained(NoMixing, 10, *lesson, seed, 25) for seed in seeds]
pixels = images.flatten(1).numpy()
regression = LogisticRegression(max_iter=2000).fit(pixels[learn], digits.target[learn])

hits = {
    "attention": [right(net, patches[test], labels[test]) for net, _ in nets],
    "no mixing": [right(net, patches[test], labels[test]) for net, _ in alone],
    "regression": [
        torch.tensor(regression.predict(pixels[test]) == digits.target[test]).double()
    ],
}
means = {name: float(torch.stack(found).mean()) for name, found in hits.items()}
for name, found in hits.items():
    shown = ", ".join(f"{float(each.mean()):.1%}" for each in found)
    print(f"{name:10} {means[name]:.1%} of {len(test)} test images   ({shown})")
print(
    "epochs:", [e for _, e in nets], "with attention,", [e for _, e in alone], "without"
)
assert all(float(each.mean()) > 0.9 for each in hits["attention"])
assert means["regression"] > 0.94 and means["no mixing"] > 0.94

# %% [markdown]
# Is one of them better? An interval for the accuracy of one model, and a test on the images
# that only one of two models classifies correctly.

# %%
ours, theirs = hits["attention"][0], hits["regression"][0]
interval = binomtest(int(ours.sum()), len(test)).proportion_ci()
only_ours, only_theirs = int((ours > theirs).sum()), int((theirs > ours).sum())
p_value = binomtest(only_ours, only_ours + only_theirs).pvalue
print(f"attention, first seed: 95 % interval {interval.low:.1%} to {interval.high:.1%}")
print(f"right only with attention: {only_ours}; only with regression: {only_theirs}")
print(f"without any difference, so unequal a pair comes in {p_value:.0%} of cases")
assert interval.low < ours.mean() < interval.high
for name in ("no mixing", "regression"):
    assert means["attention"] < means[name] + 0.02, "attention is of use here"

# %% [markdown]
# So these digits do not need attention: a linear map of the pixels, and a model that reads each
# patch separately, are as good. But they show how the rows work.
#
# ## 4 Where CLS attends
#
# Its weights in the last block, one map per head, brightest at the maximum. The weight that CLS
# gives to itself is above each map.

# %%
net, _ = nets[0]
chosen = [int(torch.nonzero(labels[test] == digit)[0]) for digit in (0, 1, 4, 7)]
shown = patches[test][chosen]
with torch.no_grad():
    named = net(shown).argmax(dim=1)
    from_cls = net.weights_of_cls(net.rows(shown))  # (N, H, 1 + P)
torch.testing.assert_close(from_cls.sum(dim=-1), torch.ones(len(chosen), 4))
maps = from_cls[..., 1:].reshape(len(chosen), 4, 4, 4)
figure, axes = plt.subplots(len(chosen), 5, figsize=(8, 7), layout="constrained")
for line, place in zip(axes, range(len(chosen)), strict=True):
    line[0].imshow(images_of(shown, 2)[place].numpy(), cmap="gray_r")
    line[0].set_title(f"named {int(named[place])}", fontsize=9)
    for h in range(4):
        line[h + 1].imshow(maps[place, h].numpy(), cmap="Blues", vmin=0)
        itself = float(from_cls[place, h, 0])
        line[h + 1].set_title(f"head {h + 1}, itself {itself:.0%}", fontsize=9)
    for each in line:
        each.set_xticks([])
        each.set_yticks([])
plt.show()

# %% [markdown]
# Do such maps show what matters? Hide patches from all blocks and see the accuracy: the four
# with the most weight, the four with the least, and four at random. If the maps ranked patches
# correctly, *most* would cost most in every line, and *least* least.

# %%
drawn = torch.rand(len(test), count, generator=torch.Generator().manual_seed(0))
print("right with these four patches hidden:")
for seed, (each, _) in zip(seeds, nets, strict=True):
    with torch.no_grad():
        weights = each.weights_of_cls(each.rows(patches[test]))
    ranked = weights[:, :, 1:].mean(dim=1).argsort(dim=1)  # mean over heads
    hidden = {
        "most": ranked[:, -4:],
        "random": drawn.argsort(1)[:, :4],
        "least": ranked[:, :4],
    }
    shares = {"none": float(hits["attention"][seed].mean())}
    for name, places in hidden.items():
        blocked = torch.zeros(len(test), 1 + count, dtype=torch.bool)
        blocked.scatter_(1, places + 1, True)  # True = padding, seen by no query
        found = right(each, patches[test], labels[test], hidden=blocked)
        shares[name] = float(found.mean())
        assert shares[name] < shares["none"], "hidden patches were of no use"
    print(
        f"seed {seed}:",
        ", ".join(f"{name} {share:.1%}" for name, share in shares.items()),
    )

# %% [markdown]
# ## 5 Only the position rows encode order
#
# Attention does not depend on order. If you shuffle the rows with their positions added, the
# output stays the same up to rounding. If you shuffle the patches under fixed positions, it
# changes.

# %%
shuffle = torch.randperm(count, generator=torch.Generator().manual_seed(1))
rows = net.rows(patches[test])
moved = torch.cat([rows[:, :1], rows[:, 1:][:, shuffle]], dim=1)
with torch.no_grad():
    straight, shuffled = net.answer(rows), net.answer(moved)
    seen, seen_moved = net.weights_of_cls(rows), net.weights_of_cls(moved)
    torn = right(net, patches[test][:, shuffle], labels[test])
torch.testing.assert_close(shuffled, straight, atol=1e-4, rtol=1e-4)
torch.testing.assert_close(
    seen_moved[..., 1:], seen[..., 1:][..., shuffle], atol=1e-5, rtol=1e-4
)
print(
    f"rows shuffled with their places: largest change {(shuffled - straight).abs().max():.1e}"
)
print(f"patches shuffled without them: {float(torn.mean()):.1%} right")
assert float(torn.mean()) < 0.5

# %% [markdown]
# Why no causal mask? With CLS in front, it would hide every patch from CLS: all images would
# get the same class.

# %%
causal = torch.ones(1 + count, 1 + count, dtype=torch.bool).tril()  # True = may attend
with torch.no_grad():
    masked = net(patches[test], allowed=causal)
assert (masked - masked[0]).abs().max() < 1e-4
blind = right(net, patches[test], labels[test], allowed=causal)
print(
    f"with a causal mask: {float(blind.mean()):.1%} right, always {int(masked[0].argmax())}"
)
assert float(blind.mean()) < 0.15

# %% [markdown]
# ## 6 Stripes: the model must compare patches
#
# Four lines of patches, bright or dark at random, are vertical or horizontal, with noise. Every
# patch is bright equally often in both classes, so a single patch has no information.


# %%
def stripes(number, seed, noise=0.15):
    """Images (N, 8, 8) and whether their stripes are vertical (1) or horizontal (0)."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(1, 15, (number,), generator=generator)  # not all equal
    lines = ((codes[:, None] >> torch.arange(4)) & 1).float()
    lines = lines.repeat_interleave(2, dim=1)  # two pixels per line
    is_vertical = torch.randint(0, 2, (number,), generator=generator)
    down = lines[:, None, :].expand(-1, 8, -1)
    images = torch.where(is_vertical[:, None, None] == 1, down, down.transpose(1, 2))
    return images + noise * torch.randn(number, 8, 8, generator=generator), is_vertical


drawn, kinds = stripes(1500, seed=0)
fresh, fresh_kinds = stripes(1000, seed=1)
figure, axes = plt.subplots(1, 6, figsize=(8, 1.8), layout="constrained")
for place, each in enumerate(axes):
    each.imshow(drawn[place].numpy(), cmap="gray_r", vmin=0, vmax=1)
    each.set_title("vertical" if kinds[place] else "horizontal", fontsize=9)
    each.axis("off")
plt.show()
brightness = patches_of(drawn, 2).mean(dim=2)  # (N, P)
difference = brightness[kinds == 1].mean(dim=0) - brightness[kinds == 0].mean(dim=0)
print(f"largest difference of a patch's mean brightness: {difference.abs().max():.3f}")
assert difference.abs().max() < 0.1

# %% [markdown]
# No sum of functions of single patches can learn this task. Swapping bright and dark does not
# change the class, so of all such sums a constant has the lowest expected loss. Regression on
# pixels is such a sum, and so is the model without attention between patches.

# %%
drawn_patches, fresh_patches = patches_of(drawn, 2), patches_of(fresh, 2)
line = drawn.flatten(1).numpy(), kinds.numpy()
fresh_line = fresh.flatten(1).numpy(), fresh_kinds.numpy()
lesson = drawn_patches, kinds
striped = [trained(PatchNet, 2, *lesson, seed, 25) for seed in seeds]
unmixed = [trained(NoMixing, 2, *lesson, seed, 8) for seed in seeds]
found = {
    "attention": [
        float(right(net, fresh_patches, fresh_kinds).mean()) for net, _ in striped
    ],
    "no mixing": [
        float(right(net, fresh_patches, fresh_kinds).mean()) for net, _ in unmixed
    ],
    "regression": [LogisticRegression(max_iter=2000).fit(*line).score(*fresh_line)],
    "hidden layer": [
        MLPClassifier((64,), max_iter=100, tol=1e-3, random_state=0)
        .fit(*line)
        .score(*fresh_line)
    ],
}
for name, shares in found.items():
    print(f"{name:12}", ", ".join(f"{share:.1%}" for share in shares))
print("epochs:", [e for _, e in striped], "with attention,", [e for _, e in unmixed])
assert min(found["attention"]) > 0.97
assert all(0.4 < share < 0.6 for share in found["no mixing"] + found["regression"])
assert min(found["hidden layer"]) > 0.97

# %% [markdown]
# Attention compares patches and solves the task. So does a hidden layer over all pixels, the
# last line: a model must combine positions, and attention is one way to do it.
#
# Where does the comparison happen? Change the trained models: in the first block each patch may
# attend only to itself, and CLS to all. If the accuracy hardly drops, CLS and the net after it
# do the comparison; if it drops much, the patches did it. Models with equal outputs need not
# work in the same way.

# %%
apart = torch.eye(1 + count, dtype=torch.bool)
apart[0] = True  # True = may attend: CLS sees everything
for (net, epochs), before in zip(striped, found["attention"], strict=True):
    first = net.blocks[0]
    with torch.no_grad():
        normed = first.norms[0](net.rows(fresh_patches[:5]))
        weights = first.attention.trace(normed, attn_mask=apart).attn_weights
    assert torch.equal(weights[:, :, 1:, 1:], torch.eye(count).expand(5, 4, -1, -1))
    after = float(right(net, fresh_patches, fresh_kinds, allowed=apart).mean())
    print(f"{epochs:2} epochs: {before:.1%} right, with patches apart {after:.1%}")
    assert 0.4 < after < before + 0.01

# %% [markdown]
# ## Try it
#
# Choose a test image and the patches that are hidden from it, 1 to 16 in reading order. Which
# digit does the first model name then, and how surely?

# %%
IMAGE, HIDDEN = 1, [6, 7, 10, 11]

picture = patches[test][IMAGE - 1 : IMAGE]
covered = torch.zeros(1, 1 + count, dtype=torch.bool)
covered[0, HIDDEN] = True  # True = hidden; place 0 is CLS
with torch.no_grad():
    for what, mask in (("all patches", None), ("some hidden", covered)):
        sure = nets[0][0](picture, hidden=mask).softmax(dim=1)[0]
        print(f"{what:12} named {int(sure.argmax())}, probability {sure.max():.2f}")
print("the digit is", int(labels[test][IMAGE - 1]))

# %% [markdown]
# ## Limits
#
# The images are tiny, the models are small, and three seeds are few. Settings were chosen
# for speed, so a better recipe may change the order on the digits. The same writers are in the
# training and the test set. A map of weights shows which rows are read after other rows have
# already been mixed into them; it does not explain the output.

# %%
torch.set_num_threads(threads)
assert len(seeds) == len(nets) == len(striped) == 3
