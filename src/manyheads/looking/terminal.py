"""A look as text: the card, the proof, a grid of heads, and one head in shades or half blocks."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.core.tables import Table, text_from_table, wrapped
from manyheads.core.text import printable
from manyheads.looking.ablation import Ablation
from manyheads.looking.axes import axis_names
from manyheads.looking.labels import HeadLabel, Labels, best_labels
from manyheads.looking.logits import LogitParts
from manyheads.looking.seen import Seen
from manyheads.looking.streaming import CorpusStatistics

_SHADES = " .:-=+*#%@"
_MOST = 64
_LETTERS = {
    "previous": "p", "next": "n", "self": "s", "first": "f", "positional": "o", "local": "l",
    "duplicate": "d", "induction": "i", "separator": ".", "retrieval": "r", "copying": "c",
}  # fmt: skip
_SOURCES = 3
_EACH = 5
_ROWS = 40


def text_from_look(seen: Seen) -> str:
    """Card, proof, and the grid of labelled heads if there are labels."""
    parts = [text_from_table(table) for table in (card_table(seen), proof_table(seen))]
    if seen.found_labels is not None:
        parts.append(grid_text(seen))
        parts += [text_from_table(table) for table in label_tables(seen.found_labels)]
    return "\n\n".join(parts)


def card_table(seen: Seen) -> Table:
    """The card of a model."""
    return Table(title="The model", columns=("fact", "value"), rows=tuple(seen.card.rows()))


def proof_table(seen: Seen) -> Table:
    """The errors, and the layers that are refused."""
    proof = seen.proof
    rows = [
        ("output with and without the probe", _figure(proof.output_gap)),
        ("output as handed over", _figure(proof.found_gap)),
        ("contributions plus bias against output", _figure(proof.sum_error)),
        ("silencing heads against contributions", _figure(proof.intervention_error)),
        ("layers without contributions", str(len(proof.refused)) if proof.refused else "none"),
    ]
    rows += [(f"layer {layer}", why) for layer, why in proof.refused.items()]
    return Table(
        title="The proof: largest differences", columns=("what", "value"), rows=tuple(rows)
    )


def _figure(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"


def grid_text(seen: Seen) -> str:
    """Layers by heads: the letter of each head's best label, a dot where there is none."""
    best = best_labels(seen.found_labels or ())
    lines = ["Heads: one row per layer, a letter for a label, - for no label above its null"]
    for site in seen.sites:
        size = site.num_heads // site.num_groups
        cells = [_letter(best.get((site.index, h))) for h in range(site.num_heads)]
        groups = ["".join(cells[i : i + size]) for i in range(0, len(cells), size)]
        lines.append(f"  {site.index:>3}  {' '.join(groups)}")
    used = sorted({label.behaviour for label in best.values()})
    lines += wrapped(", ".join(f"{_LETTERS[name]} {name}" for name in used), "  ") if used else []
    return "\n".join(lines)


def _letter(label: HeadLabel | None) -> str:
    return "-" if label is None else _LETTERS[label.behaviour]


def label_tables(labels: Labels | None) -> list[Table]:
    """The labels, and for each behaviour whether any head has it."""
    if labels is None:
        return []
    rows = tuple(
        (
            f"{one.layer}.{one.head}",
            one.behaviour,
            f"{one.score:.3f}",
            f"{one.null_greatest:.3f}",
            f"{one.p:.3f}",
            str(one.draws),
        )
        for one in _strongest(labels)
    )
    columns = ("head", "label", "score", "greatest of null", "p", "draws")
    title = "Labels; p is by the maximum over all heads"
    if len(rows) < len(labels):
        title += f"; the strongest {_EACH} of each behaviour"
    tables = [Table(title=title, columns=columns, rows=rows, names=2)] if rows else []
    return [*tables, tested_table(labels)]


def _strongest(labels: Labels) -> Iterator[HeadLabel]:
    """The first labels of each behaviour, which come in the order of their scores."""
    counts: dict[str, int] = {}
    for one in labels:
        counts[one.behaviour] = counts.get(one.behaviour, 0) + 1
        if counts[one.behaviour] <= _EACH:
            yield one


def tested_table(labels: Labels) -> Table:
    """Every behaviour that was tested, with its best head."""
    rows = tuple(
        (
            one.behaviour,
            f"{one.head[0]}.{one.head[1]}",
            f"{one.greatest:.3f}",
            f"{one.null_greatest:.3f}",
            str(one.num_labelled) if one.num_labelled else "no head more than chance",
        )
        for one in labels.tested
    )
    columns = ("behaviour", "best head", "score", "greatest of null", "heads with the label")
    return Table(title="What was tested", columns=columns, rows=rows)


def logit_table(found: LogitParts, most: int = 20) -> Table:
    """The largest parts of a logit."""
    order = sorted(found.parts, key=lambda name: -abs(found.parts[name]))
    rows = [(name, f"{found.parts[name]:+.4f}") for name in order[:most]]
    if len(order) > most:
        rest = sum(found.parts[name] for name in order[most:])
        rows.append((f"{len(order) - most} others", f"{rest:+.4f}"))
    rows.append(("sum", f"{sum(found.parts.values()):+.4f}"))
    title = f"Parts of the logit {found.value:.4f}; the sum misses it by {found.error:.2g}"
    return Table(title=title, columns=("part", "logit"), rows=tuple(rows), has_total=True)


def ablation_table(found: Ablation) -> Table:
    """The change of the loss, its interval, and the controls."""
    low, high = found.interval
    rows = [
        (
            ", ".join(f"{a}.{b}" for a, b in found.heads),
            f"{found.change:+.5f}",
            f"{low:+.5f} to {high:+.5f}",
        )
    ]
    rows += [(f"control {i}", f"{cost:+.5f}", "-") for i, cost in enumerate(found.controls, 1)]
    title = (
        f"Removal by {found.by} over {found.num_sequences} sequences: change of the loss of "
        f"{found.loss:.4f} nats per token"
    )
    return Table(title=title, columns=("heads", "change", "95 % interval"), rows=tuple(rows))


def corpus_table(found: CorpusStatistics) -> Table:
    """Statistics of each head."""
    names = ("entropy", "distance", "sink_mass", "window_mass", "effective_rank")
    rows = tuple(
        (
            f"{head['layer']}.{head['head']}",
            *("-" if head[name] is None else f"{head[name]:.3f}" for name in names),
        )
        for head in found.to_dict()["heads"]
    )
    gap = "not measured" if found.whole_gap is None else f"{found.whole_gap:.2g}"
    title = (
        f"{found.num_tokens} tokens in {found.num_batches} texts; blocks differ from whole "
        f"patterns by {gap} on the first tokens"
    )
    shown = ("entropy (nats)", "distance", "first key", "last 64 keys", "rank")
    return Table(title=title, columns=("head", *shown), rows=rows)


def head_text(seen: Seen, layer: int, head: int, *, is_colour: bool, sample: int = 0) -> str:
    """One head: its picture, and the strongest sources of each query."""
    weights = seen.weights(layer, head)[sample].float()
    title = f"Head {layer}.{head}: a row per query, a column per key"
    picture = half_blocks(weights) if is_colour else shades(weights)
    return "\n".join(
        [title, picture, "", text_from_table(sources_table(seen, layer, head, sample))]
    )


def sources_table(seen: Seen, layer: int, head: int, sample: int = 0, most: int = _ROWS) -> Table:
    """The strongest sources of the last queries."""
    weights = seen.weights(layer, head)[sample]
    T, S = weights.shape
    queries, keys = axis_names(seen, T), axis_names(seen, S)
    first = max(0, T - most)
    rows = []
    for t in range(first, T):
        values, places = weights[t].topk(min(_SOURCES, S))
        found = [
            f"{_short(keys[place])} ({place + 1}) {value:.0%}"
            for place, value in zip(places.tolist(), values.tolist(), strict=True)
        ]
        rows.append((f"{t + 1} {_short(queries[t])}", *found))
    columns = ("query", *(f"source {i + 1}" for i in range(min(_SOURCES, S))))
    left_out = f"; queries 1 to {first} left out" if first else ""
    title = f"Strongest sources of head {layer}.{head}{left_out}"
    return Table(title=title, columns=columns, rows=tuple(rows))


def _short(name: str) -> str:
    text = printable(name).strip() or repr(name)
    return text if len(text) <= 12 else f"{text[:10]}.."


def _reduced(weights: Tensor, rows: int, columns: int) -> Tensor:
    """The largest weight of each cell of a coarser picture, at most so many rows and columns."""
    T, S = weights.shape
    size = (min(T, rows), min(S, columns))
    return F.adaptive_max_pool2d(weights[None], size)[0]


def shades(weights: Tensor) -> str:
    """A picture in ten characters, for files and pipes."""
    small = _reduced(weights, _MOST // 2, _MOST)
    levels = (small.clamp(0, 1).sqrt() * (len(_SHADES) - 1)).round().int().tolist()
    return "\n".join("  " + "".join(_SHADES[level] for level in row) for row in levels)


def half_blocks(weights: Tensor) -> str:
    """A picture in coloured half blocks, two rows of weights in each line."""
    small = _reduced(weights, _MOST, _MOST).clamp(0, 1).sqrt()
    if len(small) % 2:
        small = torch.cat([small, torch.zeros_like(small[:1])])
    lines = []
    for i in range(0, len(small), 2):
        pairs = zip(small[i].tolist(), small[i + 1].tolist(), strict=True)
        lines.append("  " + "".join(_block(up, down) for up, down in pairs) + "\x1b[0m")
    return "\n".join(lines)


def _block(up: float, down: float) -> str:
    a, b = colour(up), colour(down)
    return f"\x1b[38;2;{a[0]};{a[1]};{a[2]}m\x1b[48;2;{b[0]};{b[1]};{b[2]}m\N{UPPER HALF BLOCK}"


def colour(level: float) -> tuple[int, int, int]:
    """White for 0, through blue, to dark blue for 1."""
    stops = ((255, 255, 255), (107, 174, 214), (8, 48, 107))
    place = min(max(level, 0.0), 1.0) * (len(stops) - 1)
    i = min(int(place), len(stops) - 2)
    part = place - i
    mixed = [round(a + (b - a) * part) for a, b in zip(stops[i], stops[i + 1], strict=True)]
    return mixed[0], mixed[1], mixed[2]
