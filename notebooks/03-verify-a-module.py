# %% [markdown]
# # Verify a module and find its faults
#
# You write an attention module, verify it, and then add one mistake at a time. The shapes stay
# right and the loss still decreases. `mh.check` identifies each mistake from the numbers.
#
# About 20 seconds; nothing is downloaded.

# %%
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

import manyheads as mh
from manyheads.verify import assert_sound

D, H = 12, 3  # model width, heads; the head width is 4

# %% [markdown]
# ## A module to check
#
# Each step of attention is a method, so that a subclass can change one step. The mask is
# Boolean, and True means *may attend*.


# %%
class Attention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.q = nn.Linear(embed_dim, embed_dim)
        self.k = nn.Linear(embed_dim, embed_dim)
        self.v = nn.Linear(embed_dim, embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def split(self, y):  # (B, T, D) -> (B, H, T, d)
        return y.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def scores(self, q, k):
        return q @ k.transpose(-2, -1) / self.head_dim**0.5

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, -torch.inf)

    def share(self, scores):
        return scores.softmax(dim=-1)

    def merge(self, messages):  # (B, H, T, d) -> (B, T, D)
        return messages.transpose(1, 2).flatten(2)

    def forward(self, x, mask=None):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = self.scores(q, k)
        if mask is not None:
            scores = self.hide(scores, mask)
        return self.out(self.merge(self.share(scores) @ v))


# %% [markdown]
# We declare its sizes, its scale, and the convention of its mask. `check` infers and reports
# the rest, such as the names of the weights.

# %%
declared = {
    "embed_dim": D,
    "num_heads": H,
    "scale": 0.5,  # one over the square root of the head width
    "masks": [{"arg": "mask", "axes": "TS", "convention": "allowed"}],
}


def check(kind):
    torch.manual_seed(0)
    return mh.check(kind(D, H), **declared)


report = check(Attention)
assert report.verdict == "sound"
assert not [finding for finding in report.findings if finding.severity == "error"]
report

# %% [markdown]
# ## Mistakes, one at a time
#
# Each class changes one step. All seven are common mistakes: the museum of faults,
# `docs/museum.md`, has them and many more.


# %%
class MergeByView(Attention):
    def merge(self, messages):  # does not swap heads and tokens back
        return messages.reshape(len(messages), messages.shape[2], -1)


class SplitByView(Attention):
    def split(self, y):  # splits tokens and features together
        return y.reshape(len(y), self.num_heads, y.shape[1], self.head_dim)


class ModelWidth(Attention):
    def scores(self, q, k):  # the square root of the model width
        return q @ k.transpose(-2, -1) / (self.num_heads * self.head_dim) ** 0.5


class TurnedMask(Attention):
    def hide(self, scores, mask):  # PyTorch's convention, not the declared one
        return scores.masked_fill(mask, -torch.inf)


class OverQueries(Attention):
    def share(self, scores):  # the wrong axis
        return scores.softmax(dim=-2)


class MaskTooLate(Attention):
    def forward(self, x, mask=None):  # blocked weights become 0, the others are not rescaled
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        weights = self.share(self.scores(q, k))
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        return self.out(self.merge(weights @ v))


class AlwaysDrops(Attention):
    def share(self, scores):  # in evaluation too
        return F.dropout(scores.softmax(dim=-1), 0.1)


planted = {
    MergeByView: "merge-by-view",
    SplitByView: "split-by-view",
    ModelWidth: "scale",
    TurnedMask: "mask-polarity",
    OverQueries: "softmax-axis",
    MaskTooLate: "mask-after-softmax",
    AlwaysDrops: "dropout-in-eval",
}

# %% [markdown]
# ## The usual tests find nothing
#
# The output has the right shape, it is finite, and every parameter gets a gradient, with a
# mask that blocks one key for each token. This holds for every faulty module here.

# %%
x = torch.randn(2, 7, D, generator=torch.Generator().manual_seed(1))
causal = torch.ones(7, 7, dtype=torch.bool).tril()
partial = ~torch.eye(7, dtype=torch.bool).roll(1, dims=1)  # not the next token

for kind in planted:
    torch.manual_seed(0)
    module = kind(D, H)
    y = module(x, partial)
    y.square().mean().backward()
    assert y.shape == x.shape and y.isfinite().all()
    assert all(
        p.grad is not None and p.grad.isfinite().all() for p in module.parameters()
    )
print(len(planted), "spoiled modules pass")

# %% [markdown]
# Training does not show the faults either. The task is to output the mean of all rows; an
# output of zero has a loss of 1. Two of the faulty modules learn it as well as the correct
# one. The one that merges by view halves its loss, which on a harder task looks like learning.


# %%
def train(kind, steps=150):
    torch.manual_seed(0)
    module = kind(D, H)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
    losses = []
    for step in range(steps):
        rows = torch.randn(32, 7, D, generator=torch.Generator().manual_seed(step))
        mean = rows.mean(dim=1, keepdim=True).expand_as(rows)
        loss = F.mse_loss(module(rows), mean) / mean.square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


for kind in (Attention, ModelWidth, OverQueries, MergeByView):
    losses = train(kind)
    print(f"{kind.__name__:12} loss {losses[0]:.3f} -> {losses[-1]:.6f}")
    assert losses[-1] < (losses[0] / 2 if kind is MergeByView else 0.001)

# %% [markdown]
# ## The verdicts
#
# The first finding is the most likely fault. The evidence is numeric: the output equals,
# within rounding, the output of attention with exactly this mistake.

# %%
reports = {kind: check(kind) for kind in planted}
for kind, fault in planted.items():
    report = reports[kind]
    first = report.findings[0]
    assert report.verdict == "faulty", f"{kind.__name__} is {report.verdict}"
    assert first.fault == fault, f"{kind.__name__}: {first.fault}, not {fault}"
    print(f"{kind.__name__}: {first.fault}\n  {first.says}\n  fix: {first.fix}")

# %% [markdown]
# A whole report, for the softmax over the wrong axis, with an image of which inputs affect
# which outputs.

# %%
reports[OverQueries]

# %% [markdown]
# ## The evidence, by hand
#
# Change one input row and see which output rows change. Under a causal mask, nothing may
# change right of the diagonal: there, a later token would affect an earlier output. The
# inverted mask blocks all keys of the last row, so that row is NaN.


# %%
def reach(kind):
    """How much each output row (down) changes with each input row (across)."""
    torch.manual_seed(0)
    module = kind(D, H).eval()
    moves = torch.zeros(7, 7)
    with torch.no_grad():
        before = module(x[:1], causal)[0]
        for source in range(7):
            changed = x[:1].clone()
            changed[0, source] += 0.5
            after = module(changed, causal)[0]
            moves[:, source] = (after - before).norm(dim=-1)
    return moves


shown = (Attention, MergeByView, TurnedMask)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for axis, kind in zip(axes, shown, strict=True):
    axis.imshow(reach(kind).numpy(), cmap="Blues", vmin=0)
    axis.set_title(kind.__name__, fontsize=10)
    axis.set_xticks(range(7), range(1, 8))
    axis.set_yticks(range(7), range(1, 8))
    axis.set_xlabel("input row")
axes[0].set_ylabel("output row")
plt.show()

later = ~causal
assert reach(TurnedMask)[-1].isnan().all() and reach(TurnedMask)[:-1].isfinite().all()
assert not reach(Attention)[later].any()
assert reach(MergeByView)[later].any() and reach(TurnedMask)[later].any()

# %% [markdown]
# ## A fault is a difference from the declaration
#
# Another scale can be meant, but people also get it by mistake. So without a declared scale, the
# verdict is *nonstandard*, and the report names the scale. If another one is declared, that is a
# fault.

# %%
torch.manual_seed(0)
undeclared = {name: value for name, value in declared.items() if name != "scale"}
report = mh.check(ModelWidth(D, H), **undeclared)
readings = [finding for finding in report.findings if finding.fault == "scale"]

assert report.verdict == "nonstandard"
assert [reading.severity for reading in readings] == ["warning"]
print(readings[0].says)

# %% [markdown]
# ## Fix the module
#
# Apply the fix from the report, and the verdict changes.

# %%
print(reports[MergeByView].findings[0].fix)


class Repaired(MergeByView):
    def merge(self, messages):
        batch, heads, tokens, width = messages.shape
        return messages.transpose(1, 2).reshape(batch, tokens, heads * width)


assert check(Repaired).verdict == "sound"
torch.manual_seed(0)
sound = Attention(D, H)
torch.manual_seed(0)
assert torch.equal(Repaired(D, H)(x, causal), sound(x, causal))

# %% [markdown]
# ## In your own tests
#
# `assert_sound` takes the same declarations and raises with the report as its message.

# %%
assert_sound(Attention(D, H), **declared)
try:
    assert_sound(TurnedMask(D, H), **declared)
except AssertionError as error:
    refused = str(error)
else:
    raise RuntimeError("a turned mask was taken for sound")

assert "mask-polarity" in refused
print(*refused.splitlines()[:6], sep="\n")

# %% [markdown]
# With pytest, one test is enough. Here it runs in a folder of its own, on a module with a
# softmax over the keys and on one with a softmax over the queries: one passes, one fails.

# %%
TEST = """
import pytest
import torch
from torch import nn
from manyheads.verify import assert_sound

class Attention(nn.Module):
    def __init__(self, width, heads, axis):
        super().__init__()
        self.heads, self.axis = heads, axis
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=self.axis)
        return self.o((weights @ v).transpose(1, 2).flatten(2))

@pytest.mark.parametrize("axis", [-1, -2], ids=["keys", "queries"])
def test_attention_is_sound(axis):
    torch.manual_seed(0)
    assert_sound(Attention(12, 3, axis), embed_dim=12, num_heads=3)
"""

if find_spec("pytest") is None:
    print("pytest is not installed here: pip install pytest")
else:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_attention.py").write_text(TEST, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "--color=no", folder]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout and "softmax-axis" in done.stdout
    print(
        *[line for line in done.stdout.splitlines() if "test_attention_is" in line][-1:]
    )
    print(done.stdout.splitlines()[-1])

# %% [markdown]
# ## Try it
#
# This class changes nothing yet. Plant a mistake of your own, such as `2 * scores` or a message
# with its heads in another order, and predict the verdict before you run the cell.


# %%
class Mine(Attention):
    def scores(self, q, k):
        scores = super().scores(q, k)
        return scores

    def merge(self, messages):
        return super().merge(messages)


check(Mine)
