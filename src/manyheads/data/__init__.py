"""Text for studies: stories, files, words as numbers, and windows of them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyheads.data.hub import download_tinystories
    from manyheads.data.stories import Agreement, Story, generate_stories, tell_story
    from manyheads.data.text import file_sha256, read_stories
    from manyheads.data.tokens import Joiner, WordTokenizer
    from manyheads.data.windows import (
        Corpus,
        SealedSplit,
        Split,
        TrainingOrder,
        build_corpus,
        fixed_slice,
    )

__all__ = [
    "Agreement",
    "Corpus",
    "Joiner",
    "SealedSplit",
    "Split",
    "Story",
    "TrainingOrder",
    "WordTokenizer",
    "build_corpus",
    "download_tinystories",
    "file_sha256",
    "fixed_slice",
    "generate_stories",
    "read_stories",
    "tell_story",
]

_HOMES = {
    "Agreement": "stories",
    "Corpus": "windows",
    "Joiner": "tokens",
    "SealedSplit": "windows",
    "Split": "windows",
    "Story": "stories",
    "TrainingOrder": "windows",
    "WordTokenizer": "tokens",
    "build_corpus": "windows",
    "download_tinystories": "hub",
    "file_sha256": "text",
    "fixed_slice": "windows",
    "generate_stories": "stories",
    "read_stories": "text",
    "tell_story": "stories",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is exported
    """Load a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
