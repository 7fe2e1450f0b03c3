"""The stories of a plan, and losses and word counts over their splits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from manyheads.core.errors import DataError
from manyheads.data.windows import Corpus, Split, build_corpus
from manyheads.models.training import Trainable
from manyheads.study.machine import Crew
from manyheads.study.plan import Plan


def corpus_for(
    plan: Plan, data: Path | None = None, *, tell: Callable[[str], object] = lambda line: None
) -> Corpus:
    """Read or generate a plan's stories and split them.

    Args:
        plan: gives data and tokeniser.
        data: a file of stories that replaces the plan's source.
        tell: called with the source and licence of a download.

    Raises:
        DataError: the file cannot be read or the stories are too few.
    """
    return build_corpus(
        _stories(plan, data, tell),
        vocab_size=plan.tokenizer.vocab_size,
        min_count=plan.tokenizer.min_count,
        context=plan.protocol.context,
        is_normalised=plan.data.split_by is not None,
        has_ascii_words=plan.tokenizer.words is not None,
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
    if wanted.source == "file":
        raise DataError(
            f"data of plan {plan.name} (a file) must be given: add --data FILE with the stories "
            f"of hash {wanted.sha256 or 'unknown'}"
        )
    from manyheads.data.text import download_tinystories

    return read_stories(download_tinystories(tell=tell), limit=wanted.count)


def facts_of(corpus: Corpus, plan: Plan, data: Path | None) -> dict[str, Any]:
    """The description of the data that a study stores."""
    return {
        "source": plan.data.source if data is None else f"file {data.name}",
        "vocab_size": corpus.tokenizer.vocab_size,
        "tokenizer_sha256": corpus.tokenizer.sha256,
        "num_duplicates": corpus.num_duplicates,
        "num_stories": dict(corpus.num_stories),
        "num_targets": dict(corpus.num_targets),
        "unknown_rates": dict(corpus.unknown_rates),
    }


_AT_ONCE = 512
_COUNTED_AT_ONCE = 8192


def mean_loss(
    trainable: Trainable, split: Split, positions: Int64[Tensor, " N"], crew: Crew
) -> float:
    """The mean loss of targets, each predicted from its own window, in nats.

    Args:
        trainable: the model.
        split: the split of the targets.
        positions: (N,), indices of the targets.
        crew: the processes that share the targets.
    """
    total = torch.zeros((), dtype=torch.float64)
    for number, chunk in enumerate(positions.split(_AT_ONCE)):
        if number % crew.size == crew.rank:
            tokens, targets = split.windows(chunk)
            losses = trainable.losses(tokens.to(crew.device), targets[:, 0].to(crew.device))
            total += losses.cpu().double().sum()
    if crew.size > 1:
        total = crew.total(total.to(crew.sum_dtype).to(crew.device)).cpu()
    return total.item() / len(positions)


def target_counts(corpus: Corpus) -> Float64[Tensor, " V"]:
    """How often (V,) each word is a target of the training split."""
    counts = torch.zeros(corpus.tokenizer.vocab_size, dtype=torch.float64)
    for chunk in corpus.train.positions.split(_COUNTED_AT_ONCE):
        _, targets = corpus.train.windows(chunk)
        counts += torch.bincount(targets[:, 0], minlength=len(counts))
    return counts


def unigram_bias(corpus: Corpus) -> Float64[Tensor, " V"]:
    """The logarithm (V,) of each word's share of the training targets, one added to each count."""
    counts = target_counts(corpus)
    return ((counts + 1) / (counts + 1).sum()).log()
