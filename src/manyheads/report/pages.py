"""A report as sections of blocks, and the same report as HTML and as Markdown.

Every text is escaped, and no page has a script.
"""

import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from manyheads.core.tables import Table, html_from_table, markdown_from_table, markdown_text

__all__ = [
    "Block",
    "Bullets",
    "Document",
    "Figure",
    "Panel",
    "Paragraph",
    "Section",
    "Table",
    "Details",
]

INK, MUTED, LINE = "#1b1d21", "#585c64", "#dcd8cf"
SERIES = ("#1452b6", "#056158", "#9e287f", "#9a6a00", "#5b3fb0", "#a63a1e", "#4d5a2b")
DARK_SERIES = ("#7aa7f0", "#2bb5a6", "#dd83c6", "#e3b341", "#b39cf0", "#f0957b", "#b7c98a")
VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line"} | {
    colour: f"--series-{index}" for index, colour in enumerate(SERIES, start=1)
}
FIGURES = "figures"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """A paragraph of plain text."""

    text: str
    """Not markup; it is escaped."""


@dataclass(frozen=True, kw_only=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]
    """Not markup; they are escaped."""


@dataclass(frozen=True, kw_only=True)
class Details:
    """Tables that a reader can open."""

    summary: str
    """Text of the button."""
    tables: tuple[Table, ...]
    """The tables."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture."""

    name: str
    """Its file is <name>.svg."""
    svg: str
    """A whole SVG document, in the light colours of `drawing`."""
    alt: str
    """Description for readers who cannot see it."""

    def __post_init__(self) -> None:
        assert re.fullmatch(r"[a-z0-9-]+", self.name), "a name is part of a path"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Pictures with one caption and the same numbers as tables."""

    caption: str
    """Caption: what is shown, for which runs."""
    panels: tuple[Panel, ...]
    """Placed next to each other if they fit."""
    details: Details | None
    """The numbers as tables; None if the neighbouring table has them."""


Block = Paragraph | Bullets | Details | Figure | Table


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and its blocks."""

    title: str
    """The heading."""
    blocks: tuple[Block, ...]
    """In order."""
    is_dense: bool = False
    """Whether small tables may be placed next to each other."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    """Its heading."""
    lead: str
    """The question of the study, in one or two sentences."""
    label: str
    """Name of the plan."""
    sections: tuple[Section, ...]
    """In order."""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Every picture."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(p for block in blocks if isinstance(block, Figure) for p in block.panels)


def inline_svg(svg: str, prefix: str, alt: str) -> str:
    """The SVG as part of a page: its colours are the page's, its ids are its own, and it is named.

    Args:
        svg: as `Drawing.svg`.
        prefix: prefix of every id; different for each picture of a page.
        alt: description of the picture, already escaped.
    """
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = svg.replace("fill: #ffffff", "fill: var(--surface)")
    svg = svg.replace("stroke: #ffffff", "stroke: var(--surface)")
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = re.sub(r"\s*<style.*?</style>", "", svg, flags=re.S)  # the page has it
    svg = re.sub(r"font-family: [^;]+;", "", svg)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', r'<svg viewBox="\1">', svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{alt}" ', 1)


def html_from_document(document: Document) -> str:
    """The report as one self-contained page: figures inline, no request, no script."""
    title = escape(document.title)
    links = "".join(
        f"<li><a href='#s{index}'>{escape(section.title)}</a></li>"
        for index, section in enumerate(document.sections, start=1)
    )
    sections = "\n".join(
        _html_section(index, section) for index, section in enumerate(document.sections, start=1)
    )
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{title}</title>\n<style>{_style()}</style>\n</head>\n<body>\n<main>\n"
        f"<header>\n<h1>{title}</h1>\n<p class='lead'>{escape(document.lead)}</p>\n"
        f"<p class='label'>{escape(document.label)}</p>\n<nav aria-label='Sections'>"
        f"<ul>{links}</ul></nav>\n</header>\n{sections}\n"
        "<footer><p class='label'>Losses are in nats per token. Made from results.json by "
        "manyheads study report.</p></footer>\n</main>\n</body>\n</html>\n"
    )


def markdown_from_document(document: Document) -> str:
    """The report as Markdown; figures are separate files."""
    parts = [
        f"# {markdown_text(document.title)}",
        markdown_text(document.lead),
        f"*{markdown_text(document.label)}*",
    ]
    for section in document.sections:
        parts.append(f"## {markdown_text(section.title)}")
        parts += [_markdown_block(block) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def _style() -> str:
    series = "".join(
        f"--series-{index}: light-dark({light}, {dark});"
        for index, (light, dark) in enumerate(zip(SERIES, DARK_SERIES, strict=True), start=1)
    )
    css = (files("manyheads.report") / "report.css").read_text(encoding="utf-8")
    return f":root {{{series}}}\n{css}"


def _html_section(index: int, section: Section) -> str:
    blocks = "\n".join(
        _html_block(block, f"s{index}b{place}") for place, block in enumerate(section.blocks)
    )
    blocks = f"<div class='dense'>{blocks}</div>" if section.is_dense else blocks
    return (
        f"<section aria-labelledby='s{index}'>\n<h2 id='s{index}'>{escape(section.title)}</h2>\n"
        f"{blocks}\n</section>"
    )


def _html_block(block: Block, key: str) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{_text(block.text)}</p>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{_text(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Details):
        tables = "".join(map(_html_table, block.tables))
        return f"<details><summary>{escape(block.summary)}</summary>{tables}</details>"
    return _html_figure(block, key) if isinstance(block, Figure) else _html_table(block)


def _html_figure(figure: Figure, key: str) -> str:
    pictures = "".join(
        f"<div>{inline_svg(panel.svg, f'{key}p{place}', escape(panel.alt))}</div>"
        for place, panel in enumerate(figure.panels)
    )
    twin = "" if figure.details is None else _html_block(figure.details, key)
    kind = "panels" if len(figure.panels) > 2 else "panels wide"
    return (
        f"<figure><div class='{kind}'>{pictures}</div>"
        f"<figcaption>{_text(figure.caption)}</figcaption></figure>{twin}"
    )


def _html_table(table: Table) -> str:
    """A table below its caption, in a box that scrolls sideways if the table is too wide."""
    label = escape(table.title, quote=True)
    kind = "table" if len(table.columns) < 3 else "table broad"
    return (
        f"<div class='{kind}'><p class='caption'>{_text(table.title)}</p>"
        f"<div class='scroll' tabindex='0' role='region' aria-label=\"{label}\">"
        f"{html_from_table(table, has_caption=False, typeset=_text)}</div></div>"
    )


def _text(text: str) -> str:
    """The text escaped, with a true minus sign before a number or between two names."""
    signed = re.sub(r"(?<![\w-])-(?=[0-9])", "\N{MINUS SIGN}", escape(text))
    return signed.replace(" - ", " \N{MINUS SIGN} ")


def _markdown_block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return markdown_text(block.text)
    if isinstance(block, Bullets):
        return "\n".join(f"- {markdown_text(item)}" for item in block.items)
    if isinstance(block, Details):
        tables = "\n\n".join(map(markdown_from_table, block.tables))
        summary = escape(block.summary)
        return f"<details>\n<summary>{summary}</summary>\n\n{tables}\n\n</details>"
    return _markdown_figure(block) if isinstance(block, Figure) else markdown_from_table(block)


def _markdown_figure(figure: Figure) -> str:
    pictures = "\n".join(map(_markdown_picture, figure.panels))
    parts = [pictures, f"*{markdown_text(figure.caption)}*"]
    if figure.details is not None:
        parts.append(_markdown_block(figure.details))
    return "\n\n".join(parts)


def _markdown_picture(panel: Panel) -> str:
    return f"![{markdown_text(panel.alt)}]({FIGURES}/{panel.name}.svg)"
