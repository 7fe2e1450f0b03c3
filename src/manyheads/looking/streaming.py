"""Statistics of every head over long texts and corpora, without a tensor of T x T numbers.

Sums of a block are taken in float32 and added in float64. The state is saved after every batch, so
that a run that was killed continues where it was.
"""

import copy
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.core.errors import LookError
from manyheads.core.files import write_whole
from manyheads.core.text import brief
from manyheads.looking.copying import kept_chance, private_inputs
from manyheads.looking.inputs import call_from, without_logits
from manyheads.looking.row_blocks import RowBlocks
from manyheads.looking.subject import Call, Subject, called, largest_gap, output_tensors

FORMAT = "manyheads-look-corpus-1"
BLOCK = 256
CHECKED = 512
"""Tokens on which blocks are compared with whole patterns."""
WINDOW = 64
"""Keys in `window_mass`, the query's own included."""
SOURCES = 5
_CACHED = 1 << 16
"""Numbers that several operations go through while they are in the cache of a processor."""
_ALLOWED = 1e-4
"""Difference between blocks and whole patterns that rounding in float32 explains."""
_SUMS = ("entropy", "distance", "sink_mass", "window_mass", "mass")


@dataclass(kw_only=True)
class LayerSums:
    """Sums of one layer's heads over all queries."""

    num_queries: int = 0
    totals: dict[str, Tensor] = field(default_factory=dict)
    """Each of `_SUMS`, (H,), in float64."""
    moments: Tensor | None = None
    """Sum of the outer products of messages, (H, v, v), in float64."""
    num_messages: int = 0
    sources: list[dict[int, float]] = field(default_factory=list)
    """For each head, weight received by token id, of the strongest sources of each sequence."""

    def add(self, name: str, values: Tensor) -> None:
        """Add sums (H,)."""
        values = values.double().cpu()
        self.totals[name] = self.totals[name] + values if name in self.totals else values


@dataclass(kw_only=True)
class CorpusStatistics:
    """Statistics per head; layers and heads count from 0."""

    layers: list[LayerSums] = field(default_factory=list)
    num_batches: int = 0
    """Batches that are in the sums."""
    num_tokens: int = 0
    block: int = BLOCK
    whole_gap: float | None = None
    """Largest difference between blocks and whole patterns on the first tokens, over statistics and
    output, relative to the larger of 1 and the value."""

    def entropy(self, layer: int) -> Float[Tensor, " H"]:
        """Mean entropy of the weights, nats."""
        return self._mean(layer, "entropy")

    def distance(self, layer: int) -> Float[Tensor, " H"]:
        """Mean distance to the attended keys, tokens."""
        return self._mean(layer, "distance")

    def sink_mass(self, layer: int) -> Float[Tensor, " H"]:
        """Mean weight on the first key, fraction 0 to 1."""
        return self._mean(layer, "sink_mass")

    def window_mass(self, layer: int) -> Float[Tensor, " H"]:
        """Mean weight on the last `WINDOW` keys, fraction 0 to 1."""
        return self._mean(layer, "window_mass")

    def mass(self, layer: int) -> Float[Tensor, " H"]:
        """Mean sum of the weights; less than 1 where a learned sink takes a part."""
        return self._mean(layer, "mass")

    def effective_rank(self, layer: int) -> Float[Tensor, " H"]:
        """Exponential of the entropy of the messages' spectrum, from 1 to the width of a head.

        Source: Roy and Vetterli 2007, The effective rank, EUSIPCO.
        """
        moments = self.layers[layer].moments
        if moments is None:
            raise LookError(f"layer ({layer}) has no messages: its arrangement is unknown")
        values = torch.linalg.eigvalsh(moments).clamp(min=0)
        shares = values / values.sum(dim=-1, keepdim=True).clamp(min=1e-300)
        found: Tensor = torch.special.entr(shares).sum(dim=-1).exp()
        return found

    def strongest_sources(self, layer: int, head: int) -> list[tuple[int, float]]:
        """Token ids that received the most weight among the strongest of each sequence."""
        found = self.layers[layer].sources[head]
        return sorted(found.items(), key=lambda item: -item[1])[:SOURCES]

    def to_dict(self) -> dict[str, Any]:
        """The statistics as JSON holds them."""
        heads = [
            {
                "layer": layer,
                "head": head,
                **{name: float(self._mean(layer, name)[head]) for name in _SUMS},
                "effective_rank": _item(self, layer, head),
                "strongest_sources": self.strongest_sources(layer, head) if sums.sources else [],
            }
            for layer, sums in enumerate(self.layers)
            for head in range(len(sums.totals["mass"]))
        ]
        return {
            "format": FORMAT,
            "batches": self.num_batches,
            "tokens": self.num_tokens,
            "block": self.block,
            "whole_gap": self.whole_gap,
            "heads": heads,
        }

    def _mean(self, layer: int, name: str) -> Tensor:
        if not 0 <= layer < len(self.layers):
            raise LookError(f"layer ({layer}) must be from 0 to {len(self.layers) - 1}: use one")
        sums = self.layers[layer]
        return sums.totals[name] / sums.num_queries


def _item(found: CorpusStatistics, layer: int, head: int) -> float | None:
    has = found.layers[layer].moments is not None
    return float(found.effective_rank(layer)[head]) if has else None


class _Taker:
    """Adds rows of weights and messages to statistics."""

    def __init__(self, found: CorpusStatistics, ids: Tensor | None) -> None:
        self.found, self.ids = found, ids
        self._received: Tensor | None = None

    def rows(self, layer: int, weights: Tensor, first: int, low: int, num_keys: int) -> None:
        """Add a block of weights (B, H, R, K)."""
        while len(self.found.layers) <= layer:
            self.found.layers.append(LayerSums())
        sums = self.found.layers[layer]
        B, H, R, K = weights.shape
        weights = weights.float()
        queries = torch.arange(first, first + R, device=weights.device)
        keys = torch.arange(low, low + K, device=weights.device)
        mass, distance = _mass_and_distance(weights, queries, keys)
        sums.num_queries += B * R
        sums.add("mass", mass.double().sum(dim=(0, 2)))
        sums.add("entropy", _entropy(weights).double().sum(dim=(0, 2)))
        sums.add("distance", distance.double().sum(dim=(0, 2)))
        sink = weights[..., 0] if low == 0 else torch.zeros_like(mass)
        sums.add("sink_mass", sink.double().sum(dim=(0, 2)))
        sums.add("window_mass", _window_mass(weights, queries, keys))
        self._receive(layer, weights, low, first, num_keys)

    def _receive(self, layer: int, weights: Tensor, low: int, first: int, num_keys: int) -> None:
        """Keep the weight that each key receives, until the layer's messages come."""
        B, H, _, K = weights.shape
        if first == 0 or self._received is None:
            self._received = torch.zeros(B, H, num_keys, device=weights.device)
        ones = torch.ones(1, weights.shape[2], device=weights.device)
        self._received[..., low : low + K] += (ones @ weights)[:, :, 0]

    def messages(self, layer: int, message: Tensor) -> None:
        """Add the messages (B, T, H, v) of a layer, and its strongest sources."""
        sums = self.found.layers[layer]
        flat = message.flatten(0, 1).float().transpose(0, 1)  # (H, B*T, v)
        moments = (flat.mT @ flat).double().cpu()
        sums.moments = moments if sums.moments is None else sums.moments + moments
        sums.num_messages += flat.shape[1]
        received, self._received = self._received, None
        if received is None or self.ids is None or self.ids.shape[1] != received.shape[2]:
            return
        if not sums.sources:
            sums.sources = [{} for _ in range(received.shape[1])]
        values, places = received.topk(min(SOURCES, received.shape[2]), dim=-1)
        for b in range(len(received)):
            tokens = self.ids[b].to(places.device)[places[b]]
            for head, (row, weight) in enumerate(zip(tokens, values[b], strict=True)):
                for token, one in zip(row.tolist(), weight.tolist(), strict=True):
                    mine = sums.sources[head]
                    mine[token] = mine.get(token, 0.0) + one


def _entropy(weights: Tensor) -> Float[Tensor, "B H R"]:
    """Entropy of each query's weights, nats; few rows at a time, which stay in the cache."""
    least = torch.finfo(weights.dtype).tiny
    rows = weights.flatten(0, -2)
    parts = [
        part.clamp(min=least).log_().mul_(part).sum(dim=-1).neg_()
        for part in rows.split(max(1, _CACHED // rows.shape[1]))
    ]
    return torch.cat(parts).view(weights.shape[:-1])


def _mass_and_distance(
    weights: Tensor, queries: Tensor, keys: Tensor
) -> tuple[Float[Tensor, "B H R"], Float[Tensor, "B H R"]]:
    """Sum of each query's weights, and of weights times absolute distance, in few passes."""
    first, last, middle = queries[0], queries[-1], keys[len(keys) // 2]
    left, right = (keys < first).float(), (keys > last).float()
    place = (keys - middle).float()
    columns = torch.stack([left, left * place, right, right * place], dim=1)  # (K, 4)
    found = weights @ columns  # (B, H, R, 4)
    at = (queries - middle).float()
    distance = at * found[..., 0] - found[..., 1] + found[..., 3] - at * found[..., 2]
    near = ((keys >= first) & (keys <= last)).nonzero()[:, 0]
    if not len(near):
        return found[..., 0] + found[..., 2], distance
    inner = weights[..., int(near[0]) : int(near[-1]) + 1]  # (B, H, R, at most R)
    gap = (queries[:, None] - keys[near]).abs().float()
    distance = distance + (inner * gap).sum(dim=-1)
    return found[..., 0] + found[..., 2] + inner.sum(dim=-1), distance


def _window_mass(weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Sum over queries of the weight on their last `WINDOW` keys, (H,)."""
    near = (keys > int(queries[0]) - WINDOW) & (keys <= int(queries[-1]))
    columns = near.nonzero()[:, 0]
    back = queries[:, None] - keys[columns]  # (R, k)
    inside = ((back >= 0) & (back < WINDOW)).float()
    return (weights[..., columns] * inside).sum(dim=-1).double().sum(dim=(0, 2))


def corpus_statistics(
    model: nn.Module,
    batches: Iterable[Any],
    block: int = BLOCK,
    resume: str | Path | None = None,
    *,
    tokenizer: Any = None,  # noqa: ANN401 - of transformers, or our own
    on_batch: Callable[[CorpusStatistics], None] | None = None,
) -> CorpusStatistics:
    """Statistics of every head over batches of any length.

    Under torchrun each process takes every n-th batch, and its file gets its rank as an ending;
    `merged` joins the files.

    Args:
        model: the model; it stays as it was.
        batches: token ids (B, T), texts or mappings, in an order that is the same after a restart.
        block: queries at a time.
        resume: file in which the state is saved after every batch, and from which a run continues.
        tokenizer: turns texts into ids.
        on_batch: called after every batch.

    Raises:
        LookError: there are no batches, the file belongs to another run, or blocks do not give the
            numbers of whole patterns.
    """
    if block < 1:
        raise LookError(f"block ({block}) must be at least 1: use for instance {BLOCK}")
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    path = None if resume is None else Path(f"{resume}.{rank}" if world > 1 else resume)
    subject = Subject(model)
    found = (
        load_statistics(path, block) if path and path.exists() else CorpusStatistics(block=block)
    )
    done = found.num_batches
    mine = (batch for i, batch in enumerate(batches) if i % world == rank)
    for number, batch in enumerate(mine):
        if number < done:
            continue
        text, inputs = (batch, None) if isinstance(batch, str) else (None, batch)
        call, _ = call_from(subject, text, inputs, tokenizer)
        if found.whole_gap is None:
            found.whole_gap = _checked_gap(subject, call, block)
        _run(subject, without_logits(subject, call), found, block)
        found.num_batches += 1
        if path is not None:
            save_statistics(found, path)
        if on_batch is not None:
            on_batch(found)
    if not found.num_batches:
        raise LookError("batches has none for this process: give at least one")
    return found


def _run(subject: Subject, call: Call, found: CorpusStatistics, block: int) -> Any:  # noqa: ANN401 - an output
    """One pass in blocks; with whole masks for a model that computes with its mask."""
    kwargs = dict(call.kwargs)
    ids = call.ids
    for is_lazy in (True, False):
        before = copy.deepcopy(found.layers) if is_lazy else []
        taker = _Taker(found, ids)
        blocks = RowBlocks(taker, batch=call.batch, block=block, is_lazy=is_lazy)
        try:
            with kept_chance(subject.probe), torch.no_grad(), blocks:
                output = called(subject.probe, call.args, private_inputs(kwargs))
        except LookError as error:
            if not is_lazy or not isinstance(error.__cause__, TypeError | AttributeError):
                raise
            found.layers = before
            continue
        found.num_tokens += int(ids.numel()) if ids is not None else 0
        return output
    raise AssertionError("one of both masks has been tried")


def _checked_gap(subject: Subject, call: Call, block: int) -> float:
    """Compare blocks with whole patterns on the first tokens.

    Raises:
        LookError: they differ by more than rounding.
    """
    short = Call(
        args=tuple(_shortened(value) for value in call.args),
        kwargs={name: _shortened(value) for name, value in call.kwargs.items()},
    )
    blocks, whole = CorpusStatistics(block=block), CorpusStatistics(block=1 << 30)
    step = min(block, max(1, _length(short) // 3))
    outputs = [_run(subject, short, one, size) for one, size in ((blocks, step), (whole, 1 << 30))]
    if not whole.layers:
        raise LookError("model has no attention that can be read: there are no statistics")
    gaps = [
        float(((a.totals[name] - b.totals[name]) / b.num_queries).abs().max())
        / max(1.0, float((b.totals[name] / b.num_queries).abs().max()))
        for a, b in zip(blocks.layers, whole.layers, strict=True)
        for name in _SUMS
    ]
    gaps.append(_output_gap(outputs))
    if not max(gaps) < max(_ALLOWED, 8 * torch.finfo(subject.dtype).eps):
        raise LookError(
            f"blocks of queries give other numbers than whole patterns (difference "
            f"{max(gaps):.2g}): the model's attention depends on more than a query's own row"
        )
    return max(gaps)


def _output_gap(outputs: Sequence[Any]) -> float:
    size = max((float(t.abs().max()) for t in output_tensors(outputs[1])), default=1.0)
    return largest_gap(outputs[0], outputs[1]) / max(1.0, size)


def _shortened(value: Any) -> Any:  # noqa: ANN401 - any argument
    is_ids = isinstance(value, Tensor) and value.ndim == 2 and not value.is_floating_point()
    return value[:, :CHECKED] if is_ids else value


def _length(call: Call) -> int:
    return int(call.ids.shape[1]) if call.ids is not None else CHECKED


def _state(found: CorpusStatistics) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "num_batches": found.num_batches,
        "num_tokens": found.num_tokens,
        "block": found.block,
        "whole_gap": found.whole_gap,
        "layers": [
            {
                "num_queries": sums.num_queries,
                "totals": {name: total.tolist() for name, total in sums.totals.items()},
                "moments": None if sums.moments is None else sums.moments.tolist(),
                "num_messages": sums.num_messages,
                "sources": [list(counter.items()) for counter in sums.sources],
            }
            for sums in found.layers
        ],
    }


def _layers(state: dict[str, Any]) -> list[LayerSums]:
    return [
        LayerSums(
            num_queries=one["num_queries"],
            totals={k: torch.tensor(v, dtype=torch.float64) for k, v in one["totals"].items()},
            moments=None
            if one["moments"] is None
            else torch.tensor(one["moments"], dtype=torch.float64),
            num_messages=one["num_messages"],
            sources=[{int(k): float(v) for k, v in pairs} for pairs in one["sources"]],
        )
        for one in state["layers"]
    ]


def save_statistics(found: CorpusStatistics, path: Path) -> None:
    """Write the state; the file is complete or the old one."""
    write_whole(path, json.dumps(_state(found)).encode())


def load_statistics(path: Path, block: int | None = None) -> CorpusStatistics:
    """Read a state.

    Args:
        path: the file.
        block: queries at a time of the run that continues; None takes what the file says.

    Raises:
        LookError: the file is damaged or belongs to another run.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise ValueError("another format")
        found = CorpusStatistics(
            layers=_layers(state),
            num_batches=int(state["num_batches"]),
            num_tokens=int(state["num_tokens"]),
            block=int(state["block"]),
            whole_gap=state["whole_gap"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LookError(
            f"resume ({brief(str(path))}) is no state of corpus statistics: remove it or give "
            "another file"
        ) from error
    if block is not None and found.block != block:
        raise LookError(f"block ({block}) must be {found.block} as in the saved run: use it")
    return found


def _added(a: dict[int, float], b: dict[int, float]) -> dict[int, float]:
    return {key: a.get(key, 0.0) + b.get(key, 0.0) for key in {*a, *b}}


def merged(parts: Sequence[CorpusStatistics]) -> CorpusStatistics:
    """Join the statistics of several processes.

    Raises:
        LookError: there are none, or they belong to different models.
    """
    if not parts or len({len(part.layers) for part in parts}) != 1:
        raise LookError("parts must be statistics of one model: give at least one")
    total = CorpusStatistics(block=parts[0].block, layers=[LayerSums() for _ in parts[0].layers])
    for part in parts:
        total.num_batches += part.num_batches
        total.num_tokens += part.num_tokens
        total.whole_gap = max(total.whole_gap or 0.0, part.whole_gap or 0.0)
        for mine, theirs in zip(total.layers, part.layers, strict=True):
            mine.num_queries += theirs.num_queries
            mine.num_messages += theirs.num_messages
            for name, values in theirs.totals.items():
                mine.add(name, values)
            if theirs.moments is not None:
                old = mine.moments
                mine.moments = theirs.moments if old is None else old + theirs.moments
            sources = mine.sources or [{} for _ in theirs.sources]
            mine.sources = [_added(a, b) for a, b in zip(sources, theirs.sources, strict=True)]
    return total
