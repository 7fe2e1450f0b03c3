"""`manyheads generate`: a small trained model continues a story, word by word."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from manyheads.cli.types import INTEGER, NAME_OR_PATH, NUMBER, IntRange

if TYPE_CHECKING:
    from manyheads.data.tokens import WordTokenizer
    from manyheads.models.generation import Step

_SOURCES_SHOWN = 3
_LONGEST_NAMED = 40


@click.command()
@click.argument("prompt", default="")
@click.option(
    "--model",
    "name",
    default="four-heads",
    show_default=True,
    type=NAME_OR_PATH,
    metavar="NAME|FILE",
    help="Name of a shipped model, or path of a .safetensors file of a study.",
)
@click.option(
    "--max-tokens",
    type=IntRange(1, 100_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Maximum number of words to generate.",
)
@click.option(
    "--temperature",
    type=NUMBER,
    default=0.8,
    show_default=True,
    metavar="X",
    help="Divides the logits before sampling; 0 takes the most probable word.",
)
@click.option(
    "--top-k",
    type=INTEGER,
    metavar="K",
    help="Sample from the K most probable words (default 40).",
    show_default=False,
)
@click.option(
    "--seed", type=INTEGER, default=0, show_default=True, metavar="N", help="Random seed."
)
@click.option("--stop", metavar="TEXT", help="Stop after the word that completes this text.")
@click.option(
    "--heads",
    "show_heads",
    is_flag=True,
    help="Print the words with the largest attention weights of each head.",
)
@click.option("--stats", is_flag=True, help="Print words per second to standard error.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def generate(
    prompt: str,
    name: str,
    show_heads: bool,
    stats: bool,
    as_json: bool,
    **settings: Any,  # noqa: ANN401 - what `generate` of the library checks
) -> None:
    r"""Continue a story that begins with PROMPT, or write a new story.

    The same model, prompt, settings and seed give the same text. Unknown words are marked. No
    network is used.

    \b
    Examples:
      manyheads generate "Once upon a time" --seed 4
      manyheads generate "The cat" --model one-head --temperature 0 --stop .
    """
    begun = time.perf_counter()
    story = _story(name, prompt, settings, needs_heads=show_heads)
    story.seconds_loading = time.perf_counter() - begun
    if story.unknown:
        words = _printable(", ".join(map(_shortened, story.unknown)))
        click.echo(f"unknown to {name}, read as [UNK]: {words}", err=True)
    try:
        _show(story, as_json=as_json, show_heads=show_heads)
    finally:
        if stats:
            click.echo(_stats(story), err=True)


class _Story:
    """A story being generated: its model, prompt and settings, and the time it takes."""

    def __init__(
        self,
        model: str,
        prompt: str,
        settings: dict[str, Any],
        tokenizer: "WordTokenizer",
        words: "Iterator[Step]",
    ) -> None:
        from manyheads.models.generation import unknown_words

        self.model, self.prompt, self.settings = model, prompt, settings
        self.tokenizer = tokenizer
        self.unknown = unknown_words(tokenizer, prompt)
        self._words = words
        self.count = 0
        self.seconds_loading = self.seconds = 0.0

    def steps(self) -> "Iterator[Step]":
        """The steps as they come, timed."""
        while True:
            begun = time.perf_counter()
            step = next(self._words, None)
            self.seconds += time.perf_counter() - begun
            if step is None:
                return
            self.count += 1
            yield step


def _story(name: str, prompt: str, settings: dict[str, Any], *, needs_heads: bool) -> _Story:
    """Load the model and check everything, before anything is printed."""
    import torch

    from manyheads.checkpoints.shipped import load_shipped
    from manyheads.core.errors import ConfigError
    from manyheads.data.tokens import WordTokenizer
    from manyheads.models.generation import generate as continue_text
    from manyheads.models.lm import AttentionLM

    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"prompt ({prompt!r}) must be text: give it as UTF-8") from error
    torch.set_num_threads(1)  # a single row is too little work to be shared
    found = load_shipped(name)
    if needs_heads and not isinstance(found.model, AttentionLM):
        raise ConfigError(f"model ({name}) has no heads: use one-head or four-heads with --heads")
    tokenizer = WordTokenizer.from_json(found.tokenizer_json)
    words = continue_text(found.model, tokenizer, prompt, **settings)
    return _Story(name, prompt, settings, tokenizer, words)


def _show(story: _Story, *, as_json: bool, show_heads: bool) -> None:
    if as_json:
        click.echo(json.dumps(_document(story, show_heads=show_heads)))
    elif show_heads:
        _show_table(story)
    else:
        _stream(story)


def _stream(story: _Story) -> None:
    """Print the prompt, then each word as soon as it is there."""
    _say(_marked_prompt(story))
    try:
        for step in story.steps():
            _say(step.piece)
    finally:
        _say("\n")


def _say(text: str) -> None:
    click.echo(text, nl=False)
    sys.stdout.flush()


def _marked_prompt(story: _Story) -> str:
    """The prompt as the model's words; in a terminal, unknown ones are in brackets, underlined."""
    is_terminal = sys.stdout.isatty()
    joiner, text = story.tokenizer.joiner(), ""
    for word in story.tokenizer.split(story.prompt):
        piece = joiner.piece(word)
        shown = _printable(piece)
        if is_terminal and word in story.unknown:
            gap, bare = shown[: len(shown) - len(word)], shown[len(shown) - len(word) :]
            shown = gap + click.style(f"[{bare}]", underline=True)
        text += shown
    return text


def _printable(text: str) -> str:
    """A text without control characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _shortened(word: str) -> str:
    """A word, cut to a length that fits a line."""
    return word if len(word) <= _LONGEST_NAMED else f"{word[:_LONGEST_NAMED]}..."


def _show_table(story: _Story) -> None:
    """A line per word and head: the word's probability, and the head's largest weights."""
    words, width = story.tokenizer.words, 14
    _say(f"{_marked_prompt(story)}\n")
    for step in story.steps():
        weights = step.head_weights().tolist()
        context = [words[index] for index in step.context]
        begin = f"{step.word:<{width}} {step.probability:6.1%}"
        for number, row in enumerate(weights, 1):
            _say(f"{begin}  head {number}: {_strongest(row, context)}\n")
            begin = " " * len(begin)


def _strongest(row: Sequence[float], context: Sequence[str]) -> str:
    """The words with the largest weights, in percent, counted back from the last word."""
    order = sorted(range(len(row)), key=lambda place: (-row[place], -place))[:_SOURCES_SHOWN]
    return ", ".join(
        f"{context[place]}({place - len(row) + 1}) {row[place]:.0%}" for place in order
    )


def _document(story: _Story, *, show_heads: bool) -> dict[str, Any]:
    steps = list(story.steps())
    words = []
    for step in steps:
        word = {
            "id": step.word_id,
            "word": step.word,
            "piece": step.piece,
            "probability": step.probability,
        }
        if show_heads:
            word["context"] = list(step.context)
            word["head_weights"] = step.head_weights().tolist()
        words.append(word)
    return {
        "model": story.model,
        "prompt": story.prompt,
        "unknown_words": story.unknown,
        "settings": story.settings,
        "text": "".join(step.piece for step in steps),
        "ended_by": steps[-1].ended_by,
        "words": words,
    }


def _stats(story: _Story) -> str:
    count = story.count
    rate = count / max(story.seconds, 1e-9)
    return (
        f"{count} tokens in {story.seconds:.3f} s, {rate:,.0f} tokens per second on one thread "
        f"(without {story.seconds_loading:.2f} s of loading)"
    )
