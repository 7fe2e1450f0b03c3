"""What a report consists of, before it is written as HTML or Markdown: sections of blocks."""

import re
from dataclasses import dataclass

from manyheads.core.tables import Table

__all__ = [
    "Block",
    "Bullets",
    "Document",
    "Figure",
    "Panel",
    "Paragraph",
    "Section",
    "Table",
    "Twin",
]


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
class Twin:
    """Tables that a reader opens when the numbers are wanted."""

    summary: str
    """What to click on."""
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
    """What it shows, for those who cannot see it."""

    def __post_init__(self) -> None:
        assert re.fullmatch(r"[a-z0-9-]+", self.name), "a name is part of a path"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Pictures with one caption and the same numbers as tables."""

    caption: str
    """What is shown, and of which runs."""
    panels: tuple[Panel, ...]
    """Side by side where there is room."""
    twin: Twin | None
    """The numbers as tables; None where the table next to it has them."""


Block = Paragraph | Bullets | Twin | Figure | Table


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    title: str
    """The heading."""
    blocks: tuple[Block, ...]
    """In order."""
    is_dense: bool = False
    """Whether small tables may stand side by side."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    """Its heading."""
    lead: str
    """What is asked, in a sentence or two."""
    label: str
    """Which plan it is of."""
    sections: tuple[Section, ...]
    """In order."""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Every picture."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(p for block in blocks if isinstance(block, Figure) for p in block.panels)
