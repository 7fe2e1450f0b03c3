"""Copying: whether the value of a token, through W_O and the unembedding, raises that token."""

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.looking.behaviours import Measured, Probe
from manyheads.looking.proof import refusal
from manyheads.looking.subject import Subject
from manyheads.looking.watching import Site

_MOST_CONTROLS, _MOST_TOKENS = 1, 24
OTHERS = 499
"""Random tokens among which the own token must be first."""


def copying_scores(subject: Subject, sites: Sequence[Site], probe: Probe) -> dict[int, Measured]:
    """For each layer, the fraction of tokens that a head's value raises above 499 others.

    The control takes the values of another key/value head. Layers whose contributions are not
    proven, or whose values were not seen, have no score.
    """
    unembedding = getattr(subject.model, "get_output_embeddings", lambda: None)()
    matrix = getattr(unembedding, "weight", None)
    if matrix is None:
        return {}
    generator = torch.Generator().manual_seed(0)
    others = torch.randperm(matrix.shape[0], generator=generator)[:OTHERS]
    found = {}
    for site in sites:
        if site.values is not None and refusal(site) is None:
            scores = _scores(site, matrix.detach(), probe, others)
            if scores is not None:
                found[site.index] = scores
    return found


def _scores(site: Site, matrix: Tensor, probe: Probe, others: Tensor) -> Measured | None:
    values, projection = site.values, site.projection
    assert values is not None and projection is not None
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
        mine = (raised * matrix[tokens][:, :, None].float()).sum(dim=-1)  # (N, T, H)
        rest = raised @ matrix[others].float().T  # (N, T, H, 499)
        rest = rest.masked_fill((tokens[..., None] == others)[:, :, None], -torch.inf)
        scores.append((mine > rest.amax(dim=-1)).double().mean(dim=(0, 1)))
    return Measured(score=scores[0], controls=torch.stack(scores)[1:])
