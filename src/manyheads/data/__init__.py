"""Text for studies: stories, files, tokeniser, and windows."""

from typing import TYPE_CHECKING

from manyheads.core.lazy import lazy_names

if TYPE_CHECKING:
    from manyheads.data.stories import Agreement, Story, generate_stories, tell_story
    from manyheads.data.text import download_tinystories, file_sha256, read_stories
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
    "download_tinystories": "text",
    "file_sha256": "text",
    "fixed_slice": "windows",
    "generate_stories": "stories",
    "read_stories": "text",
    "tell_story": "stories",
}

if not TYPE_CHECKING:  # so that a type checker finds a mistyped name
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
