# %% [markdown]
# # The measured study
#
# Three small language models were trained on the same stories: one without
# attention, one with one head, one with four. You load the trained models, look at
# the four heads, remove heads, and then recompute the results of the study from its runs.
#
# About 10 seconds; nothing is downloaded.

# %%
import copy
import hashlib
import json
import math
import shutil
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy import stats

import manyheads as mh
from manyheads.checkpoints import load_shipped, shipped_models
from manyheads.checkpoints.shipped import DATA
from manyheads.data import Split, WordTokenizer, generate_stories
from manyheads.heads import mean_loss, remove_each
from manyheads.models.config import ModelConfig
from manyheads.study import shipped_results

threads = torch.get_num_threads()
torch.set_num_threads(1)

# %% [markdown]
# ## 1 The trained models
#
# The package contains three weight files. The hash of each file and its number of parameters
# must equal those in the list of models.

# %%
index = json.loads((DATA / "models.json").read_text())
names = ("mlp", "one-head", "four-heads")
assert set(shipped_models()) == set(names)
shipped = {name: load_shipped(name) for name in names}
for name, (model, _, facts) in shipped.items():
    digest = hashlib.sha256((DATA / facts["file"]).read_bytes()).hexdigest()
    assert digest == index["models"][name]["sha256"] == facts["sha256"]
    numbers = sum(parameter.numel() for parameter in model.parameters())
    assert numbers == facts["parameters"]
    print(
        f"{name:10}  {numbers:9,} numbers  seed {facts['seed']}  sha256 {digest[:16]}"
    )

# %% [markdown]
# A check must be able to fail. So one bit of a copy is flipped, and the copy is refused.

# %%
with tempfile.TemporaryDirectory() as folder:
    copied = Path(shutil.copytree(DATA, Path(folder) / "data"))
    path = copied / "four-heads.safetensors"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    refused = ""
    try:
        load_shipped("four-heads", copied)
    except mh.ManyHeadsError as error:
        refused = str(error).replace(folder, "...")
assert "four-heads.safetensors" in refused, "a changed file was used"
print(refused)

# %% [markdown]
# One head and four heads have the same number of parameters: rows for words and positions,
# four square matrices, two layers with biases.

# %%
V, T, D, hidden = 4000, 64, 64, 256
attention = 4 * D * D  # W_Q, W_K, W_V and W_O of all heads together
last_layers = (D * hidden + hidden) + (hidden * V + V)
by_hand = V * D + T * D + attention + last_layers
assert by_hand == shipped["one-head"].facts["parameters"]
assert by_hand == shipped["four-heads"].facts["parameters"]
joined_rows = V * D + (T * D * hidden + hidden) + (hidden * V + V)
assert joined_rows == shipped["mlp"].facts["parameters"]
for heads in (1, 2, 4, 8, 16):
    config = ModelConfig(kind="attention", num_heads=heads)
    assert config.num_parameters == by_hand
print(f"attention {attention:,} of {by_hand:,}; the model without it {joined_rows:,}")

# %% [markdown]
# ## 2 Where the heads look
#
# A sentence, split into words of the models' vocabulary. The last word is the query.

# %%
tokenizer = WordTokenizer.from_json(shipped["four-heads"].tokenizer_json)
four = shipped["four-heads"].model
BOS, UNK = tokenizer.ids["[BOS]"], tokenizer.ids["[UNK]"]


def ids_of(text):
    """The ids of a text, (1, T)."""
    return torch.tensor([[BOS, *tokenizer.encode(text)]])


sentence = "Once there was a boy named Tim. He had a red ball. One day,"
ids = ids_of(sentence)
words = [tokenizer.words[i] for i in ids[0].tolist()]
assert UNK not in ids, "a word is unknown to the models"
print(len(words), "words:", " ".join(words))

# %% [markdown]
# The weights of the last word, one row per head. Every row sums to 1.

# %%
with torch.no_grad():
    logits, weights = four(ids, need_weights=True)  # (1, V), (1, H, T)
torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 4))
grid = weights[0].numpy()

figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
image = axes.imshow(grid, cmap="Blues", vmin=0, vmax=1, aspect="auto")
axes.set_xticks(range(len(words)), words, rotation=60, ha="right")
axes.set_yticks(range(4), [f"head {h + 1}" for h in range(4)])
axes.set_title(f"four-heads: weights of the last word, “{words[-1]}”")
figure.colorbar(image, ax=axes)
plt.show()

# %% [markdown]
# The model computes only the last query. The same layer gives a full trace, and the loop form
# (one head, one query and one key at a time) is the reference. All three agree.

# %%
rows = four.rows(ids)  # word plus position, (1, T, D)
with torch.no_grad():
    trace = four.attention.trace(rows, is_causal=True)
    reference = copy.deepcopy(four.attention)
    reference.form = "loop"
    slow = reference.trace(rows, is_causal=True)
torch.testing.assert_close(trace.attn_weights[:, :, -1], weights, atol=1e-5, rtol=0)
torch.testing.assert_close(slow.attn_weights[:, :, -1], weights, atol=1e-5, rtol=0)
above = torch.ones(len(words), len(words), dtype=torch.bool).triu(1)
assert not trace.attn_weights[..., above].any(), "a word attends to a later one"
largest = (trace.attn_weights[:, :, -1] - weights).abs().max()
print(f"largest difference between trace and short cut: {largest:.1e}")

# %% [markdown]
# Which words get the most weight from each head? In percent; the weights of repeated words are
# added up.


# %%
def strongest(row, many=4):
    """The words with the most weight; repeated words are added up."""
    mass = {}
    for word, weight in zip(words, row.tolist(), strict=True):
        mass[word] = mass.get(word, 0.0) + weight
    return sorted(mass.items(), key=lambda pair: -pair[1])[:many]


for h in range(4):
    shown = ", ".join(
        f"{word} {weight:.0%}" for word, weight in strongest(weights[0, h])
    )
    print(f"head {h + 1}: {shown}")
top_words = [strongest(weights[0, h], 1)[0][0] for h in range(4)]
assert len(set(top_words)) > 1, "all heads look at the same word"

# %% [markdown]
# ## 3 The next word without some heads
#
# To remove a head, its message is set to zero before W_O. The model is not retrained. First a
# check: the contributions of the other heads, taken from the trace, give the same prediction.

# %%
contributions = trace.head_contributions[0, :, -1]  # (H, D)
with torch.no_grad():
    for h in range(4):
        mask = torch.ones(4)
        mask[h] = 0.0
        kept = contributions.sum(dim=0) - contributions[h]
        expected = four.predict(rows[:, -1] + kept)
        torch.testing.assert_close(four(ids, mask), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(four(ids, torch.ones(4)), logits)
print("size of each message:", contributions.norm(dim=1).numpy().round(2))

# %% [markdown]
# Another intervention keeps the message but makes the weights uniform: with a query of zero
# all scores are zero, and every word gets the same weight.


# %%
def with_uniform_head(model, head):
    """A copy of a model in which one head gives all words the same weight."""
    changed = copy.deepcopy(model)
    width = changed.config.width_of_head
    with torch.no_grad():
        changed.query_rows[head * width : (head + 1) * width] = 0.0
    return changed


uniform = [with_uniform_head(four, h) for h in range(4)]
with torch.no_grad():
    for h, model in enumerate(uniform):
        _, seen = model(ids, need_weights=True)
        flat = torch.full((len(words),), 1 / len(words))
        torch.testing.assert_close(seen[0, h], flat)
        others = [i for i in range(4) if i != h]
        torch.testing.assert_close(seen[0, others], weights[0, others])
print(f"every weight of a uniform head: 1/{len(words)} = {1 / len(words):.4f}")

# %% [markdown]
# The next word under each intervention, with the model's probability of it, and the
# probability of the name.


# %%
def next_words(logits, many=3):
    """The most probable next words of logits (1, V), in order."""
    values, places = logits[0].softmax(dim=0).topk(many)
    pairs = zip(places.tolist(), values.tolist(), strict=True)
    return [(tokenizer.words[place], value) for place, value in pairs]


def off(*heads):
    """A head mask without some heads."""
    mask = torch.ones(4)
    mask[list(heads)] = 0.0
    return mask


tim = tokenizer.ids["tim"]
with torch.no_grad():
    tried = {"all heads": logits}
    tried |= {f"head {h + 1} off": four(ids, off(h)) for h in range(4)}
    tried |= {f"head {h + 1} uniform": model(ids) for h, model in enumerate(uniform)}
    tried["all heads off"] = four(ids, off(0, 1, 2, 3))
    tried["one-head"] = shipped["one-head"].model(ids)
    tried["mlp"] = shipped["mlp"].model(ids)
chance = {what: float(each.softmax(dim=1)[0, tim]) for what, each in tried.items()}
for what, each in tried.items():
    shown = ", ".join(f"{word} {p:.1%}" for word, p in next_words(each))
    print(f"{what:15} tim {chance[what]:6.1%}   {shown}")

assert next_words(tried["all heads"])[0][0] == "tim"
assert chance["head 3 off"] < chance["all heads"] / 5
assert chance["head 3 uniform"] < chance["all heads"] / 2
assert max(chance["mlp"], chance["one-head"]) < chance["all heads"] / 2
assert max(chance, key=chance.get) != "all heads", "some head is in the way of the name"

# %% [markdown]
# In this sentence, the third head delivers the name. Is that its role? Test the same sentence
# with other names.

# %%
boys, girls = (
    ("Tim", "Tom", "Ben", "Sam", "Max", "Jack"),
    ("Lily", "Anna", "Mia", "Sue"),
)
first, falls = 0, 0
print("name   weight of head 3 on it   probability   without head 3")
for name in boys + girls:
    child, he = ("boy", "He") if name in boys else ("girl", "She")
    other = ids_of(
        f"Once there was a {child} named {name}. {he} had a red ball. One day,"
    )
    word = tokenizer.ids[name.lower()]
    with torch.no_grad():
        answer, seen = four(other, need_weights=True)
        before = float(answer.softmax(dim=1)[0, word])
        after = float(four(other, off(2)).softmax(dim=1)[0, word])
    on_name = float(seen[0, 2, other[0] == word].sum())
    first += int(answer.argmax()) == word
    falls += after < before
    print(f"{name:5} {on_name:22.0%} {before:14.1%} {after:15.1%}")
print(f"\nthe name is the first choice {first} times of {len(boys + girls)};")
print(f"without head 3 it is less probable {falls} times")
assert 0 < first < len(boys + girls), "no rule without exceptions here"

# %% [markdown]
# So it is a tendency of one trained model, and the sentence was chosen because it shows it
# well. It is also not a role of *index 3*: if you reorder the heads, each with its rows of
# W_O, the model computes the same function.

# %%
order = [2, 0, 3, 1]
moved = copy.deepcopy(four)
rows_of = torch.arange(D).reshape(4, D // 4)[order].flatten()
with torch.no_grad():
    stacked = four.attention.in_proj_weight.reshape(3, D, D)
    moved.attention.in_proj_weight.copy_(stacked[:, rows_of].reshape(3 * D, D))
    moved.attention.out_proj.weight.copy_(four.attention.out_proj.weight[:, rows_of])
    same, seen = moved(ids, need_weights=True)
torch.testing.assert_close(same, logits, atol=1e-4, rtol=1e-4)
torch.testing.assert_close(seen, weights[:, order])
assert not torch.allclose(seen, weights, atol=0.1)
print("head 3 is now head", order.index(2) + 1, "and every prediction is as before")

# %% [markdown]
# ## 4 The loss, with and without heads
#
# The stories of the study are not part of the package. A small grammar generates other stories,
# which no model has seen. The loss is the mean over all predicted words, in nats.

# %%
stories = generate_stories(60, seed=0)
coded = [tokenizer.encode(story) for story in stories]
split = Split("validation", coded, context=T)
windows, targets = split.windows(split.positions)
targets = targets[:, 0]
unknown = sum(story.count(UNK) for story in coded) / sum(map(len, coded))
losses = {
    name: mean_loss(each.model, windows, targets)
    for name, each in shipped.items()
    if name != "mlp"
}
with torch.no_grad():
    plain = torch.cat([shipped["mlp"].model(part) for part in windows.split(512)])
losses = {"mlp": float(torch.nn.functional.cross_entropy(plain, targets))} | losses
for name, loss in losses.items():
    print(
        f"{name:10} {loss:.4f} nats   "
        f"(test loss of the study {shipped[name].facts['test_loss']:.4f})"
    )
print(
    f"guessing blindly: {math.log(V):.4f}; unknown words: {unknown:.1%}; words: {len(targets):,}"
)
assert losses["four-heads"] < losses["one-head"] < losses["mlp"] < math.log(V)

# %% [markdown]
# The order of the models is that of the study. The losses differ: these stories are of another
# kind, and more of their words are unknown. Next, the loss without each head.

# %%
removal = remove_each(four, windows, targets)
assert math.isclose(removal.loss, losses["four-heads"], rel_tol=1e-6)
changes = dict(enumerate(removal.changes, start=1))
for h, change in changes.items():
    print(f"without head {h}: {change:+.4f} nats")
none_left = mean_loss(four, windows, targets, torch.zeros(4)) - removal.loss
print(
    f"without all:    {none_left:+.4f} nats, and not the sum, {sum(changes.values()):+.4f}"
)
assert none_left > sum(changes.values()) + 0.05
assert max(changes.values()) > 0.1 and min(changes.values()) < 0

# %% [markdown]
# One head matters most, and without some heads the loss on these stories is slightly lower.
# The effects do not add up: heads can replace or disturb each other. A head whose removal
# costs little may still have learned much.
#
# ## 5 Three random seeds
#
# The results of the study contain every model with every random seed.

# %%
results = shipped_results("own-recipe")
stories_used = results.content["data_sha256"]
held = mh.plan("own-recipe").with_data("file", stories_used)
assert held.sha256 == results.content["plan_sha256"]
assert shipped["four-heads"].facts["plan_sha256"] == results.content["plan_sha256"]
results

# %% [markdown]
# Means and standard deviations, recomputed from the runs. The standard deviation divides by
# the number of seeds minus one.

# %%
seeds = results.content["plan"]["seeds"]
tests = {
    name: np.array(
        [
            run["test_loss"]
            for seed in seeds
            for run in results.runs
            if (run["model"], run["seed"]) == (name, seed)
        ]
    )
    for name in names
}
for name, values in tests.items():
    stored = results.aggregate[name]["test_loss"]
    assert len(values) == len(seeds)
    np.testing.assert_allclose(values.mean(), stored["mean"], rtol=1e-12)
    np.testing.assert_allclose(values.std(ddof=1), stored["sd"], rtol=1e-9)
    print(
        f"{name:10} {values.round(4)}  mean {values.mean():.4f}  sd {values.std(ddof=1):.4f}"
    )

# %% [markdown]
# Runs of one seed saw the same stories in the same order. So they are compared seed by
# seed, and scipy's paired t test gives the interval for the mean difference.

# %%
pairs = [pair for pair in results.paired if pair["metric"] == "test_loss"]
assert len(pairs) == len(names)
print("first - second           mean      95 % t interval")
for pair in pairs:
    one, other = tests[pair["model_a"]], tests[pair["model_b"]]
    np.testing.assert_allclose(one - other, pair["differences"], rtol=1e-12)
    interval = stats.ttest_rel(one, other).confidence_interval(pair["level"])
    np.testing.assert_allclose((one - other).mean(), pair["mean"], rtol=1e-12)
    np.testing.assert_allclose(interval, pair["t_interval"], rtol=1e-9)
    title = f"{pair['model_a']} - {pair['model_b']}"
    print(
        f"{title:22} {pair['mean']:+.4f}   {interval.low:+.4f} to {interval.high:+.4f}"
    )

# %% [markdown]
# Pairing helps if the runs of one seed vary together. Do they? Pair every run with a run of
# another seed: the mean difference stays, the interval changes, and one of the wrong pairings
# has the narrowest interval. With three seeds, even the width is uncertain.

# %%
one, other = tests["four-heads"], tests["one-head"]
widths = []
for shift in range(len(seeds)):
    partners = np.roll(other, shift)
    interval = stats.ttest_rel(one, partners).confidence_interval(0.95)
    pairing = "same seed" if shift == 0 else f"seeds moved by {shift}"
    widths.append(interval.high - interval.low)
    print(
        f"{pairing:17} {interval.low:+.4f} to {interval.high:+.4f}, {widths[-1]:.4f} wide"
    )
    np.testing.assert_allclose((one - partners).mean(), (one - other).mean())
    if shift == 0:
        both = ("four-heads", "one-head")
        stored = next(p for p in pairs if (p["model_a"], p["model_b"]) == both)
        np.testing.assert_allclose(interval, stored["t_interval"], rtol=1e-9)
assert len(seeds) == 3 and int(np.argmin(widths)) != 0

# %% [markdown]
# ## 6 The page's study view
#
# The same numbers as on the page (`#study`): the test loss of each run with the mean, and each
# difference, one dot per seed, with its bootstrap interval (thick) and its t interval (thin).

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3), layout="constrained")
for place, name in enumerate(names):
    left.plot(tests[name].mean(), place, "|", color="#1b1d21", markersize=26)
    left.plot(tests[name], [place] * len(seeds), "o", color="#1452b6", alpha=0.7)
left.set_yticks(range(len(names)), names)
left.set_xlabel("nats per word; the bar is the mean")
left.set_title("own-recipe: runs[...].test_loss")
for place, pair in enumerate(pairs):
    right.plot(pair["t_interval"], [place, place], color="#1452b6", linewidth=1)
    right.plot(pair["interval"], [place, place], color="#1452b6", linewidth=5)
    above = [place - 0.2] * pair["n"]
    right.plot(pair["differences"], above, "o", color="#9e287f", markersize=5)
right.set_yticks(
    range(len(pairs)), [f"{pair['model_a']} − {pair['model_b']}" for pair in pairs]
)
right.axvline(0, color="#585c64", linewidth=1)
right.set_xlabel("nats a word; below 0 the first is better")
right.set_title("own-recipe: paired[...]")
for axes in (left, right):
    axes.set_ylim(2.5, -0.5)
plt.show()

# %% [markdown]
# Validation loss by step. The ring marks the step with the lowest loss, whose weights were kept.

# %%
figure, panels = plt.subplots(
    1, 3, figsize=(9.5, 2.8), sharey=True, layout="constrained"
)
for axes, name in zip(panels, names, strict=True):
    for run in (run for run in results.runs if run["model"] == name):
        steps = [entry["step"] for entry in run["trace"]]
        curve = [entry["validation_loss"] for entry in run["trace"]]
        best = int(np.argmin(curve))
        assert steps[best] == run["selected_step"]
        assert curve[best] == run["validation_loss"]
        assert curve[best] < curve[0] - 0.5, "it did not learn"
        axes.plot(steps, curve, label=f"seed {run['seed']}")
        axes.plot(steps[best], curve[best], "o", color="black", fillstyle="none")
    axes.set_title(name)
    axes.set_xlabel("step")
panels[0].set_ylabel("validation loss, nats")
panels[0].legend()
plt.show()

# %% [markdown]
# ## 7 Loss and perplexity
#
# The loss of one prediction is -ln p, with p the probability of the right word. A fair choice
# among k words has p = 1/k and the loss ln k. **Perplexity** is the exponential of the mean loss,
# so a fair choice among four words has perplexity 4: it counts words, and not nats.

# %%
for k in (2, 4, 100):
    fair = torch.full((k,), 1 / k, dtype=torch.float64).log()
    loss_of_fair = float(torch.nn.functional.nll_loss(fair[None], torch.tensor([0])))
    assert math.isclose(loss_of_fair, math.log(k))
    assert math.isclose(math.exp(loss_of_fair), k)
    print(f"fair choice among {k:3}: loss {loss_of_fair:.3f}, perplexity {k}")
for run in results.runs:
    assert math.isclose(
        run["test_perplexity"], math.exp(run["test_loss"]), rel_tol=1e-9
    )
for name, values in tests.items():
    shown = ", ".join(f"{math.exp(value):.1f}" for value in values)
    print(f"{name:10} perplexity of each seed {shown}")

# %% [markdown]
# Take the mean first and the exponential last. The mean of single perplexities is much larger,
# because it is ruled by the few words that the model did not expect.

# %%
with torch.no_grad():
    each = torch.cat([four(part) for part in windows.split(512)]).log_softmax(dim=-1)
surprises = -each.gather(1, targets[:, None])[:, 0].double()
right_way, wrong_way = float(surprises.mean().exp()), float(surprises.exp().mean())
print(
    f"exponential of the mean {right_way:.1f}; mean of the exponentials {wrong_way:.1f}"
)
assert math.isclose(right_way, math.exp(losses["four-heads"]), rel_tol=1e-4)
assert wrong_way > 10 * right_way

# %% [markdown]
# ## 8 Train one yourself
#
# Off by default, since it takes half a minute: set `TRAIN = True` and run the cell. The plan
# `smoke` trains small models on generated stories, which need no download, and reads the test
# stories only at the end.

# %%
TRAIN = False
if TRAIN:
    with tempfile.TemporaryDirectory() as folder:
        trained = mh.run_study("smoke", out=Path(folder) / "smoke")
    for name, metrics in trained.aggregate.items():
        print(f"{name:12} perplexity {math.exp(metrics['test_loss']['mean']):.1f}")

# %% [markdown]
# ## 9 What the numbers do not show
#
# How reliable are so few seeds? Draw three differences around a known mean, many times, and
# count how often each interval contains it.

# %%
n, repeats = len(seeds), 200_000
draws = np.random.default_rng(0).normal(size=(repeats, n))  # the true mean is 0
half = stats.t.ppf(0.975, n - 1) * draws.std(axis=1, ddof=1) / math.sqrt(n)
held_by_t = np.mean(np.abs(draws.mean(axis=1)) <= half)
held_by_extremes = np.mean((draws.min(axis=1) < 0) & (draws.max(axis=1) > 0))
one_sign = np.mean((draws < 0).all(axis=1) | (draws > 0).all(axis=1))
print(f"t interval holds the mean:             {held_by_t:.1%}")
print(f"smallest to largest draw holds it:     {held_by_extremes:.1%}")
print(f"all {n} have one sign, by chance alone:  {one_sign:.1%}")
assert abs(held_by_t - 0.95) < 0.005
assert abs(held_by_extremes - (1 - 2.0 ** (1 - n))) < 0.005
assert abs(one_sign - 2.0 ** (1 - n)) < 0.005

# %% [markdown]
# A bootstrap interval of three numbers is always between the smallest and the largest of them,
# so it contains the mean less often than its level. The t interval reaches its level if the
# differences are normally distributed. The study lists this among its limits:

# %%
from manyheads.report.cautions import cautions
from manyheads.report.reading import read_study

study_folder = Path(mh.__file__).parent / "study" / "results" / "own-recipe"
limits = cautions(read_study(study_folder))
for text in limits:
    print("-", text)
assert all(pair["n"] == len(seeds) for pair in results.paired)
assert any(f"{len(seeds)} seeds" in text for text in limits)
assert all("bootstrap" in pair["note"] for pair in results.paired)

# %% [markdown]
# A separate study trained the same models on the same stories with another recipe. Its losses
# differ, but the order is the same. Both use one kind of text and one model size.

# %%
recipe = shipped_results("three-models")
assert recipe.content["plan_sha256"] != results.content["plan_sha256"]
assert recipe.content["data_sha256"] == results.content["data_sha256"]
for each in (results, recipe):
    means = [each.aggregate[name]["test_loss"]["mean"] for name in names]
    print(each.content["plan"]["name"], np.round(means, 4))
    assert means == sorted(means, reverse=True)

# %% [markdown]
# ## 10 Does a head find the source?
#
# The same models were also trained on generated stories. Such a story says which earlier words
# determine a word. In new stories, how often is the strongest source of a head one of them? By
# chance: the same head, with the labels of other stories.

# %%
stories_study = shipped_results("own-recipe-stories")
run = next(run for run in stories_study.runs if run["model"] == "four-heads")
for kind in run["labelled"]["kinds"]:
    if kind["kind"] not in ("name", "number", "pronoun", "association"):
        continue
    right = kind["predicted"]
    low, high = right["interval"]
    print(
        f"{kind['kind']:12} right word in {right['share']:.0%} of {right['stories']} stories "
        f"({low:.0%} to {high:.0%})"
    )
    for h, head in enumerate(kind["heads"], start=1):
        found = head["found"]
        assert found["interval"][0] <= found["share"] <= found["interval"][1]
        print(
            f"    head {h}: {found['share']:5.1%}   by chance {head['shuffled_mean']:5.1%}"
        )

# %% [markdown]
# The number of a noun is learned well. The names are not learned, and no head finds them: a
# measure must be able to say no. `docs/results.md` has all seeds and kinds.

# %% [markdown]
# ## Try it
#
# Write another beginning, and choose the heads that are off, counted from 1. Predict the next word,
# and whether it changes, before you run the cell.

# %%
TEXT, OFF = "Once there was a girl named Lily. She had a cat. One day,", [3]

mine = ids_of(TEXT)
with torch.no_grad():
    for what, mask in (
        ("all heads", torch.ones(4)),
        ("some off", off(*(h - 1 for h in OFF))),
    ):
        shown = ", ".join(
            f"{word} {p:.1%}" for word, p in next_words(four(mine, mask), 5)
        )
        print(f"{what:10} {shown}")

# %%
torch.set_num_threads(threads)
