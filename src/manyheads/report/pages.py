"""A report as HTML and as Markdown; every text is escaped, and no page has a script."""

import re
from html import escape

from manyheads.report.document import (
    Block,
    Bullets,
    Document,
    Figure,
    Panel,
    Paragraph,
    Section,
    Table,
    Twin,
)
from manyheads.report.drawing import inline_svg
from manyheads.report.style import STYLE

FIGURES = "figures"
_NUMBER = re.compile(r"[-+]?[0-9][0-9,.e+-]*( (±|to) [-+]?[0-9][0-9,.]*)?|-")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def html_from_document(document: Document) -> str:
    """The report as one page that stands alone: figures inside, no request, no script."""
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
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<header>\n<h1>{title}</h1>\n<p class='lead'>{escape(document.lead)}</p>\n"
        f"<p class='label'>{escape(document.label)}</p>\n<nav aria-label='Sections'>"
        f"<ul>{links}</ul></nav>\n</header>\n{sections}\n"
        "<footer><p class='label'>Losses are in nats per token. Made from results.json by "
        "manyheads study report.</p></footer>\n</main>\n</body>\n</html>\n"
    )


def markdown_from_document(document: Document) -> str:
    """The report as Markdown; figures are files beside it."""
    parts = [f"# {_plain(document.title)}", _plain(document.lead), f"*{_plain(document.label)}*"]
    for section in document.sections:
        parts.append(f"## {_plain(section.title)}")
        parts += [_markdown_block(block) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


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
    if isinstance(block, Twin):
        tables = "".join(map(_html_table, block.tables))
        return f"<details><summary>{escape(block.summary)}</summary>{tables}</details>"
    return _html_figure(block, key) if isinstance(block, Figure) else _html_table(block)


def _html_figure(figure: Figure, key: str) -> str:
    pictures = "".join(
        f"<div>{inline_svg(panel.svg, f'{key}p{place}', escape(panel.alt))}</div>"
        for place, panel in enumerate(figure.panels)
    )
    twin = "" if figure.twin is None else _html_block(figure.twin, key)
    kind = "panels" if len(figure.panels) > 2 else "panels wide"
    return (
        f"<figure><div class='{kind}'>{pictures}</div>"
        f"<figcaption>{_text(figure.caption)}</figcaption></figure>{twin}"
    )


def _html_table(table: Table) -> str:
    is_number = _number_columns(table)
    kinds = ["num" if number else "text" for number in is_number]
    head = "".join(
        f"<th scope='col' class='{kind}'>{_text(name)}</th>"
        for name, kind in zip(table.columns, kinds, strict=True)
    )
    rows = []
    for row in table.rows:
        cells = [
            f"<th scope='row' class='{kind}'>{_text(cell)}</th>"
            if place < table.names
            else f"<td class='{kind}'>{_text(cell)}</td>"
            for place, (cell, kind) in enumerate(zip(row, kinds, strict=True))
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    label = escape(table.title, quote=True)
    kind = "table" if len(table.columns) < 3 else "table broad"
    return (
        f"<div class='{kind}'><p class='caption'>{_text(table.title)}</p>"
        f"<div class='scroll' tabindex='0' role='region' aria-label=\"{label}\">"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def _number_columns(table: Table) -> list[bool]:
    """Which columns hold nothing but numbers."""
    if table.columns == ("setting", "value"):
        return [False, False]
    columns = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.columns)
    return [all(_NUMBER.fullmatch(cell) for cell in column) for column in columns]


def _text(text: str) -> str:
    """Escaped, with the minus sign that belongs before a number or between two names."""
    signed = re.sub(r"(?<![\w-])-(?=[0-9])", "\N{MINUS SIGN}", escape(text))
    return signed.replace(" - ", " \N{MINUS SIGN} ")


def _markdown_block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _plain(block.text)
    if isinstance(block, Bullets):
        return "\n".join(f"- {_plain(item)}" for item in block.items)
    if isinstance(block, Twin):
        tables = "\n\n".join(map(_markdown_table, block.tables))
        summary = escape(block.summary)
        return f"<details>\n<summary>{summary}</summary>\n\n{tables}\n\n</details>"
    return _markdown_figure(block) if isinstance(block, Figure) else _markdown_table(block)


def _markdown_figure(figure: Figure) -> str:
    pictures = "\n".join(map(_markdown_picture, figure.panels))
    parts = [pictures, f"*{_plain(figure.caption)}*"]
    if figure.twin is not None:
        parts.append(_markdown_block(figure.twin))
    return "\n\n".join(parts)


def _markdown_picture(panel: Panel) -> str:
    return f"![{_plain(panel.alt)}]({FIGURES}/{panel.name}.svg)"


def _markdown_table(table: Table) -> str:
    rules = ("---:" if is_number else "---" for is_number in _number_columns(table))
    lines = [table.columns, tuple(rules), *table.rows]
    cells = [line if place == 1 else tuple(map(_plain, line)) for place, line in enumerate(lines)]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    return f"*{_plain(table.title)}*\n\n{rows}"


def _plain(text: str) -> str:
    """One line of text in which nothing is Markdown or HTML."""
    return (
        _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
        .replace("\\<", "&lt;")
        .replace("\\&", "&amp;")
    )
