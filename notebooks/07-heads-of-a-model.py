# %% [markdown]
# # Look at the heads of a trained model
#
# What does each head of a model do, how much does the model need it, and how sure is that? You
# look at the four heads of a model that was trained by the study `own-recipe`: find, label, remove,
# and compare with controls. The last section does the same with a language model in a folder of
# yours, such as SmolLM2-135M.
#
# About 10 seconds; nothing is downloaded.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import manyheads as mh
from manyheads.data import generate_stories
from manyheads.looking import NotAdditive, ablate, label_heads, open_model

threads = torch.get_num_threads()
torch.set_num_threads(1)

# %% [markdown]
# ## 1 The model and its texts
#
# The model predicts the word after a window of 64 words, from the last word of the window. So
# only the last word asks, and a head has one row of weights per window.

# %%
opened = open_model("four-heads")
model, tokenizer = opened.model, opened.tokenizer
context = model.config.context
stories = [tokenizer.encode(story) for story in generate_stories(160, seed=11)]
windows = torch.tensor([story[:context] for story in stories if len(story) >= context])
assert windows.shape == (160, 64)
print(" ".join(tokenizer.words[i] for i in windows[0, -12:]), "...")

# %% [markdown]
# ## 2 Find: weights, with a proof
#
# `look` runs a private copy of the model. Beside the weights it says how exactly they are the
# model's own: the output with and without the probe, and what the output loses when a head is
# silenced against what the head contributes. The model itself stays as it was.

# %%
before = {name: value.clone() for name, value in model.state_dict().items()}
seen = mh.look(model, inputs=windows)
print(seen.proof)
assert seen.proof.output_gap == 0.0
assert seen.proof.intervention_error < 1e-5
assert not seen.proof.refused
assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())

# %% [markdown]
# The mean weight by distance shows where each head looks on average. Distance 0 is the last word
# itself.

# %%
weights = seen.weights(0)[:, :, 0]  # (windows, heads, positions)
assert torch.allclose(weights.sum(dim=-1), torch.ones(160, 4), atol=1e-5)
by_distance = weights.mean(dim=0).flip(-1)  # (heads, distances)
figure, axis = plt.subplots(figsize=(7, 3))
for head, row in enumerate(by_distance):
    axis.plot(row[:24], marker=".", label=f"head 0.{head}")
axis.set(xlabel="distance to the last word", ylabel="mean weight")
axis.legend()
plt.show()

# %% [markdown]
# ## 3 Label: is that more than chance?
#
# Say *local* if a head puts much weight on the last four words. A number alone is no label: every
# head puts some weight there. The null is the largest weight of **any** head on four neighbouring
# words that are at least five words away. A head is local only if it exceeds that.

# %%
groups = by_distance.unfold(-1, 4, 1).sum(dim=-1)  # (heads, first distances)
local = groups[:, 0]
null = float(groups[:, 5:].max())
print(f"the null's greatest: {null:.3f}")
for head, score in enumerate(local.tolist()):
    print(f"head 0.{head}: {score:.3f}", "local" if score > null + 0.1 else "no label")
labelled = [head for head in range(4) if local[head] > null + 0.1]
assert labelled and len(labelled) < 4

# %% [markdown]
# `label_heads` has more behaviours and stricter nulls, but needs a query at every word. This
# model has one query, so it is refused and not guessed.

# %%
try:
    label_heads(model, tokenizer=tokenizer, draws=0)
except mh.ManyHeadsError as error:
    refusal = str(error)
print(refusal)
assert "query at every token" in refusal

# %% [markdown]
# ## 4 Remove: does the model need it?
#
# A label says what a head does, not that it matters. So remove each head and measure the loss of
# the next word, in nats. The interval is a 95 % bootstrap interval over windows. The controls
# are draws of other heads of the same layer; here there are only three others.

# %%
found = {head: ablate(model, windows, [f"0.{head}"], by="zero", controls=3) for head in range(4)}
for one in found.values():
    print(one)
assert all(len(one.controls) == 3 for one in found.values())
assert all(one.interval[0] <= one.change <= one.interval[1] for one in found.values())

# %% [markdown]
# Another replacement is another question. The mean message of a head keeps what it always adds
# and removes what depends on the text.

# %%
needed = max(found, key=lambda head: found[head].change)
by_mean = ablate(model, windows, [f"0.{needed}"], by="mean", controls=3)
print("zero:", found[needed])
print("mean:", by_mean)
assert by_mean.loss == found[needed].loss

# %%
figure, axes = plt.subplots(1, 2, figsize=(7, 2.6))
axes[0].bar(range(4), local)
axes[0].axhline(null, color="black", linestyle="--", label="null")
axes[0].set(title="weight on the last four words", xlabel="head", xticks=range(4))
axes[0].legend()
axes[1].bar(range(4), [found[head].change for head in range(4)])
axes[1].set(title="loss without the head, nats", xlabel="head", xticks=range(4))
plt.show()

# %% [markdown]
# The two columns need not agree. A head without a label can matter, and a head with one can be
# replaced by another.
#
# ## 5 A language model in a folder
#
# `FOLDER` is a folder that `save_pretrained` wrote, for instance of SmolLM2-135M. You need the
# extra `look`. Induction heads look at the token after an earlier copy of the present one. They
# are found on random tokens that repeat, and compared with control sources of the same run.

# %%
FOLDER = Path("SmolLM2-135M")

found_folder = (FOLDER / "config.json").is_file()
if not found_folder:
    print(f"There is no model in {FOLDER}, so this section shows nothing: set FOLDER to yours.")

# %%
if found_folder:
    language = open_model(FOLDER)
    text = "When Mary and John went to the store, John gave a drink to Mary."
    large = mh.look(language.model, text, tokenizer=language.tokenizer)
    print(large.proof)
    assert not isinstance(large.contributions(0), NotAdditive)
    induction = large.labels(behaviours=["induction"], draws=0, half=16, samples=2)
    print(*induction[:5], sep="\n")

# %% [markdown]
# The strongest induction heads are removed together, and compared with twelve draws of as many
# other heads in the same layers. The data are random tokens that repeat, where induction helps.

# %%
if found_folder:
    generator = torch.Generator().manual_seed(1)
    halves = torch.randint(1000, 20_000, (4, 24), generator=generator)
    strongest = [f"{one.layer}.{one.head}" for one in induction[:3]]
    print(ablate(language.model, halves.repeat(1, 2), strongest, controls=12))

# %% [markdown]
# ## Try it
#
# Choose heads to remove together. Is the loss larger than the sum of the single changes?

# %%
HEADS = [0, 1]

together = ablate(model, windows, [f"0.{head}" for head in HEADS], controls=2)
print(f"together {together.change:+.3f}, sum {sum(found[head].change for head in HEADS):+.3f}")

# %% [markdown]
# ## Limits
#
# One seed of a small model on generated stories. The label *local* was chosen after looking at the
# curves. A head's direct effect and its effect through later layers are not separated here, and
# removing a head shows what the rest of the model cannot replace, not what the head is for.

# %%
torch.set_num_threads(threads)
assert float(weights.min()) >= 0.0
