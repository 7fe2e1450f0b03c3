"""Copying: whether the value of a token, through W_O and the unembedding, raises that token."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.looking.behaviours import Measured, Probe
from manyheads.looking.following import Projection
from manyheads.looking.proof import refusal
from manyheads.looking.subject import Subject
from manyheads.looking.watching import Site

_MOST_CONTROLS, _MOST_TOKENS = 1, 24
_FIRST_OTHERS = 50
OTHERS = 499
"""Random tokens among which the own token must be first."""


def copying_scores(
    subject: Subject, sites: Sequence[Site], probe: Probe, proven: Sequence[Site]
) -> dict[int, Measured]:
    """For each layer, the fraction of tokens that a head's value raises above 499 others.

    The matrices are those of the calls in `proven`. The control takes the values of another
    key/value head. Layers whose contributions are not proven, or whose values were not seen, have
    no score.
    """
    unembedding = getattr(subject.model, "get_output_embeddings", lambda: None)()
    matrix = getattr(unembedding, "weight", None)
    if matrix is None:
        return {}
    generator = torch.Generator().manual_seed(0)
    others = torch.randperm(matrix.shape[0], generator=generator)[:OTHERS]
    found = {}
    for site, proof in zip(sites, proven, strict=True):
        projection = proof.projection
        if site.values is not None and projection is not None and refusal(proof) is None:
            scores = _scores(site, projection, matrix.detach(), probe, others)
            if scores is not None:
                found[site.index] = scores
    return found


def _scores(
    site: Site, projection: Projection, matrix: Tensor, probe: Probe, others: Tensor
) -> Measured | None:
    values = site.values
    assert values is not None
    N, G, H = probe.samples, site.num_groups, site.num_heads
    width = len(projection.heads) // H
    if values.ndim != 4 or values.shape[1] != G or values.shape[3] != width:
        return None
    if projection.weight.shape[0] != matrix.shape[1] or values.shape[2] != probe.ids.shape[1]:
        return None
    step = max(1, -(-N * (probe.ids.shape[1] - probe.start) // _MOST_TOKENS))
    tokens = probe.ids[:N, probe.start :: step]
    columns = projection.heads.argsort(stable=True).view(H, -1)
    own = torch.arange(H) // (H // G)
    pairs = [(own + shift) % G for shift in range(min(G, _MOST_CONTROLS + 1))]
    scores = []
    for groups in pairs:
        rows = values[:N, groups][:, :, probe.start :: step].float()  # (N, H, T, v)
        raised = torch.einsum("nhtv,dhv->nthd", rows, projection.weight[:, columns].float())
        scores.append(_is_first(raised, tokens, matrix, others).double().mean(dim=(0, 1)))
    return Measured(score=scores[0], controls=torch.stack(scores)[1:])


def _is_first(
    raised: Float[Tensor, "N T H D"], tokens: Tensor, matrix: Tensor, others: Tensor
) -> Bool[Tensor, "N T H"]:
    """Whether each token's own logit is above all others; few need more than the first others."""
    mine = (raised * matrix[tokens][:, :, None].float()).sum(dim=-1)  # (N, T, H)
    owners = tokens[:, :, None].expand(mine.shape)
    left = torch.ones_like(mine, dtype=torch.bool)
    for part in others.tensor_split([_FIRST_OTHERS]):
        rest = raised[left] @ matrix[part].float().T  # (n, others)
        rest = rest.masked_fill(owners[left][:, None] == part, -torch.inf)
        left[left.clone()] = mine[left] > rest.amax(dim=-1)
    return left
