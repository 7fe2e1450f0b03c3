"""What a head is measured for: sequences that show a behaviour, and a score of the weights.

Sequences have random tokens, so that nothing but the construction can be recognised. Three kinds
share one batch: plain ones, ones whose second half repeats the first, and ones that end with
tokens seen once before, in another order. Every score is a mean weight, a fraction from 0 to 1,
over queries of the second half, for which chance is small. Control sources give a null without
other weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manyheads.core.errors import LookError

NEAR = 5
"""Offsets closer than this to a behaviour's own are no controls."""
LOCAL = 4
"""Keys that a local head looks at, its own position included."""
_GAP = 8
"""A separator follows after this many tokens."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Sequences on which heads are measured."""

    ids: Int64[Tensor, "B T"]
    """(B, T): plain, repeated and seen-once sequences, the same number of each."""
    samples: int
    """Sequences of each kind."""
    start: int
    """Tokens before the random ones: 1 with a first special token, else 0."""
    half: int
    """Random tokens in each half."""
    needles: Int64[Tensor, "N Q"]
    """(N, Q): in each seen-once sequence, for each of the last Q queries, the position of the token
    after the one seen before."""
    separator: int | None
    """Id of the separator in the plain sequences, None if there is none."""

    @property
    def separators(self) -> list[int]:
        """Positions of separators in the plain sequences."""
        T = self.ids.shape[1]
        return [] if self.separator is None else list(range(self.start + _GAP - 1, T, _GAP))


def probe_for(
    vocab_size: int,
    *,
    tokenizer: Any = None,  # noqa: ANN401 - of transformers, or our own
    half: int = 24,
    samples: int = 4,
    generator: torch.Generator,
) -> Probe:
    """Draw the sequences.

    Args:
        vocab_size: ids are below this.
        tokenizer: names the first token, the separator and special tokens, which are not drawn.
        half: random tokens in each half.
        samples: sequences of each kind.
        generator: where chance comes from.

    Raises:
        LookError: the vocabulary has too few tokens, or the halves are too short.
    """
    if half <= 2 * NEAR:
        raise LookError(f"half ({half}) leaves no control sources: use at least {2 * NEAR + 1}")
    special = torch.tensor([*(getattr(tokenizer, "all_special_ids", ()) or ())], dtype=torch.int64)
    usual = torch.arange(vocab_size)
    usual = usual[~torch.isin(usual, special)]
    if len(usual) < 2 * half:
        raise LookError(f"vocabulary ({vocab_size}) has too few tokens: {2 * half} are needed")
    draws = [
        torch.randperm(len(usual), generator=generator)[: 2 * half] for _ in range(3 * samples)
    ]
    rows = usual[torch.stack(draws)]  # (3 * samples, 2 * half)
    first = _first_id(tokenizer)
    separator = _separator_id(tokenizer)
    start = 0 if first is None else 1
    if separator is not None:
        rows[:samples, _GAP - 1 :: _GAP] = separator
    rows[samples : 2 * samples, half:] = rows[samples : 2 * samples, :half]
    orders = [torch.randperm(half - 1, generator=generator) for _ in range(samples)]
    places = torch.stack(orders)[:, : half // 2]  # (samples, queries)
    once = rows[2 * samples :]
    once[:, -(half // 2) :] = once.gather(1, places)
    if first is not None:
        rows = torch.cat([torch.full((len(rows), 1), first), rows], dim=1)
    return Probe(
        ids=rows,
        samples=samples,
        start=start,
        half=half,
        needles=places + 1 + start,
        separator=separator,
    )


def _first_id(tokenizer: Any) -> int | None:  # noqa: ANN401 - as above
    for name in ("bos_token_id", "cls_token_id"):
        found = getattr(tokenizer, name, None)
        if isinstance(found, int):
            return found
    return None


def _separator_id(tokenizer: Any) -> int | None:  # noqa: ANN401 - as above
    found = getattr(tokenizer, "sep_token_id", None)
    if isinstance(found, int):
        return found
    encode = getattr(tokenizer, "encode", None)
    if encode is None:
        return None
    try:
        ids = encode(".", add_special_tokens=False)
    except TypeError:  # our own tokeniser adds none
        ids = encode(".")
    return int(ids[0]) if len(ids) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A behaviour's score for each head, and the same at control sources."""

    score: Float[Tensor, " H"]
    """(H,): mean weight, a fraction from 0 to 1."""
    controls: Float[Tensor, "C H"]
    """(C, H): the score at each control source; C is 0 where a behaviour has no control."""


def measured(probe: Probe, weights: Float[Tensor, "B H T S"]) -> dict[str, Measured]:
    """Measure every behaviour on the weights of one layer."""
    N, half, first = probe.samples, probe.half, probe.start + probe.half
    weights = weights.double()
    again = weights[N : 2 * N, :, first:]
    once = weights[2 * N :, :, -probe.needles.shape[1] :]  # (N, H, Q, S)
    plain = weights[:N, :, first:]  # (N, H, queries, S)
    means, copied = _by_offset(plain, first), _by_offset(again, first)
    found = {
        "previous": _at_offset(means, 1),
        "next": _at_offset(means, -1),
        "self": _at_offset(means, 0),
        "first": _at_first(plain, probe),
        "positional": _at_some_offset(means, half),
        "local": _local(means),
        "duplicate": _at_copy(copied, means, half),
        "induction": _at_copy(copied, means, half - 1),
        "retrieval": _at_needles(once, probe),
    }
    if probe.separators:
        found["separator"] = _at_separators(plain, probe.separators, first)
    return found


def _by_offset(weights: Tensor, first: int) -> Float[Tensor, "K H"]:
    """Mean weight on the key k back, for k from -1 to `first`, over the queries that have one."""
    queries = torch.arange(weights.shape[2], device=weights.device)
    offsets = torch.arange(-1, first + 1, device=weights.device)
    keys = queries[:, None] + first - offsets  # (queries, K)
    fits = (keys >= 0) & (keys < weights.shape[3])
    found = weights[:, :, queries[:, None], keys.clamp(0, weights.shape[3] - 1)] * fits
    return (found.sum(dim=(0, 2)) / (len(weights) * fits.sum(dim=0))).T


def _at_offset(means: Tensor, k: int) -> Measured:
    """The controls are distances that are far from the nearest tokens."""
    return Measured(score=means[k + 1], controls=means[k + NEAR + 1 : -1])


def _at_copy(again: Tensor, plain: Tensor, k: int) -> Measured:
    """The controls are far from the copy and from the nearest tokens, or have no copy at all."""
    others = [i + 1 for i in range(NEAR, len(again) - 2) if abs(i - k) >= NEAR]
    return Measured(score=again[k + 1], controls=torch.cat([again[others], plain[k + 1 : k + 2]]))


def _at_first(weights: Tensor, probe: Probe) -> Measured:
    by_source = weights.mean(dim=(0, 2)).T  # (S, H)
    others = [s for s in range(NEAR, probe.start + probe.half - NEAR) if s not in probe.separators]
    return Measured(score=by_source[0], controls=by_source[others])


def _at_some_offset(means: Tensor, half: int) -> Measured:
    far = means[3 : half + 1]  # from two back
    return Measured(score=far.amax(dim=0), controls=far[:0])


def _local(means: Tensor) -> Measured:
    sums = means[1:-1].unfold(0, LOCAL, 1).sum(dim=-1)  # (windows, H), from the query itself
    return Measured(score=sums[0], controls=sums[LOCAL + NEAR :])


def _at_separators(weights: Tensor, marks: Sequence[int], first: int) -> Measured:
    """Weight on all separators, without those at the query and next to it."""
    queries = torch.arange(weights.shape[2], device=weights.device) + first
    scores = []
    for shift in (0, *range(2, _GAP - 1)):
        places = torch.tensor([mark - shift for mark in marks if mark > shift])
        far = (queries[:, None] - places).abs() > 1  # (queries, places)
        scores.append((weights[..., places] * far).sum(dim=-1).mean(dim=(0, 2)))
    return Measured(score=scores[0], controls=torch.stack(scores[1:]))


def _at_needles(weights: Float[Tensor, "N H Q S"], probe: Probe) -> Measured:
    """Weight after the only earlier copy; the controls are other places of the first half."""
    span = probe.half - 1  # places of needles, from the second random token

    def at(shift: int) -> Tensor:
        places = probe.start + 1 + (probe.needles - probe.start - 1 + shift) % span  # (N, Q)
        index = places[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
        return weights.gather(3, index.to(weights.device))[..., 0].mean(dim=(0, 2))

    controls = torch.stack([at(shift) for shift in range(NEAR, span - NEAR + 1)])
    return Measured(score=at(0), controls=controls)


BEHAVIOURS: Mapping[str, str] = {
    "previous": "looks at the token before",
    "next": "looks at the token after",
    "self": "looks at its own token",
    "first": "looks at the first token",
    "positional": "looks at one fixed distance of at least two",
    "local": f"looks at the {LOCAL} last tokens, its own included",
    "duplicate": "looks at an earlier copy of its token",
    "induction": "looks at the token after an earlier copy",
    "separator": "looks at separators that are not next to it",
    "retrieval": "looks at the token after the only earlier copy",
    "copying": "raises the token that it looks at, first among 500",
}
"""Each behaviour, as the rest of a sentence about a head."""
