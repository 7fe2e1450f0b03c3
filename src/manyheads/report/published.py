"""The published experiment beside a study of the same protocol: losses, and every setting."""

from collections.abc import Mapping
from typing import Any

from manyheads.report.cautions import is_frozen_protocol
from manyheads.report.pages import Table
from manyheads.report.reading import ReportData
from manyheads.report.tables import fixed, mean_sd, of_runs, whole

PUBLISHED = {
    "mlp": {"test_loss": {"mean": 3.9433, "sd": 0.0077}, "test_perplexity": {"mean": 51.59}},
    "one-head": {"test_loss": {"mean": 3.4450, "sd": 0.0105}, "test_perplexity": {"mean": 31.34}},
    "four-heads": {"test_loss": {"mean": 3.3597, "sd": 0.0212}, "test_perplexity": {"mean": 28.78}},
}
"""Figures of the published experiment with 6,000 stories, by model and metric; losses in nats."""


# The protocol of nipunbatra/attention, notebooks/wordlm.
PUBLISHED_SETTINGS = {
    "stories": "6,000 of the training part of TinyStories, pages drawn with a seed",
    "division": "80, 10 and 10 % by a hash of the normalised text",
    "words": "`[a-z]+('[a-z]+)?`, digits, single marks; at most 4,000 that occur twice in training",
    "models": "MLP, one head, four heads; context 64, width 64, hidden 256",
    "initial values": "nn.Linear and nn.Embedding; the row of [PAD] is zero and is not trained",
    "batches": "512 targets, one per window, drawn with replacement",
    "optimiser": "AdamW, constant learning rate, gradient norm at most 1",
    "validation": "every 750 steps, on the first 20,000 windows in hash order",
    "end of a run": "after 6,000 steps",
    "selection": "lowest validation loss",
    "test": "every target of the test stories, once",
}
"""Settings of the published experiment; `compared_settings` says which differ here."""


def is_comparable(results: ReportData) -> bool:
    """Whether a study has the published protocol and natural stories."""
    planned = results.plan.get("data")
    is_generated = isinstance(planned, Mapping) and planned.get("source") == "stories"
    return not is_generated and is_frozen_protocol(results)


def published_table(results: ReportData) -> Table:
    """The figures of the published experiment and ours."""
    rows = [
        (
            model,
            mean_sd(PUBLISHED[model]["test_loss"]["mean"], PUBLISHED[model]["test_loss"]["sd"]),
            mean_sd(results.mean(model, "test_loss"), results.sd(model, "test_loss")),
            fixed(PUBLISHED[model]["test_perplexity"]["mean"], 2),
            fixed(results.mean(model, "test_perplexity"), 2),
        )
        for model in results.models
        if model in PUBLISHED
    ]
    names = ("model", "published loss", "loss here", "published ppl.", "ppl. here")
    return Table(
        title="Test cross-entropy in nats per token, mean ± standard deviation, and perplexity: "
        f"published with 6,000 stories, and here with other data. {of_runs(results)}",
        columns=names,
        rows=tuple(rows),
    )


def compared_settings(results: ReportData) -> tuple[tuple[str, str, str], ...]:
    """Each setting: its name, its value in the published experiment, and the value here."""
    here = _stories_here(results) | _training_here(results.plan)
    return tuple(
        (name, said, here.get(name, "the same")) for name, said in PUBLISHED_SETTINGS.items()
    )


def protocol_table(results: ReportData) -> Table:
    """The settings of the published experiment, and those of this study where they differ."""
    return Table(
        title=f"Settings of the published experiment and of this study. {of_runs(results)}",
        columns=("setting", "published", "here"),
        rows=compared_settings(results),
    )


def _stories_here(results: ReportData) -> dict[str, str]:
    data = results.facts("data")
    stories = data.get("num_stories")
    number = whole(sum(stories.values())) if isinstance(stories, Mapping) else "unknown"
    here = {"stories": f"{number}, from {data.get('source', 'unknown')}"}
    if results.plan.get("data", {}).get("split_by") is None:
        here["division"] = "80, 10 and 10 % by a hash of the text as it is"
    if results.plan.get("tokenizer", {}).get("words") is None:
        here["words"] = "letters of all alphabets; otherwise the same"
    return here


def _training_here(plan: Mapping[str, Any]) -> dict[str, str]:
    protocol = plan["protocol"]
    most, limit = whole(protocol["steps"]), protocol.get("stop_after")
    is_first = protocol.get("validation_slice") == "first"
    windows = "the first" if is_first else "a fixed sample of"
    is_hashed = is_first and plan.get("data", {}).get("split_by") is not None
    here = {
        "validation": f"every {protocol['validate_every']} steps, on {windows} "
        f"{whole(protocol['validation_windows'])} windows{' in hash order' * is_hashed}"
    }
    if limit:
        here["end of a run"] = f"{whole(limit)} steps after the lowest loss, at most {most} steps"
    if protocol.get("initial") is None:
        here["initial values"] = "W_Q, W_K and W_V as in nn.MultiheadAttention"
    if protocol.get("draws") is None:
        here["batches"] = "512 targets, one per window, each target once per epoch"
    return here
