"""A look in a notebook and as one HTML file: the grid of heads, heads one by one, and their tables.

The notebook form is SVG and tables without scripts. The file adds a few lines of script that name
the tokens under the pointer; without them everything else still works. Nothing is loaded.
"""

import base64
from collections.abc import Sequence
from html import escape

import torch
from torch import Tensor

from manyheads.core.tables import html_from_table
from manyheads.looking.axes import axis_names
from manyheads.looking.behaviours import BEHAVIOURS
from manyheads.looking.labels import HeadLabel, best_labels
from manyheads.looking.png import data_uri, png_from_weights
from manyheads.looking.seen import Seen
from manyheads.looking.terminal import (
    card_table,
    colour,
    label_tables,
    proof_table,
    sources_table,
)
from manyheads.looking.watching import Site

_CELL, _GAP, _LEFT, _TOP = 18, 6, 56, 22
_GREY = (225, 225, 225)
MOST_LARGE = 12
"""Heads that the file shows large unless others are named."""
_SIDE = 420
_NOTE = (
    "Colour: score above the null of the head's label. Grey: no label above its null. A gap "
    "separates the key/value heads."
)


def notebook_html(seen: Seen) -> str:
    """Card, proof, the grid as SVG, and the first large head, without scripts."""
    heads = chosen_heads(seen)[:1]
    parts = ["<h3>Attention heads</h3>", grid_svg(seen), f"<p>{_NOTE}</p>"]
    parts += [_figure(seen, layer, head) for layer, head in heads]
    parts += [html_from_table(table) for table in (card_table(seen), proof_table(seen))]
    parts += [html_from_table(table) for table in label_tables(seen.found_labels)]
    return f'<div class="manyheads-look">{"".join(parts)}</div>'


def file_html(seen: Seen, heads: Sequence[tuple[int, int]] = ()) -> str:
    """One page with everything that `notebook_html` has, more heads, and names under the pointer.

    Args:
        seen: the look.
        heads: heads to show large; the labelled ones unless given.
    """
    shown = list(heads) or chosen_heads(seen)
    figures = [
        _figure(seen, layer, head, with_values=True)
        + f"<details><summary>Table of head {layer}.{head}</summary>"
        + html_from_table(sources_table(seen, layer, head, most=1 << 20))
        + "</details>"
        for layer, head in shown
    ]
    tables = [card_table(seen), proof_table(seen), *label_tables(seen.found_labels)]
    body = [
        f"<h1>Attention heads of {escape(seen.card.type)}</h1>",
        grid_svg(seen, linked=set(shown)),
        f"<p>{_NOTE} Coloured and outlined heads lead to their picture.</p>",
        *(html_from_table(table) for table in tables),
        *figures,
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Attention heads of {escape(seen.card.type)}</title>"
        f"<style>{_STYLE}</style></head><body><main>{''.join(body)}</main>"
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


def chosen_heads(seen: Seen) -> list[tuple[int, int]]:
    """Labelled heads, the furthest above their null first; the first head if there is none."""
    best = best_labels(seen.found_labels or ())
    order = sorted(best, key=lambda head: best[head].null_greatest - best[head].score)
    return order[:MOST_LARGE] or [(0, 0)]


def grid_svg(seen: Seen, linked: set[tuple[int, int]] | None = None) -> str:
    """Layers by heads: colour for the score above the null, grey for none."""
    best = best_labels(seen.found_labels or ())
    cells, widest = [], 0
    for row, site in enumerate(seen.sites):
        y = _TOP + row * (_CELL + 2)
        cells.append(f'<text x="4" y="{y + 13}">layer {site.index}</text>')
        for head in range(site.num_heads):
            group = head // (site.num_heads // site.num_groups)
            x = _LEFT + head * _CELL + group * _GAP * (site.num_groups < site.num_heads)
            widest = max(widest, x + _CELL)
            cells.append(_cell(x, y, (site.index, head), best, linked or set()))
    height = _TOP + len(seen.sites) * (_CELL + 2) + 4
    size = f'width="{widest + 4}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        'font-family="sans-serif" font-size="10" role="img" aria-label="Heads by layer, as in the '
        f'table of labels"><text x="{_LEFT}" y="14">heads</text>' + "".join(cells) + "</svg>"
    )


def _cell(
    x: int,
    y: int,
    head: tuple[int, int],
    best: dict[tuple[int, int], HeadLabel],
    linked: set[tuple[int, int]],
) -> str:
    label = best.get(head)
    rgb = colour(0.25 + 0.75 * (label.score - label.null_greatest)) if label else _GREY
    says = f"{head[0]}.{head[1]}: " + (_sentence(label) if label else "no label above its null")
    stroke = ' stroke="#333"' if head in linked else ""
    rect = (
        f'<rect x="{x}" y="{y}" width="{_CELL - 2}" height="{_CELL}" rx="2" '
        f'fill="rgb{rgb}"{stroke}><title>{escape(says)}</title></rect>'
    )
    if head not in linked:
        return rect
    return f'<a href="#head-{head[0]}-{head[1]}" aria-label="{escape(says)}">{rect}</a>'


def _sentence(label: HeadLabel) -> str:
    return (
        f"{label.behaviour}, {BEHAVIOURS[label.behaviour]}: score {label.score:.3f}, greatest of "
        f"the null {label.null_greatest:.3f}, p {label.p:.3f} with {label.draws} draws"
    )


def _figure(seen: Seen, layer: int, head: int, *, with_values: bool = False) -> str:
    """One head large, with its mask hatched."""
    weights = seen.weights(layer, head)[0]
    site = seen.sites[layer]
    picture = data_uri(png_from_weights(weights, blocked_pairs(site)))
    T, S = weights.shape
    width = max(160, round(_SIDE * min(1.0, S / T)))
    height = max(160, round(_SIDE * min(1.0, T / S)))
    label = best_labels(seen.found_labels or ()).get((layer, head))
    says = f"Head {layer}.{head}" + (f": {_sentence(label)}" if label else "")
    kind = "queries down, keys across; hatched: the mask allows no weight"
    values = _values(seen, weights) if with_values else ""
    return (
        f'<figure id="head-{layer}-{head}" tabindex="0"><figcaption>{escape(says)} ({kind})'
        f'</figcaption><img src="{picture}" width="{width}" height="{height}" '
        f'style="image-rendering:pixelated;border:1px solid #999" alt="{escape(says)}; the table '
        f'has its strongest sources"{values}><p class="under" aria-live="polite"></p></figure>'
    )


def _values(seen: Seen, weights: Tensor) -> str:
    """The weights in steps of 1/65535 and the names of both axes, for the script."""
    steps = (weights.detach().double().clamp(0, 1) * 65535).round().to(torch.int32).cpu()
    data = base64.b64encode(steps.numpy().astype("<u2").tobytes()).decode()
    T, S = weights.shape
    names = [escape("\x1f".join(axis_names(seen, n))) for n in (T, S)]
    return (
        f' data-weights="{data}" data-rows="{T}" data-columns="{S}" '
        f'data-queries="{names[0]}" data-keys="{names[1]}"'
    )


def blocked_pairs(site: Site, sample: int = 0) -> Tensor | None:
    """Where the mask allows no weight, (T, S); None where every pair is allowed or unknown."""
    if site.mask is None:
        return None
    mask = site.mask[min(sample, len(site.mask) - 1), 0]
    blocked = ~mask if mask.dtype == torch.bool else mask <= torch.finfo(mask.dtype).min / 2
    T, S = site.shape[1:]
    return blocked.expand(T, S) if blocked.shape[-1] == S else None


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff}main{max-width:60rem;"
    "margin:auto;padding:1rem}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.15rem "
    ".6rem;text-align:left;border-bottom:1px solid #ddd}.num{text-align:right}figure{margin:2rem 0}"
    "figure:focus,a:focus rect{outline:2px solid #08306b}caption{text-align:left;font-weight:600}"
)
_SCRIPT = """
for (const img of document.querySelectorAll("img[data-weights]")) {
  const raw = Uint8Array.from(atob(img.dataset.weights), c => c.charCodeAt(0));
  const steps = new DataView(raw.buffer), rows = +img.dataset.rows, columns = +img.dataset.columns;
  const queries = img.dataset.queries.split("\\x1f"), keys = img.dataset.keys.split("\\x1f");
  const out = img.parentElement.querySelector(".under");
  let row = rows - 1, column = 0;
  const show = () => {
    const value = steps.getUint16(2 * (row * columns + column), true) / 65535;
    out.textContent = `query ${row + 1} "${queries[row]}", key ${column + 1} "${keys[column]}": ` +
      `weight ${value.toFixed(4)}`;
  };
  img.addEventListener("pointermove", e => {
    const box = img.getBoundingClientRect();
    const at = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
    column = at((e.clientX - box.x) / box.width, columns);
    row = at((e.clientY - box.y) / box.height, rows);
    show();
  });
  img.parentElement.addEventListener("keydown", e => {
    const step = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]
    }[e.key];
    if (!step) return;
    e.preventDefault();
    row = Math.min(rows - 1, Math.max(0, row + step[0]));
    column = Math.min(columns - 1, Math.max(0, column + step[1]));
    show();
  });
}
"""
