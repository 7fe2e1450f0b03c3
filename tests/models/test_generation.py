"""Generated text: the fast path against the model's forward, and what ends a story."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError, ShapeError
from manyheads.data.tokens import WordTokenizer
from manyheads.models.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from manyheads.models.generation import (
    ForwardPass,
    Step,
    Story,
    WordTables,
    generate,
    predictor_of,
    unknown_words,
)
from manyheads.models.lm import AttentionLM, FixedWindowMLP
from manyheads.models.sampling import Sampling

STORIES = [
    'one day a girl saw a red bird. "hello," she said. the bird did not say a word.',
    "a boy had a red ball. one day the ball was not in the box. he said no word.",
] * 2
SIZES = {"vocab_size": 41, "context": 7, "width": 12, "hidden": 10}
MODELS = {
    "one head": {"num_heads": 1},
    "three heads": {"num_heads": 3},
    "narrow heads": {"num_heads": 5, "head_dim": 2},
    "shared pattern": {"num_heads": 3, "pattern": "shared"},
    "uniform pattern": {"num_heads": 2, "pattern": "uniform"},
}


@pytest.fixture(scope="module")
def tokenizer() -> WordTokenizer:
    return WordTokenizer.train(STORIES)


def seeded(seed: int = 3) -> None:
    torch.manual_seed(seed)


@pytest.fixture
def model(tokenizer: WordTokenizer) -> AttentionLM:
    seeded()
    return AttentionLM(3, **(SIZES | {"vocab_size": tokenizer.vocab_size}))


@dataclass
class Scripted:
    """A predictor that has one clear next word after each number of words."""

    words: Sequence[int]
    vocab_size: int

    def logits(self, ids: Sequence[int]) -> Tensor:
        logits = torch.zeros(self.vocab_size)
        logits[self.words[min(len(ids), len(self.words)) - 1]] = 9.0
        return logits

    def head_weights(self, ids: Sequence[int]) -> Tensor:
        raise NotImplementedError


def scripted(tokenizer: WordTokenizer, text: str, *, stop: str | None = None) -> list[Step]:
    """The steps of a predictor that says `text` and then ends."""
    words = [*tokenizer.encode(text), EOS_ID]
    story = Story(tokenizer, "", 64, 50, stop)
    predictor = Scripted(words, tokenizer.vocab_size)
    return list(story.steps(predictor, Sampling(temperature=0.0)))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_tables_against_forward_over_windows_that_slide(
    kind: str, dtype: torch.dtype, allowed: float
) -> None:
    seeded()
    model = AttentionLM(**(SIZES | MODELS[kind])).to(dtype)  # type: ignore[arg-type]  # a mixed dict
    fast, slow = WordTables(model), ForwardPass(model)
    row = [BOS_ID, *torch.randint(3, 41, (20,)).tolist()]
    for stop in range(1, len(row) + 1):
        ids = row[max(stop - 7, 0) : stop]
        torch.testing.assert_close(fast.logits(ids), slow.logits(ids), rtol=0, atol=allowed)
        weights = fast.head_weights(ids)
        assert weights.shape == (model.config.num_heads, len(ids))
        torch.testing.assert_close(weights, slow.head_weights(ids), rtol=0, atol=allowed)


def test_tables_equal_forward_of_the_window_padded_on_the_left() -> None:
    seeded()
    model = AttentionLM(3, **SIZES).double()
    ids = [BOS_ID, 9, 4]
    padded = torch.tensor([[PAD_ID] * 4 + ids])
    found = WordTables(model).logits(ids)
    torch.testing.assert_close(found, model(padded)[0].detach(), rtol=0, atol=1e-10)


def test_a_plain_cache_of_keys_and_values_would_be_wrong_as_soon_as_a_word_is_added() -> None:
    seeded()
    model = AttentionLM(3, **SIZES).double()
    words = torch.tensor([[BOS_ID, 9, 4]])
    kept = model.rows(words)[:, :2]  # what a cache would hold of the first two words
    moved = model.rows(torch.cat([words, words[:, :1]], dim=1))[:, :2]
    assert (kept - moved).abs().max() > 0.1


def test_tables_give_no_gradient_and_do_not_follow_later_changes() -> None:
    seeded()
    model = AttentionLM(3, **SIZES)
    tables = WordTables(model)
    before = tables.logits([1, 5])
    assert not before.requires_grad
    with torch.no_grad():
        model.attention.in_proj_weight.mul_(2)  # type: ignore[union-attr]  # it is there
    assert torch.equal(tables.logits([1, 5]), before)


@pytest.mark.parametrize("ids", [[], [4] * 8])
def test_a_window_of_another_length_is_refused(ids: list[int]) -> None:
    with pytest.raises(ShapeError, match=rf"ids has {len(ids)} words, expected 1 to 7"):
        WordTables(AttentionLM(3, **SIZES)).logits(ids)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("is_mlp", [False, True])
def test_words_equal_those_of_full_recomputing(
    temperature: float, is_mlp: bool, model: AttentionLM, tokenizer: WordTokenizer
) -> None:
    sizes = SIZES | {"vocab_size": tokenizer.vocab_size}
    subject = FixedWindowMLP(**sizes) if is_mlp else model
    with torch.no_grad():
        subject.output.bias[EOS_ID] = -40.0  # so that the window slides
    found = list(
        generate(subject, tokenizer, "One day", max_tokens=30, temperature=temperature, seed=5)
    )
    ids = [BOS_ID, *tokenizer.encode("one day")]
    story = Story(tokenizer, "One day", 7, 30)
    sampling = Sampling(temperature=temperature, seed=5)
    for step, judged in zip(found, story.steps(ForwardPass(subject), sampling), strict=True):
        assert step.word_id == judged.word_id
        assert step.context == tuple(ids[-7:])
        window = torch.tensor([[PAD_ID] * (7 - len(step.context)) + list(step.context)])
        share = torch.softmax(subject(window)[0].detach(), dim=0)[step.word_id]
        assert step.probability == pytest.approx(float(share), abs=1e-6)
        ids.append(step.word_id)
    assert len(found) == 30


def test_the_same_seed_gives_the_same_text_and_another_one_another(
    model: AttentionLM, tokenizer: WordTokenizer
) -> None:
    def text(seed: int) -> str:
        steps = generate(model, tokenizer, "a", max_tokens=25, temperature=1.5, seed=seed)
        return "".join(step.piece for step in steps)

    assert text(1) == text(1)
    assert len({text(seed) for seed in range(5)}) == 5


def test_generation_leaves_the_global_generator_and_the_model_alone(
    model: AttentionLM, tokenizer: WordTokenizer
) -> None:
    state = torch.get_rng_state()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    list(generate(model, tokenizer, "a", max_tokens=5))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_special_words_never_stand_in_a_text_though_an_unknown_prompt_word_is_seen(
    model: AttentionLM, tokenizer: WordTokenizer
) -> None:
    with torch.no_grad():
        model.output.bias[[PAD_ID, BOS_ID, UNK_ID]] = 40.0
        model.output.bias[EOS_ID] = -40.0
    steps = list(generate(model, tokenizer, "a zebra", max_tokens=40, temperature=2.0))
    assert len(steps) == 40
    assert steps[0].context[-1] == UNK_ID
    assert not {step.word_id for step in steps} & {PAD_ID, BOS_ID, UNK_ID}


def test_an_empty_prompt_begins_a_story(model: AttentionLM, tokenizer: WordTokenizer) -> None:
    first = next(generate(model, tokenizer, " \n"))
    assert first.context == (BOS_ID,)
    assert not first.piece.startswith(" ")


def test_the_end_of_the_story_ends_it(tokenizer: WordTokenizer) -> None:
    steps = scripted(tokenizer, "the red ball.")
    assert "".join(step.piece for step in steps) == "the red ball."
    assert [step.ended_by for step in steps] == [None] * 4 + ["end of story"]
    assert steps[-1].word == "[EOS]"


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ("ball", "the red ball"),
        ("RED b", "the red ball"),
        ("all. one", "the red ball. one"),
        (".", "the red ball."),
        ("word", "the red ball. one day"),
    ],
)
def test_stop_ends_with_the_word_that_completes_it(
    stop: str, text: str, tokenizer: WordTokenizer
) -> None:
    steps = scripted(tokenizer, "the red ball. one day", stop=stop)
    assert "".join(step.piece for step in steps) == text
    assert steps[-1].ended_by == ("end of story" if stop == "word" else "stop")


def test_text_goes_on_where_the_prompt_left_off(tokenizer: WordTokenizer) -> None:
    words = [*tokenizer.encode('" she said'), EOS_ID]
    story = Story(tokenizer, 'a girl saw "hello', 64, 50)
    start = len(tokenizer.encode('a girl saw "hello'))
    predictor = Scripted([0] * start + words, tokenizer.vocab_size)
    for _ in range(2):  # a story can be told twice
        steps = story.steps(predictor, Sampling(temperature=0.0))
        assert "".join(step.piece for step in steps) == '" she said'


def test_max_tokens_ends_the_text(model: AttentionLM, tokenizer: WordTokenizer) -> None:
    with torch.no_grad():
        model.output.bias[EOS_ID] = -40.0
    steps = list(generate(model, tokenizer, "a", max_tokens=3))
    assert [step.ended_by for step in steps] == [None, None, "max tokens"]


def test_heads_can_be_looked_at(model: AttentionLM, tokenizer: WordTokenizer) -> None:
    steps = list(generate(model, tokenizer, "one day", max_tokens=8))
    for step in steps:
        wanted = model(torch.tensor([step.context]), need_weights=True)[1][0]
        torch.testing.assert_close(step.head_weights(), wanted.detach(), rtol=0, atol=1e-5)


def test_a_model_without_heads_says_so(tokenizer: WordTokenizer) -> None:
    model = FixedWindowMLP(**(SIZES | {"vocab_size": tokenizer.vocab_size}))
    step = next(generate(model, tokenizer, "one"))
    with pytest.raises(ConfigError, match=r"model \(FixedWindowMLP\) has no heads"):
        step.head_weights()


def test_attention_is_asked_through_tables_and_others_through_their_forward() -> None:
    assert isinstance(predictor_of(AttentionLM(3, **SIZES)), WordTables)
    assert isinstance(predictor_of(FixedWindowMLP(**SIZES)), ForwardPass)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_tokens": 0}, r"max_tokens \(0\) must be from 1 to 100,000"),
        ({"max_tokens": 10**6}, r"max_tokens \(1000000\)"),
        ({"stop": " "}, r"stop \(' '\) must not be empty"),
        ({"temperature": -1.0}, r"temperature \(-1.0\)"),
        ({"top_k": 1000}, r"top_k \(1000\) must be at most"),
        ({"seed": 2**64}, r"seed \(18446744073709551616\)"),
    ],
)
def test_wrong_settings_are_refused_before_the_first_word(
    settings: dict[str, object], said: str, model: AttentionLM, tokenizer: WordTokenizer
) -> None:
    with pytest.raises(ConfigError, match=said):
        generate(model, tokenizer, "a", **settings)  # type: ignore[arg-type]  # the point


def test_a_tokenizer_with_more_words_than_the_model_is_refused(tokenizer: WordTokenizer) -> None:
    model = AttentionLM(3, **(SIZES | {"vocab_size": 9}))
    with pytest.raises(ConfigError, match=r"tokenizer \(\d+ words\) must fit the model's 9"):
        generate(model, tokenizer, "a")


def test_a_model_of_another_kind_is_refused(tokenizer: WordTokenizer) -> None:
    with pytest.raises(ConfigError, match=r"model \(Linear\) cannot continue a text"):
        generate(nn.Linear(2, 2), tokenizer, "a")


def test_unknown_words_are_named_once_and_in_order(tokenizer: WordTokenizer) -> None:
    assert unknown_words(tokenizer, "Zebras and a zebra, zebras!") == [
        "zebras",
        "and",
        "zebra",
        "!",
    ]
    assert unknown_words(tokenizer, "one red ball") == []
