"""Plans: what they must say, what they may not, and the hash that names them."""

import hashlib
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from manyheads.core.errors import PlanError
from manyheads.study.plan import Plan
from manyheads.study.plan_files import plan, plan_names
from manyheads.study.plan_text import plan_from_text
from tests.study.tiny import TEXT, tiny

REFUSED = [
    ("steps = 10", "stepz = 10", r"protocol\.stepz is no key of a plan: use one of steps, "),
    ("steps = 10\n", "", r"protocol\.steps is missing: add it"),
    ("steps = 10", 'steps = "10"', r"protocol\.steps \('10'\) must be a whole number"),
    ("steps = 10", "steps = true", r"protocol\.steps \(True\) must be a whole number"),
    ("steps = 10", "steps = 0", r"protocol: steps \(0\) must be at least 1"),
    ("steps = 2", "steps = 10", r"warmup_steps \(10\) must be below steps \(10\)"),
    ("window = 3", "window = 5", r"batch_targets \(24\) must be a multiple of .* \(5\)"),
    ('"linear"', '"cosine"', r"decay \(cosine\) is not known: use one of none, linear"),
    ('"stories"', '"novels"', r"source \(novels\) is not known: use one of stories, tinystories"),
    ("count = 80\n", "", r"data: count \(absent\) is needed for stories"),
    ("seeds = [3, 5]", "seeds = [3, 3]", r"seeds \(3, 3\) must be one or more, each once"),
    ("seeds = [3, 5]", "seeds = []", r"seeds \(\) must be one or more"),
    ("seeds = [3, 5]", "seeds = [-3]", r"seed \(-3\) must be from 0 to"),
    ("seeds = [3, 5]", "seeds = 3", r"seeds \(3\) must be a list"),
    ('"mlp"\nkind', '"two-heads"\nkind', r"models \(two-heads, two-heads\) has a name twice"),
    ('"mlp"\nkind', '"../mlp"\nkind', r"models\[0\]: model name \(\.\./mlp\) must be small"),
    ('second = "mlp"', 'second = "gru"', r"comparison \(gru\) is no model of the plan: use two of"),
    ("num_heads = 2", "num_heads = 3", r"two-heads: num_heads \(3\) must divide width \(8\)"),
    ("num_heads = 2\n", "", r"models\[1\]: num_heads \(absent\) is needed for attention"),
    ("_rate = 0.01", "_rate = -0.01", r"learning rate \(-0\.01\) must be above 0 and finite"),
    ("_rate = 0.01", "_rate = inf", r"learning rate \(inf\) must be above 0 and finite"),
    ("_rate = 0.01", "_rates = [0.1, 0.1]", r"learning_rates \(0\.1, 0\.1\) names one twice"),
    (
        "_rate = 0.01",
        "_rates = [0.1, 0.10000001]",
        r"learning_rates \(0\.1, 0\.1\) names one twice",
    ),
    (
        "_rate = 0.01",
        f"_rate = 1{'0' * 400}",
        r"models\[0\]\.learning_rate \(10+\.\.\.\) must be a number",
    ),
    ("steps = 10", f"steps = {'9' * 5000}", r"plan is no TOML \(.*\): shorten that number"),
    (
        "_windows = 40",
        f"_windows = {10**20}",
        r"validation_windows \(10+\) must be a whole number of",
    ),
    (
        "targets = 24",
        "targets = 3000000000",
        r"batch_targets \(3000000000\) must be at most 1048576",
    ),
    ("window = 3", "window = 72", r"targets_per_window \(72\) must be at most 64"),
    (
        "width = 8",
        "width = 1000000",
        r"model \(mlp, [0-9]+\) must have at most 67108864 parameters",
    ),
    ('second = "mlp"', 'second = "two-heads"', r"second \(two-heads\) must be another model"),
    ("learning_rate = 0.01\n", "", r"learning rate \(0 times\) must be given once"),
    ("_decay = 0.01", "_decay = nan", r"weight_decay \(nan\) must be from 0 to below 1"),
    ("[data]", "[date]", r"date is no key of a plan: use one of name, description, data"),
    ("[[models]]", "[models]", r"plan is no TOML \("),
]


@pytest.mark.parametrize("old, new, says", REFUSED, ids=[new or old for old, new, _ in REFUSED])
def test_a_plan_that_breaks_a_rule_is_refused_by_name_and_value(
    old: str, new: str, says: str
) -> None:
    with pytest.raises(PlanError, match=says):
        tiny((old, new))


def test_heads_mean_nothing_for_a_window_model() -> None:
    with pytest.raises(PlanError, match=r"kind \(fixed-window-mlp\) has no heads"):
        tiny(('"fixed-window-mlp"', '"fixed-window-mlp"\nnum_heads = 2'))


@pytest.mark.parametrize("name", plan_names())
def test_the_canonical_text_of_a_built_in_plan_is_read_as_the_same_plan(name: str) -> None:
    held = plan(name)
    again = plan_from_text(held.text)
    assert again == held
    assert again.text == held.text
    assert held.sha256 == hashlib.sha256(held.text.encode()).hexdigest()


def test_the_hash_follows_every_number_but_no_layout() -> None:
    held = tiny()
    assert plan_from_text(re.sub("\n", "\n\n", TEXT)).sha256 == held.sha256
    changes = [("steps = 10", "steps = 11"), ("0.02", "0.03"), ("seed = 4", "seed = 6")]
    assert len({tiny(change).sha256 for change in changes} | {held.sha256}) == 4
    assert held.with_seeds((3,)).sha256 != held.sha256


def test_defaults_stand_in_the_canonical_text() -> None:
    assert "eps = 1e-08\n" in tiny().text
    assert "clip = 1.0\n" in tiny().text
    assert "min_count = 2\n" in tiny().text


def test_texts_with_quotes_and_odd_letters_survive() -> None:
    held = replace(tiny(), description='a "quoted"\nline \\ \x7f \U0001d54f')
    assert plan_from_text(held.text) == held


def test_a_plan_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        tiny().name = "other"  # type: ignore[misc]


def test_the_built_in_plans_are_these() -> None:
    assert plan_names() == ("head-count", "own-recipe", "smoke", "three-models")


def test_three_models_is_the_published_protocol() -> None:
    held = plan("three-models")
    protocol = held.protocol
    assert held.seeds == (11, 29, 47)
    assert (protocol.context, protocol.width, protocol.hidden) == (64, 64, 256)
    assert (protocol.batch_targets, protocol.targets_per_window, protocol.steps) == (512, 1, 6000)
    assert (protocol.validate_every, protocol.validation_windows) == (750, 20_000)
    assert (protocol.clip, protocol.decay, protocol.warmup_steps) == (1.0, "none", 0)
    settings = {m.name: (m.learning_rate, m.weight_decay, m.num_heads) for m in held.models}
    assert settings == {
        "mlp": (0.001, 0.0001, None),
        "one-head": (0.003, 0.001, 1),
        "four-heads": (0.003, 0.001, 4),
    }
    sizes = {m.name: held.config(m.name).num_parameters for m in held.models}
    assert sizes == {"mlp": 2_332_832, "one-head": 1_321_120, "four-heads": 1_321_120}


def test_head_count_has_both_arms_two_controls_and_checked_rates() -> None:
    held = plan("head-count")
    assert len(held.seeds) >= 5
    arms = {(m.num_heads, m.head_dim) for m in held.models if m.pattern == "learned"}
    assert arms == {(h, None) for h in (1, 2, 4, 8, 16, 32, 64)} | {(h, 16) for h in (1, 2, 4, 8)}
    assert {m.pattern for m in held.models} == {"learned", "uniform", "shared"}
    assert all(len(m.candidates) > 1 for m in held.models)


def test_own_recipe_trains_the_same_models_on_the_same_data() -> None:
    own, published = plan("own-recipe"), plan("three-models")
    assert (own.data, own.tokenizer, own.seeds) == (
        *(published.data, published.tokenizer, published.seeds),
    )
    assert [own.config(m.name) for m in own.models] == [
        published.config(m.name) for m in published.models
    ]


def test_a_plan_is_read_from_a_file_and_an_error_names_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    assert plan(path) == tiny()
    path.write_text(TEXT.replace("steps = 10", "stepz = 10"))
    with pytest.raises(PlanError, match=rf"file \({re.escape(str(path))}\): protocol\.stepz"):
        plan(str(path))


def test_a_plan_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"plan \(smok\) is not known: use one of head-count, "):
        plan("smok")
    with pytest.raises(PlanError, match=r"none\.toml\) cannot be opened \(No such file"):
        plan(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(PlanError, match=r"latin\.toml\) is not UTF-8"):
        plan(tmp_path / "latin.toml")


def test_a_model_that_a_plan_lacks_is_named() -> None:
    held: Plan = tiny()
    with pytest.raises(PlanError, match=r"model \(gru\) is not in plan tiny: use one of mlp, two"):
        held.model("gru")
