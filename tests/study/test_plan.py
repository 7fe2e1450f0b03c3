"""Plans: what they must say, what they may not, and the hash that names them."""

import hashlib
import json
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

import manyheads.study.plan as plan_module
from manyheads.core.errors import PlanError
from manyheads.study.plan import (
    ModelPlan,
    Plan,
    Protocol,
    TokenizerPlan,
    plan,
    plan_from_text,
    plan_names,
)
from tests.study.tiny import TEXT, tiny

REFUSED = [
    ("steps = 10", "stepz = 10", r"protocol\.stepz is not a key of a plan: use steps, "),
    ("steps = 10\n", "", r"protocol\.steps is missing: add it"),
    ("steps = 10", 'steps = "10"', r"protocol\.steps \('10'\) must be a whole number"),
    ("steps = 10", "steps = true", r"protocol\.steps \(True\) must be a whole number"),
    ("steps = 10", "steps = 10.0", r"protocol\.steps \(10\.0\) must be a whole number"),
    ("steps = 10", "steps = 0", r"protocol\.steps \(0\) must be at least 1"),
    ("steps = 2", "steps = 10", r"protocol: warmup_steps \(10\) must be below steps \(10\)"),
    ("window = 3", "window = 5", r"batch_targets \(24\) must be a multiple of .* \(5\)"),
    ('"linear"', '"cosine"', r"decay \('cosine'\) is not known: use 'none' or 'linear'"),
    (
        '"stories"',
        '"novels"',
        r"source \('novels'\) is not known: use 'stories', 'tinystories' or 'file'",
    ),
    ("count = 80\n", "", r"data: count is missing: say how many stories"),
    ("seeds = [3, 5]", "seeds = [3, 3]", r"seeds \(3, 3\) must be one or more, all different"),
    ("seeds = [3, 5]", "seeds = []", r"seeds \(\) must be one or more"),
    ("seeds = [3, 5]", "seeds = [-3]", r"seeds\[0\] \(-3\) must be at least 0"),
    ("seeds = [3, 5]", "seeds = 3", r"seeds \(3\) must be a list"),
    ('"mlp"\nkind', '"two-heads"\nkind', r"models \(two-heads, two-heads\) has a name twice"),
    ('"mlp"\nkind', '"../mlp"\nkind', r"models\[0\]\.name \('\.\./mlp'\) must match \^\[a-z"),
    ('second = "mlp"', 'second = "gru"', r"comparison \(gru\) is not a model of the plan: use mlp"),
    ("num_heads = 2", "num_heads = 3", r"two-heads: num_heads \(3\) must divide width \(8\)"),
    ("num_heads = 2\n", "", r"models\[1\]: num_heads is missing: an attention model"),
    ("_rate = 0.01", "_rate = -0.01", r"learning_rate \(-0\.01\) must be above 0"),
    ("_rate = 0.01", "_rate = inf", r"learning_rate \(inf\) must be a finite number"),
    ("_rate = 0.01", "_rates = [0.1, 0.1]", r"learning_rates \(0\.1, 0\.1\) has equal values"),
    ("_rate = 0.01", "_rates = [0.1, 0.10000001]", r"\(0\.1, 0\.1\) has equal values, to six"),
    (
        "_rate = 0.01",
        f"_rate = 1{'0' * 400}",
        r"models\[0\]\.learning_rate \(10+\.\.\.\) must be a",
    ),
    ("steps = 10", f"steps = {'9' * 5000}", r"plan is not TOML \(.*\): fix it there"),
    ("_windows = 40", f"_windows = {10**20}", r"validation_windows \(10+\) must be at most"),
    ('"mlp"\nkind', "[1]\nkind", r"models\[0\]\.name \(\[1\]\) must be text"),
    (
        "[data]",
        "[extra]\na = 1\n[data]",
        r"extra is not a key of a plan: use name, description, data",
    ),
    ('second = "mlp"', 'second = "two-heads"', r"second \(two-heads\) must be another model"),
    ("learning_rate = 0.01\n", "", r"learning_rate or learning_rates must be given, and not both"),
    ("_decay = 0.01", "_decay = nan", r"weight_decay \(nan\) must be below 1"),
    ("[data]", "[date]", r"date is not a key of a plan: use name, description, data"),
    ("[[models]]", "[models]", r"plan is not TOML \("),
    ('name = "tiny"', f'name = "{"x" * 5000}"', r"name \('x+\.\.\.\) must have at most 40"),
    ("[data]", "scored = 1\n[data]", r"^scored is not a key of a plan: use name"),
    (
        "width = 8",
        "width = 8\nscored_head = 4",
        r"scored_head \(4\) and scored_tail \(None\) must be",
    ),
]


@pytest.mark.parametrize("old, new, says", REFUSED, ids=[new or old for old, new, _ in REFUSED])
def test_a_plan_that_breaks_a_rule_is_refused_by_name_and_value(
    old: str, new: str, says: str
) -> None:
    with pytest.raises(PlanError, match=says):
        tiny((old, new))


LIMITS = [
    # key, largest or smallest good value, first bad value
    ("steps", 1 << 20, (1 << 20) + 1),
    ("lr_check_steps", 1 << 20, (1 << 20) + 1),
    ("batch_targets", 1 << 20, (1 << 20) + 2),
    ("targets_per_window", 64, 65),
    ("context", 1, 0),
    ("validation_windows", 1, 0),
    ("validation_windows", 2**53, 2**53 + 1),
    ("analysed_windows", 2, 1),
    ("warmup_steps", 0, -1),
    ("lr_check_steps", 1, 0),
    ("eps", 5e-324, 0.0),
]


@pytest.mark.parametrize("key, good, bad", LIMITS)
def test_protocol_accepts_each_limit_and_refuses_the_next_value(
    key: str, good: float, bad: float
) -> None:
    fixed = {"steps": 10, "validate_every": 1, "save_every": 1, "batch_targets": 64}
    assert getattr(Protocol(**(fixed | {key: good})), key) == good
    with pytest.raises(PlanError, match=key):
        Protocol(**(fixed | {key: bad}))


def test_other_parts_accept_each_limit_and_refuse_the_next_value() -> None:
    assert tiny(("= [3, 5]", f"= [{2**12 - 1}]")).seeds == (4095,)
    with pytest.raises(PlanError, match=r"seeds\[0\] \(4096\) must be at most 4095"):
        tiny(("= [3, 5]", f"= [{2**12}]"))
    assert TokenizerPlan(vocab_size=5).vocab_size == 5
    with pytest.raises(PlanError, match=r"vocab_size \(4\) must be at least 5"):
        TokenizerPlan(vocab_size=4)
    both = {"scored_head": 0, "steps": 1, "validate_every": 1, "save_every": 1}
    for tail in (0.0, 1.0):
        assert Protocol(**both, scored_tail=tail).scored_tail == tail
    for tail in (-1e-9, 1 + 1e-9):
        with pytest.raises(PlanError, match="scored_tail"):
            Protocol(**both, scored_tail=tail)
    model = {"name": "m" * 40, "kind": "fixed-window-mlp", "learning_rate": 0.1}
    assert ModelPlan(**model, weight_decay=0.0).weight_decay == 0
    with pytest.raises(PlanError, match=r"weight_decay \(1\.0\) must be below 1"):
        ModelPlan(**model, weight_decay=1.0)
    with pytest.raises(PlanError, match="at most 40 characters"):
        ModelPlan(**(model | {"name": "m" * 41}), weight_decay=0.0)


def test_plan_limits_the_size_of_a_model_file(monkeypatch: pytest.MonkeyPatch) -> None:
    most = max(tiny().config(model.name).num_parameters for model in tiny().models)
    monkeypatch.setattr(plan_module, "MAX_PARAMETERS", most)
    tiny()
    monkeypatch.setattr(plan_module, "MAX_PARAMETERS", most - 1)
    words = rf"model \([a-z-]+\) has {most} parameters, and the limit is {most - 1}: use smaller"
    with pytest.raises(PlanError, match=words):
        tiny()


def test_heads_mean_nothing_for_a_window_model() -> None:
    with pytest.raises(PlanError, match=r"kind \(fixed-window-mlp\) has no heads: remove"):
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


def test_three_models_is_the_published_protocol() -> None:
    held = plan("three-models")
    protocol = held.protocol
    assert held.seeds == (11, 29, 47)
    assert (protocol.context, protocol.width, protocol.hidden) == (64, 64, 256)
    assert (protocol.batch_targets, protocol.targets_per_window, protocol.steps) == (512, 1, 6000)
    assert (protocol.validation_windows, protocol.validation_slice) == (20_000, "first")
    assert (protocol.draws, protocol.initial) == ("with-replacement", "linear")
    assert (held.data.split_by, held.tokenizer.words) == ("normalised-text", "ascii")
    assert (protocol.clip, protocol.decay, protocol.warmup_steps) == (1.0, "none", 0)
    settings = {m.name: (m.learning_rate, m.weight_decay, m.num_heads) for m in held.models}
    assert settings == {
        "mlp": (0.001, 0.0001, None),
        "one-head": (0.003, 0.001, 1),
        "four-heads": (0.003, 0.001, 4),
    }
    sizes = {m.name: held.config(m.name).num_parameters for m in held.models}
    assert sizes == {"mlp": 2_332_832, "one-head": 1_321_120, "four-heads": 1_321_120}


def test_the_hash_of_a_plan_identifies_its_data() -> None:
    held = plan("three-models")
    one, other = (held.with_data("file", digit * 64) for digit in "56")
    assert len({held.sha256, one.sha256, other.sha256}) == 3
    assert f'sha256 = "{"5" * 64}"' in one.text
    assert plan_from_text(one.text) == one
    with pytest.raises(PlanError, match=r"sha256 \('abc'\) must match"):
        held.with_data("file", "abc")


def test_targets_that_are_drawn_have_a_window_each() -> None:
    with pytest.raises(PlanError, match=r"targets_per_window \(3\) must be 1 if draws is with-rep"):
        tiny(("width = 8", 'width = 8\ndraws = "with-replacement"'))


def test_head_count_has_both_arms_two_controls_and_checked_rates() -> None:
    held = plan("head-count")
    assert len(held.seeds) >= 5
    arms = {(m.num_heads, m.head_dim) for m in held.models if m.pattern == "learned"}
    assert arms == {(h, None) for h in (1, 2, 4, 8, 16, 32, 64)} | {(h, 16) for h in (1, 2, 4, 8)}
    assert {m.pattern for m in held.models} == {"learned", "uniform", "shared"}
    assert all(len(m.candidates) > 1 for m in held.models)


def test_own_recipe_trains_the_same_models_on_the_same_data() -> None:
    own, published = plan("own-recipe"), plan("three-models")
    assert own.seeds == published.seeds
    assert own.data.source == "stories"
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


def test_a_json_plan_is_the_same_plan_and_its_errors_name_the_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("\N{ZERO WIDTH NO-BREAK SPACE}" + json.dumps(tiny().to_dict()))
    assert plan(path) == tiny()
    path.write_text(json.dumps(tiny().to_dict()).replace('"steps": 10', '"steps": NaN'))
    with pytest.raises(PlanError, match=r"mine\.json\): protocol\.steps \(nan\) must be a whole"):
        plan(path)
    path.write_text("[" * 100_000)
    with pytest.raises(PlanError, match=r"plan is not JSON \(nested too deeply\)"):
        plan(path)
    path.write_text("[1]")
    with pytest.raises(PlanError, match=r"plan \(\[1\]\) must be a table"):
        plan(path)


def test_a_plan_file_has_at_most_a_million_bytes(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(TEXT + "#" * (1_000_000 - len(TEXT)))
    assert plan(path) == tiny()
    path.write_text(TEXT + "#" * (1_000_001 - len(TEXT)))
    with pytest.raises(PlanError, match="more than 1,000,000 bytes"):
        plan(path)


def test_a_plan_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"plan \(smok\) is not known: use head-count, "):
        plan("smok")
    with pytest.raises(PlanError, match=r"none\.toml\) cannot be opened \(No such file"):
        plan(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(PlanError, match=r"latin\.toml\) is not UTF-8"):
        plan(tmp_path / "latin.toml")


def test_a_model_that_a_plan_lacks_is_named() -> None:
    held: Plan = tiny()
    with pytest.raises(PlanError, match=r"model \(gru\) is not in plan tiny: use mlp, two"):
        held.model("gru")
