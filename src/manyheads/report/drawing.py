"""How figures look, and how they become SVG: the same bytes each time, light and dark.

matplotlib draws in the light colours. In a page each colour becomes a CSS variable, so that the
figure follows the page; a file of its own keeps the light ones. Nothing global is switched.
"""

import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, LINE = "#1b1d21", "#585c64", "#dcd8cf"
SERIES = ("#1452b6", "#056158", "#9e287f", "#9a6a00", "#5b3fb0", "#a63a1e", "#4d5a2b")
DARK_SERIES = ("#7aa7f0", "#2bb5a6", "#dd83c6", "#e3b341", "#b39cf0", "#f0957b", "#b7c98a")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line"} | {
    colour: f"--series-{index}" for index, colour in enumerate(SERIES, start=1)
}
_POINTS = 72  # an SVG of matplotlib counts in points, 72 to the inch
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "manyheads",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.parse_math": False,
    "axes.labelsize": 10.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
}


class Drawing:
    """One picture being drawn: `with Drawing(440, 260) as drawing: drawing.axes.plot(...)`.

    Args:
        width: in points, as wide as on the page.
        height: in points.
    """

    def __init__(self, width: int, height: int) -> None:
        self._size = (width / _POINTS, height / _POINTS)
        self.svg = ""

    def __enter__(self) -> "Drawing":
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        self._context = rc_context(_RC)
        self._context.__enter__()
        self.figure: Figure = Figure(figsize=self._size, layout="constrained")
        FigureCanvasSVG(self.figure)
        self.axes: Axes = self.figure.add_subplot()
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401 - as every context manager
        try:
            if error[0] is None:
                self.svg = _svg(self.figure)
        finally:
            self._context.__exit__(*error)

    def legend(self) -> None:
        """Name the series above the axes, in as many columns as there is room for."""
        handles, labels = self.axes.get_legend_handles_labels()
        width = 42 + 6.3 * max(map(len, labels))  # of one entry, in points
        room = self._size[0] * _POINTS
        self.figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=max(1, min(len(labels), 4, int(room / width))),
            alignment="left",
            handlelength=1.4,
            columnspacing=1.2,
        )


def _svg(figure: "Figure") -> str:
    stream = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(stream, format="svg", metadata=metadata)
    text = stream.getvalue()
    text = text[text.index("<svg") :]  # no XML declaration, no address of a DTD
    return re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)


def inline_svg(svg: str, prefix: str, alt: str) -> str:
    """The SVG as part of a page: its colours are the page's, its ids are its own, and it is named.

    Args:
        svg: as `Drawing.svg`.
        prefix: comes before every id; another one for each picture of a page.
        alt: what the picture shows, escaped already.
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


def series(index: int) -> tuple[str, str]:
    """Colour and marker of the series with this index; they come round again."""
    return SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
