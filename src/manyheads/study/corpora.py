"""The stories that a plan asks for, read or generated, and divided."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyheads.data.windows import Corpus, build_corpus
from manyheads.study.plan import Plan


def corpus_for(
    plan: Plan, data: Path | None = None, *, tell: Callable[[str], object] = lambda line: None
) -> Corpus:
    """Get a plan's stories and divide them.

    Args:
        plan: whose data and tokeniser are wanted.
        data: a file of stories that takes the place of the plan's source.
        tell: hears what is fetched from where, and its licence.

    Raises:
        DataError: the file cannot be read or the stories are too few.
    """
    return build_corpus(
        _stories(plan, data, tell),
        vocab_size=plan.tokenizer.vocab_size,
        min_count=plan.tokenizer.min_count,
        context=plan.protocol.context,
    )


def _stories(plan: Plan, data: Path | None, tell: Callable[[str], object]) -> list[str]:
    from manyheads.data.text import read_stories

    wanted = plan.data
    if data is not None:
        return read_stories(data, limit=wanted.count)
    if wanted.source == "stories":
        from manyheads.data.stories import generate_stories

        assert wanted.count is not None  # checked by the plan
        return generate_stories(wanted.count, seed=wanted.seed)
    from manyheads.data.hub import download_tinystories

    return read_stories(download_tinystories(tell=tell), limit=wanted.count)


def facts_of(corpus: Corpus, plan: Plan, data: Path | None) -> dict[str, Any]:
    """What a study notes of its data."""
    return {
        "source": plan.data.source if data is None else f"file {data.name}",
        "vocab_size": corpus.tokenizer.vocab_size,
        "tokenizer_sha256": corpus.tokenizer.sha256,
        "num_duplicates": corpus.num_duplicates,
        "num_stories": dict(corpus.num_stories),
        "num_targets": dict(corpus.num_targets),
        "unknown_rates": dict(corpus.unknown_rates),
    }
