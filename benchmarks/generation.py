"""Words per second with tables and by recomputing: `python -m benchmarks.generation`."""

import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.timing import print_setting, seconds_by_turns, settings_from_arguments
from manyheads.models.config import EOS_ID
from manyheads.models.generation import ForwardPass, Predictor, Story, WordTables
from manyheads.models.lm import AttentionLM
from manyheads.models.sampling import Sampling

WORDS, QUICK_WORDS = 200, 3
VOCAB, QUICK_VOCAB = 4000, 50
HEADS = (4, 1)


class Letters:
    """A tokeniser of made-up words, for a model that was not trained."""

    def __init__(self, vocab_size: int) -> None:
        self.words = tuple(f"w{index}" for index in range(vocab_size))

    def split(self, text: str) -> list[str]:
        """Split at spaces."""
        return text.split()

    def encode(self, text: str) -> list[int]:
        """The numbers in the words' names."""
        return [int(word[1:]) for word in self.split(text)]

    def joiner(self) -> "Letters":
        """Return a joiner without state."""
        return self

    def piece(self, word: str) -> str:
        """Return a space and the word."""
        return f" {word}"


class FullRecompute(ForwardPass):
    """Every row of the window through the whole model for each word; the last one is used."""

    def __init__(self, model: AttentionLM) -> None:
        super().__init__(model)
        self._all_rows = model.all_rows

    @torch.no_grad()
    def logits(self, ids: Sequence[int]) -> Tensor:
        """One logit per word, (V,)."""
        return self._all_rows(torch.tensor([ids]))[0, -1]


def story(predictor: Predictor, vocab_size: int, count: int) -> Callable[[], list[int]]:
    """A call that writes a story of `count` words, seeded, after a prompt that fills the window."""
    prompt = " ".join(f"w{4 + index % (vocab_size - 4)}" for index in range(64))
    told = Story(Letters(vocab_size), prompt, 64, count)
    return lambda: [step.word_id for step in told.steps(predictor, Sampling(seed=11))]


def main() -> None:
    """Print words per CPU second and ratios, after checking that all ways give the same words."""
    settings, is_quick = settings_from_arguments("words from tables against recomputing")
    print_setting(settings)
    vocab, count = (QUICK_VOCAB, QUICK_WORDS) if is_quick else (VOCAB, WORDS)
    for num_heads in HEADS:
        torch.manual_seed(11)
        model = AttentionLM(num_heads, vocab_size=vocab)
        with torch.no_grad():
            model.output.bias[EOS_ID] = -100.0  # so that every story has its length
            model.output.weight.mul_(20)  # so that words differ as much as those of a trained model
        ways = {
            "tables": WordTables(model),
            "last row": ForwardPass(model),
            "full recompute": FullRecompute(model),
        }
        calls = {name: story(way, vocab, count) for name, way in ways.items()}
        told = {name: call() for name, call in calls.items()}
        assert all(words == told["tables"] for words in told.values()), "the words differ"
        found = seconds_by_turns(calls, settings)
        print(f"{num_heads} head(s), V = {vocab}, window 64, {count} words a story, the same words")
        for name, seconds in found.items():
            ratios = [theirs / ours for theirs, ours in zip(seconds, found["tables"], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            rate = count / statistics.median(seconds)
            print(f"  {name:<16} {rate:8.0f} words/s  x {middle:5.2f}  [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
