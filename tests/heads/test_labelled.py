"""Labelled words: shares are known, because the model is made to find or to miss the source."""

import pytest
import torch
from torch import Tensor, nn

from manyheads.core.errors import ShapeError
from manyheads.data.stories import generate_stories, tell_story
from manyheads.data.tokens import WordTokenizer
from manyheads.heads.labelled import FEW_STORIES, measure_labelled, wilson
from manyheads.models.config import ModelConfig

TOKENIZER = WordTokenizer.train(generate_stories(1500, seed=1), min_count=1)
COUNT, CONTEXT = 80, 64


class Knowing(nn.Module):
    """Knows the stories: head 1 looks at the first source of each word, head 2 at `[BOS]` or so."""

    def __init__(self, is_right: bool) -> None:
        super().__init__()
        self.is_right = is_right
        self.config = ModelConfig(
            kind="attention", num_heads=2, vocab_size=TOKENIZER.vocab_size, context=CONTEXT
        )
        self.known: dict[tuple[int, ...], tuple[int, int]] = {}
        for index in range(500, 500 + COUNT):
            story = tell_story(index, seed=1)
            ids = (1, *TOKENIZER.encode(story.text))
            for label in story.labels:
                end = label.target_index + 1
                window = ids[max(0, end - CONTEXT) : end]
                target = story if is_right else story.swapped(label)
                word = TOKENIZER.ids[target.words[label.target_index]]
                self.known[window] = (max(label.mentions) - label.target_index, word)

    def forward(self, tokens: Tensor, need_weights: bool) -> tuple[Tensor, Tensor]:
        logits = torch.zeros(len(tokens), self.config.vocab_size)
        weights = torch.zeros(len(tokens), 2, CONTEXT)
        for row, window in enumerate(tokens.tolist()):
            place, word = self.known[tuple(word for word in window if word)]
            logits[row, word] = 5.0
            weights[row, 0, CONTEXT + place] = 1.0
            weights[row, 1, 0] = 1.0
        return logits, weights


@pytest.mark.parametrize("is_right", [True, False])
def test_a_model_that_knows_every_source_finds_all_and_one_that_does_not_none(
    is_right: bool,
) -> None:
    found = measure_labelled(
        Knowing(is_right), TOKENIZER.encode, count=COUNT, seed=1, first_index=500
    )
    kinds = {kind.kind: kind for kind in found.kinds}
    assert {"name", "pronoun", "object"} <= set(kinds)
    for kind in kinds.values():
        assert kind.predicted.share == kind.preferred.share == float(is_right)
        first, second = kind.heads
        assert first.found.share == 1.0
        assert first.shuffled_greatest < 1.0
        assert second.found.share < 0.2
        assert kind.predicted.stories >= FEW_STORIES
    assert kinds["name"].predicted.stories <= COUNT


def test_the_measure_is_the_same_each_time() -> None:
    given = {"count": COUNT, "seed": 1, "first_index": 500}
    one, two = (measure_labelled(Knowing(True), TOKENIZER.encode, **given) for _ in range(2))
    assert one == two


def test_wilson_interval_of_known_numbers() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)


def test_no_story_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"count \(0\) must be at least 1"):
        measure_labelled(Knowing(True), TOKENIZER.encode, count=0, seed=1, first_index=500)
