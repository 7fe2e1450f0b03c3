"""Tables on paper: how wide their columns are, where they are parted, and how they are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from manyheads.report.paper_page import ANSWER, MARGIN, SOFT, Look, Page, Place
from manyheads.report.paper_parts import Cell, Grid, Row

_GIVEN_ROW, _BOX_ROW, _HEAD, _TITLE = 5.0, 8.6, 5.0, 5.6
_SMALL, _PLAIN = Look(7.5, colour=SOFT), Look(9.0)
_TITLED, _WRITTEN = Look(8.5, bold=True), Look(10.0, align="C", colour=ANSWER)
_PAD = 1.5
_LEAST_BOX, _COMFORT = 17.0, 30.0
_LONGEST_NAME, _LONGEST_HEAD = 50.0, 30.0
_BETWEEN, _AFTER = 9.0, 4.0
_WHOLE_BOXES, _WHOLE_GIVEN = 0.6, 0.35
"""Tables that take less of a page than this are not parted."""


@dataclass(frozen=True, kw_only=True)
class _Laid:
    """A part of a table with the widths of its columns, in millimetres."""

    grid: Grid
    widths: tuple[float, ...]

    @property
    def width(self) -> float:
        return sum(self.widths)

    @property
    def top(self) -> float:
        return _top(self.grid)

    @property
    def heights(self) -> list[float]:
        return [_height(row) for row in self.grid.rows]

    @property
    def height(self) -> float:
        return self.top + sum(self.heights)


def draw_grids(page: Page, grids: Sequence[Grid], has_answers: bool) -> None:
    """Draw tables from left to right, and below where there is no room.

    Args:
        page: where to.
        grids: the tables.
        has_answers: whether the boxes hold their answers.
    """
    waiting = list(chain.from_iterable(_laid(page, grid) for grid in grids))
    while waiting:
        band = [waiting.pop(0)]
        while waiting and _spread([*band, waiting[0]]) <= page.width:
            band.append(waiting.pop(0))
        _draw_band(page, band, has_answers)
        page.y += _AFTER


def least_height(grid: Grid) -> float:
    """What a table needs on a page to begin there: its head and two rows."""
    heights = [_height(row) for row in grid.rows[:2]]
    return _top(grid) + sum(heights)


def _top(grid: Grid) -> float:
    return (_TITLE if grid.title else 0.0) + (_HEAD if any(grid.columns) else 0.0)


def _height(row: Row) -> float:
    has_boxes = any(cell is not None and cell.is_answer for cell in row.cells)
    return _BOX_ROW if has_boxes else _GIVEN_ROW


def _spread(band: Sequence[_Laid]) -> float:
    return sum(laid.width for laid in band) + _BETWEEN * (len(band) - 1)


def _laid(page: Page, grid: Grid) -> list[_Laid]:
    """Share the columns out into tables that fit the page, each with the names of the rows."""
    names, room = grid.names, page.width
    least = [_least_width(page, grid, i) for i in range(len(grid.columns))]
    head = sum(least[:names])
    groups: list[list[int]] = [[]]
    used = head
    for i in range(names, len(least)):
        if groups[-1] and used + least[i] > room:
            groups.append([])
            used = head
        groups[-1].append(i)
        used += least[i]
    most = max(map(len, groups))
    return [
        _Laid(
            grid=_chosen(grid, group, is_first=group is groups[0]),
            widths=(*least[:names], *_stretched(grid, least, group, room - head, most)),
        )
        for group in groups
    ]


def _least_width(page: Page, grid: Grid, index: int) -> float:
    """The room that a column takes; that of a box is the same in a blank and in its key."""
    head = min(page.wide(grid.columns[index], _SMALL), _LONGEST_HEAD)
    if index < grid.names:
        texts = [page.wide(row.names[index], _PLAIN) for row in grid.rows]
        return min(max(head, *texts), _LONGEST_NAME) + _PAD + 1
    cells = [row.cells[index - grid.names] for row in grid.rows]
    wide = [head, *(page.wide(cell.text, _WRITTEN) for cell in cells if cell is not None)]
    has_box = any(cell is not None and cell.is_answer for cell in cells)
    return max(max(wide) + 2 * _PAD, _LEAST_BOX if has_box else 0.0)


def _stretched(
    grid: Grid, least: Sequence[float], group: Sequence[int], room: float, most: int
) -> list[float]:
    """Widen the boxes of a row to what is comfortable, where there is room."""
    widths = [least[i] for i in group]
    boxes = [n for n, i in enumerate(group) if _is_box_column(grid, i)]
    if boxes:
        spare = (room - sum(widths)) / max(len(boxes), most)
        for n in boxes:
            widths[n] = max(widths[n], min(_COMFORT, widths[n] + spare))
    return widths


def _is_box_column(grid: Grid, index: int) -> bool:
    cells = [row.cells[index - grid.names] for row in grid.rows]
    return any(cell is not None and cell.is_answer for cell in cells)


def _chosen(grid: Grid, group: Sequence[int], is_first: bool) -> Grid:
    """A table with some of its columns."""
    names = grid.names
    if len(group) == len(grid.columns) - names:
        return grid
    columns = (*grid.columns[:names], *(grid.columns[i] for i in group))
    rows = tuple(
        replace(row, cells=tuple(row.cells[i - names] for i in group)) for row in grid.rows
    )
    title = grid.title if is_first else _continued(grid.title)
    return replace(grid, title=title, columns=columns, rows=rows)


def _continued(title: str) -> str:
    ending = " (continued)"
    return title + ending if title and not title.endswith(ending) else title


def _draw_band(page: Page, band: Sequence[_Laid], has_answers: bool) -> None:
    tallest = max(laid.height for laid in band)
    if len(band) > 1:
        page.room_for(tallest)
    if len(band) == 1 or page.y + tallest > page.bottom:  # taller than a page: one below the other
        for laid in band:
            _draw_tall(page, laid, has_answers)
        return
    x = MARGIN
    for laid in band:
        _draw_rows(page, laid, x, page.y, has_answers)
        x += laid.width + _BETWEEN
    page.y += tallest


def _draw_tall(page: Page, laid: _Laid, has_answers: bool) -> None:
    """Draw a table that may go on over several pages."""
    if laid.height < (_WHOLE_BOXES if laid.grid.has_answers else _WHOLE_GIVEN) * page.bottom:
        page.room_for(laid.height)
    page.room_for(least_height(laid.grid))
    rows, title = list(laid.grid.rows), laid.grid.title
    while rows:
        taken, used = 0, laid.top
        while taken < len(rows) and page.y + used + _height(rows[taken]) <= page.bottom:
            used += _height(rows[taken])
            taken += 1
        taken = max(taken, 1)
        part = replace(laid.grid, title=title, rows=tuple(rows[:taken]))
        _draw_rows(page, replace(laid, grid=part), MARGIN, page.y, has_answers)
        page.y += used
        rows = rows[taken:]
        if rows:
            title = _continued(title)
            page.begin()


def _draw_rows(page: Page, laid: _Laid, x: float, y: float, has_answers: bool) -> None:
    grid = laid.grid
    if grid.title:
        title = page.shortened(grid.title, page.width - (x - MARGIN), _TITLED)
        page.put(title, Place(x, y, laid.width, _TITLE), _TITLED)
        y += _TITLE
    if any(grid.columns):
        _draw_head(page, laid, x, y)
        y += _HEAD
    for row, height in zip(grid.rows, laid.heights, strict=True):
        if row.is_total:
            page.line(x, y, laid.width)
        _draw_row(page, laid, row, Place(x, y, laid.width, height), has_answers)
        y += height


def _draw_head(page: Page, laid: _Laid, x: float, y: float) -> None:
    for index, (name, width) in enumerate(zip(laid.grid.columns, laid.widths, strict=True)):
        is_name = index < laid.grid.names
        look = _SMALL._replace(align="L" if is_name else _align(laid, index))
        room = width - (_PAD if look.align == "R" else 0.5)
        page.put(page.shortened(name, room, look), Place(x, y, room, _HEAD), look)
        x += width
    page.line(x - laid.width, y + _HEAD - 0.2, laid.width)


def _align(laid: _Laid, index: int) -> str:
    return "C" if _is_box_column(laid.grid, index) else "R"


def _draw_row(page: Page, laid: _Laid, row: Row, place: Place, has_answers: bool) -> None:
    names, x = laid.grid.names, place.x
    for name, width in zip(row.names, laid.widths[:names], strict=True):
        here = place._replace(x=x, width=width)
        page.put(page.shortened(name, width - 1, _PLAIN), here, _PLAIN)
        x += width
    for index, (cell, width) in enumerate(zip(row.cells, laid.widths[names:], strict=True), names):
        here = place._replace(x=x, width=width)
        if cell is not None and cell.is_answer:
            _draw_box(page, cell, here, has_answers)
        elif cell is not None:
            look = _PLAIN._replace(align=_align(laid, index))
            room = width - (_PAD if look.align == "R" else 0)
            page.put(cell.text, here._replace(width=room), look)
        x += width


def _draw_box(page: Page, cell: Cell, place: Place, has_answers: bool) -> None:
    page.box(place)
    if has_answers:
        page.put(cell.text, place, _WRITTEN)
