"""Splits, windows and the order of training: nothing leaks, and nothing is left out."""

import hashlib
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import DataError, StudyError
from manyheads.data.stories import generate_stories
from manyheads.data.windows import (
    Corpus,
    DrawnOrder,
    SealedSplit,
    Split,
    TrainingOrder,
    build_corpus,
    fixed_slice,
    normalised,
    split_of_normalised,
    split_of_story,
)
from manyheads.models.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID

# Ids name their story and place: word 3 of story 2 is 203.
LENGTHS = (5, 1, 9, 4)
STORIES = [
    [100 * number + place for place in range(1, length + 1)]
    for number, length in enumerate(LENGTHS, start=1)
]
NUM_TARGETS = sum(length + 1 for length in LENGTHS)


def split_of(context: int = 4) -> Split:
    return Split("train", STORIES, context=context)


class Frozen:
    """Stands in for frozen choices, or for ones that are not."""

    def __init__(self, is_frozen: bool) -> None:
        self.is_frozen = is_frozen

    def require_frozen(self, data_sha256: str) -> None:
        if not self.is_frozen:
            raise StudyError("choices are not frozen")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build_corpus(generate_stories(300, seed=5))


def test_each_word_and_each_end_is_a_target_once() -> None:
    split = split_of()
    _, targets = split.windows(split.positions)
    expected = [word for story in STORIES for word in (*story, EOS_ID)]
    assert targets[:, 0].tolist() == expected
    assert split.num_targets == NUM_TARGETS
    assert split.num_stories == len(STORIES)
    assert split.stories() == STORIES


def test_a_window_holds_what_its_story_says_before_the_target_and_padding_on_the_left() -> None:
    split = split_of(context=4)
    tokens, targets = split.windows(split.positions)
    row = 0
    for story in STORIES:
        line = [PAD_ID] * 4 + [BOS_ID, *story, EOS_ID]
        for place in range(5, len(line)):
            assert tokens[row].tolist() == line[place - 4 : place]
            assert targets[row].tolist() == [line[place]]
            row += 1
    assert row == NUM_TARGETS


@given(context=st.integers(1, 12), n=st.integers(1, 8), data=st.data())
def test_windows_never_hold_words_of_two_stories(context: int, n: int, data: st.DataObject) -> None:
    split = split_of(context)
    first = data.draw(st.sampled_from(split.positions.tolist())) - data.draw(st.integers(0, n - 1))
    tokens, targets = split.windows(torch.tensor([first]), n)
    words = [i for i in torch.cat((tokens, targets), dim=1).flatten().tolist() if i > UNK_ID]
    assert len({word // 100 for word in words}) <= 1


@given(context=st.integers(1, 12), n=st.integers(1, 9), data=st.data())
def test_a_block_of_targets_equals_single_windows(
    context: int, n: int, data: st.DataObject
) -> None:
    split = split_of(context)
    first = data.draw(st.sampled_from(split.positions.tolist())) - data.draw(st.integers(0, n - 1))
    tokens, targets = split.windows(torch.tensor([first]), n)
    assert tokens.shape == (1, context + n - 1)
    assert targets.shape == (1, n)
    known = set(split.positions.tolist())
    for j in range(n):
        if first + j in known:
            single, target = split.windows(torch.tensor([first + j]))
            assert tokens[0, j : j + context].tolist() == single[0].tolist()
            assert targets[0, j] == target[0, 0]
        else:
            assert targets[0, j] == PAD_ID


@pytest.mark.parametrize("n", [1, 3, 8])
@pytest.mark.parametrize("seed", [11, 29])
def test_an_epoch_has_every_target_exactly_once(n: int, seed: int) -> None:
    split = split_of()
    order = TrainingOrder(split, batch_targets=n, targets_per_window=n, seed=seed)
    seen: Counter[tuple[int, ...]] = Counter()
    step = 0
    while seen.total() < 3 * NUM_TARGETS:
        tokens, targets = order.batch(step)
        for j in range(n):
            if targets[0, j] != PAD_ID:
                seen[(*tokens[0, j : j + 4].tolist(), int(targets[0, j]))] += 1
        step += 1
        if seen.total() % NUM_TARGETS == 0:
            assert set(seen.values()) == {seen.total() // NUM_TARGETS}
    assert seen.total() == 3 * NUM_TARGETS
    assert set(seen.values()) == {3}


def test_a_step_gives_the_same_batch_whatever_was_asked_before() -> None:
    split = split_of()
    made = [TrainingOrder(split, batch_targets=8, targets_per_window=2, seed=11) for _ in range(2)]
    steps = list(range(40))
    forwards = {step: made[0].batch(step) for step in steps}
    for step in [39, 0, 17, 16, 38, 1, 17]:
        for a, b in zip(made[1].batch(step), forwards[step], strict=True):
            assert torch.equal(a, b)
    tokens, targets = forwards[39]
    assert tokens.shape == (4, 5)
    assert targets.shape == (4, 2)


def test_epochs_before_a_step_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = TrainingOrder._shuffled

    def counted(self: TrainingOrder, epoch: int) -> torch.Tensor:
        drawn.append(epoch)
        return draw(self, epoch)

    monkeypatch.setattr(TrainingOrder, "_shuffled", counted)
    order = TrainingOrder(split_of(), batch_targets=4, targets_per_window=1, seed=11)
    for step in range(40):
        order.batch(step)
    assert drawn == sorted(set(drawn))
    assert len(drawn) >= 7


def test_seeds_and_epochs_have_different_orders() -> None:
    def batch(seed: int, step: int) -> list[int]:
        order = TrainingOrder(
            split_of(), batch_targets=NUM_TARGETS, targets_per_window=1, seed=seed
        )
        return order.batch(step)[1].flatten().tolist()

    orders = [batch(11, 0), batch(11, 1), batch(29, 0)]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])
    assert orders[0] != orders[1] != orders[2] != orders[0]


@pytest.mark.parametrize(("batch", "n"), [(10, 3), (64, 0), (65, 65)])
def test_a_batch_that_is_no_multiple_of_its_windows_is_refused(batch: int, n: int) -> None:
    with pytest.raises(DataError, match=rf"batch_targets \({batch}\).*\({n}\)"):
        TrainingOrder(split_of(), batch_targets=batch, targets_per_window=n, seed=1)


def test_a_fixed_slice_is_the_same_each_time_and_holds_places_once() -> None:
    split = split_of()
    chosen = fixed_slice(split, 7, seed=1)
    assert torch.equal(chosen, fixed_slice(split, 7, seed=1))
    assert not torch.equal(chosen, fixed_slice(split, 7, seed=2))
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert set(chosen.tolist()) <= set(split.positions.tolist())
    assert torch.equal(fixed_slice(split, 10_000, seed=1), split.positions)


def test_stories_are_divided_in_eighty_ten_ten_by_a_hash_that_stays() -> None:
    counts = Counter(map(split_of_story, generate_stories(2000)))
    assert counts["train"] == pytest.approx(1600, abs=60)
    assert counts["validation"] == pytest.approx(200, abs=45)
    assert counts["test"] == pytest.approx(200, abs=45)
    for text, name in (("a", "train"), ("d", "test"), ("11", "validation"), ("g", "test")):
        assert split_of_story(text) == name


def test_other_stories_do_not_move_a_story_to_another_split() -> None:
    stories = generate_stories(300, seed=5)
    few, many = build_corpus(stories[:150]), build_corpus(stories)
    rest = Counter(map(split_of_story, stories[150:]))
    for name, count in many.num_stories.items():
        assert few.num_stories[name] == count - rest[name]


def test_the_vocabulary_comes_from_the_training_split_alone() -> None:
    stories = generate_stories(300, seed=5)
    marked = [f"{story} Zyzzyva zyzzyva." for story in stories]
    held_out = [story for story in marked if split_of_story(story) != "train"]
    trained = [story for story in marked if split_of_story(story) == "train"]
    assert "zyzzyva" not in build_corpus([*stories, *held_out]).tokenizer.ids
    assert "zyzzyva" in build_corpus([*stories, *trained[:1]]).tokenizer.ids


def test_duplicates_are_removed_before_the_split() -> None:
    stories = generate_stories(200, seed=6)
    once = build_corpus(stories)
    twice = build_corpus([*stories, *stories[:50], f" {stories[0]}\n"])
    assert twice.num_duplicates == 51
    assert twice.num_stories == once.num_stories
    assert twice.sha256 == once.sha256
    assert twice.tokenizer.sha256 == once.tokenizer.sha256
    assert sum(once.num_stories.values()) == 200


def test_unknown_rates_are_counted_per_split() -> None:
    stories = generate_stories(200, seed=6)
    validation = [story for story in stories if split_of_story(story) == "validation"]
    corpus = build_corpus(stories, vocab_size=60)
    words = [w for story in validation for w in corpus.tokenizer.split(story)]
    unknown = [word for word in words if word not in corpus.tokenizer.ids]
    assert corpus.unknown_rates["validation"] == len(unknown) / len(words)
    assert 0.1 < corpus.unknown_rates["train"] < 0.9
    assert corpus.tokenizer.vocab_size == 60


def test_counts_of_a_corpus_are_those_of_its_splits(corpus: Corpus) -> None:
    for split in (corpus.train, corpus.validation, corpus.test):
        assert corpus.num_stories[split.name] == split.num_stories
        assert corpus.num_targets[split.name] == split.num_targets
    assert sum(corpus.num_stories.values()) == 300


def test_another_text_gives_another_hash(corpus: Corpus) -> None:
    stories = generate_stories(300, seed=5)
    assert build_corpus(stories).sha256 == corpus.sha256
    assert build_corpus([*stories[:-1], stories[-1] + "!"]).sha256 != corpus.sha256


def test_the_test_split_cannot_be_read_before_choices_are_frozen(corpus: Corpus) -> None:
    sealed = corpus.test
    with pytest.raises(StudyError, match="not frozen"):
        sealed.open(Frozen(False))
    opened = sealed.open(Frozen(True))
    assert opened.num_targets == sealed.num_targets == len(opened.positions)
    assert opened.name == "test"


def test_nothing_of_a_sealed_split_holds_its_words() -> None:
    sealed = SealedSplit(split_of(), "0" * 64)
    held = [value for name, value in vars(sealed).items() if not callable(value)]
    assert not [value for value in held if isinstance(value, Split | torch.Tensor | list | dict)]
    for name in ("windows", "positions", "starts", "_row"):
        assert not hasattr(sealed, name)


def test_too_few_stories_are_refused() -> None:
    with pytest.raises(DataError, match=r"stories \(1\) leave the \w+ split empty"):
        build_corpus(["Tom ran."])
    with pytest.raises(
        DataError, match=r"min_count \(9999\) leaves no word of the stories: use a lower"
    ):
        build_corpus(generate_stories(60), min_count=9999)
    with pytest.raises(DataError, match=r"stories \(0\) leave the train split empty"):
        build_corpus([" ", ""])


def test_the_published_split_ignores_case_and_spacing_and_has_known_places() -> None:
    assert normalised(" Tom \u00a0 RAN\n\naway\ufb01 ") == "tom ran awayfi"
    places = [split_of_normalised(f"story {number}") for number in range(2000)]
    shares = [places.count(name) / 2000 for name in ("train", "validation", "test")]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    for number in range(40):  # the rule as the published code writes it
        digest = hashlib.sha256(f"31415\0story {number}".encode()).digest()
        value = int.from_bytes(digest[:8], "big") / 2**64
        expected = "train" if value < 0.80 else "validation" if value < 0.90 else "test"
        assert places[number] == expected


def test_a_normalised_corpus_is_in_hash_order_and_has_no_story_twice_in_other_case() -> None:
    given = generate_stories(200, seed=5)
    corpus = build_corpus([*given, *(story.upper() for story in given)], is_normalised=True)
    assert corpus.num_duplicates == 200
    plain = [normalised(story) for story in given]
    held = [key for key in plain if split_of_normalised(key) == "validation"]
    first = min(held, key=lambda key: hashlib.sha256(key.encode()).digest())
    tokens, targets = corpus.validation.windows(corpus.validation.positions[:3])
    assert targets[:, 0].tolist() == corpus.tokenizer.encode(first)[:3]
    assert tokens[0, -1] == BOS_ID


def test_drawn_batches_repeat_targets_and_depend_on_seed_and_step_alone() -> None:
    split = split_of()
    order = DrawnOrder(split, batch_targets=3 * split.num_targets, seed=11)
    tokens, targets = order.batch(4)
    again = DrawnOrder(split, batch_targets=3 * split.num_targets, seed=11).batch(4)
    assert torch.equal(tokens, again[0])
    assert torch.equal(targets, again[1])
    assert targets.shape == (3 * split.num_targets, 1)
    assert len({*map(tuple, tokens.tolist())}) < 3 * split.num_targets
    for other in (order.batch(5), DrawnOrder(split, batch_targets=len(tokens), seed=12).batch(4)):
        assert not torch.equal(tokens, other[0])
