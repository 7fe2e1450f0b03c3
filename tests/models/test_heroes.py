"""Names that return: beginnings are found by rule, and shares are known for made-up models."""

import pytest
import torch
from torch import Tensor, nn

import manyheads.models.heroes as heroes
from manyheads.data.tokens import WordTokenizer
from manyheads.models.config import ModelConfig
from manyheads.models.heroes import Beginning, beginnings_of, measure_heroes

STORIES = [
    "once a girl named lily ran . lily sat .",
    "once a boy named tom ran . he sat .",  # the name does not return
    "a dog called spot barked . spot sat .",
    "once a girl named zyx ran . zyx sat .",  # not a known word
    "once a girl named lily ran . lily sat down .",  # the same beginning
]
TOKENIZER = WordTokenizer.train(STORIES, min_count=1)
KNOWN = [word for word in TOKENIZER.words if word != "zyx"]


class Says(nn.Module):
    """Always says one word."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.config = ModelConfig(
            kind="fixed-window-mlp", vocab_size=TOKENIZER.vocab_size, context=16
        )
        self.word = TOKENIZER.ids[word]
        self.scale = nn.Parameter(torch.tensor(50.0))  # it has a device, as every model

    def forward(self, tokens: Tensor) -> Tensor:
        logits = -self.scale.expand(len(tokens), self.config.vocab_size).clone()
        logits[:, self.word] = self.scale
        return logits


def test_beginnings_end_with_the_sentence_that_names_the_hero() -> None:
    assert beginnings_of((story.split() for story in STORIES), known=KNOWN) == (
        Beginning(text="once a girl named lily ran .", name="lily"),
        Beginning(text="a dog called spot barked .", name="spot"),
    )


@pytest.mark.parametrize(("word", "share", "other"), [("lily", 0.5, 0.5), ("sat", 0.0, 0.0)])
def test_a_model_that_always_says_one_name_is_right_half_of_the_time(
    word: str, share: float, other: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heroes, "MAX_TOKENS", 4)
    beginnings = beginnings_of((story.split() for story in STORIES), known=KNOWN)
    found = measure_heroes(Says(word), TOKENIZER, beginnings)
    assert (found.share, found.other_name) == (share, other)
    assert (found.beginnings, found.seeds, found.max_tokens) == (2, len(heroes.SEEDS), 4)
    low, high = found.interval
    assert low <= share <= high
    assert found.to_dict()["interval"] == [low, high]
