"""Mean losses over a split, and the word frequencies that an output bias can begin with."""

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from manyheads.data.windows import Corpus, Split
from manyheads.models.training import Trainable
from manyheads.study.machine import Crew

_AT_ONCE = 512
_COUNTED_AT_ONCE = 8192


def mean_loss(
    trainable: Trainable, split: Split, positions: Int64[Tensor, " N"], crew: Crew
) -> float:
    """The mean loss of targets, each predicted from a window of its own, in nats.

    Args:
        trainable: the model.
        split: where the targets stand.
        positions: (N,), places of the targets.
        crew: the processes that share them.
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
